// canonicalize: folds constants and applies identities that hold in IEEE arithmetic for every input, NaN, infinities and -0.0
// included; simplifies index arithmetic; unrolls loops of no or one trip.
//
//   %c = mul %x, 1.0          ->  %x                       x * 0, x - x, x / x, x + 0.0 stay: they are not identities
//   %m = max %x, -inf         ->  %x
//   %s = reduce sum 2.0, axes = [0] : 8 elements  ->  16.0
//   for 0, 781, 1024, %init   ->  its body once
//
// Every rewrite makes the function smaller or replaces an op by a constant, so the worklist runs dry.
#include "minic/IR/Builder.h"
#include "minic/IR/Combiner.h"
#include "minic/IR/ScalarEval.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

namespace minic {
namespace {

/// The number of a splat constant, or null.
const Attribute *splatOf(const Value *value) {
  Operation *op = value->definition();
  const Attribute *number = op && op->is(OpKind::Constant) ? op->attr("value") : nullptr;
  return number && number->asNumber() ? number : nullptr;
}

/// The same for one that a comparison with small numbers is about.
std::optional<double> smallSplatOf(const Value *value) {
  const Attribute *number = splatOf(value);
  return number ? number->asNumber() : std::nullopt;
}

bool countsUp(DType type) { return isInteger(type) || type == DType::Index; }
bool isPositiveZero(double v) { return v == 0 && !std::signbit(v); }
bool isNegativeZero(double v) { return v == 0 && std::signbit(v); }

class Canonicalizer {
public:
  Canonicalizer(Function &function, bool exact) : function(function), exact(exact) {}

  void run() {
    walk(function.body(), [&](Operation &op) { worklist.push_back(&op); });
    // Last in, first out: reversed, so that operands are simplified before their users.
    std::reverse(worklist.begin(), worklist.end());
    while (!worklist.empty()) {
      Operation *op = worklist.back();
      worklist.pop_back();
      if (op->parent() && !op->info().terminator)
        visit(*op);
    }
  }

private:
  void visit(Operation &op) {
    if (op.is(OpKind::For))
      return visitFor(op);
    if (op.numResults() != 1 || op.numRegions())
      return;
    Value *replacement = simplify(op);
    if (!replacement || replacement == op.result())
      return;
    if (function.level == Level::Tile && comesFromLoad(op.result()) && !comesFromLoad(replacement))
      return;
    replace(op, {replacement});
  }

  /// On the tile level the lanes past an edge are absent because a load there is. A value that no longer comes from one would have
  /// them.
  static bool comesFromLoad(const Value *value) {
    std::vector<const Value *> stack{value};
    std::unordered_set<const Value *> seen;
    while (!stack.empty()) {
      const Value *next = stack.back();
      stack.pop_back();
      const Operation *op = next->definition();
      if (!op || !next->type().isTile() || !seen.insert(next).second)
        continue;
      if (op->is(OpKind::Load) || op->is(OpKind::For))
        return true;
      stack.insert(stack.end(), op->operands().begin(), op->operands().end());
    }
    return false;
  }

  void replace(Operation &op, const std::vector<Value *> &values) {
    for (unsigned i = 0; i < op.numResults(); ++i) {
      for (const Use &use : op.result(i)->uses())
        worklist.push_back(use.user);
      if (values[i]->name().empty())
        values[i]->setName(op.result(i)->name());
      op.result(i)->replaceAllUsesWith(values[i]);
    }
    op.erase();
  }

  Value *constant(Operation &op, const Attribute &value) {
    Builder builder(&op);
    builder.setLoc(op.loc());
    return builder.constant(op.result()->type(), value);
  }

  Value *simplify(Operation &op) {
    switch (op.kind()) {
    case OpKind::Dim:
    case OpKind::Size:
      if (op.attr("expr")->asInt())
        return constant(op, *op.attr("expr"));
      return nullptr;
    case OpKind::Broadcast:
      return simplifyBroadcast(op);
    case OpKind::Transpose:
      return simplifyTranspose(op);
    case OpKind::Reshape:
      return simplifyReshape(op);
    case OpKind::Reduce:
      return simplifyReduce(op);
    default:
      break;
    }
    if (!op.info().elementwise)
      return nullptr;
    if (Value *folded = fold(op))
      return folded;
    return identity(op);
  }

  /// All operands are splats: the result is one too.
  Value *fold(Operation &op) {
    DType resultType = op.result()->type().dtype();
    if (op.numOperands() == 0)
      return nullptr;
    std::vector<Scalar> operands;
    for (Value *operand : op.operands()) {
      const Attribute *value = splatOf(operand);
      if (!value)
        return nullptr;
      operands.push_back(Scalar::of(*value, operand->type().dtype()));
    }
    DType operandType = op.operand(op.is(OpKind::Select) ? 1 : 0)->type().dtype();
    Scalar result = evalScalar(op.kind(), op.wordAttr("predicate"), operands, operandType, resultType);
    return constant(op, result.toAttr(resultType));
  }

  Value *identity(Operation &op) {
    if (op.is(OpKind::Neg)) {
      Operation *inner = op.operand(0)->definition();
      return inner && inner->is(OpKind::Neg) ? inner->operand(0) : nullptr;
    }
    if (op.is(OpKind::Relu)) {
      Operation *inner = op.operand(0)->definition();
      return inner && inner->is(OpKind::Relu) ? op.operand(0) : nullptr;
    }
    if (op.is(OpKind::Select)) {
      if (auto condition = smallSplatOf(op.operand(0)))
        return op.operand(*condition != 0 ? 1 : 2);
      return op.operand(1) == op.operand(2) ? op.operand(1) : nullptr;
    }
    if (op.is(OpKind::Convert))
      return op.operand(0)->type() == op.result()->type() ? op.operand(0) : nullptr;
    if (op.numOperands() != 2 || op.is(OpKind::Compare))
      return nullptr;

    Value *lhs = op.operand(0), *rhs = op.operand(1);
    const Attribute *left = splatOf(lhs), *right = splatOf(rhs);
    if (right)
      if (keepsLeft(op, *right))
        return lhs;
    if (left && op.info().commutative && keepsLeft(op, *left))
      return rhs;
    // Integers have no NaN: x * 0 is 0, x - x is 0.
    if (countsUp(op.result()->type().dtype())) {
      if (op.is(OpKind::Mul) && ((left && *left == Attribute(0)) || (right && *right == Attribute(0))))
        return constant(op, 0);
      if (op.is(OpKind::Sub) && lhs == rhs)
        return constant(op, 0);
    }
    return nullptr;
  }

  /// True if `x op c` is x, bit for bit (up to NaN payloads), for every x.
  static bool keepsLeft(const Operation &op, const Attribute &number) {
    DType type = op.result()->type().dtype();
    double c = *number.asNumber();
    switch (op.kind()) {
    case OpKind::Add:
      return isFloat(type) ? isNegativeZero(c) : countsUp(type) && c == 0;
    case OpKind::Sub:
      return isFloat(type) ? isPositiveZero(c) : countsUp(type) && c == 0;
    case OpKind::Mul:
      return type != DType::I1 && c == 1;
    case OpKind::Div:
      return c == 1;
    case OpKind::Max:
      return number == reductionIdentity("max", type);
    case OpKind::Min:
      return number == reductionIdentity("min", type);
    default:
      return false;
    }
  }

  Value *simplifyBroadcast(Operation &op) {
    if (auto value = splatOf(op.operand(0)))
      return constant(op, *value);
    if (op.operand(0)->type() == op.result()->type())
      return op.operand(0);
    // A broadcast of a broadcast is one.
    Operation *inner = op.operand(0)->definition();
    if (!inner || !inner->is(OpKind::Broadcast))
      return nullptr;
    Builder builder(&op);
    builder.setLoc(op.loc());
    std::vector<NamedAttribute> attrs;
    if (op.attr("dims")) {
      std::vector<int64_t> outer = op.intsAttr("dims"), dims;
      for (int64_t dim : inner->intsAttr("dims"))
        dims.push_back(outer[size_t(dim)]);
      attrs.push_back({"dims", Attribute::ints(dims)});
    }
    return builder.create(OpKind::Broadcast, {inner->operand(0)}, {op.result()->type()}, attrs)->result();
  }

  Value *simplifyTranspose(Operation &op) {
    if (auto value = splatOf(op.operand(0)))
      return constant(op, *value);
    std::vector<int64_t> perm = op.intsAttr("perm");
    bool identity = true;
    for (size_t a = 0; a < perm.size(); ++a)
      identity &= perm[a] == int64_t(a);
    if (identity)
      return op.operand(0);
    Operation *inner = op.operand(0)->definition();
    if (!inner || !inner->is(OpKind::Transpose))
      return nullptr;
    std::vector<int64_t> first = inner->intsAttr("perm");
    for (int64_t &axis : perm)
      axis = first[size_t(axis)];
    Builder builder(&op);
    builder.setLoc(op.loc());
    return builder.create(OpKind::Transpose, {inner->operand(0)}, {op.result()->type()}, {{"perm", Attribute::ints(perm)}})
        ->result();
  }

  Value *simplifyReshape(Operation &op) {
    if (auto value = splatOf(op.operand(0)))
      return constant(op, *value);
    if (op.operand(0)->type() == op.result()->type())
      return op.operand(0);
    Operation *inner = op.operand(0)->definition();
    if (!inner || !inner->is(OpKind::Reshape))
      return nullptr;
    Builder builder(&op);
    builder.setLoc(op.loc());
    return builder.create(OpKind::Reshape, {inner->operand(0)}, {op.result()->type()})->result();
  }

  /// A reduction of one number, repeated. A sum is the product where no order of adding rounds; elsewhere the product has the
  /// smaller error, and only exact numerics ask for the sum's own.
  Value *simplifyReduce(Operation &op) {
    auto value = splatOf(op.operand(0));
    Type from = op.operand(0)->type(), to = op.result()->type();
    DimExpr extent = 1;
    for (int64_t axis : op.intsAttr("axes"))
      extent = extent * from.shape()[size_t(axis)];
    auto count = extent.constant();
    if (!value || !from.isTensor() || op.attr("chunks") || !count || *count < 1)
      return nullptr;
    std::string_view combiner = op.wordAttr("combiner");
    if (combiner == "max" || combiner == "min")
      return constant(op, *value);
    if (combiner != "sum" || !isFloat(from.dtype()))
      return nullptr;
    DType accumulator = computeDType(from.dtype());
    double number = *value->asNumber();
    if ((exact || accumulator == DType::F64) && !isExactMultiple(number, *count, accumulator == DType::F64 ? 53 : 24))
      return nullptr;
    double sum = number * double(*count) + 0.0; // It starts at +0.0.
    return constant(op, roundToDType(roundToDType(sum, accumulator), to.dtype()));
  }

  /// True if value * k has at most `bits` significant bits for every k up to `count`.
  static bool isExactMultiple(double value, int64_t count, int bits) {
    if (value == 0 || !std::isfinite(value))
      return true;
    int exponent;
    double significand = std::frexp(std::abs(value), &exponent);
    while (significand != std::floor(significand))
      significand *= 2;
    return significand * double(count) <= std::ldexp(1.0, bits);
  }

  /// Loops whose trip count is known to be 0 or 1.
  void visitFor(Operation &op) {
    auto lo = smallSplatOf(op.operand(0)), hi = smallSplatOf(op.operand(1)), step = smallSplatOf(op.operand(2));
    if (!lo || !step)
      return;
    if (hi && *lo >= *hi)
      return replace(op, {op.operands().begin() + 3, op.operands().end()});
    const Operation *end = op.operand(1)->definition();
    int64_t least = hi.value_or(0), most = hi.value_or(INT64_MAX);
    if (end && end->is(OpKind::Dim)) {
      least = leastOf(*end->attr("expr")->asDim(), function.facts);
      most = mostOf(*end->attr("expr")->asDim(), function.facts);
    }
    if (least <= *lo || most > *lo + *step)
      return;
    Builder builder(&op);
    std::vector<Value *> arguments = {op.operand(0)};
    arguments.insert(arguments.end(), op.operands().begin() + 3, op.operands().end());
    Operation *before = op.prev();
    ValueMap map;
    std::vector<Value *> results = inlineBlock(builder, op.region(), arguments, map);
    // What was inlined may simplify now.
    for (Operation *next = op.prev(); next != before; next = next->prev()) {
      worklist.push_back(next);
      for (unsigned r = 0; r < next->numRegions(); ++r)
        walk(next->region(r), [&](Operation &inner) { worklist.push_back(&inner); });
    }
    replace(op, results);
  }

  Function &function;
  bool exact;
  std::vector<Operation *> worklist;
};

} // namespace

Expected<void> passes::canonicalize(Function &function, PassContext &context) {
  if (function.level != Level::Plan)
    Canonicalizer(function, context.exact()).run();
  return {};
}

} // namespace minic
