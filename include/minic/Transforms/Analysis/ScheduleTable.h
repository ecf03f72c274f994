// Schedules found by tuning, as a text file: what docs/tuning.md describes.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

#include <string>
#include <tuple>
#include <vector>

namespace minic {

/// A region on a device, the schedule that is fastest there, and how much it gains.
struct TunedSchedule {
  std::string region;         ///< `RegionKey::text`.
  std::vector<int64_t> sizes; ///< Of its letters.
  std::string target, numerics, device;
  std::string title;            ///< Comment lines that stand before it, for readers.
  RecordAttr own, best;         ///< The cost model's schedule and the fastest; equal where none is faster by more than noise.
  double ownUs = 0, bestUs = 0; ///< Times of both.
  bool finished = true;         ///< Otherwise the search was stopped and `best` is what was fastest so far.
  std::string file;             ///< Where it was read from.
  uint32_t line = 0;            ///< There; 0 if it is from no file.

  /// A table has a key once.
  auto key() const { return std::tie(device, target, numerics, region, sizes); }
  /// "h200.txt:4".
  std::string where() const { return file + ":" + std::to_string(line); }
  /// "64, 256".
  std::string sizesText() const;
};

class ScheduleTable {
public:
  /// Untrusted text; errors (UnexpectedToken) have the line, and several are given.
  static Expected<ScheduleTable> parse(const SourceBuffer &source);
  /// The same whatever order the entries came in.
  std::string text() const;

  /// Sorted by key.
  const std::vector<TunedSchedule> &entries() const { return list; }
  /// The entry of the same key; null if there is none.
  const TunedSchedule *find(const TunedSchedule &like) const;
  /// Adds an entry, or puts it in the place of that of the same key.
  void set(TunedSchedule entry);
  /// Adds the entries of another table. Of two of one key that stays which is finished, else which gains more over its default,
  /// else which is quicker, else whose text comes first: so tables give the same in any order. One sentence for each two that
  /// differ in the schedule.
  std::vector<std::string> merge(const ScheduleTable &other);

  /// Lines of comments that belong to no entry, which `text` does not give.
  std::vector<uint32_t> looseComments;

private:
  std::vector<TunedSchedule> list;
};

/// Those that minic brings for known GPUs (lib/Transforms/Schedules).
const ScheduleTable &shippedSchedules();

} // namespace minic
