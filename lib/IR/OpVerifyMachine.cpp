// Hooks of MachineOps.def.
#include "OpVerify.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"
#include "minic/IR/Verifier.h"

#include <set>

namespace minic {

//===-- Roles ---------------------------------------------------------------------------------------------------------------===//

namespace {

/// The limits of setmaxnreg (PTX ISA).
constexpr int64_t leastRegs = 24, mostRegs = 256;

/// What is wrong with the numbers of one role.
std::optional<std::string> roleFault(const Operation &role) {
  int64_t warps = roleWarps(role), instances = roleInstances(role), regs = roleRegisters(role);
  if (warps < 1 || warps > 32 || instances < 1 || instances > 32)
    return "has from 1 to 32 warps and instances, not " + std::to_string(warps) + " and " + std::to_string(instances);
  if (!role.attr("regs"))
    return std::nullopt;
  if (regs % 8 != 0 || regs < leastRegs || regs > mostRegs)
    return "has regs = " + std::to_string(regs) + ", which is no multiple of 8 from 24 to 256";
  if (warps % 4 != 0)
    return "with `regs` has a multiple of 4 warps, not " + std::to_string(warps);
  return std::nullopt;
}

/// What holds for all roles of a kernel together; asked at the last one.
void checkRoles(Operation &last, VerifyReporter &reporter) {
  std::vector<Operation *> roles;
  for (Operation *op = &last; op && op->is(OpKind::Role); op = op->prev())
    roles.insert(roles.begin(), op);
  for (Operation *role : roles)
    if (roleFault(*role)) // Which was said there.
      return;
  int64_t threads = threadsAround(last), warps = 0, taken = 0;
  std::string sum;
  for (Operation *role : roles) {
    int64_t own = roleWarps(*role) * roleInstances(*role);
    if (role->attr("regs") && warps % 4 != 0) {
      reporter.error(*role, ErrorCode::BadAttribute,
                     "`regs` moves registers of 4 warps together, but this role starts at warp " + std::to_string(warps));
      return;
    }
    warps += own;
    if (role->attr("regs")) {
      taken += own * 32 * roleRegisters(*role);
      sum += (sum.empty() ? "" : " + ") + std::to_string(own * 32) + " * " + std::to_string(roleRegisters(*role));
    }
  }
  if (warps * 32 != threads) {
    reporter.error(last, ErrorCode::BadStructure,
                   "the roles of " + functionText(last.function()) + " have " + countText(size_t(warps * 32), "thread") +
                       " together, but its header says threads = " + std::to_string(threads));
    return;
  }
  if (sum.empty())
    return;
  for (Operation *role : roles)
    if (!role->attr("regs")) {
      reporter.error(*role, ErrorCode::MissingAttribute, "either every role has `regs` or none has").fix = "add `regs`";
      return;
    }
  int64_t atStart = registersAtStart(threads);
  if (taken > atStart * threads)
    reporter
        .error(last, ErrorCode::BadStructure,
               "the roles take " + sum + " = " + std::to_string(taken) + " registers, but the CTA starts with " +
                   std::to_string(threads) + " * " + std::to_string(atStart) + " = " + std::to_string(atStart * threads) +
                   ": setmaxnreg would wait for the rest forever")
        .fix = "lower `regs` of a role";
}

} // namespace

void verifyRole(Operation &op, VerifyReporter &reporter) {
  if (op.parentOp()) {
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " stands at the top level of a kernel, not inside another operation");
    return;
  }
  if (auto fault = roleFault(op)) {
    reporter.error(op, ErrorCode::BadAttribute, opText(op) + " " + *fault);
    return;
  }
  std::span<Value *const> arguments = op.region().arguments();
  if (arguments.size() > 1 || (arguments.size() == 1 && !arguments[0]->type().isIndex())) {
    reporter.error(op, ErrorCode::BadRegion, "the region of " + opText(op) + " takes at most the number of the instance, an index");
    return;
  }
  if (op.terminatorOfRegion() && op.terminatorOfRegion()->numOperands() != 0) {
    reporter.error(op, ErrorCode::BadRegion, "the region of " + opText(op) + " yields nothing");
    return;
  }
  Operation *next = op.next();
  if (next && !next->is(OpKind::Role) && !next->is(OpKind::Return)) {
    reporter.error(*next, ErrorCode::BadStructure, "only another role or `return` follows a role, not " + opText(*next));
    return;
  }
  if (!next || next->is(OpKind::Return))
    checkRoles(op, reporter);
}

void verifyBarrier(Operation &op, VerifyReporter &reporter) {
  // 15 named barriers, one for each instance of a role (PTX ISA, "barrier").
  const Operation *role = roleOf(op);
  int64_t instances = role ? firstInstance(*role) + roleInstances(*role) : 0;
  if (instances > 15)
    reporter.error(op, ErrorCode::BadStructure,
                   opText(op) + " in a role: there are 15 barriers for the instances of roles, not " + std::to_string(instances));
}

void verifyLaunchWait(Operation &op, VerifyReporter &reporter) {
  if (op.parentOp()) {
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " stands in a region; it belongs to the kernel as a whole");
    return;
  }
  for (Operation *before = op.prev(); before; before = before->prev())
    if (before->is(op.kind()))
      reporter.error(op, ErrorCode::BadStructure, opText(op) + " stands twice in a kernel");
    else if (before->info().effects & (Reads | Writes))
      reporter.error(op, ErrorCode::BadStructure,
                     opText(op) + " stands behind " + opText(*before) + ", which may touch what launches before this one write");
}

//===-- Shared memory -------------------------------------------------------------------------------------------------------===//

void verifyAllocShared(Operation &op, VerifyReporter &reporter) {
  if (!op.result()->type().isSmem())
    reporter.error(op, ErrorCode::TypeMismatch,
                   opText(op) + ": expected shared memory, smem<...>, stated " + op.result()->type().str());
}

/// shared_store (value, memory) and shared_load (memory) -> value.
void verifySharedAccess(Operation &op, VerifyReporter &reporter) {
  bool store = op.is(OpKind::SharedStore);
  if (store && clusterCtas(op.function()) > 1) {
    reporter.error(op, ErrorCode::BadStructure,
                   opText(op) + " in a cluster would leave other values in the memory of each CTA; use cluster_store");
    return;
  }
  if (store && !expectOperand(op, 0, TypeKind::Tile, reporter))
    return;
  if (!expectOperand(op, store ? 1 : 0, TypeKind::Smem, reporter))
    return;
  Type memory = op.operand(store ? 1 : 0)->type(), tile = store ? op.operand(0)->type() : op.result()->type();
  if (memory.stages() != 1) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " takes one stage of memory, not " + operandText(op, store ? 1 : 0));
    return;
  }
  if (tile.isTile() && tile.shape() == memory.shape() && tile.dtype() == memory.dtype())
    return;
  if (store)
    reporter.error(op, tile.shape() == memory.shape() ? ErrorCode::OperandType : ErrorCode::ShapeMismatch,
                   opText(op) + " needs a tile and shared memory of one shape and element type: " + operandText(op, 0) + ", " +
                       operandText(op, 1));
  else
    reporter.error(op, ErrorCode::TypeMismatch,
                   opText(op) + ": expected a tile of the shape and element type of " + operandText(op, 0) + ", stated " +
                       tile.str());
}

void verifyStage(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Smem, reporter) || !expectIndex(op, 1, reporter))
    return;
  TypeStorage one = op.operand(0)->type().get();
  one.stages = 1;
  expectResult(op, 0, op.module().context().type(one), reporter);
}

int64_t constantOf(const Value &value, int64_t otherwise) {
  const Operation *op = value.definition();
  const Attribute *number = op && op->is(OpKind::Constant) ? op->attr("value") : nullptr;
  return number && number->asInt() ? *number->asInt() : otherwise;
}

void verifySharedView(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Smem, reporter) || !expectIndex(op, 1, reporter) || !expectIndex(op, 2, reporter))
    return;
  Type from = op.operand(0)->type(), to = op.result()->type();
  if (from.stages() != 1) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " needs one stage of shared memory, not " + operandText(op, 0));
    return;
  }
  if (!from.swizzle()) {
    bool fits = to.isSmem() && to.dtype() == from.dtype() && !to.swizzle() && to.stages() == 1 &&
                stridedElements(to) <= stridedElements(from) && constantOf(*op.operand(1), -1) == 0 &&
                constantOf(*op.operand(2), -1) == 0;
    if (!fits)
      reporter.error(op, ErrorCode::TypeMismatch,
                     opText(op) + " of memory that is not swizzled sees elements of " + operandText(op, 0) +
                         " under other axes, from (0, 0) on, stated " + to.str());
    return;
  }
  bool same = to.isSmem() && to.dtype() == from.dtype() && to.swizzle() == from.swizzle() && to.stages() == 1;
  if (!same) {
    reporter.error(op, ErrorCode::TypeMismatch,
                   opText(op) + ": expected shared memory with the element type and swizzle of " + operandText(op, 0) +
                       ", stated " + to.str());
    return;
  }
  std::vector<int64_t> whole = from.extents(), part = to.extents();
  bool oneSlab = part[1] == slabColumns(to);
  if (!oneSlab && slabBytes(to) != slabBytes(from)) {
    reporter
        .error(op, ErrorCode::TypeMismatch,
               opText(op) + ": the slabs of " + to.str() + " are not as far apart as those of " + operandText(op, 0))
        .fix = "write `slab = " + std::to_string(slabBytes(from) / from.swizzle()) + "`";
    return;
  }
  int64_t row = constantOf(*op.operand(1), 0), column = constantOf(*op.operand(2), 0);
  if (row < 0 || row % 8 || column < 0 || column % slabColumns(from) || row + part[0] > whole[0] || column + part[1] > whole[1])
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + ": " + to.str() + " at (" + std::to_string(row) + ", " + std::to_string(column) +
                       ") is not a box of " + operandText(op, 0) + " that starts at a multiple of 8 rows and " +
                       std::to_string(slabColumns(from)) + " columns");
}

//===-- Mbarriers -----------------------------------------------------------------------------------------------------------===//

void verifyMbarrierInit(Operation &op, VerifyReporter &reporter) {
  constexpr int64_t mostArrivals = (1 << 20) - 1; // PTX ISA, "Contents of the mbarrier object".
  int64_t count = op.intAttr("count");
  if (!op.result()->type().isMbarrier())
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected mbarrier<...>, stated " + op.result()->type().str());
  else if (count < 1 || count > mostArrivals)
    reporter.error(op, ErrorCode::BadAttribute,
                   "`count` of " + opText(op) + " is from 1 to " + std::to_string(mostArrivals) + ", not " + std::to_string(count));
  else if (op.parentOp())
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " stands at the top level of a kernel: mbarriers start once");
}

bool expectMbarrier(Operation &op, unsigned i, VerifyReporter &reporter) {
  return expectOperand(op, i, TypeKind::Mbarrier, reporter) && expectIndex(op, i + 1, reporter);
}

bool expectCondition(Operation &op, unsigned i, VerifyReporter &reporter) {
  Type type = op.operand(i)->type();
  if (type.isScalar() && type.dtype() == DType::I1)
    return true;
  reporter.error(op, ErrorCode::OperandType, opText(op) + " needs an i1, not " + operandText(op, i));
  return false;
}

void verifyMbarrierUse(Operation &op, VerifyReporter &reporter) {
  if (!expectMbarrier(op, 0, reporter))
    return;
  if (op.is(OpKind::MbarrierExpect)) {
    constexpr int64_t mostBytes = (1 << 20) - 1;
    if (int64_t bytes = op.intAttr("bytes"); bytes < 0 || bytes > mostBytes)
      reporter.error(op, ErrorCode::BadAttribute,
                     "`bytes` of " + opText(op) + " is from 0 to " + std::to_string(mostBytes) + ", not " + std::to_string(bytes));
  } else if (op.numOperands() > 3) {
    reporter.error(op, ErrorCode::OperandCount, opText(op) + " takes an mbarrier, a position and at most one condition");
  } else if (op.numOperands() == 3) {
    expectCondition(op, 2, reporter);
  }
}

//===-- TMA -----------------------------------------------------------------------------------------------------------------===//

/// Map and memory of a copy, whose indices are operands from `first` on.
static void checkTmaCopy(Operation &op, unsigned map, unsigned memory, unsigned first, VerifyReporter &reporter) {
  if (!expectOperand(op, map, TypeKind::TensorMap, reporter) || !expectOperand(op, memory, TypeKind::Smem, reporter))
    return;
  Type mapType = op.operand(map)->type(), memoryType = op.operand(memory)->type();
  std::string both = ": " + operandText(op, map) + ", " + operandText(op, memory);
  if (op.numOperands() - first != unsigned(mapType.rank())) {
    reporter.error(op, ErrorCode::OperandCount,
                   opText(op) + " needs one index for each axis of the map, " + countText(size_t(mapType.rank()), "index") +
                       ", not " + std::to_string(op.numOperands() - first));
    return;
  }
  for (unsigned i = first; i < op.numOperands(); ++i)
    if (!expectIndex(op, i, reporter))
      return;
  std::vector<int64_t> box = mapType.box(), shape = memoryType.extents();
  while (box.size() > shape.size() && box.front() == 1)
    box.erase(box.begin());
  if (mapType.dtype() != memoryType.dtype() || memoryType.stages() != 1)
    reporter.error(op, ErrorCode::OperandType, opText(op) + " needs a map and one stage of memory of one element type" + both);
  else if (box != shape)
    reporter.error(op, ErrorCode::ShapeMismatch, opText(op) + " moves the map's box, which is not the memory's shape" + both);
  else if (mapType.swizzle() != memoryType.swizzle())
    reporter.error(op, ErrorCode::BadLayout, opText(op) + " needs a map and memory of one swizzle" + both);
  else if (!memoryType.strides().empty())
    reporter.error(op, ErrorCode::BadLayout, opText(op) + " needs memory without strides" + both);
  else if (int64_t unit = columnsOfStart(mapType), last = constantOf(*op.operands().back(), 0); last % unit)
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " moves whole pieces of 16 bytes, so its last index is a multiple of " + std::to_string(unit) +
                       ", not " + std::to_string(last));
}

void verifyTma(Operation &op, VerifyReporter &reporter) {
  switch (op.kind()) {
  case OpKind::TmaPrefetch:
    expectOperand(op, 0, TypeKind::TensorMap, reporter);
    return;
  case OpKind::TmaLoad:
    if (expectMbarrier(op, 2, reporter))
      checkTmaCopy(op, 0, 1, 4, reporter);
    return;
  case OpKind::TmaStore:
    checkTmaCopy(op, 1, 0, 2, reporter);
    return;
  default:
    if (int64_t pending = op.intAttr("pending"); pending < 0 || pending > 64)
      reporter.error(op, ErrorCode::BadAttribute,
                     "`pending` of " + opText(op) + " is from 0 to 64, not " + std::to_string(pending));
  }
}

void verifyTensorMap(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Buffer, reporter))
    return;
  Type from = op.operand(0)->type(), to = op.result()->type();
  if (from.isStrided()) {
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + " sees row-major memory, not " + operandText(op, 0));
    return;
  }
  if (!to.isTensorMap() || to.dtype() != from.dtype() || to.shape() != from.shape())
    reporter.error(op, ErrorCode::TypeMismatch,
                   opText(op) + ": expected a tensor_map with the shape and element type of " + operandText(op, 0) + ", stated " +
                       to.str());
}

//===-- Parts of tiles ------------------------------------------------------------------------------------------------------===//

void verifyExtractTile(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tile, reporter))
    return;
  Type from = op.operand(0)->type(), to = op.result()->type();
  if (!to.isTile() || to.dtype() != from.dtype() || to.rank() != from.rank()) {
    reporter.error(op, ErrorCode::TypeMismatch,
                   opText(op) + " needs a part of the element type and rank of " + operandText(op, 0) + ", not " + to.str());
    return;
  }
  if (op.numOperands() != unsigned(from.rank()) + 1) {
    reporter.error(op, ErrorCode::OperandCount,
                   opText(op) + " needs one index for each axis of " + operandText(op, 0) + ", not " +
                       std::to_string(op.numOperands() - 1));
    return;
  }
  for (unsigned i = 1; i < op.numOperands(); ++i)
    if (!expectIndex(op, i, reporter))
      return;
  std::vector<int64_t> whole = from.extents(), part = to.extents();
  const Layout &layout = *from.layout(), &piece = *to.layout();
  Layout a = layout.normalized(), b = piece.normalized();
  bool fits = a.lane == b.lane && a.warp == b.warp;
  for (size_t axis = 0; axis < whole.size(); ++axis)
    fits &= whole[axis] % part[axis] == 0;
  // Shifted by any multiple of the part, each register of the part is one of the tile.
  std::set<std::vector<int64_t>> held;
  for (int64_t r = 0; fits && r < layout.numRegs(); ++r) {
    std::vector<int64_t> index(whole.size(), 0);
    layout.addRegister(r, index);
    held.insert(index);
  }
  for (int64_t r = 0; fits && r < piece.numRegs(); ++r) {
    std::vector<int64_t> index(whole.size(), 0);
    piece.addRegister(r, index);
    for (size_t axis = 0; axis < whole.size() && fits; ++axis)
      for (int64_t shift = 0; shift < whole[axis]; shift += part[axis]) {
        std::vector<int64_t> shifted = index;
        shifted[axis] += shift;
        fits &= held.count(shifted) != 0;
      }
  }
  if (!fits)
    reporter.error(op, ErrorCode::BadLayout,
                   opText(op) + ": " + to.str() + " is no part of " + operandText(op, 0) + " whose threads hold the same elements");
}

} // namespace minic
