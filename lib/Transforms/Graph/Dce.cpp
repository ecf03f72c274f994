// dce: removes operations whose results nobody uses and that do nothing else.
//
//   %a = exp %x; %b = neg %x; return %b   ->   %b = neg %x; return %b
#include "minic/Transforms/Passes.h"

namespace minic {

static bool isDead(const Operation &op) {
  if (op.info().terminator || (op.info().effects & (Writes | Barrier)))
    return false;
  for (Value *result : op.results())
    if (result->hasUses())
      return false;
  // A loop is as dead as what it holds, however deep.
  bool acts = false;
  for (unsigned r = 0; r < op.numRegions(); ++r)
    walk(op.region(r), [&](Operation &inner) { acts |= (inner.info().effects & (Writes | Barrier)) != 0; });
  return !acts;
}

static void sweep(Block &block) {
  // Backwards, so that one pass sees users gone before their operands.
  for (Operation *op = block.back(); op;) {
    Operation *previous = op->prev();
    for (unsigned r = 0; r < op->numRegions(); ++r)
      sweep(op->region(r));
    if (isDead(*op))
      op->erase();
    op = previous;
  }
}

Expected<void> passes::dce(Function &function, PassContext &) {
  sweep(function.body());
  return {};
}

} // namespace minic
