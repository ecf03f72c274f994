// The schedule of a region with matmuls.
#pragma once

#include "TensorCoreChoice.h"

namespace minic {

/// None if no kernel runs the region. In exact numerics products are chains of fused multiply-adds. `considered` gets the tiles
/// that were compared, if it is given.
std::optional<Schedule> matmulSchedule(const IterationSpace &space, std::span<Operation *const> ops, const TargetInfo &target,
                                       bool exact, std::vector<ConsideredTile> *considered);

/// Elements of k in a piece, if a matmul is quicker cut along k: by one kernel that multiplies pieces and one that adds them up.
/// Only where sizes are known.
std::optional<int64_t> chooseChunk(Operation &matmul, const TargetInfo &target);

/// Whether a program sums up each block of k on its own, and adds that to the blocks before it: 8-bit floats, of whose sums tensor
/// cores keep few bits; and, but in exact numerics, chains of fused multiply-adds, of which shorter ones lose less, where a thread
/// has registers for both sums.
bool sumsBlocksApart(const Schedule &schedule, const Operation &product, bool exact);

/// Shared memory of a CTA under a schedule with `stages`, for `products` of operands as this one has, of which the first is the
/// same.
int64_t ringBytes(const Schedule &schedule, const Operation &product, int64_t products);

} // namespace minic
