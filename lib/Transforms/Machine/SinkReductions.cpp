// sink-reductions: lets threads sum up what they hold through a loop, and lanes and warps meet once behind it. In default and fast
// numerics, as it adds in another order.
//
//   %s = for ... (%acc = %init) {                          %a = for ... (%acc = 0.0) {
//     %p = reduce sum %x, over = reg                          %p = reduce sum %x, over = reg
//     %l = reduce sum %p, over = lane                ->       yield (add %acc, %p)
//     %w = convert_layout %l ... reduce over = reg          }
//     yield (add %acc, %w)                                  %s = add %init, (the steps that stood in the loop, of %a)
//   }
#include "minic/IR/Builder.h"
#include "minic/IR/Combiner.h"
#include "minic/Transforms/Analysis/Uses.h"
#include "minic/Transforms/Passes.h"

#include <cassert>

namespace minic {
namespace {

/// One running value of a loop and how a trip adds to it.
struct RunningReduction {
  unsigned position; ///< Among the loop's running values.
  Operation *combine;
  std::vector<Operation *> steps; ///< That lanes and warps take together, first to last.
};

bool isStep(const Operation *op, OpKind combiner) {
  if (!op || op->numOperands() != 1)
    return false;
  return op->is(OpKind::ConvertLayout) ||
         (op->is(OpKind::Reduce) && op->numRegions() == 0 && combinerKind(op->wordAttr("combiner")) == combiner);
}

std::optional<RunningReduction> runningReduction(Operation &loop, unsigned position) {
  Block &body = loop.region();
  Value *acc = body.argument(position + 1), *next = body.back()->operand(position);
  Operation *combine = next->definition();
  bool combines = combine && (combine->is(OpKind::Add) || combine->is(OpKind::Max) || combine->is(OpKind::Min)) &&
                  combine->parent() == &body && combine->operand(0) == acc && onlyUser(acc) == combine &&
                  onlyUser(next) == body.back();
  if (!combines)
    return std::nullopt;
  RunningReduction found{position, combine, {}};
  Operation *user = combine;
  for (Operation *step = combine->operand(1)->definition();
       isStep(step, combine->kind()) && step->parent() == &body && onlyUser(step->result()) == user;
       step = step->operand(0)->definition()) {
    found.steps.insert(found.steps.begin(), step);
    user = step;
  }
  // What a thread combines of its own stays.
  if (!found.steps.empty() && found.steps.front()->is(OpKind::Reduce) && found.steps.front()->wordAttr("over") == "reg")
    found.steps.erase(found.steps.begin());
  if (found.steps.empty())
    return std::nullopt;
  return found;
}

void sink(Operation &loop, const RunningReduction &reduction) {
  Value *part = reduction.steps.front()->operand(0), *init = loop.operand(3 + reduction.position);
  Value *acc = loop.region().argument(reduction.position + 1), *result = loop.result(reduction.position);
  Operation *combine = reduction.combine;
  Builder before(&loop);
  before.setLoc(loop.loc());
  std::string_view word = combine->is(OpKind::Add) ? "sum" : combine->is(OpKind::Max) ? "max" : "min";
  loop.setOperand(3 + reduction.position, before.constant(part->type(), reductionIdentity(word, part->type().dtype())));
  [[maybe_unused]] Type whole = result->type();
  acc->setType(part->type());
  result->setType(part->type());

  Builder inside(combine);
  inside.setLoc(combine->loc());
  combine->result()->replaceAllUsesWith(inside.scalarOp(combine->kind(), {acc, part}));

  std::vector<Use> uses(result->uses().begin(), result->uses().end());
  Builder behind(*loop.parent(), loop.next());
  behind.setLoc(loop.loc());
  Value *value = result;
  for (Operation *step : reduction.steps) {
    ValueMap map;
    map.map(step->operand(0), value);
    value = cloneOperation(behind, *step, map)->result();
  }
  value = behind.scalarOp(combine->kind(), {init, value});
  assert(value->type() == whole && "the steps give what the loop gave");
  for (const Use &use : uses)
    use.user->setOperand(use.index, value);
  combine->erase();
  for (size_t i = reduction.steps.size(); i-- > 0;)
    reduction.steps[i]->erase();
}

} // namespace

Expected<void> passes::sinkReductions(Function &function, PassContext &context) {
  if (function.kind != FunctionKind::Kernel || context.exact())
    return {};
  std::vector<Operation *> loops;
  walk(function.body(), [&](Operation &op) {
    if (op.is(OpKind::For))
      loops.push_back(&op);
  });
  // Inner loops first: what they leave behind is a step of the outer one's.
  for (size_t i = loops.size(); i-- > 0;)
    for (unsigned position = 0; position < loops[i]->numResults(); ++position)
      if (auto reduction = runningReduction(*loops[i], position))
        sink(*loops[i], *reduction);
  return {};
}

} // namespace minic
