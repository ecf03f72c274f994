// share-reciprocals: divides by what repeats along an axis with one reciprocal and products. In default and fast numerics.
//
//   %d = broadcast %s : tile<4x1xf32> -> tile<4x1024xf32>     %r = div 1, %s : tile<4x1xf32>
//   %q = div %e, %d                                       ->  %t = mul %e, (broadcast %r)
//                                                             %q = %t + (%e - %t %d) %r       by two fma
//
// The correction gives the quotient that div rounds to (P. Markstein, "Computation of elementary functions on the IBM RISC
// System/6000 processor", 1990), but for results that are denormal numbers; a quotient that is rounded to 16 bits is exact enough
// without it. Divisors that are not proved to lie in [2^-64, 2^64] are scaled by a power of two first, so that neither they nor the
// reciprocal leave the normal numbers, and where the correction is NaN (a zero or an infinity among the operands) the product
// stands.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Analysis/Precision.h"
#include "minic/Transforms/Passes.h"

#include <cmath>
#include <unordered_map>

namespace minic {
namespace {

constexpr double small = 0x1p-64, large = 0x1p64;

struct Divisor {
  Value *value, *reciprocal; ///< Scaled.
  Value *scale;              ///< Null where it is 1.
};

class ReciprocalSharing {
public:
  void run(Block &block) {
    for (Operation &op : block) {
      for (unsigned r = 0; r < op.numRegions(); ++r)
        if (!op.is(OpKind::Reduce))
          run(op.region(r));
      if (repeatsDivisor(op))
        rewrite(op);
    }
  }

private:
  static bool repeatsDivisor(const Operation &op) {
    if (!op.is(OpKind::Div) || !op.result()->type().isTile())
      return false;
    DType dtype = op.result()->type().dtype();
    const Operation *broadcast = op.operand(1)->definition();
    return isFloat(dtype) && dtype != DType::F64 && broadcast && broadcast->is(OpKind::Broadcast);
  }

  /// What one division per repeated value gives; made once, right behind the value.
  Divisor &divisorOf(Value *value, bool isScaled, SourceLoc loc) {
    auto [it, isNew] = divisors[isScaled].try_emplace(value);
    Divisor &divisor = it->second;
    if (!isNew)
      return divisor;
    Operation *definition = value->definition();
    Block &block = definition ? *definition->parent() : *value->argumentOf();
    Builder builder(block, definition ? definition->next() : block.front());
    builder.setLoc(loc);
    auto constant = [&](double number) { return builder.constant(value->type(), number); };
    divisor.value = value;
    if (isScaled) {
      Value *size = builder.scalarOp(OpKind::Abs, {value});
      Value *down = builder.select(builder.compare("gt", size, constant(large)), constant(small), constant(1.0));
      divisor.scale = builder.select(builder.compare("lt", size, constant(small)), constant(large), down);
      divisor.value = builder.scalarOp(OpKind::Mul, {value, divisor.scale});
    }
    divisor.reciprocal = builder.scalarOp(OpKind::Div, {constant(1.0), divisor.value});
    return divisor;
  }

  void rewrite(Operation &op) {
    Builder builder(&op);
    builder.setLoc(op.loc());
    Type type = op.result()->type();
    Value *dividend = op.operand(0), *repeated = op.operand(1)->definition()->operand(0);
    bool isSafe = liesWithin(op, 1, small, large);
    Divisor &divisor = divisorOf(repeated, !isSafe, op.loc());
    auto repeat = [&](Value *value) { return builder.create(OpKind::Broadcast, {value}, {type})->result(); };
    if (divisor.scale)
      dividend = builder.scalarOp(OpKind::Mul, {dividend, repeat(divisor.scale)});
    Value *reciprocal = repeat(divisor.reciprocal);
    Value *quotient = builder.scalarOp(OpKind::Mul, {dividend, reciprocal});
    if (type.dtype() == DType::F32 && !roundsToHalf(*op.result())) {
      Value *minus = builder.scalarOp(OpKind::Neg, {quotient});
      Value *rest = builder.scalarOp(OpKind::Fma, {minus, repeat(divisor.value), dividend});
      Value *corrected = builder.scalarOp(OpKind::Fma, {rest, reciprocal, quotient});
      if (isSafe && liesWithin(op, 0, -large, large))
        quotient = corrected;
      else
        quotient = builder.select(builder.compare("eq", corrected, corrected), corrected, quotient);
    }
    quotient->setName(op.result()->name());
    op.result()->replaceAllUsesWith(quotient);
    op.erase();
  }

  static bool liesWithin(const Operation &op, size_t operand, double least, double greatest) {
    const Attribute *ranges = op.attr("ranges");
    if (!ranges)
      return false;
    const AttributeList &bounds = *ranges->asList();
    return *bounds[2 * operand].asNumber() >= least && *bounds[2 * operand + 1].asNumber() <= greatest;
  }

  std::unordered_map<Value *, Divisor> divisors[2]; ///< By repeated value; without and with a scale.
};

} // namespace

Expected<void> passes::shareReciprocals(Function &function, PassContext &context) {
  if (!context.exact())
    ReciprocalSharing().run(function.body());
  return {};
}

} // namespace minic
