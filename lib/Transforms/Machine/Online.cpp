// online: lets warps that share a softmax's row meet once instead of twice. In default and fast numerics.
//
//   %m = max of all parts of %x                      Each warp takes exponentials against the maximum of its own part:
//   %e = exp(%x - %m)                            ->    %p = maximum of the part;  %f = exp(%x - %p);  %q = sum of %f in the part
//   %s = sum of all parts of %e                      and one exchange of the pairs (%p, %q) gives
//                                                      %m = max of %p;  %s = sum of %q exp(%p - %m);  %e = %f exp(%p - %m)
//
// e^(x - m) = e^(x - p) e^(p - m) with one rounding more. A part that is empty or -inf throughout has p = -inf, which would give
// NaN where another part is finite, so p is raised to the least finite number: its elements are 0, and if all of the row is -inf, m
// is -inf and the factor inf, so the row is NaN as it was. What else uses %m keeps its exchange; dce removes what is left over.
// (M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax",
// 2018.)
#include "minic/IR/Builder.h"
#include "minic/Transforms/Analysis/Uses.h"
#include "minic/Transforms/Passes.h"

#include <limits>
#include <unordered_set>

namespace minic {
namespace {

/// A reduction that layout has split.
struct Reduction {
  std::vector<Operation *> steps; ///< Within warps; the operand of the first is what is reduced.
  Operation *exchange;
  std::vector<Operation *> rest; ///< Over what was exchanged.
  Value *input() const { return steps.front()->operand(0); }
  Value *part() const { return steps.back()->result(); }
  Value *whole() const { return rest.back()->result(); }
};

bool isStep(const Operation *op, std::string_view combiner) {
  return op && op->is(OpKind::Reduce) && op->numOperands() == 1 && op->numRegions() == 0 && op->wordAttr("combiner") == combiner &&
         op->attr("over");
}

/// The reduction whose exchange this is.
std::optional<Reduction> reductionAround(Operation &exchange, std::string_view combiner) {
  if (exchange.numOperands() != 1 || exchange.parentOp())
    return std::nullopt;
  Reduction found{.exchange = &exchange};
  const Value *value = exchange.operand(0);
  for (Operation *user = &exchange; isStep(value->definition(), combiner) && onlyUser(value) == user; value = user->operand(0)) {
    user = value->definition();
    found.steps.insert(found.steps.begin(), user);
  }
  if (found.steps.empty())
    return std::nullopt;
  for (Operation *step = onlyUser(exchange.result());
       isStep(step, combiner) && step->operand(0) == (found.rest.empty() ? exchange.result() : found.whole());
       step = onlyUser(step->result()))
    found.rest.push_back(step);
  if (found.rest.empty())
    return std::nullopt;
  return found;
}

bool isExp(const Operation &op) { return op.is(OpKind::Exp) || op.is(OpKind::ExpNonpositive) || op.is(OpKind::ExpHalf); }

class OnlineSoftmax {
public:
  OnlineSoftmax(Reduction max, Operation &exp, Reduction sum)
      : max(std::move(max)), exp(exp), sum(std::move(sum)), builder(&exp), context(builder.context()) {}

  void run() {
    builder.setLoc(exp.loc());
    // In each warp.
    Value *part = finite(max.part());
    Value *below = builder.scalarOp(OpKind::Sub, {max.input(), spread(part, max.input()->type())});
    Value *numerator = take(below);
    Value *partSum = reduceAgain(sum.steps, numerator);
    // All together.
    builder = Builder(sum.exchange);
    builder.setLoc(sum.exchange->loc());
    std::vector<Type> types = {max.exchange->result()->type(), sum.exchange->result()->type()};
    Operation *exchange = builder.create(OpKind::ConvertLayout, std::vector<Value *>{max.part(), partSum}, types);
    Value *maximum = reduceAgain(max.rest, exchange->result(0));
    Value *factors = factor(finite(exchange->result(0)), maximum);
    Value *total = reduceAgain(sum.rest, builder.scalarOp(OpKind::Mul, {exchange->result(1), factors}));
    Value *own = factor(part, maximum);
    sum.whole()->replaceAllUsesWith(total);
    replaceNumerator(numerator, own);
  }

private:
  Value *finite(Value *value) {
    double least =
        value->type().dtype() == DType::F64 ? std::numeric_limits<double>::lowest() : std::numeric_limits<float>::lowest();
    return builder.scalarOp(OpKind::Max, {value, builder.constant(value->type(), least)});
  }
  Value *spread(Value *value, Type to) { return builder.create(OpKind::Spread, {value}, {to})->result(); }
  Value *take(Value *operand) { return builder.create(exp.kind(), {operand}, {operand->type()})->result(); }
  /// e^(part - maximum), the maximum repeated over the parts.
  Value *factor(Value *part, Value *maximum) {
    Value *repeated =
        builder.create(OpKind::Broadcast, {maximum}, {context.withDType(part->type(), maximum->type().dtype())})->result();
    return take(builder.scalarOp(OpKind::Sub, {part, repeated}));
  }
  /// The steps from the first to the last, on another value.
  Value *reduceAgain(const std::vector<Operation *> &steps, Value *value) {
    for (Operation *step : steps) {
      ValueMap map;
      map.map(step->operand(0), value);
      value = cloneOperation(builder, *step, map)->result();
    }
    return value;
  }

  /// What used the exponentials against the row's maximum gets them from those against the warp's; a product with what the whole
  /// row has in common takes the factor along with it.
  void replaceNumerator(Value *numerator, Value *own) {
    std::vector<Use> uses(exp.result()->uses().begin(), exp.result()->uses().end());
    Value *whole = nullptr;
    for (const Use &use : uses) {
      if (use.user == sum.steps.front())
        continue;
      Builder at(use.user);
      at.setLoc(use.user->loc());
      Value *other = use.user->is(OpKind::Mul) ? use.user->operand(1 - use.index) : nullptr;
      Operation *broadcast = other ? other->definition() : nullptr;
      if (broadcast && broadcast->is(OpKind::Broadcast) && other->type() == exp.result()->type() &&
          broadcast->operand(0)->type() == max.whole()->type()) {
        Value *common = at.create(OpKind::Broadcast, {broadcast->operand(0)}, {own->type()})->result();
        Value *both = at.scalarOp(OpKind::Mul, {own, common});
        Value *product = at.scalarOp(OpKind::Mul, {numerator, at.create(OpKind::Spread, {both}, {other->type()})->result()});
        product->setName(use.user->result()->name());
        use.user->result()->replaceAllUsesWith(product);
        use.user->erase();
        continue;
      }
      if (!whole)
        whole = builder.scalarOp(OpKind::Mul, {numerator, spread(own, numerator->type())});
      use.user->setOperand(use.index, whole);
    }
  }

  Reduction max;
  Operation &exp;
  Reduction sum;
  Builder builder;
  Context &context;
};

/// exp(x - broadcast m) for the maximum m of x; null if `value` is nothing of the kind.
Operation *exponentialBelow(const Reduction &max, Value *value) {
  Operation *exp = value->definition();
  Operation *sub = exp && isExp(*exp) ? exp->operand(0)->definition() : nullptr;
  Operation *broadcast = sub && sub->is(OpKind::Sub) ? sub->operand(1)->definition() : nullptr;
  bool fits = broadcast && broadcast->is(OpKind::Broadcast) && broadcast->operand(0) == max.whole() &&
              sub->operand(0) == max.input() && onlyUser(sub->result()) == exp;
  return fits ? exp : nullptr;
}

/// Whether it pays, the sum runs over the same parts as the maximum, and what else uses the exponentials comes when the warps have
/// met.
bool canMeetOnce(const Reduction &max, const Operation &exp, const Reduction &sum) {
  std::unordered_set<const Operation *> later;
  for (Operation *op = sum.exchange->next(); op; op = op->next())
    later.insert(op);
  for (const Use &use : exp.result()->uses()) {
    const Operation *user = use.user;
    while (user->parentOp())
      user = user->parentOp();
    if (use.user != sum.steps.front() && !later.count(user))
      return false;
  }
  // Every warp takes an exponential for each part, which must be few beside its own.
  const Layout &parts = *max.exchange->result()->type().layout(), &own = *max.input()->type().layout();
  constexpr int64_t few = 8;
  if (parts.numRegs() > std::max(few, own.numRegs() / 2))
    return false;
  return max.part()->type() == sum.part()->type() && max.exchange->result()->type() == sum.exchange->result()->type() &&
         max.whole()->type() == sum.whole()->type();
}

} // namespace

Expected<void> passes::online(Function &function, PassContext &context) {
  if (function.kind != FunctionKind::Kernel || context.exact())
    return {};
  std::vector<Operation *> exchanges;
  for (Operation &op : function.body())
    if (op.is(OpKind::ConvertLayout))
      exchanges.push_back(&op);
  for (size_t i = 0; i < exchanges.size(); ++i) {
    auto max = reductionAround(*exchanges[i], "max");
    for (size_t j = i + 1; max && j < exchanges.size(); ++j) {
      auto sum = reductionAround(*exchanges[j], "sum");
      Operation *exp = sum ? exponentialBelow(*max, sum->input()) : nullptr;
      if (!exp || !canMeetOnce(*max, *exp, *sum))
        continue;
      OnlineSoftmax(*max, *exp, *sum).run();
      break;
    }
  }
  return {};
}

} // namespace minic
