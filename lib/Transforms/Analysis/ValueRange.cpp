#include "minic/Transforms/Analysis/ValueRange.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace minic {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr ValueRange anything = {-infinity, infinity};

/// The next power of two upwards or downwards that is a normal number of f16 (of f32 and the others: within 2^+-100), else 0 or
/// infinite: so rounding on the way, and printing, keep the bound true.
double coarse(double bound, bool up, DType dtype) {
  const int limit = dtype == DType::F16 ? 14 : 100;
  if (std::isnan(bound))
    return up ? infinity : -infinity;
  if (bound == 0 || std::isinf(bound))
    return bound + 0.0; // Never -0.0.
  int exponent;
  double fraction = std::frexp(std::fabs(bound), &exponent); // In [0.5, 1).
  bool outward = (bound > 0) == up;
  int power = fraction == 0.5 || !outward ? exponent - 1 : exponent;
  if (power > limit)
    return std::copysign(outward ? infinity : std::ldexp(1.0, limit), bound);
  if (power < -limit)
    return std::copysign(outward ? std::ldexp(1.0, -limit) : 0, bound);
  return std::copysign(std::ldexp(1.0, power), bound);
}

/// `value` less the maximum of itself along `axes`: the operand of exp in a softmax.
bool isBelowItsMaximum(const Operation &sub, const std::vector<int64_t> *axes) {
  const Operation *broadcast = sub.operand(1)->definition();
  const Operation *max = broadcast && broadcast->is(OpKind::Broadcast) ? broadcast->operand(0)->definition() : nullptr;
  if (!max || !max->is(OpKind::Reduce) || max->attr("chunks") || max->wordAttr("combiner") != "max" ||
      max->operand(0) != sub.operand(0))
    return false;
  // The maximum must come back to the axes that it is of.
  std::vector<int64_t> reduced = max->intsAttr("axes"), kept;
  for (int64_t axis = 0; axis < sub.operand(0)->type().rank(); ++axis)
    if (std::find(reduced.begin(), reduced.end(), axis) == reduced.end())
      kept.push_back(axis);
  return broadcast->attr("dims") && broadcast->intsAttr("dims") == kept && (!axes || *axes == reduced);
}

} // namespace

ValueRange ValueRanges::of(const Value *value) {
  if (auto it = known.find(value); it != known.end())
    return it->second;
  const Operation *op = value->definition();
  constexpr int maxDepth = 64;
  if (!op || !isFloat(value->type().dtype()) || depth == maxDepth)
    return anything;
  ++depth;
  ValueRange range = compute(*op);
  --depth;
  DType dtype = value->type().dtype();
  return known[value] = {coarse(range.least, false, dtype), coarse(range.greatest, true, dtype)};
}

ValueRange ValueRanges::compute(const Operation &op) {
  auto in = [&](unsigned i) { return of(op.operand(i)); };
  switch (op.kind()) {
  case OpKind::Constant:
    if (auto number = op.attr("value")->asNumber(); number && !std::isnan(*number))
      return {*number, *number};
    return anything;
  case OpKind::Broadcast:
  case OpKind::Transpose:
  case OpKind::Reshape:
    return in(0);
  case OpKind::Convert:
    return isFloat(op.operand(0)->type().dtype()) ? in(0) : anything;
  case OpKind::Neg:
    return {-in(0).greatest, -in(0).least};
  case OpKind::Abs:
    return {0, std::max(std::fabs(in(0).least), std::fabs(in(0).greatest))};
  case OpKind::Add:
    return {in(0).least + in(1).least, in(0).greatest + in(1).greatest};
  case OpKind::Sub:
    if (isBelowItsMaximum(op, nullptr))
      return {-infinity, 0};
    return {in(0).least - in(1).greatest, in(0).greatest - in(1).least};
  case OpKind::Mul:
    if (op.operand(0) == op.operand(1))
      return {0, infinity};
    return in(0).least >= 0 && in(1).least >= 0 ? ValueRange{0, in(0).greatest * in(1).greatest} : anything;
  case OpKind::Max:
    return {std::max(in(0).least, in(1).least), std::max(in(0).greatest, in(1).greatest)};
  case OpKind::Min:
    return {std::min(in(0).least, in(1).least), std::min(in(0).greatest, in(1).greatest)};
  case OpKind::Relu:
    return {std::max(in(0).least, 0.0), std::max(in(0).greatest, 0.0)};
  case OpKind::Exp:
  case OpKind::ExpHalf:
  case OpKind::ExpNonpositive:
    return {std::exp(in(0).least) / 2, std::exp(in(0).greatest)};
  case OpKind::Sigmoid:
    return {0, 1};
  case OpKind::Tanh:
  case OpKind::Erf:
    return {-1, 1};
  case OpKind::Sqrt:
    return {0, infinity};
  case OpKind::Reduce:
    return ofReduce(op);
  default:
    return anything;
  }
}

ValueRange ValueRanges::ofReduce(const Operation &op) {
  if (op.numRegions())
    return anything;
  std::vector<int64_t> axes = op.intsAttr("axes");
  double most = 1;
  bool isEmpty = false;
  for (int64_t axis : axes) {
    const DimExpr &size = op.operand(0)->type().shape()[size_t(axis)];
    int64_t bound = mostOf(size, facts);
    most *= bound == INT64_MAX ? infinity : double(bound);
    isEmpty |= leastOf(size, facts) < 1;
  }
  ValueRange in = of(op.operand(0));
  if (op.wordAttr("combiner") != "sum")
    return isEmpty ? anything : in; // Of nothing, a maximum is -inf and a minimum inf.
  if (in.least < 0)
    return anything;
  // Adding what is not negative never lessens a rounded sum. One that is rounded at each step exceeds the true one by less than 2.
  double one = isEmpty ? 0 : op.attr("chunks") ? in.least : attained(op.operand(0), axes).value_or(in.least);
  return {one, most == 0 ? 0 : in.greatest * most * 2};
}

std::optional<double> ValueRanges::attained(const Value *value, const std::vector<int64_t> &axes) const {
  const Operation *op = value->definition();
  const Operation *sub = op && op->is(OpKind::Exp) ? op->operand(0)->definition() : op;
  if (!sub || !sub->is(OpKind::Sub) || !isBelowItsMaximum(*sub, &axes))
    return std::nullopt;
  return sub == op ? 0.0 : 1.0;
}

} // namespace minic
