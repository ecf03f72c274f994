// expand-composites: replaces softmax, layernorm, rmsnorm, mean, argmax and matmuls of unlike batches by primitive ops.
//
//   %y = softmax %x, axis = 1   ->  %m = reduce max %x; %z = sub %x, %m; %e = exp %z; %s = reduce sum %e; %y = div %e, %s
//
// A composite of a 16-bit float is computed in f32 from its first op to its last and rounded once, whatever the numerics. In `fast`
// a matmul of f32 says what it may be computed as.
#include "minic/IR/Builder.h"
#include "minic/IR/Combiner.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>

namespace minic {
namespace {

class Expander {
public:
  explicit Expander(Operation &op) : op(op), builder(&op), context(builder.context()) { builder.setLoc(op.loc()); }

  /// The value that replaces the op's result; null if it is no composite.
  Value *run() {
    switch (op.kind()) {
    case OpKind::Softmax:
      return softmax(wide(0));
    case OpKind::LayerNorm:
      return layerNorm(wide(0));
    case OpKind::RmsNorm:
      return rmsNorm(wide(0));
    case OpKind::Mean:
      return narrowed(meanOver(wide(0), op.intsAttr("axes")));
    case OpKind::Argmax:
      return argmax();
    case OpKind::Matmul:
      return matmul();
    default:
      return nullptr;
    }
  }

private:
  Value *wide(unsigned operand) { return builder.convert(op.operand(operand), computeDType(op.operand(operand)->type().dtype())); }
  Value *narrowed(Value *value) { return builder.convert(value, op.result()->type().dtype()); }
  Value *apply(OpKind kind, std::initializer_list<Value *> operands) { return builder.scalarOp(kind, operands); }

  Value *reduce(std::string_view combiner, Value *x, const std::vector<int64_t> &axes) {
    std::vector<DimExpr> shape;
    for (int64_t a = 0; a < x->type().rank(); ++a)
      if (std::find(axes.begin(), axes.end(), a) == axes.end())
        shape.push_back(x->type().shape()[size_t(a)]);
    return builder
        .create(OpKind::Reduce, {x}, {context.tensor(x->type().dtype(), std::move(shape))},
                {{"combiner", Attribute::word(std::string(combiner))}, {"axes", Attribute::ints(axes)}})
        ->result();
  }

  Value *broadcast(Value *value, const std::vector<DimExpr> &shape, const std::vector<int64_t> &dims) {
    Type type = context.tensor(value->type().dtype(), shape);
    if (value->type() == type)
      return value;
    return builder.create(OpKind::Broadcast, {value}, {type}, {{"dims", Attribute::ints(dims)}})->result();
  }

  /// A value without the axes, repeated along them.
  Value *along(Value *reduced, Value *like, const std::vector<int64_t> &axes) {
    std::vector<int64_t> kept;
    for (int64_t a = 0; a < like->type().rank(); ++a)
      if (std::find(axes.begin(), axes.end(), a) == axes.end())
        kept.push_back(a);
    return broadcast(reduced, like->type().shape(), kept);
  }

  /// Scale and shift have the sizes of the axes.
  Value *acrossRows(unsigned operand, Value *like, const std::vector<int64_t> &axes) {
    return broadcast(wide(operand), like->type().shape(), axes);
  }

  Value *splat(Value *like, double number) { return builder.constant(like->type(), number); }

  Value *meanOver(Value *x, const std::vector<int64_t> &axes) {
    DimExpr count = 1;
    for (int64_t axis : axes)
      count = count * x->type().shape()[size_t(axis)];
    Value *sum = reduce("sum", x, axes);
    Value *size = builder.create(OpKind::Size, {}, {context.tensor(DType::I64, {})}, {{"expr", Attribute(count)}})->result();
    return apply(OpKind::Div, {sum, broadcast(builder.convert(size, sum->type().dtype()), sum->type().shape(), {})});
  }

  Value *softmax(Value *x) {
    std::vector<int64_t> axes = {op.intAttr("axis")};
    Value *shifted = apply(OpKind::Sub, {x, along(reduce("max", x, axes), x, axes)});
    Value *e = apply(OpKind::Exp, {shifted});
    return narrowed(apply(OpKind::Div, {e, along(reduce("sum", e, axes), x, axes)}));
  }

  /// 1 / sqrt(the mean of the squares + eps), repeated along the axes.
  Value *scaleOf(Value *x, const std::vector<int64_t> &axes) {
    Value *mean = meanOver(apply(OpKind::Mul, {x, x}), axes);
    Value *shifted = apply(OpKind::Add, {mean, splat(mean, *op.attr("eps")->asNumber())});
    return along(apply(OpKind::Rsqrt, {shifted}), x, axes);
  }

  Value *layerNorm(Value *x) {
    std::vector<int64_t> axes = op.intsAttr("axes");
    Value *centered = apply(OpKind::Sub, {x, along(meanOver(x, axes), x, axes)});
    return narrowed(affine(apply(OpKind::Mul, {centered, scaleOf(centered, axes)}), axes));
  }

  Value *rmsNorm(Value *x) {
    std::vector<int64_t> axes = op.intsAttr("axes");
    return narrowed(affine(apply(OpKind::Mul, {x, scaleOf(x, axes)}), axes));
  }

  Value *affine(Value *y, const std::vector<int64_t> &axes) {
    if (op.numOperands() > 1)
      y = apply(OpKind::Mul, {y, acrossRows(1, y, axes)});
    if (op.numOperands() > 2)
      y = apply(OpKind::Add, {y, acrossRows(2, y, axes)});
    return y;
  }

  /// A reduction of (value, index) pairs; the first of equal values wins, and NaN wins over numbers.
  Value *argmax() {
    Value *x = op.operand(0);
    std::vector<int64_t> axes = {op.intAttr("axis")};
    DType dtype = x->type().dtype(), number = computeDType(dtype), counter = op.result()->type().dtype();
    Value *index =
        builder.create(OpKind::Iota, {}, {context.withDType(x->type(), counter)}, {{"axis", Attribute(axes[0])}})->result();
    Type result = op.result()->type();
    AttributeList init = {reductionIdentity("max", dtype), integerRange(counter).greatest};
    Operation *pairs = builder.create(OpKind::Reduce, {x, index}, {context.withDType(result, number), result},
                                      {{"axes", Attribute::ints(axes)}, {"init", init}});
    Block &body = pairs->addRegion();
    Value *a = body.addArgument(context.scalar(number), "a"), *i = body.addArgument(context.scalar(counter), "i");
    Value *b = body.addArgument(context.scalar(number), "b"), *j = body.addArgument(context.scalar(counter), "j");
    Builder in(body);
    in.setLoc(op.loc());
    Value *greater = in.compare("gt", b, a), *tie = in.compare("eq", a, b);
    if (isFloat(number)) {
      Value *aIsNaN = in.compare("ne", a, a), *bIsNaN = in.compare("ne", b, b);
      Value *wins = in.select(aIsNaN, in.constant(aIsNaN->type(), 0), bIsNaN);
      greater = in.scalarOp(OpKind::Or, {greater, wins});
      tie = in.scalarOp(OpKind::Or, {tie, in.scalarOp(OpKind::And, {aIsNaN, bIsNaN})});
    }
    Value *takes = in.scalarOp(OpKind::Or, {greater, in.scalarOp(OpKind::And, {tie, in.compare("lt", j, i)})});
    in.create(OpKind::Yield, {in.select(takes, b, a), in.select(takes, j, i)}, {});
    return pairs->result(1);
  }

  /// Batch axes of size 1, and those that an operand lacks, repeat.
  Value *matmul() {
    std::vector<DimExpr> shape = op.result()->type().shape();
    shape.erase(shape.begin(), shape.begin() + int64_t(op.optionalInts("chunks").size())); // What counts pieces.
    size_t batch = shape.size() - 2;
    auto widened = [&](unsigned i) {
      const std::vector<DimExpr> &from = op.operand(i)->type().shape();
      std::vector<DimExpr> to(shape.begin(), shape.begin() + int64_t(batch));
      to.insert(to.end(), from.end() - 2, from.end());
      std::vector<int64_t> dims;
      for (size_t a = 0; a < from.size(); ++a)
        dims.push_back(int64_t(to.size() - from.size() + a));
      return broadcast(op.operand(i), to, dims);
    };
    Value *lhs = widened(0), *rhs = widened(1);
    if (lhs == op.operand(0) && rhs == op.operand(1))
      return nullptr;
    return builder.create(OpKind::Matmul, {lhs, rhs}, {op.result()->type()}, {op.attrs().begin(), op.attrs().end()})->result();
  }

  Operation &op;
  Builder builder;
  Context &context;
};

} // namespace

Expected<void> passes::expandComposites(Function &function, PassContext &pass) {
  if (function.kind != FunctionKind::Graph)
    return {};
  std::vector<Operation *> ops;
  for (Operation &op : function.body()) {
    ops.push_back(&op);
    if (pass.fast() && op.is(OpKind::Matmul) && op.operand(0)->type().dtype() == DType::F32 && !op.attr("precision"))
      op.setAttr("precision", Attribute::word("bf16x6"));
  }
  for (Operation *op : ops)
    if (Value *value = Expander(*op).run()) {
      value->setName(op->result()->name());
      op->result()->replaceAllUsesWith(value);
      op->erase();
    }
  return {};
}

} // namespace minic
