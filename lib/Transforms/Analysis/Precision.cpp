#include "minic/Transforms/Analysis/Precision.h"

#include "minic/Transforms/Analysis/ValueRange.h"

#include <algorithm>

namespace minic {

constexpr int maxDepth = 12;

static bool isNonNegative(const Value &value) { return ValueRanges({}).of(&value).least >= 0; }

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
      return isNonNegative(*user.operand(0)) && isNonNegative(*user.operand(1)) && goesOn();
    case OpKind::Reduce:
      return user.numRegions() == 0 && (user.wordAttr("combiner") != "sum" || isNonNegative(value)) && goesOn();
    default:
      return false;
    }
  };
  return std::ranges::all_of(value.uses(), keepsPrecision);
}

bool roundsToHalf(const Value &value) { return value.type().dtype() == DType::F32 && roundsToHalf(value, maxDepth); }

} // namespace minic
