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
/// Fragments for mma.m16n8k16": a pair of registers of lane l holds
///   a, 16 rows by 16 of k:       row l / 4 (+ 8), k 2 (l mod 4) + {0, 1} (+ 8)
///   b, 16 of k by 8 columns:     k 2 (l mod 4) + {0, 1} (+ 8), column l / 4
///   accumulators, 16 rows by 8:  row l / 4 (+ 8), column 2 (l mod 4) + {0, 1}
/// Warps stand side by side, each with 16 rows and 16 columns (8 if there are no more), and repeat: so parts of a tile that are as
/// wide as all warps are cut between registers, and one ldmatrix loads two fragments of b.
struct MmaTiling {
  int64_t rows, columns; ///< Of the product's tile.
  int64_t warpsM, warpsN;

  static constexpr int64_t depth = 16; ///< Of k.
  int64_t columnsOfWarp() const { return columns / warpsN < 16 ? 8 : 16; }
  Layout a() const;
  Layout b() const;
  Layout accumulators() const { return accumulators(rows, columns); }
  /// Of a part of it.
  Layout accumulators(int64_t partRows, int64_t partColumns) const;
  /// The part that goes through shared memory at a time, behind the product: lines of 128 bytes of 16-bit results, 16 sums of a
  /// thread where all warps have no more.
  std::array<int64_t, 2> part() const;
  /// The memory for that. Its rows lie 32 bytes apart in the banks, as much as a quarter of a warp has of one.
  static constexpr int64_t partPadding = 8;
};

/// How the threads of `warps` warps divide the pieces of shared memory that cp_async fills, `vec` elements each: side by side along
/// its rows.
Layout cpAsyncLayout(Type memory, int64_t vec, int64_t warps);

} // namespace minic
