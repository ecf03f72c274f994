// Schedule attributes and the layouts that they fix.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

namespace minic {

/// How a kernel's loop axes are cut. One entry per loop axis, in loop axis order; all are powers of two.
///   #rows<block = [4, 1024], warps = [4, 1], lanes = [1, 32], vec = 4>
///   #rows<block = [1, 1024], warps = [1, 2], lanes = [1, 32], vec = 4, align = 4>
///   #rows<block = [1, 262144], warps = [1, 128], lanes = [1, 32], vec = 4, cluster = 16, resident = 2>
///   #matmul<bm = 64, bn = 64, bk = 16, warps = [2, 2], lanes = [4, 8], vec = 4>   (batch axes have blocks of 1)
///   #matmul<bm = 128, bn = 256, bk = 64, unit = wgmma, stages = 4, raster = 8>    (a warpgroup for each 64 rows)
///   #matmul<bm = 128, bn = 256, bk = 16, warps = [4, 2], lanes = [4, 8], vec = 4, stages = 4, raster = 8>
///   #matmul<bm = 128, bn = 256, bk = 32, unit = mma, warps = [2, 4], stages = 4, raster = 8>
///   #library<name = cublaslt>          (of a region, not of a kernel: no kernel is made, and everything else stays at its default)
/// With `stages` and not `unit = mma` warps are divided: one loads blocks through TMA, others multiply them.
/// A thread holds, along each axis, runs of `vec` elements; lanes come next, then warps, then repeats: an element's index is
/// v + vec * (lane + lanes * (warp + warps * repeat)). #rows has its vec on the last axis; #matmul on m and n.
struct Schedule {
  enum class Family { Rows, Matmul, Library } family = Family::Rows;
  std::vector<int64_t> block, warps, lanes, vec;
  int64_t cluster = 1; ///< CTAs among which the warps are divided, the first ones to the first.
  int64_t align = 1;   ///< Blocks of the last axis start where memory is aligned to so many elements, at or before the row's first.
  /// What multiplies, of #matmul: fused multiply-adds, the tensor cores of all targets a warp at a time, or those of sm_90a a
  /// warpgroup at a time. For tensor cores the hardware gives the layout.
  enum class Unit { Fma, Mma, Wgmma } unit = Unit::Fma;
  int64_t stages = 0; ///< Blocks of the operands that are on chip at a time; 0: threads load what they multiply.
  int64_t raster =
      1; ///< Rows of tiles that programs go through together, column by column: neighbours in time share operands in L2.
  int64_t resident = 1; ///< CTAs that a multiprocessor shall hold at once: their threads get no more registers than that allows.

  int64_t numWarps() const;
  int64_t numThreads() const { return numWarps() * 32; }
  bool usesTensorCores() const { return unit != Unit::Fma; }
  RecordAttr toAttr() const;
  /// A library computes the region.
  bool isLibrary() const { return family == Family::Library; }
  static Schedule library(int rank);
  /// For a region with `rank` loop axes. Errors name the field.
  static Expected<Schedule> parse(const RecordAttr &attr, int rank);
  /// The same for a kernel, which no library computes.
  static Expected<Schedule> parseForKernel(const RecordAttr &attr, int rank);

  /// The layout of a tile of these extents (one axis per loop axis; extents are 1 or the block): modes cut to the extent, the rest
  /// replicated.
  Layout layoutOf(std::span<const int64_t> extents) const;
  /// The layout in which the operands of a dot are loaded: all threads side by side along the tile axes in `order` (fastest first),
  /// `vec` elements each along the first.
  static Layout coalesced(std::span<const int64_t> extents, std::span<const int> order, int64_t vec, int64_t warps);
};

/// True if the kernel's schedule keeps blocks of a product's operands on chip: #matmul with `stages`.
bool isStaged(const Function &kernel);
/// True if it divides the kernel among warps that load and warps that multiply: all of those but `unit = mma`.
bool isWarpSpecialized(const Function &kernel);
/// True if it says `unit = ...`.
bool runsOnUnit(const Function &kernel, std::string_view unit);
/// A schedule with `stages`, for a product of so many loop axes. Errors are at the kernel.
Expected<Schedule> stagedSchedule(const Function &kernel, int rank = 3);

/// The order in which a reduction combines the positions along one tile axis, given by the layout: groups of index bits, each
/// combined by halving (x[i] with x[i + n/2]). First the register modes, slowest first; then the lane modes; then the warp modes.
/// Every level reduces in this order, so they agree bit for bit.
struct ReductionStep {
  int64_t extent, stride; ///< Combine positions that differ in this digit, pairwise halving from extent down to 1.
};
std::vector<ReductionStep> reductionOrder(const Layout &layout, int axis);

} // namespace minic
