// Hooks of the ops of wgmma: the tensor cores of a warpgroup, and what may touch accumulators in flight.
#include "OpVerify.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"
#include "minic/IR/Verifier.h"

namespace minic {

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

} // namespace minic
