// The schedules that a region may have, for the tuner to try and for schedules from files to be judged by.
#pragma once

#include "minic/IR/Schedule.h"
#include "minic/Support/Expected.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/IterationSpace.h"

namespace minic {

/// A fusion region as schedules see it.
struct RegionLoops {
  IterationSpace space;
  std::vector<Operation *> ops; ///< In program order, without the yield.
  std::vector<Value *> outputs; ///< What it yields.

  /// NoSchedule where the ops have no common loops.
  static Expected<RegionLoops> of(Operation &fusion);
};

/// Why a region must not run with a schedule on a target, as "4096 threads in a CTA, more than 1024"; nothing if it may. In exact
/// numerics reduced axes must be cut as the cost model cuts them, since that fixes the order of sums.
std::optional<std::string> whyUnfit(const Schedule &schedule, const RegionLoops &region, const TargetInfo &target, bool exact);

/// The cost model's schedule first, then its neighbours: those that few doublings and halvings lead to, nearest first, without
/// those that do not fit or only repeat work. At most `limit`; empty if no schedule of the target runs the region.
std::vector<Schedule> scheduleSpace(const RegionLoops &region, const TargetInfo &target, bool exact, size_t limit = 256);

} // namespace minic
