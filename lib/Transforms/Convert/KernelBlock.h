// A block of the loops of a kernel under construction, and loads of memory at other indices than the block's. Private to
// KernelEmitter.
#pragma once

#include "minic/IR/Builder.h"
#include "minic/IR/Schedule.h"
#include "minic/Transforms/Analysis/IterationSpace.h"

#include <map>

namespace minic {

class KernelBlock {
public:
  KernelBlock(const IterationSpace &space, const Schedule &schedule, Builder builder)
      : space(space), schedule(schedule), builder(builder), context(builder.context()) {}

protected:
  /// Of a tile that runs along these loop axes; it is 1 along the others.
  Type tileType(DType dtype, const std::vector<int> &axes);
  /// `dims` of a load or store whose buffer has these loop axes; nothing where they are all of them in order.
  std::vector<NamedAttribute> dimsAttr(const std::vector<int> &axes) const;
  Value *broadcastTo(Value *tile, Type type);
  /// True in the lanes along `axis` whose index is less than `size`.
  Value *inBounds(int axis, const DimExpr &size);

  //===- Memory at other indices: the block's part of the result of an op of the graph -===//

  Value *emitSlice(Operation &op);
  Value *emitPad(Operation &op);
  Value *emitConcat(Operation &op);
  /// `rows` is the tile of the op's indices.
  Value *emitGather(Operation &op, Value *rows);

  const IterationSpace &space;
  const Schedule &schedule;
  Builder builder;
  Context &context;
  std::map<Value *, Value *> bufferOf; ///< By argument of the region.
  std::vector<Value *> offsets;        ///< Index of the current block along each loop axis.

private:
  /// Loaded from operand `i` at `indices`, one for each axis of the buffer.
  Value *loadAt(Operation &op, unsigned i, const std::vector<Value *> &indices, const std::vector<int> &axes,
                std::vector<NamedAttribute> attrs);
  /// The block's index along `axis`, less a distance.
  Value *before(int axis, const DimExpr &distance);
};

} // namespace minic
