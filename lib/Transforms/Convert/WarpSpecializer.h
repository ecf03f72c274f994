// What kernels of products have in common whatever multiplies: operands that TMA brings, the ring that they go through, the
// producer's role, and the epilogue in parts. Private to specialize-warps.
#pragma once

#include "../KernelSignature.h"
#include "../ProductKernel.h"

#include <algorithm>

namespace minic {

class WarpSpecializer {
public:
  WarpSpecializer(Function &kernel, ProductKernel &product);
  virtual ~WarpSpecializer() = default;
  void run();

protected:
  /// What one load was, in a block of shared memory.
  struct Piece {
    const Operation *load;
    Value *map;
    int64_t row, column; ///< Where it starts in the block.
    Type whole, box;     ///< Its own part of the block, and as much of it as TMA brings.
  };
  /// What is multiplied at a time: a block of the first operand, or blocks of the second operands of all products side by side.
  struct Operand {
    std::vector<Piece> pieces;
    Type block;
    Value *memory;
  };
  /// Who works.
  struct Crew {
    int64_t producerWarps, consumerWarps, consumers;
    std::vector<NamedAttribute> producerAttrs, consumerAttrs;
    int64_t allWarps() const { return producerWarps + consumerWarps * consumers; }
  };
  /// How a consumer holds its part of the result.
  struct Part {
    int64_t rows, columns, rank; ///< At a time in the epilogue; axes of tiles.
  };

  //===- What each unit has its own way of -===//

  /// One block of an operand in shared memory.
  virtual Type memoryOf(DType dtype, const std::vector<int64_t> &extents) const = 0;
  /// Of a tile with the extents of a consumer's part, or some columns of it, or 1.
  virtual Layout layoutOf(std::span<const int64_t> extents) const = 0;
  /// The sweep along k: what a consumer does with block after block. Gives the sums, or what is in flight of them.
  virtual Value *emitSweep(Builder &builder) = 0;

  //===- What they share -===//

  /// Several warpgroups that multiply take the registers that the producer's does not need.
  void shareRegisters();
  /// The block's extents in the order of memory; 1 along batches.
  std::vector<int64_t> boxOf(const Operation &load) const;
  /// The operand of the dots number `step`, in `operands`.
  size_t indexOf(size_t step, unsigned i) const;
  /// An operand's block at a ring position.
  Value *stageOf(Builder &builder, const Operand &operand, Value *position) const;
  Type partType(DType dtype, int64_t columns) const;

  Function &kernel;
  ProductKernel &product;
  Context &context;
  int64_t axisM, bm, bn, bk;
  Crew crew;
  Part part;
  bool bringsRowsThereAre = false; ///< TMA leaves out rows of the first operand that lie outside of it.
  std::vector<Operand> operands;   ///< The first dot's first.
  Value *full = nullptr, *empty = nullptr, *zero = nullptr, *one = nullptr, *step = nullptr, *first = nullptr, *end = nullptr;
  Value *upper = nullptr; ///< A consumer's first row in the tile.

private:
  void makeOperands();
  Piece makePiece(Operation *load, unsigned i, int64_t before);
  void makeRing();
  void clear(const Operand &operand);
  Value *pieceOf(Builder &builder, const Operand &operand, const Piece &piece, Value *block) const;
  Block &addRole(std::string_view name, int64_t warps, int64_t instances, const std::vector<NamedAttribute> &more);
  void emitProducer();
  void emitConsumer();
  /// The epilogue on some columns from `left` on.
  EpiloguePart epiloguePart(int64_t columns, Value *left) const;

  KernelSignature signature;
  Builder top; ///< At the end of the kernel.
};

} // namespace minic
