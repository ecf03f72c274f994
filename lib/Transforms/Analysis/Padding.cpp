#include "minic/Transforms/Analysis/Padding.h"

#include "minic/IR/Combiner.h"
#include "minic/Transforms/Analysis/Bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace minic {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

bool contains(const std::vector<int64_t> &list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

/// True if `a` and `b` are the same function of the position along the reduced axes: equal up to which trip of a sweep they stand
/// in.
bool congruent(const Value *a, const Value *b, int depth) {
  if (a == b)
    return true;
  const Operation *x = a->definition(), *y = b->definition();
  if (!x || !y || depth == 0 || x->kind() != y->kind() || x->numOperands() != y->numOperands() || a->type() != b->type() ||
      x->numRegions())
    return false;
  for (const NamedAttribute &attribute : x->attrs()) {
    const Attribute *other = y->attr(attribute.name);
    if (!other || !(*other == attribute.value))
      return false;
  }
  for (unsigned i = 0; i < x->numOperands(); ++i) {
    const Value *p = x->operand(i), *q = y->operand(i);
    // Counters of two sweeps over the same axis visit the same positions.
    bool counters = p->argumentOf() && q->argumentOf() && p->type().isIndex() && q->type().isIndex() &&
                    p->argumentOf()->parentOp() && q->argumentOf()->parentOp() &&
                    p->argumentOf()->parentOp()->operand(1) == q->argumentOf()->parentOp()->operand(1);
    if (!counters && !congruent(p, q, depth - 1))
      return false;
  }
  return x->info().elementwise || x->is(OpKind::Load) || x->is(OpKind::Broadcast) || x->is(OpKind::Constant);
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
    return congruent(op->operand(0), x, 16);
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

} // namespace

PaddingFact paddingOf(const Value *value, int64_t axis, int depth) {
  const Operation *op = value->definition();
  if (!op || depth == 0 || !value->type().isTile())
    return {};
  if (op->is(OpKind::Constant)) {
    const Attribute &number = *op->attr("value");
    return number.asNumber() ? known(Scalar::of(number, value->type().dtype())) : PaddingFact{};
  }
  if (op->is(OpKind::InBounds))
    return op->intAttr("axis") == axis ? known({}) : PaddingFact{};
  if (op->is(OpKind::Load))
    return loadPadding(*op, axis);
  if (op->is(OpKind::Broadcast)) {
    // Stretched along this axis: every lane is a copy of one real value, which only a constant tells.
    const Operation *source = op->operand(0)->definition();
    bool stretched = op->operand(0)->type().extents()[size_t(axis)] != op->result()->type().extents()[size_t(axis)];
    return stretched && !(source && source->is(OpKind::Constant)) ? PaddingFact{} : paddingOf(op->operand(0), axis, depth - 1);
  }
  if (!op->info().elementwise)
    return {};

  std::vector<PaddingFact> facts;
  for (Value *operand : op->operands()) {
    PaddingFact fact = paddingOf(operand, axis, depth - 1);
    // Loops have one extent, so accesses along one axis are all proved or all masked.
    if (fact.kind == PaddingFact::None)
      return fact;
    facts.push_back(fact);
  }
  switch (op->info().padding) {
  case PaddingRule::Evaluate:
  case PaddingRule::Multiply:
    return evaluate(*op, facts);
  case PaddingRule::Subtract:
    // -inf - m is -inf for m > -inf. If m = -inf is the maximum of the same lanes, all real lanes are -inf as well and give NaN, so
    // what the padding adds (NaN) changes nothing.
    if (facts[0].kind == PaddingFact::Known && facts[0].value.toDouble(value->type().dtype()) == -inf &&
        facts[1].kind != PaddingFact::Known && isMaximumOver(op->operand(1), op->operand(0), axis, 8))
      return facts[0];
    return evaluate(*op, facts);
  case PaddingRule::Select:
    if (facts[0].kind == PaddingFact::Known)
      return facts[0].value.bits ? facts[1] : facts[2];
    return facts[1] == facts[2] ? facts[1] : PaddingFact{};
  default:
    return {};
  }
}

/// Of the narrow integers that were widened for a reduction, the greatest is no less neutral for a minimum than the greatest wide one.
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
