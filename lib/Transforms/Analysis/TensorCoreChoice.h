// Tiles and schedules of products on tensor cores, and what they take.
#pragma once

#include "ProductOperands.h"
#include "minic/IR/Schedule.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

namespace minic {

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

/// Products that the target's tensor cores take: operands that lie in memory, where TMA or copies of 16 bytes reach them or a copy
/// of them (`prepare-operands`).
struct TensorCoreProduct {
  DimExpr rows;
  int64_t columns, length, batches; ///< Of one product; pieces of k count as batches, and the length is that of one.
  size_t rank;                      ///< Of the loops.
  DType dtype;                      ///< Of the operands.
  TensorCoreForm form;
  Schedule::Unit unit;
  int64_t products = 1; ///< In one kernel, with one first operand.
};
/// None if tensor cores do not take the product, or what would be left of a block is mostly empty.
std::optional<TensorCoreProduct> tensorCoreProduct(const IterationSpace &space, const Operation &product, const TargetInfo &target);
/// The products of a region as the work of one kernel. Several have one first operand, and second ones that lie alike: beside each
/// other these are one with the columns of all, and so are the sums of a warpgroup.
std::optional<TensorCoreProduct> tensorCoreProducts(const IterationSpace &space, std::span<Operation *const> products,
                                                    const TargetInfo &target);

/// A schedule, and the cycles that the product takes with it.
struct TimedSchedule {
  Schedule schedule;
  double cycles;
};

/// Values as large as the product that live at a time, where a program computes whole rows of it; none where it goes through parts.
std::optional<int64_t> countWholeValues(const IterationSpace &space, std::span<Operation *const> ops);

/// The tile that takes the fewest cycles: of the tensor cores or of the L2, whichever is slower, over all waves of programs. None
/// if there are more products than the registers of a warpgroup hold sums of; or, of whole rows, whose reductions would be a launch
/// of their own otherwise, if it takes longer than that.
std::optional<TimedSchedule> wgmmaSchedule(const TensorCoreProduct &product, std::optional<int64_t> wholeValues,
                                           const TargetInfo &target, std::vector<ConsideredTile> *considered = nullptr);

/// The same for warps that load and multiply themselves, whose fragments come from shared memory: 128 bytes a cycle. Products hide
/// most of that and of the copies, not all: a quarter fits what is known of such kernels. Accumulators of f64 take two registers,
/// so its tiles are smaller: 128x128 spills on sm_90.
TimedSchedule mmaSchedule(const TensorCoreProduct &product, const TargetInfo &target,
                          std::vector<ConsideredTile> *considered = nullptr);

/// Cycles of a product, at least those in which memory gives its operands once: about 20 bytes a cycle and multiprocessor.
double timeOf(const TensorCoreProduct &product, double bytesOfOperands, const TargetInfo &target);

/// Blocks of the operands, two parts of 64x64 of the result for each warpgroup, mbarriers, alignment.
int64_t wgmmaBytes(const Schedule &schedule, const TensorCoreForm &form, int64_t products);
/// Blocks of the operands, and a part of the result on its way.
int64_t mmaBytes(const Schedule &schedule, DType dtype);

/// "128x256, wgmma".
std::string tileText(int64_t bm, int64_t bn, Schedule::Unit unit);

/// L2 gives about 46 bytes a cycle and multiprocessor.
inline double trafficOf(double bytes) { return bytes / 46; }

/// A second launch in cycles, 2.2 us in a graph on an H200; and what its kernel waits for memory by itself.
inline constexpr double secondLaunch = 3900, ownWaits = 2100;

} // namespace minic
