#include "minic/IR/Roles.h"

#include <algorithm>

namespace minic {

Operation *roleOf(const Operation &op) {
  Operation *owner = op.parentOp();
  while (owner && !owner->is(OpKind::Role))
    owner = owner->parentOp();
  return owner;
}

static int64_t intOr(const Operation &op, std::string_view name, int64_t otherwise) {
  const Attribute *value = op.attr(name);
  return value && value->asInt() ? *value->asInt() : otherwise;
}

int64_t roleWarps(const Operation &role) { return intOr(role, "warps", 0); }
int64_t roleInstances(const Operation &role) { return intOr(role, "instances", 1); }
int64_t roleRegisters(const Operation &role) { return intOr(role, "regs", 0); }
bool isOneThread(const Operation &role) { return role.wordAttr("active") == "thread"; }

int64_t threadsAround(const Operation &op) {
  if (Operation *role = roleOf(op))
    return roleWarps(*role) * 32;
  const Attribute *threads = op.function().attr("threads");
  return threads && threads->asInt() ? *threads->asInt() : 0;
}

int64_t firstWarp(const Operation &role) {
  uint64_t warps = 0; // Of text that no verifier has seen: any numbers.
  for (const Operation *op = role.prev(); op && op->is(OpKind::Role); op = op->prev())
    warps += uint64_t(roleWarps(*op)) * uint64_t(roleInstances(*op));
  return int64_t(warps);
}

int64_t firstInstance(const Operation &role) {
  uint64_t instances = 0;
  for (const Operation *op = role.prev(); op && op->is(OpKind::Role); op = op->prev())
    instances += uint64_t(roleInstances(*op));
  return int64_t(instances);
}

int64_t registersAtStart(int64_t threads) {
  constexpr int64_t file = 65536, most = 248; // A thread has at most 255, given out in steps of 8.
  return std::min(file / threads / 8 * 8, most);
}

} // namespace minic
