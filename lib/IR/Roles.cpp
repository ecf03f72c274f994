#include "minic/IR/Roles.h"

#include <algorithm>

namespace minic {

Operation *roleOf(const Operation &op) {
  Operation *owner = op.parentOp();
  while (owner && !owner->is(OpKind::Role))
    owner = owner->parentOp();
  return owner;
}

int64_t roleWarps(const Operation &role) { return role.intAttr("warps"); }
int64_t roleInstances(const Operation &role) { return role.attr("instances") ? role.intAttr("instances") : 1; }
bool isOneThread(const Operation &role) { return role.wordAttr("active") == "thread"; }

int64_t firstWarp(const Operation &role) {
  int64_t warps = 0;
  for (const Operation *op = role.prev(); op && op->is(OpKind::Role); op = op->prev())
    warps += roleWarps(*op) * roleInstances(*op);
  return warps;
}

int64_t firstInstance(const Operation &role) {
  int64_t instances = 0;
  for (const Operation *op = role.prev(); op && op->is(OpKind::Role); op = op->prev())
    instances += roleInstances(*op);
  return instances;
}

int64_t registersAtStart(int64_t threads) {
  constexpr int64_t file = 65536, most = 248; // A thread has at most 255, given out in steps of 8.
  return std::min(file / threads / 8 * 8, most);
}

} // namespace minic
