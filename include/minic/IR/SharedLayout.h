// Where the elements of shared memory lie, and the layouts in which tensor cores hold tiles.
#pragma once

#include "minic/IR/Layout.h"
#include "minic/IR/Type.h"

#include <array>

namespace minic {

/// Swizzled shared memory is a matrix in slabs: of `swizzle` bytes of each row, one after the other. In a slab the rows follow each
/// other, and the 16-byte chunks of a row change places with the row's number, so that eight rows of one column lie in different
/// banks (PTX ISA, "Swizzling modes"): chunk c of row r is at chunk c ^ (r & 7) with #swizzle128, c ^ (r / 2 & 3) with #swizzle64,
/// c ^ (r / 4 & 1) with #swizzle32. A slab starts at a multiple of 8 rows, where the pattern starts anew.

/// Alignment of swizzled memory: the pattern repeats after 8 rows of 128 bytes, which tma and wgmma take from the address.
inline constexpr int64_t swizzleAlignment = 1024;
/// Shared memory has at most so many.
inline constexpr int64_t maxStages = 64;

/// Columns of a slab.
int64_t slabColumns(Type smem);
/// Slabs of a tensor map's box: each is a copy of its own.
int64_t slabsOfBox(Type map);
/// What the last index of a box is a multiple of: TMA takes 16 bytes from where they are aligned. An H200 calls others an illegal
/// instruction.
int64_t columnsOfStart(Type map);
/// Bytes from one slab to the next.
int64_t slabBytes(Type smem);
/// Bytes from one stage to the next, and of all stages.
int64_t stageBytes(Type smem);
int64_t sharedBytes(Type smem);
/// Offset in bytes of an element of a stage.
int64_t elementOffset(Type smem, std::span<const int64_t> index);
/// Elements that one stage of memory with these strides spans, from the first to the last.
int64_t stridedElements(Type smem);

/// Of K in one instruction: 16 elements of 16 bits (PTX ISA, "Asynchronous Warpgroup Level Matrix Shape").
inline constexpr int64_t wgmmaDepthBytes = 32;

/// How the threads of a warpgroup hold a tile of 64 rows for wgmma: accumulators (f32), and a in registers (16-bit).
/// PTX ISA, "Register Fragments and Shared Memory Matrix Layouts" of wgmma.mma_async.m64nNk16: register 4j + 2h + c of lane l in
/// warp w holds row 16w + l / 4 + 8h, column 8j + 2 (l mod 4) + c.
Layout wgmmaLayout(int64_t columns);

/// How the warps of mma hold its tiles, `warpsM` along rows and `warpsN` along columns, the latter fastest. PTX ISA, "Matrix
/// Fragments" of mma.m16n8k8, k16 and k32: lane l holds pieces of p elements side by side along k, in 4 bytes,
///   a, 16 rows by 8p of k:       row l / 4 (+ 8), k p (l mod 4) + {0 ... p - 1} (+ 4p)
///   b, 8p of k by 8 columns:     k p (l mod 4) + {0 ... p - 1} (+ 4p), column l / 4
///   accumulators, 16 rows by 8:  row l / 4 (+ 8), column 2 (l mod 4) + {0, 1}
/// The manual has f64 in the same way with p = 1. Here a lane's two of k are a piece of 16 bytes: a sum is the same whichever
/// numbers of k a and b agree on, and a piece is one load.
/// Warps stand side by side, each with 16 rows and 16 columns (8 if there are no more), and repeat: so parts of a tile that are as
/// wide as all warps are cut between registers, and one ldmatrix loads two fragments of b.
struct MmaTiling {
  DType dtype;                    ///< Of a and b.
  int64_t rows = 16, columns = 8; ///< Of the product's tile.
  int64_t warpsM = 1, warpsN = 1;

  int64_t piece() const { return dtype == DType::F64 ? 2 : 4 / dtypeBytes(dtype); }
  int64_t depth() const { return dtype == DType::F64 ? 8 : 8 * piece(); } ///< Of k.
  DType sums() const { return computeDType(dtype); }
  int64_t columnsOfWarp() const { return columns / warpsN < 16 ? 8 : 16; }
  Layout a() const;
  Layout b() const;
  Layout accumulators() const { return accumulators(rows, columns); }
  /// Of a part of it.
  Layout accumulators(int64_t partRows, int64_t partColumns) const;
  /// The part that goes through shared memory at a time, behind the product: lines of 256 bytes of sums (128 of 16-bit
  /// results), 64 bytes of a thread where all warps have no more.
  std::array<int64_t, 2> part() const;
  /// The memory for that. Its rows lie as far apart in the banks as a quarter of a warp has of one: 32 bytes, of f64 64.
  static constexpr int64_t partPadding = 8;
};

/// Where the fragments that ldmatrix reads may start, as a multiple: 8 rows, and 16 bytes of a row.
int64_t fragmentUnit(DType dtype, int axis);
/// Whether ldmatrix reads elements whose rows in memory are not rows of k: it turns those of 16 bits, and of f64 each thread reads
/// its own.
bool canTurnFragments(DType dtype);

/// How the threads of `warps` warps divide the pieces of shared memory that cp_async fills, `vec` elements each: side by side along
/// its rows.
Layout cpAsyncLayout(Type memory, int64_t vec, int64_t warps);

} // namespace minic
