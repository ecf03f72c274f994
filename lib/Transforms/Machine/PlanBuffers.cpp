// plan-buffers: reuses the memory of dead temporaries.
//
//   %a = alloc; launch @k(%x, %a); %b = alloc; launch @l(%a, %b); %c = alloc; launch @m(%b, %c)
//   -> %c = view %a, if it fits: nothing reads %a after @l
//
// Steps run in stream order, so memory is free once the last step that touches it (or a view of it) has been enqueued. Results keep
// memory of their own. Sizes with names fit if they are the same expression.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace minic {
namespace {

DimExpr bytesOf(Type type) { return type.numElements() * DimExpr(dtypeBytes(type.dtype())); }

bool fits(const DimExpr &need, const DimExpr &have) {
  if (need == have)
    return true;
  auto n = need.constant(), h = have.constant();
  // Not into something much larger: it may serve a larger need later.
  return n && h && *n <= *h && *h <= 2 * *n;
}

/// The allocation behind a buffer, through views.
Value *rootOf(Value *buffer) {
  while (Operation *op = buffer->definition()) {
    if (!op->is(OpKind::View) && !op->is(OpKind::TensorMap))
      break;
    buffer = op->operand(0);
  }
  return buffer;
}

} // namespace

Expected<void> passes::planBuffers(Function &plan, PassContext &) {
  std::unordered_map<Value *, int> lastUse;
  std::unordered_set<Value *> results;
  int position = 0;
  for (Operation &op : plan.body()) {
    for (Value *operand : op.operands()) {
      lastUse[rootOf(operand)] = position;
      if (op.is(OpKind::Return))
        results.insert(rootOf(operand));
    }
    ++position;
  }

  std::vector<Value *> dead; // Allocations whose last use has passed, in the order they died.
  std::vector<std::pair<int, Value *>> live;
  position = -1;
  for (Operation &op : plan.body()) {
    ++position;
    if (op.is(OpKind::Alloc) && !results.count(op.result())) {
      Value *buffer = op.result();
      for (auto it = live.begin(); it != live.end();)
        if (it->first < position)
          dead.push_back(it->second), it = live.erase(it);
        else
          ++it;
      auto reuse = std::find_if(dead.begin(), dead.end(),
                                [&](Value *candidate) { return fits(bytesOf(buffer->type()), bytesOf(candidate->type())); });
      int end = lastUse.count(buffer) ? lastUse[buffer] : position;
      if (reuse == dead.end()) {
        live.push_back({end, buffer});
        continue;
      }
      Value *memory = *reuse;
      dead.erase(reuse);
      Builder builder(&op);
      builder.setLoc(op.loc());
      Value *view = builder.create(OpKind::View, {memory}, {buffer->type()})->result();
      view->setName(buffer->name());
      buffer->replaceAllUsesWith(view);
      op.erase();
      live.push_back({end, memory});
    }
  }
  return {};
}

} // namespace minic
