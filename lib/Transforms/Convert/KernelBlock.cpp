#include "KernelBlock.h"

#include "minic/IR/ScalarEval.h"

#include <algorithm>

namespace minic {

Type KernelBlock::tileType(DType dtype, const std::vector<int> &axes) {
  std::vector<int64_t> extents(size_t(space.rank()), 1);
  for (int axis : axes)
    extents[size_t(axis)] = schedule.block[size_t(axis)];
  return context.tile(dtype, extents);
}

std::vector<NamedAttribute> KernelBlock::dimsAttr(const std::vector<int> &axes) const {
  bool identity = int(axes.size()) == space.rank();
  for (size_t a = 0; a < axes.size(); ++a)
    identity &= axes[a] == int(a);
  if (identity)
    return {};
  return {{"dims", Attribute::ints({axes.begin(), axes.end()})}};
}

//===- Memory at other indices -===//

Value *KernelBlock::broadcastTo(Value *tile, Type type) {
  return tile->type() == type ? tile : builder.create(OpKind::Broadcast, {tile}, {type})->result();
}

Value *KernelBlock::loadAt(Operation &op, unsigned i, const std::vector<Value *> &indices, const std::vector<int> &axes,
                           std::vector<NamedAttribute> attrs) {
  std::vector<Value *> operands = {bufferOf.at(op.operand(i))};
  operands.insert(operands.end(), indices.begin(), indices.end());
  for (NamedAttribute &attribute : dimsAttr(axes))
    attrs.insert(attrs.begin(), std::move(attribute));
  Value *result = op.result();
  return builder
      .create(OpKind::Load, operands, std::vector<Type>{tileType(result->type().dtype(), space.axesOf(result))}, std::move(attrs))
      ->result();
}

/// Index a is starts[a] + steps[a] * i.
Value *KernelBlock::emitSlice(Operation &op) {
  const std::vector<int> &axes = space.axesOf(op.result());
  std::vector<DimExpr> starts = op.optionalDims("starts");
  std::vector<int64_t> steps = op.optionalInts("steps");
  std::vector<Value *> indices;
  for (size_t a = 0; a < axes.size(); ++a) {
    Value *index = offsets[size_t(axes[a])];
    if (!steps.empty() && steps[a] != 1)
      index = builder.scalarOp(OpKind::Mul, {index, builder.constantIndex(steps[a])});
    if (!starts.empty() && !starts[a].isConstant(0))
      index = builder.scalarOp(OpKind::Add, {index, builder.dim(starts[a])});
    indices.push_back(index);
  }
  bool stepped = std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; });
  return loadAt(op, 0, indices, axes,
                stepped ? std::vector<NamedAttribute>{{"steps", Attribute::ints(steps)}} : std::vector<NamedAttribute>());
}

/// Index a is i - low[a]; outside the operand lies the padding.
Value *KernelBlock::emitPad(Operation &op) {
  const std::vector<int> &axes = space.axesOf(op.result());
  std::vector<DimExpr> low = op.dimsAttr("low");
  std::vector<Value *> indices;
  for (size_t a = 0; a < axes.size(); ++a)
    indices.push_back(before(axes[a], low[a]));
  return loadAt(op, 0, indices, axes, {{"fill", *op.attr("value")}});
}

Value *KernelBlock::before(int axis, const DimExpr &distance) {
  Value *index = offsets[size_t(axis)];
  return distance.isConstant(0) ? index : builder.scalarOp(OpKind::Sub, {index, builder.dim(distance)});
}

/// Each operand is loaded from where it would start; of those that begin later the first takes over.
Value *KernelBlock::emitConcat(Operation &op) {
  const std::vector<int> &axes = space.axesOf(op.result());
  size_t along = size_t(op.intAttr("axis"));
  int axis = axes[along];
  Type type = tileType(op.result()->type().dtype(), axes);
  std::vector<Value *> pieces;
  std::vector<DimExpr> ends;
  DimExpr start = 0;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    std::vector<Value *> indices;
    for (size_t a = 0; a < axes.size(); ++a)
      indices.push_back(a == along ? before(axis, start) : offsets[size_t(axes[a])]);
    pieces.push_back(loadAt(op, i, indices, axes, {{"fill", Scalar{}.toAttr(type.dtype())}}));
    start = start + op.operand(i)->type().shape()[along];
    ends.push_back(start);
  }
  Value *tile = pieces.back();
  for (size_t i = pieces.size() - 1; i-- > 0;)
    tile = builder.select(broadcastTo(inBounds(axis, ends[i]), context.withDType(type, DType::I1)), pieces[i], tile);
  return tile;
}

Value *KernelBlock::emitGather(Operation &op, Value *rows) {
  const std::vector<int> &axes = space.axesOf(op.result());
  size_t axis = size_t(op.intAttr("axis")), rowAxes = size_t(op.operand(1)->type().rank());
  rows = broadcastTo(rows, tileType(rows->type().dtype(), axes));
  std::vector<Value *> indices;
  std::vector<int> dims;
  for (size_t a = 0; a < size_t(op.operand(0)->type().rank()); ++a) {
    int loop = a == axis ? -1 : axes[a < axis ? a : a + rowAxes - 1];
    indices.push_back(loop < 0 ? rows : offsets[size_t(loop)]);
    dims.push_back(loop);
  }
  return loadAt(op, 0, indices, dims, {});
}

Value *KernelBlock::inBounds(int axis, const DimExpr &size) {
  return builder
      .create(OpKind::InBounds, {offsets[size_t(axis)]}, {tileType(DType::I1, {axis})},
              {{"axis", Attribute(axis)}, {"size", Attribute(size)}})
      ->result();
}

} // namespace minic
