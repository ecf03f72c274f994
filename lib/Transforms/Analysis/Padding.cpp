#include "minic/Transforms/Analysis/Padding.h"

#include "minic/IR/Combiner.h"
#include "minic/Transforms/Analysis/Bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

namespace minic {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

bool contains(const std::vector<int64_t> &list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

/// True if `a` and `b` are the same function of the position along the reduced axes: equal up to which trip of a sweep they stand
/// in.
bool congruent(const Value *a, const Value *b) {
  std::set<std::pair<const Value *, const Value *>> seen; // All pairs must hold, so each is looked at once.
  std::vector<std::pair<const Value *, const Value *>> stack = {{a, b}};
  while (!stack.empty()) {
    auto [p, q] = stack.back();
    stack.pop_back();
    if (p == q || !seen.insert({p, q}).second)
      continue;
    const Operation *x = p->definition(), *y = q->definition();
    if (!x || !y || x->kind() != y->kind() || x->numOperands() != y->numOperands() || p->type() != q->type() || x->numRegions())
      return false;
    if (!x->info().elementwise && !x->is(OpKind::Load) && !x->is(OpKind::Broadcast) && !x->is(OpKind::Constant))
      return false;
    for (const NamedAttribute &attribute : x->attrs()) {
      const Attribute *other = y->attr(attribute.name);
      if (!other || !(*other == attribute.value))
        return false;
    }
    for (unsigned i = 0; i < x->numOperands(); ++i) {
      const Value *v = x->operand(i), *w = y->operand(i);
      // Counters of two sweeps over the same axis visit the same positions.
      bool counters = v->argumentOf() && w->argumentOf() && v->type().isIndex() && w->type().isIndex() &&
                      v->argumentOf()->parentOp() && w->argumentOf()->parentOp() &&
                      v->argumentOf()->parentOp()->operand(1) == w->argumentOf()->parentOp()->operand(1);
      if (!counters)
        stack.push_back({v, w});
    }
  }
  return true;
}

bool isMaxAlong(const Operation &reduce, int64_t axis) {
  if (!reduce.is(OpKind::Reduce) || reduce.wordAttr("combiner") != "max")
    return false;
  return contains(reduce.intsAttr("axes"), axis);
}

/// True if `m`, constant along `axis`, is a maximum that takes in every real lane of `x` along it.
bool isMaximumOver(const Value *m, const Value *x, int64_t axis, int depth) {
  const Operation *op = m->definition();
  if (!op || depth == 0)
    return false;
  if (op->is(OpKind::Broadcast))
    return isMaximumOver(op->operand(0), x, axis, depth - 1);
  if (isMaxAlong(*op, axis))
    return congruent(op->operand(0), x);
  if (op->is(OpKind::Max)) // max(running, block's)
    return isMaximumOver(op->operand(0), x, axis, depth - 1) || isMaximumOver(op->operand(1), x, axis, depth - 1);
  if (op->is(OpKind::For)) {
    // A sweep whose running value takes in the maximum of each of its blocks.
    const Operation *yield = op->terminatorOfRegion();
    const Value *next = yield->operand(m->index());
    const Operation *combine = next->definition();
    const Value *running = op->region().argument(m->index() + 1);
    if (!combine || !combine->is(OpKind::Max) || (combine->operand(0) != running && combine->operand(1) != running))
      return false;
    return isMaximumOver(combine->operand(combine->operand(0) == running ? 1 : 0), x, axis, depth - 1);
  }
  return false;
}

PaddingFact known(Scalar value) { return {PaddingFact::Known, value}; }

PaddingFact loadPadding(const Operation &load, int64_t axis) {
  const Attribute *mask = load.attr("mask");
  if (!mask || !contains(accessDims(load), axis))
    return {}; // One element for all lanes along the axis, the padded ones too.
  if (!contains(*mask->asInts(), axis))
    return {PaddingFact::None};
  const Attribute *fill = load.attr("fill");
  return fill && fill->asNumber() ? known(Scalar::of(*fill, load.result()->type().dtype())) : PaddingFact{};
}

PaddingFact evaluate(const Operation &op, const std::vector<PaddingFact> &facts) {
  DType resultType = op.result()->type().dtype();
  DType operandType = op.operand(op.is(OpKind::Select) ? 1 : 0)->type().dtype();
  std::vector<Scalar> operands;
  for (unsigned i = 0; i < facts.size(); ++i) {
    if (facts[i].kind != PaddingFact::Known)
      return {};
    operands.push_back(facts[i].value);
  }
  return known(evalScalar(op.kind(), op.wordAttr("predicate"), operands, operandType, resultType));
}

/// The values whose padding that of a result follows from.
std::span<Value *const> sourcesOf(const Value &result, int64_t axis) {
  const Operation &op = *result.definition();
  if (op.is(OpKind::For))
    return op.terminatorOfRegion()->operands().subspan(result.index(), 1);
  if (op.is(OpKind::Dot)) {
    std::vector<int64_t> axes = op.intsAttr("axes");
    return contains(axes, axis) ? std::span<Value *const>() : op.operands();
  }
  if (op.is(OpKind::Broadcast)) {
    // Stretched along this axis: every lane is a copy of one real value, which only a constant tells.
    const Operation *source = op.operand(0)->definition();
    bool stretched = op.operand(0)->type().extents()[size_t(axis)] != op.result()->type().extents()[size_t(axis)];
    if (stretched && !(source && source->is(OpKind::Constant)))
      return {};
    return op.operands();
  }
  return op.info().elementwise ? op.operands() : std::span<Value *const>();
}

/// The padding of a result, given that of its sources.
PaddingFact combine(const Operation &op, int64_t axis, const std::vector<PaddingFact> &facts) {
  if (op.is(OpKind::Constant)) {
    const Attribute &number = *op.attr("value");
    return number.asNumber() ? known(Scalar::of(number, op.result()->type().dtype())) : PaddingFact{};
  }
  if (op.is(OpKind::InBounds))
    return op.intAttr("axis") == axis ? known({}) : PaddingFact{};
  if (op.is(OpKind::Load))
    return loadPadding(op, axis);
  if (op.is(OpKind::Broadcast))
    return facts.empty() ? PaddingFact{} : facts[0];
  if (!op.info().elementwise && !op.is(OpKind::For) && !op.is(OpKind::Dot))
    return {};
  // Loops have one extent, so accesses along one axis are all proved or all masked.
  for (const PaddingFact &fact : facts)
    if (fact.kind == PaddingFact::None)
      return fact;
  if (!op.info().elementwise) // Sums of what is padded may be NaN.
    return {};
  switch (op.info().padding) {
  case PaddingRule::Evaluate:
  case PaddingRule::Multiply:
    return evaluate(op, facts);
  case PaddingRule::Subtract:
    // -inf - m is -inf for m > -inf. If m = -inf is the maximum of the same lanes, all real lanes are -inf as well and give NaN, so
    // what the padding adds (NaN) changes nothing.
    if (facts[0].kind == PaddingFact::Known && facts[0].value.toDouble(op.result()->type().dtype()) == -inf &&
        facts[1].kind != PaddingFact::Known && isMaximumOver(op.operand(1), op.operand(0), axis, 8))
      return facts[0];
    return evaluate(op, facts);
  case PaddingRule::Select:
    if (facts[0].kind == PaddingFact::Known)
      return facts[0].value.bits ? facts[1] : facts[2];
    return facts[1] == facts[2] ? facts[1] : PaddingFact{};
  default:
    return {};
  }
}

} // namespace

PaddingFact paddingOf(const Value *value, int64_t axis) {
  std::unordered_map<const Value *, PaddingFact> known; // Each value once, however many paths lead to it.
  std::vector<const Value *> stack{value};
  while (!stack.empty()) {
    const Value *next = stack.back();
    const Operation *op = next->definition();
    if (!op || !next->type().isTile()) {
      known[next] = {};
      stack.pop_back();
      continue;
    }
    std::span<Value *const> sources = sourcesOf(*next, axis);
    size_t before = stack.size();
    for (const Value *source : sources)
      if (!known.count(source))
        stack.push_back(source);
    if (stack.size() > before)
      continue; // First those.
    std::vector<PaddingFact> facts;
    for (const Value *source : sources)
      facts.push_back(known.at(source));
    known[next] = combine(*op, axis, facts);
    stack.pop_back();
  }
  return known.at(value);
}

/// Of the narrow integers that were widened for a reduction, the greatest is no less neutral for a minimum than the greatest wide
/// one.
static bool keepsWidened(const PaddingFact &fact, const Operation &op, unsigned i) {
  const Operation *widened = op.operand(i)->definition();
  std::string_view word = op.wordAttr("combiner");
  if (fact.kind != PaddingFact::Known || word.empty() || !widened || !widened->is(OpKind::Convert))
    return false;
  DType from = widened->operand(0)->type().dtype(), to = op.operand(i)->type().dtype();
  return isInteger(from) && computeDType(from) == to && fact.value == Scalar::of(reductionIdentity(word, from), to);
}

static bool isKnownZero(const PaddingFact &fact, DType type) {
  return fact.kind == PaddingFact::Known && fact.value.toDouble(type) == 0;
}

bool paddingIsNeutral(const Operation &op) {
  if (op.is(OpKind::Dot)) {
    for (int64_t axis : op.intsAttr("axes"))
      for (unsigned i : {0u, 1u}) {
        PaddingFact fact = paddingOf(op.operand(i), axis);
        if (fact.kind != PaddingFact::None && !isKnownZero(fact, op.operand(i)->type().dtype()))
          return false;
      }
    return true;
  }
  for (int64_t axis : op.intsAttr("axes"))
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      DType type = op.operand(i)->type().dtype();
      const Attribute *init = op.attr("init");
      Scalar identity = Scalar::of(init ? (*init->asList())[i] : reductionIdentity(op.wordAttr("combiner"), type), type);
      PaddingFact fact = paddingOf(op.operand(i), axis);
      // A sum starts at +0.0, so -0.0 adds nothing either.
      bool zero = isKnownZero(fact, type) && identity.toDouble(type) == 0;
      if (fact.kind != PaddingFact::None && !zero && !keepsWidened(fact, op, i) &&
          !(fact.kind == PaddingFact::Known && fact.value == identity))
        return false;
    }
  return true;
}

void verifyMasked(Function &function, VerifyReporter &reporter) {
  walk(function.body(), [&](Operation &op) {
    if (op.is(OpKind::Load) || op.is(OpKind::Store)) {
      std::vector<int64_t> mask = op.intsAttr("mask");
      for (int64_t axis : unprovedAxes(op))
        if (std::find(mask.begin(), mask.end(), axis) == mask.end())
          reporter
              .error(op, ErrorCode::UnprovedAccess,
                     std::string(op.info().name) + " is not proved in bounds along tile axis " + std::to_string(axis) + " of " +
                         accessTile(op).str())
              .fix = "add " + std::to_string(axis) + " to its mask";
    }
    if ((op.is(OpKind::Reduce) || op.is(OpKind::Dot)) && op.wordAttr("padding") != "unchecked" && !paddingIsNeutral(op))
      reporter
          .error(op, ErrorCode::UnprovedPadding,
                 "the padded lanes that this " + std::string(op.info().name) + " combines are not proved to be its identity")
          .fix = "select the identity where in_bounds is false, or load with it as `fill`";
  });
}

} // namespace minic
