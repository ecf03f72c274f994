// Tiles and schedules of products on fused multiply-adds.
#pragma once

#include "ProductOperands.h"
#include "minic/IR/Schedule.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

namespace minic {

/// Warps that load and multiply themselves. `considered` gets the tiles that were compared, if it is given.
Schedule fmaSchedule(const IterationSpace &space, std::span<Operation *const> ops, DType accumulator, const TargetInfo &target,
                     std::vector<ConsideredTile> *considered);

/// Where there are tiles enough, one warp loads and the others multiply larger ones; none else. What lies in rows of k is turned
/// first (`prepare-operands`), which the other operand must be wide enough for.
std::optional<Schedule> fmaRing(const IterationSpace &space, const Operation &product, const TargetInfo &target);

/// Cycles of a product without a ring: warps wait for each block, and of the programs of a multiprocessor one multiplies while
/// others wait.
double timeOfFma(int64_t batches, int64_t rows, int64_t columns, int64_t length, DType accumulator, const TargetInfo &target);

} // namespace minic
