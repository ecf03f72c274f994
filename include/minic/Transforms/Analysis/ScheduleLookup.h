// Which tuned schedule a region takes, and a report of that.
#pragma once

#include "minic/Transforms/Analysis/RegionKey.h"
#include "minic/Transforms/Analysis/ScheduleTable.h"

#include <functional>

namespace minic {

/// Where the schedule of a region is from.
struct ScheduleOrigin {
  enum Kind : uint8_t {
    Written, ///< It stands in the text.
    Asked,   ///< `--matmul=cublaslt`.
    Tuned,   ///< `entry`.
    Model,   ///< The cost model, as no tuned one fits.
  } kind = Model;
  const TunedSchedule *entry = nullptr; ///< Of a table that the compilation used.
  bool isExact = false;                 ///< It is for the very sizes of the region.
  /// The other entries for regions like this one, and why they are not taken.
  std::vector<std::pair<const TunedSchedule *, std::string>> others;
};
/// One for each region, in order. It lives as long as the tables.
using ScheduleReport = std::vector<ScheduleOrigin>;

/// The tables that a compilation uses.
struct ScheduleLookup {
  std::vector<const ScheduleTable *> tables; ///< Of equally near entries that of an earlier table is taken.
  std::string device;                        ///< Model of the GPU; empty: it is not known, and entries of all count.

  /// Takes the entry for the very sizes of the region, else that whose sizes are of the same classes, and of those the nearest;
  /// `whyUnfit` says what is wrong with a schedule, and nothing where it fits. `facts` are those of the region's names.
  ScheduleOrigin take(const RegionKey &region, std::span<const DimFact> facts, const std::string &target,
                      const std::string &numerics, const std::function<std::string(const RecordAttr &)> &whyUnfit) const;
};

/// Which entries of a table no region was compiled with, and why: one sentence each, those of other regions in one.
std::vector<std::string> unusedSchedules(const ScheduleTable &table, const ScheduleReport &report);

} // namespace minic
