// The schedule of a region with matmuls.
#pragma once

#include "minic/IR/Schedule.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/IterationSpace.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

namespace minic {

/// None if no kernel runs the region. In exact numerics products are chains of fused multiply-adds. `considered` gets the tiles
/// that were compared, if it is given.
std::optional<Schedule> matmulSchedule(const IterationSpace &space, std::span<Operation *const> ops, const TargetInfo &target,
                                       bool exact, std::vector<ConsideredTile> *considered);

/// Elements of k in a piece, if a matmul is quicker cut along k: by one kernel that multiplies pieces and one that adds them up.
/// Only where sizes are known.
std::optional<int64_t> chooseChunk(Operation &matmul, const TargetInfo &target);

/// What a row of a block in shared memory has, in bytes: the widest swizzle.
inline constexpr int64_t swizzledRow = 128;

/// Of wgmma's sums, which take 128 registers of a thread then: those of all products of a kernel, side by side.
inline constexpr int64_t mostWgmmaColumns = 256;

/// How a product's element type and precision go to tensor cores.
struct TensorCoreForm {
  int64_t depth;         ///< Elements of k in a block: a swizzled row.
  int64_t parts = 1;     ///< 16-bit numbers that an operand is split into.
  int64_t products = 1;  ///< Of parts, in each block.
  bool promotes = false; ///< Each block's products are summed on their own and added to f32 sums in registers.
  bool operator==(const TensorCoreForm &) const = default;
};
/// Of a matmul or dot; nullopt if tensor cores do not take it.
std::optional<TensorCoreForm> tensorCoreForm(const Operation &product);

/// Why the tensor cores of a warp do not take a product in blocks as a schedule has them; empty if they do.
std::string whyNoMma(const Schedule &schedule, const Operation &product);

/// Whether a program sums up each block of k on its own, and adds that to the blocks before it: 8-bit floats, of whose sums tensor
/// cores keep few bits; and, but in exact numerics, chains of fused multiply-adds, of which shorter ones lose less, where a thread
/// has registers for both sums.
bool sumsBlocksApart(const Schedule &schedule, const Operation &product, bool exact);

/// Shared memory of a CTA under a schedule with `stages`, for `products` of operands as this one has, of which the first is the
/// same.
int64_t ringBytes(const Schedule &schedule, const Operation &product, int64_t products);

} // namespace minic
