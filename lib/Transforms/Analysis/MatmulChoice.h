// The schedule of a region with matmuls.
#pragma once

#include "minic/IR/Schedule.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/IterationSpace.h"

namespace minic {

/// None if no kernel runs the region. In exact numerics products are chains of fused multiply-adds.
std::optional<Schedule> matmulSchedule(const IterationSpace &space, std::span<Operation *const> ops, const TargetInfo &target,
                                       bool exact);

/// Shared memory of a CTA under #matmul<unit = ...>: blocks of the operands, parts of the result on their way, mbarriers.
int64_t tensorCoreBytes(const Schedule &schedule);

} // namespace minic
