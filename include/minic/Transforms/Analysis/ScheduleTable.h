// Schedules found by tuning, as a text file: what docs/tuning.md describes.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

#include <functional>
#include <string>
#include <vector>

namespace minic {

/// A region on a device, the schedule that is fastest there, and how much it gains.
struct TunedSchedule {
  std::string region; ///< Its structural key: ops, types and sizes.
  std::string target, numerics, device;
  std::string title;            ///< For readers.
  RecordAttr own, best;         ///< The cost model's schedule and the fastest; equal where none is faster by more than noise.
  double ownUs = 0, bestUs = 0; ///< Times of both.
  bool finished = true;         ///< Otherwise the search was stopped and `best` is what was fastest so far.
  uint32_t line = 0;            ///< In the file, 0 if it is from none.

  bool isOf(const TunedSchedule &other) const {
    return region == other.region && target == other.target && numerics == other.numerics && device == other.device;
  }
};

/// What a fusion does: equal for two that are equal up to places and the names of values.
std::string regionKey(const Operation &fusion);

class ScheduleTable {
public:
  /// Untrusted text; errors (UnexpectedToken) have the line, and several are given.
  static Expected<ScheduleTable> parse(const SourceBuffer &source);
  std::string text() const;

  const std::vector<TunedSchedule> &entries() const { return list; }
  /// The entry of the same region, target, numerics and device; null if there is none.
  const TunedSchedule *find(const TunedSchedule &like) const;
  /// Adds an entry, or puts it in the place of that for the same.
  void set(TunedSchedule entry);

  /// Where the schedules are for; empty: for any device, as in text that is compiled without one.
  std::string device;
  /// The schedule for a region, or null. `whyUnfit` says what is wrong with one, and nothing where it fits. What became of the
  /// entries is remembered.
  const RecordAttr *take(const std::string &region, const std::string &target, const std::string &numerics,
                         const std::function<std::string(const RecordAttr &)> &whyUnfit);
  /// Which lines no region was compiled with, and why: one sentence each, those of other regions in one.
  std::vector<std::string> unused() const;

private:
  struct Use {
    bool taken = false;
    std::string whyNot; ///< Empty where no region asked.
  };
  std::vector<TunedSchedule> list;
  std::vector<Use> uses; ///< One per entry.
};

} // namespace minic
