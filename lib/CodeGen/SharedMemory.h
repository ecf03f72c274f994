// Addresses in shared memory and reads of as many bytes at once as are proved contiguous and aligned. Private to lib/CodeGen.
#pragma once

#include "Lowering.h"

#include <set>

namespace minic::codegen {

/// Some elements of one shared array, at constant offsets from a position that depends on the thread and perhaps on a loop.
class SharedReader {
public:
  /// `position` (i32, in elements) is a multiple of `alignment` elements. `offsets` are all the offsets that will be read.
  SharedReader(KernelLowering &k, llvm::Value *memory, DType dtype, llvm::Value *position, int64_t alignment,
               std::set<int64_t> offsets);
  /// The element at `offset`. The first read of a piece loads it at `k.ir`, which must dominate later reads.
  llvm::Value *read(int64_t offset);

private:
  std::pair<int64_t, int64_t> pieceOf(int64_t offset) const;
  KernelLowering &k;
  DType dtype;
  llvm::Value *pointer;
  int64_t widest;
  std::set<int64_t> offsets;
  std::map<int64_t, Registers> loaded; ///< By first offset.
};

/// An element of a matrix in shared memory.
struct SharedPlace {
  int64_t row = 0, column = 0;
};

/// Accesses to a tile in swizzled memory, from a constant place on: pieces of registers that lie side by side in one 16-byte chunk.
class SwizzledAccess {
public:
  SwizzledAccess(KernelLowering &k, llvm::Value *memory, Type type, const Layout &layout, SharedPlace start = {});
  int64_t width() const { return widthOfPiece; }
  llvm::Align align() const { return llvm::Align(uint64_t(widthOfPiece * dtypeBytes(type.dtype()))); }
  /// Of the piece that starts with register `r`.
  llvm::Value *address(int64_t r);

private:
  bool isPiece(int64_t r) const;
  llvm::Value *offsetOf(int64_t fromRow, int64_t fromColumn);

  KernelLowering &k;
  llvm::Value *memory;
  Type type;
  const Layout &layout;
  SharedPlace start;
  int64_t widthOfPiece;
  std::map<std::pair<int64_t, int64_t>, llvm::Value *> offsets; ///< Of the thread's elements at rows below 8 of the first slab.
};

/// A tile in this layout of swizzled memory, from a constant place on.
Registers loadSwizzled(KernelLowering &k, llvm::Value *memory, Type type, const Layout &layout, SharedPlace start = {});

/// The largest power of two of elements, up to 16 bytes, that divides what every lane and warp mode of `layout` adds to a position
/// with these strides (0 for an axis that does not count).
int64_t threadAlignment(const Layout &layout, const std::vector<int64_t> &strides, DType dtype);
/// The largest power of two up to `limit` that divides `value`.
int64_t powerOfTwoIn(int64_t value, int64_t limit);
/// The thread's position in elements, an i32, computed in the entry block.
llvm::Value *threadPosition(KernelLowering &k, const Layout &layout, const std::vector<int64_t> &strides);
/// What register `r` adds to the position.
int64_t registerPosition(const Layout &layout, int64_t r, const std::vector<int64_t> &strides);

} // namespace minic::codegen
