// Hooks of MachineOps.def.
#include "OpVerify.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"
#include "minic/IR/Verifier.h"

#include <algorithm>
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

static bool expectCondition(Operation &op, unsigned i, VerifyReporter &reporter) {
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
  else if (int64_t columns = slabColumnsOfBox(mapType), last = constantOf(*op.operands().back(), 0); columns && last % columns)
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " moves slabs, so its last index is a multiple of " + std::to_string(columns) + ", not " +
                       std::to_string(last));
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

//===-- Tensor cores --------------------------------------------------------------------------------------------------------===//

/// Whether a tile, or a tile in flight, of this shape lies as wgmma has it.
static bool isWgmmaTile(Type type, int64_t columns) {
  return type.rank() == 2 && type.shape()[0].isConstant(64) && type.shape()[1].isConstant(columns) && columns % 8 == 0 &&
         type.layout() && type.layout()->normalized() == wgmmaLayout(columns).normalized();
}

static std::string layoutHint(Operation &op, int64_t columns) {
  return "for " + std::to_string(columns) + " columns wgmma's layout is <" + wgmmaLayout(columns).str() + "> (" + opText(op) + ")";
}

/// 4 warps, one group of the tensor cores.
static bool expectWarpgroup(Operation &op, VerifyReporter &reporter) {
  int64_t threads = threadsAround(op);
  const Operation *role = roleOf(op);
  if (threads != 128)
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " is run by 4 warps, not by " + std::to_string(threads / 32));
  else if (role && firstWarp(*role) % 4 != 0)
    reporter.error(op, ErrorCode::BadStructure,
                   opText(op) + " is run by 4 warps from a multiple of 4 on, but this role starts at warp " +
                       std::to_string(firstWarp(*role)));
  else
    return true;
  return false;
}

static bool expectSwizzle128(Operation &op, unsigned i, VerifyReporter &reporter) {
  Type type = op.operand(i)->type();
  if (type.isSmem() && type.swizzle() == 128 && type.stages() == 1)
    return true;
  reporter.error(op, ErrorCode::BadLayout,
                 opText(op) + " needs one stage of shared memory with #swizzle128, not " + operandText(op, i));
  return false;
}

void verifyStMatrix(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tile, reporter) || !expectSwizzle128(op, 1, reporter) || !expectWarpgroup(op, reporter))
    return;
  Type value = op.operand(0)->type(), memory = op.operand(1)->type();
  std::string both = ": " + operandText(op, 0) + ", " + operandText(op, 1);
  if (!isFloat(value.dtype()) || dtypeBytes(value.dtype()) != 2 || value.dtype() != memory.dtype() ||
      value.shape() != memory.shape()) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " needs a 16-bit tile and memory of its type and shape" + both);
    return;
  }
  int64_t columns = memory.extents()[1];
  if (!isWgmmaTile(value, columns))
    reporter.error(op, ErrorCode::BadLayout, opText(op) + " needs 64 rows that lie as wgmma leaves them" + both)
        .note(layoutHint(op, columns));
}

void verifyUndefined(Operation &op, VerifyReporter &reporter) {
  if (!op.result()->type().isInflight())
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected inflight<...>, stated " + op.result()->type().str());
}

namespace {

struct WgmmaShape {
  int64_t n, k;
};

std::optional<WgmmaShape> checkWgmmaOperands(Operation &op, VerifyReporter &reporter) {
  if (!expectSwizzle128(op, 1, reporter))
    return std::nullopt;
  Type a = op.operand(0)->type(), b = op.operand(1)->type();
  std::string both = ": " + operandText(op, 0) + ", " + operandText(op, 1);
  std::vector<int64_t> extents = b.extents();
  bool aTransposed = op.wordAttr("form")[0] == 't', transposed = op.wordAttr("form")[1] == 't';
  WgmmaShape shape{extents[transposed ? 0 : 1], extents[transposed ? 1 : 0]};
  if (!a.isTile() && !expectSwizzle128(op, 0, reporter))
    return std::nullopt;
  if (a.dtype() != b.dtype()) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " needs a and b of one element type" + both);
    return std::nullopt;
  }
  int64_t bytes = dtypeBytes(b.dtype());
  if (bytes != 2 && (a.isTile() || aTransposed || !transposed)) {
    reporter.error(op, ErrorCode::BadLayout,
                   opText(op) + " takes operands of " + std::string(dtypeName(b.dtype())) +
                       " as `nt` from shared memory alone: both with rows of K" + both);
    return std::nullopt;
  }
  if (a.isTile() && aTransposed) {
    reporter.error(op, ErrorCode::BadLayout, opText(op) + " takes a transposed from shared memory alone: " + operandText(op, 0));
    return std::nullopt;
  }
  if (a.rank() != 2 || !a.shape()[aTransposed ? 1 : 0].isConstant(64) || !a.shape()[aTransposed ? 0 : 1].isConstant(shape.k)) {
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " multiplies " + (aTransposed ? "Kx64 transposed" : "64xK") + " by " +
                       (transposed ? "NxK transposed" : "KxN") + both);
    return std::nullopt;
  }
  // PTX ISA, "Asynchronous Warpgroup Level Matrix Shape".
  int64_t stepN = isInteger(b.dtype()) && shape.n > 24 ? 16 : 8, stepK = wgmmaDepthBytes / bytes;
  if (shape.n % stepN || shape.n < 8 || shape.n > 256 || shape.k % stepK) {
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " has N a multiple of " + std::to_string(stepN) + " up to 256 and K a multiple of " +
                       std::to_string(stepK) + ", not N = " + std::to_string(shape.n) + ", K = " + std::to_string(shape.k) + both);
    return std::nullopt;
  }
  if (a.isTile() && !isWgmmaTile(a, shape.k)) {
    reporter.error(op, ErrorCode::BadLayout, opText(op) + " needs a in registers as wgmma has it: " + operandText(op, 0))
        .note(layoutHint(op, shape.k));
    return std::nullopt;
  }
  return shape;
}

} // namespace

void verifyWgmma(Operation &op, VerifyReporter &reporter) {
  if (!expectWarpgroup(op, reporter))
    return;
  auto shape = checkWgmmaOperands(op, reporter);
  if (!shape)
    return;
  Type result = op.result()->type();
  DType sum = computeDType(op.operand(1)->type().dtype());
  if (!result.isInflight() || result.dtype() != sum || !isWgmmaTile(result, shape->n)) {
    reporter
        .error(op, ErrorCode::TypeMismatch,
               opText(op) + ": expected inflight<tile<64x" + std::to_string(shape->n) + "x" + std::string(dtypeName(sum)) +
                   ", ...>> that lies as wgmma has it, stated " + result.str())
        .note(layoutHint(op, shape->n));
    return;
  }
  if (op.numOperands() > 4) {
    reporter.error(op, ErrorCode::OperandCount, opText(op) + " takes a, b, accumulators and a condition");
    return;
  }
  if (op.numOperands() > 2)
    if (Type acc = op.operand(2)->type(); acc != result && acc != op.module().context().withKind(result, TypeKind::Tile)) {
      reporter.error(op, ErrorCode::OperandType,
                     opText(op) + " adds to accumulators of the result's type, not to " + operandText(op, 2));
      return;
    }
  if (op.numOperands() > 3)
    expectCondition(op, 3, reporter);
}

/// Whether the wait covers the group that gave the operand: at least `pending` groups were started after it.
static bool coversGroup(const Operation &wait, const Value &value, int64_t pending) {
  int64_t later = 0;
  for (const Operation *op = wait.prev(); op && op != value.definition(); op = op->prev())
    later += op->is(OpKind::Wgmma);
  return later >= pending;
}

void verifyWgmmaWait(Operation &op, VerifyReporter &reporter) {
  int64_t pending = op.intAttr("pending");
  if (pending < 0 || pending > 7) {
    reporter.error(op, ErrorCode::BadAttribute, "`pending` of " + opText(op) + " is from 0 to 7, not " + std::to_string(pending));
    return;
  }
  if (op.numResults() != op.numOperands()) {
    reporter.error(op, ErrorCode::ResultCount,
                   opText(op) + " of " + countText(op.numOperands(), "value") + " gives as many results, not " +
                       std::to_string(op.numResults()));
    return;
  }
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Type from = op.operand(i)->type(), to = op.result(i)->type();
    bool flies = from.isInflight();
    if (!flies && !from.isTile()) {
      reporter.error(op, ErrorCode::OperandType, opText(op) + " takes tiles and accumulators in flight, not " + operandText(op, i));
      return;
    }
    Type landed = op.module().context().withKind(from, TypeKind::Tile);
    if (to == landed && flies && !coversGroup(op, *op.operand(i), pending)) {
      reporter
          .error(op, ErrorCode::BadStructure,
                 opText(op) + " leaves the latest " + countText(size_t(pending), "group") + " in flight, and that of " +
                     operandName(op, i) + " may be one of them: its accumulators are no tile yet")
          .fix = "wait with `pending = 0`, or state " + from.str();
      return;
    }
    if (to != landed && to != from) {
      expectResult(op, i, landed, reporter);
      return;
    }
  }
}

/// The value whose registers accumulators in flight are in: a region's argument, or null if they were made on the way.
static const Value *registersOf(const Value *value) {
  while (value) {
    const Operation *op = value->definition();
    if (!op)
      return value;
    unsigned source = op->is(OpKind::Wgmma) ? 2 : op->is(OpKind::For) ? value->index() + 3 : value->index();
    bool passes = op->is(OpKind::Wgmma) || op->is(OpKind::For) || op->is(OpKind::WgmmaWait);
    if (!passes || source >= op->numOperands())
      return nullptr;
    value = op->operand(source);
  }
  return nullptr;
}

bool checkInflightSlots(Operation &loop, VerifyReporter &reporter) {
  const Operation *yield = loop.terminatorOfRegion();
  std::span<Value *const> arguments = loop.region().arguments();
  for (unsigned i = 0; i + 1 < arguments.size(); ++i) {
    if (!arguments[i + 1]->type().isInflight() || i >= yield->numOperands())
      continue;
    const Value *from = registersOf(yield->operand(i));
    if (from == arguments[i + 1])
      continue;
    reporter
        .error(
            *yield, ErrorCode::BadStructure,
            "accumulators in flight change places: %" + arguments[i + 1]->name() + " of the loop gets " +
                (from && from->argumentOf() == &loop.region() ? "those of %" + from->name() : "accumulators that are not its own") +
                ", which would be copied while the tensor cores write them")
        .fix = "yield the accumulators that came in as %" + arguments[i + 1]->name() + ", or wait before";
    return false;
  }
  return true;
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
