#include "minic/Transforms/Analysis/Precision.h"

#include <algorithm>

namespace minic {

constexpr int maxDepth = 12;

static bool isNonNegative(const Value &value, int depth) {
  const Operation *op = value.definition();
  if (!op || depth == 0)
    return false;
  auto operandsAre = [&] {
    return std::ranges::all_of(op->operands(), [&](const Value *operand) { return isNonNegative(*operand, depth - 1); });
  };
  switch (op->kind()) {
  case OpKind::Constant: {
    const Attribute *number = op->attr("value");
    return number->asNumber() && *number->asNumber() >= 0;
  }
  case OpKind::Exp:
  case OpKind::ExpHalf:
  case OpKind::ExpNonpositive:
  case OpKind::Sigmoid:
  case OpKind::Abs:
  case OpKind::Sqrt:
    return true;
  case OpKind::Mul:
    return op->operand(0) == op->operand(1) || operandsAre();
  case OpKind::Add:
  case OpKind::Div:
  case OpKind::Broadcast:
  case OpKind::Convert:
    return operandsAre();
  case OpKind::Reduce:
    return op->numRegions() == 0 && operandsAre();
  default:
    return false;
  }
}

static bool roundsToHalf(const Value &value, int depth) {
  if (depth == 0)
    return false;
  auto keepsPrecision = [&](const Use &use) {
    const Operation &user = *use.user;
    auto goesOn = [&] { return roundsToHalf(*user.result(), depth - 1); };
    switch (user.kind()) {
    case OpKind::Convert:
      return isNarrowFloat(user.result()->type().dtype());
    case OpKind::Mul:
    case OpKind::Div:
    case OpKind::Neg:
    case OpKind::Abs:
    case OpKind::Max:
    case OpKind::Min:
    case OpKind::Broadcast:
      return goesOn();
    case OpKind::Add:
      return isNonNegative(*user.operand(0), maxDepth) && isNonNegative(*user.operand(1), maxDepth) && goesOn();
    case OpKind::Reduce:
      return user.numRegions() == 0 && (user.wordAttr("combiner") != "sum" || isNonNegative(value, maxDepth)) && goesOn();
    default:
      return false;
    }
  };
  return std::ranges::all_of(value.uses(), keepsPrecision);
}

bool roundsToHalf(const Value &value) { return value.type().dtype() == DType::F32 && roundsToHalf(value, maxDepth); }

} // namespace minic
