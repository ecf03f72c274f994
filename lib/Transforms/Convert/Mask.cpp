// mask: proves accesses in bounds or masks them, and makes the padding of reductions neutral.
//
//   %t = load %x, %r, %j : tile<4x1024xf32>      ->  %t = load %x, %r, %j, mask = [1], fill = -inf : tile<4x1024xf32>
//   %m = reduce max %t, axes = [1]                    %m = reduce max %t, axes = [1]            the padding is its identity
//   %e = exp %t                                       %e = exp %t                               exp(-inf) = 0: neutral for the sum
//   as well %s = reduce sum %e, axes = [1]                    %s = reduce sum %e, axes = [1]
//
// A masked load's fill is the identity, among those of the reductions it reaches, that leaves the fewest paddings unproved; where
// one is left, a select with the identity goes in front of the reduction.
#include "minic/IR/Builder.h"
#include "minic/IR/Combiner.h"
#include "minic/Transforms/Analysis/Bounds.h"
#include "minic/Transforms/Analysis/Padding.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace minic {
namespace {

class Masker {
public:
  explicit Masker(Function &kernel) : kernel(kernel) {}

  void run() {
    walk(kernel.body(), [&](Operation &op) {
      if (op.is(OpKind::Load) || op.is(OpKind::Store)) {
        std::vector<int64_t> axes = unprovedAxes(op);
        op.setAttr("mask", Attribute::ints(axes));
        if (op.is(OpKind::Load) && !axes.empty() && !op.attr("fill")) {
          if (mayReadNothing(op))
            op.setAttr("fill", Scalar{}.toAttr(op.result()->type().dtype()));
          else
            maskedLoads.push_back(&op);
        }
        if (axes.empty())
          op.removeAttr("fill");
      }
      if (op.is(OpKind::Reduce) || op.is(OpKind::Dot))
        reductions.push_back(&op);
    });
    chooseFills();
    for (Operation *op : reductions)
      if (!paddingIsNeutral(*op))
        neutralize(*op);
    dropIdleFills();
  }

private:
  /// Lanes with indices of their own along an axis that may be empty: they read the fill too, and it must be 0.
  static bool mayReadNothing(const Operation &load) {
    std::vector<int64_t> dims = accessDims(load);
    const std::vector<DimExpr> &shape = accessBuffer(load)->type().shape();
    for (size_t a = 0; a < dims.size(); ++a)
      if (dims[a] < 0 && (!shape[a].isConstant() || shape[a].isConstant(0)))
        return true;
    return false;
  }

  static Attribute identityOf(const Operation &op, unsigned operand) {
    DType type = op.operand(operand)->type().dtype();
    if (op.is(OpKind::Dot))
      return Scalar{}.toAttr(type);
    if (const Attribute *init = op.attr("init"))
      return (*init->asList())[operand];
    return reductionIdentity(op.wordAttr("combiner"), type);
  }

  /// The number as an element of `type`; 0 if it is none.
  static Attribute asElement(const Attribute &number, DType type) {
    if (isFloat(type)) {
      double value = *number.asNumber();
      return fitsDType(value, type) ? value : 0.0;
    }
    auto [least, greatest] = integerRange(type);
    const int64_t *integer = number.asInt();
    return integer && *integer >= least && *integer <= greatest ? *integer : int64_t(0);
  }

  int countUnproved() const {
    int count = 0;
    for (Operation *op : reductions)
      count += !paddingIsNeutral(*op);
    return count;
  }

  void chooseFills() {
    if (reductions.empty() || maskedLoads.empty())
      return;
    std::vector<Attribute> candidates;
    for (Operation *op : reductions) {
      Attribute identity = identityOf(*op, 0);
      if (std::find(candidates.begin(), candidates.end(), identity) == candidates.end())
        candidates.push_back(identity);
    }
    auto setFill = [](Operation &load, const Attribute &value) {
      load.setAttr("fill", asElement(value, load.result()->type().dtype()));
    };
    auto setAll = [&](const Attribute &value) {
      for (Operation *load : maskedLoads)
        setFill(*load, value);
    };
    // First one fill for all, then each load on its own.
    Attribute best = candidates.front();
    setAll(best);
    int fewest = countUnproved();
    for (size_t i = 1; i < candidates.size() && fewest > 0; ++i) {
      setAll(candidates[i]);
      if (int count = countUnproved(); count < fewest)
        fewest = count, best = candidates[i];
    }
    setAll(best);
    for (Operation *load : maskedLoads)
      for (const Attribute &candidate : candidates) {
        if (fewest == 0)
          return;
        Attribute before = *load->attr("fill");
        setFill(*load, candidate);
        if (int count = countUnproved(); count < fewest)
          fewest = count;
        else
          load->setAttr("fill", before);
      }
  }

  /// A fill that no reduction looks at says nothing.
  void dropIdleFills() {
    for (Operation *load : maskedLoads) {
      bool reaches = false;
      std::vector<Value *> stack{load->result()};
      std::unordered_set<Value *> seen;
      while (!stack.empty() && !reaches) {
        Value *value = stack.back();
        stack.pop_back();
        if (!seen.insert(value).second)
          continue;
        for (const Use &use : value->uses()) {
          reaches |= use.user->is(OpKind::Reduce) || use.user->is(OpKind::Dot);
          stack.insert(stack.end(), use.user->results().begin(), use.user->results().end());
        }
      }
      if (!reaches)
        load->removeAttr("fill");
    }
  }

  /// The first operation behind `value` that `isWanted`, not looking through loads; null if there is none.
  template <typename Wanted> static const Operation *findBehind(Value *value, Wanted isWanted) {
    std::vector<Value *> stack{value};
    std::unordered_set<Value *> seen;
    while (!stack.empty()) {
      Value *next = stack.back();
      stack.pop_back();
      Operation *op = next->definition();
      if (!op || !seen.insert(next).second)
        continue;
      if (isWanted(*op))
        return op;
      if (!op->is(OpKind::Load))
        stack.insert(stack.end(), op->operands().begin(), op->operands().end());
      if (op->is(OpKind::For))
        stack.push_back(op->terminatorOfRegion()->operand(next->index()));
    }
    return nullptr;
  }

  /// True if the value is there where the operation stands: not only in a loop before it.
  static bool reaches(const Value &value, const Operation &op) {
    const Block *home = value.definition() ? value.definition()->parent() : value.argumentOf();
    const Block *block = op.parent();
    while (block != home && block->parentOp())
      block = block->parentOp()->parent();
    return block == home;
  }

  /// A load that is masked along `axis`, and whose index there reaches `op`: it knows the index and the size.
  static const Operation *maskedLoadBehind(Value *value, int64_t axis, const Operation &op) {
    return findBehind(value, [&](const Operation &behind) {
      if (!behind.is(OpKind::Load))
        return false;
      std::vector<int64_t> mask = behind.intsAttr("mask");
      const Value *index = indexAlong(behind, axis).first;
      return std::ranges::find(mask, axis) != mask.end() && index && reaches(*index, op);
    });
  }

  void neutralize(Operation &op) {
    unsigned operands = op.is(OpKind::Dot) ? 2 : op.numOperands();
    for (int64_t axis : op.intsAttr("axes"))
      for (unsigned i = 0; i < operands; ++i)
        neutralizeOperand(op, i, axis);
  }

  void neutralizeOperand(Operation &op, unsigned i, int64_t axis) {
    Value *value = op.operand(i);
    Attribute identity = identityOf(op, i);
    PaddingFact fact = paddingOf(value, axis);
    if (fact.kind == PaddingFact::None ||
        (fact.kind == PaddingFact::Known && fact.value == Scalar::of(identity, value->type().dtype())))
      return;
    Builder builder(&op);
    builder.setLoc(op.loc());
    auto [index, size] = boundsAlong(op, value, axis);
    if (!index)
      return; // Nothing along this axis is masked anywhere: there is no padding, and the verifier says so if it cannot see it.
    std::vector<int64_t> extents(size_t(value->type().rank()), 1);
    extents[size_t(axis)] = value->type().extents()[size_t(axis)];
    Context &context = builder.context();
    Value *valid = builder
                       .create(OpKind::InBounds, {index}, {context.tile(DType::I1, extents)},
                               {{"axis", Attribute(axis)}, {"size", Attribute(size)}})
                       ->result();
    Type full = context.withDType(value->type(), DType::I1);
    if (valid->type() != full)
      valid = builder.create(OpKind::Broadcast, {valid}, {full})->result();
    op.setOperand(i, builder.select(valid, value, builder.constant(value->type(), identity)));
  }

  /// The index and the size of the loop along `axis` at `op`: from a load behind the value, else from any masked access at this
  /// place, else from a select of narrow identities, which are none of what is computed in.
  std::pair<Value *, DimExpr> boundsAlong(Operation &op, Value *value, int64_t axis) {
    const Operation *access = maskedLoadBehind(value, axis, op);
    for (unsigned i = 0; !access && i < op.numOperands(); ++i)
      access = maskedLoadBehind(op.operand(i), axis, op);
    if (!access) {
      const Operation *valid = findBehind(value, [&](const Operation &behind) {
        return behind.is(OpKind::InBounds) && behind.intAttr("axis") == axis && reaches(*behind.operand(0), op);
      });
      return valid ? std::pair(valid->operand(0), *valid->attr("size")->asDim()) : std::pair<Value *, DimExpr>(nullptr, 0);
    }
    return indexAlong(*access, axis);
  }

  Function &kernel;
  std::vector<Operation *> maskedLoads, reductions;
};

} // namespace

Expected<void> passes::mask(Function &function, PassContext &) {
  if (function.kind == FunctionKind::Kernel)
    Masker(function).run();
  return {};
}

} // namespace minic
