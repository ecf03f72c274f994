// Hooks of MachineOps.def: copies by threads, and the tensor cores of a warp.
#include "OpVerify.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"
#include "minic/IR/Verifier.h"

#include <algorithm>

namespace minic {

//===-- Copies --------------------------------------------------------------------------------------------------------------===//

/// Buffer and memory of a copy fit each other.
static bool checkCopyTypes(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Buffer, reporter) || !expectOperand(op, 1, TypeKind::Smem, reporter))
    return false;
  Type from = op.operand(0)->type(), to = op.operand(1)->type();
  std::string both = ": " + operandText(op, 0) + ", " + operandText(op, 1);
  if (from.isStrided() || from.rank() < 2 || from.dtype() != to.dtype())
    reporter.error(op, ErrorCode::OperandType, opText(op) + " needs a row-major matrix and memory of its element type" + both);
  else if (!to.swizzle() || to.stages() != 1)
    reporter.error(op, ErrorCode::OperandType, opText(op) + " needs one stage of swizzled shared memory" + both);
  else if (op.numOperands() - 2 != unsigned(from.rank()))
    reporter.error(op, ErrorCode::OperandCount,
                   opText(op) + " needs one index for each axis of the buffer, " + countText(size_t(from.rank()), "index") +
                       ", not " + std::to_string(op.numOperands() - 2));
  else
    return true;
  return false;
}

/// Pieces of whole words that start where words do.
static bool checkPieces(Operation &op, VerifyReporter &reporter) {
  Type from = op.operand(0)->type(), to = op.operand(1)->type();
  int64_t vec = op.intAttr("vec"), bytes = vec * dtypeBytes(to.dtype()), threads = threadsAround(op);
  if (vec < 1 || vec > 16 || (bytes != 4 && bytes != 8 && bytes != 16)) {
    reporter.error(op, ErrorCode::BadAttribute,
                   opText(op) + " copies 4, 8 or 16 bytes at once, not " + std::to_string(vec) + " elements of " +
                       std::string(dtypeName(to.dtype())));
    return false;
  }
  int64_t last = constantOf(*op.operands().back(), 0);
  if (!from.shape().back().isMultipleOf(vec) || last % vec) {
    reporter.error(op, ErrorCode::BadLayout,
                   opText(op) + " copies " + std::to_string(bytes) + " bytes at once, and pieces of " + operandText(op, 0) +
                       " from " + std::to_string(last) + " on do not start at multiples of that");
    return false;
  }
  if (threads % 32 || threads == 0 || !layoutCovers(cpAsyncLayout(to, vec, threads / 32), to.extents())) {
    reporter.error(op, ErrorCode::BadLayout,
                   opText(op) + " divides memory among threads side by side: " + operandText(op, 1) + " has no such pieces for " +
                       std::to_string(threads) + " threads");
    return false;
  }
  return true;
}

void verifyCpAsync(Operation &op, VerifyReporter &reporter) {
  if (!checkCopyTypes(op, reporter))
    return;
  for (unsigned i = 2; i < op.numOperands(); ++i)
    if (!expectIndex(op, i, reporter))
      return;
  if (expectAxes(op, "mask", 2, "the memory", true, reporter))
    checkPieces(op, reporter);
}

void verifyCpAsyncWait(Operation &op, VerifyReporter &reporter) {
  if (int64_t pending = op.intAttr("pending"); pending < 0 || pending > maxStages)
    reporter.error(op, ErrorCode::BadAttribute,
                   "`pending` of " + opText(op) + " is from 0 to " + std::to_string(maxStages) + ", not " +
                       std::to_string(pending));
}

//===-- Fragments -----------------------------------------------------------------------------------------------------------===//

/// Calls `fits` for each way to place the warps along rows and columns; true if it is for one.
template <typename Fits> static bool someTiling(DType dtype, int64_t warps, int64_t rows, int64_t columns, Fits &&fits) {
  for (int64_t along = 1; along <= warps; ++along)
    if (warps % along == 0 && rows % (16 * along) == 0 && columns % (8 * (warps / along)) == 0 &&
        fits(MmaTiling{dtype, rows, columns, along, warps / along}))
      return true;
  return false;
}

static bool isMultiplied(DType dtype) { return opInfo(OpKind::Mma).dtypes.contains(dtype); }

static int64_t depthOf(DType dtype) { return MmaTiling{.dtype = dtype}.depth(); }

static bool liesAs(Type tile, const Layout &layout) { return tile.layout() && tile.layout()->normalized() == layout; }

static bool isFragment(Type tile, int64_t threads) {
  if (tile.rank() != 2 || threads % 32)
    return false;
  std::vector<int64_t> extents = tile.extents();
  int64_t warps = threads / 32, depth = depthOf(tile.dtype());
  DType dtype = tile.dtype();
  bool isA = extents[1] == depth &&
             someTiling(dtype, warps, extents[0], 16 * warps, [&](const MmaTiling &tiling) { return liesAs(tile, tiling.a()); });
  return isA || (extents[0] == depth && someTiling(dtype, warps, 16 * warps, extents[1],
                                                   [&](const MmaTiling &tiling) { return liesAs(tile, tiling.b()); }));
}

void verifyLdMatrix(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Smem, reporter) || !expectIndex(op, 1, reporter) || !expectIndex(op, 2, reporter))
    return;
  Type memory = op.operand(0)->type(), tile = op.result()->type();
  if (!memory.swizzle() || memory.stages() != 1 || !isMultiplied(memory.dtype())) {
    reporter.error(op, ErrorCode::OperandType,
                   opText(op) + " needs one stage of swizzled shared memory with elements that mma multiplies, not " +
                       operandText(op, 0));
    return;
  }
  if (!tile.isTile() || tile.dtype() != memory.dtype() || !isFragment(tile, threadsAround(op))) {
    reporter.error(op, ErrorCode::TypeMismatch,
                   opText(op) + ": expected a tile of " + std::string(dtypeName(memory.dtype())) +
                       " that lies as the kernel's warps hold an operand of mma, stated " + tile.str());
    return;
  }
  std::vector<int64_t> whole = memory.extents(), part = tile.extents();
  int contracted = tile.layout()->lane[0].axis; // Along which four lanes lie side by side.
  if (op.wordAttr("form") == "t") {
    std::swap(part[0], part[1]);
    contracted = 1 - contracted;
  }
  if (contracted == 0 && !canTurnFragments(memory.dtype())) {
    reporter.error(op, ErrorCode::OperandType,
                   opText(op) + " turns 16-bit elements and f64 alone, and the rows of " + operandText(op, 0) +
                       " are not those of the contracted axis");
    return;
  }
  for (unsigned axis : {0u, 1u}) {
    int64_t at = constantOf(*op.operand(1 + axis), 0), unit = fragmentUnit(memory.dtype(), int(axis));
    if (at < 0 || at % unit || at + part[axis] > whole[axis]) {
      reporter.error(op, ErrorCode::ShapeMismatch,
                     opText(op) + ": " + std::to_string(part[axis]) + " from " + std::to_string(at) + " on, along axis " +
                         std::to_string(axis) + ", are not a box of " + operandText(op, 0) + " that starts at a multiple of " +
                         std::to_string(unit));
      return;
    }
  }
}

void verifyMma(Operation &op, VerifyReporter &reporter) {
  for (unsigned i : {0u, 1u, 2u})
    if (!expectOperand(op, i, TypeKind::Tile, reporter))
      return;
  Type a = op.operand(0)->type(), b = op.operand(1)->type(), acc = op.operand(2)->type();
  std::string all = ": " + operandText(op, 0) + ", " + operandText(op, 1) + ", " + operandText(op, 2);
  std::string_view sums = dtypeName(computeDType(a.dtype()));
  if (a.dtype() != b.dtype() || acc.dtype() != computeDType(a.dtype())) {
    reporter.error(op, ErrorCode::OperandType,
                   opText(op) + " needs a and b of one element type, and " + std::string(sums) + " accumulators" + all);
    return;
  }
  int64_t depth = depthOf(a.dtype());
  bool agree = a.rank() == 2 && b.rank() == 2 && acc.rank() == 2;
  if (!agree || a.extents() != std::vector{acc.extents()[0], depth} || b.extents() != std::vector{depth, acc.extents()[1]}) {
    std::string k = std::to_string(depth);
    reporter.error(op, ErrorCode::ShapeMismatch, opText(op) + " multiplies Mx" + k + " by " + k + "xN" + all);
    return;
  }
  int64_t threads = threadsAround(op);
  bool fits =
      threads % 32 == 0 && someTiling(a.dtype(), threads / 32, acc.extents()[0], acc.extents()[1], [&](const MmaTiling &tiling) {
        return liesAs(a, tiling.a()) && liesAs(b, tiling.b()) && liesAs(acc, tiling.accumulators());
      });
  if (!fits) {
    reporter.error(op, ErrorCode::BadLayout,
                   opText(op) + " needs tiles that lie as the kernel's " + std::to_string(threads / 32) +
                       " warps hold its operands" + all);
    return;
  }
  expectResult(op, 0, acc, reporter);
}

} // namespace minic
