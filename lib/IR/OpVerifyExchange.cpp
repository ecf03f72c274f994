// Hooks of MachineOps.def: what goes from threads to other threads, in a CTA and in a cluster.
#include "OpVerify.h"

#include "minic/IR/Verifier.h"

#include <algorithm>
#include <set>

namespace minic {

void verifyConvertLayout(Operation &op, VerifyReporter &reporter) {
  if (op.numOperands() != op.numResults() || op.numOperands() == 0) {
    reporter.error(op, ErrorCode::ResultCount, opText(op) + " gives as many tiles as it takes, at least one");
    return;
  }
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (!expectOperand(op, i, TypeKind::Tile, reporter))
      return;
    Type from = op.operand(i)->type(), to = op.result(i)->type();
    if (!to.isTile() || !to.layout() || !from.layout() || to.shape() != from.shape() || to.dtype() != from.dtype()) {
      reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected " + from.str() + " in a layout, stated " + to.str());
      return;
    }
  }
}

void verifySpread(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tile, reporter))
    return;
  Type from = op.operand(0)->type(), to = op.result()->type();
  if (!to.isTile() || !to.layout() || !from.layout() || to.rank() != from.rank() || to.dtype() != from.dtype()) {
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected a tile like " + from.str() + ", stated " + to.str());
    return;
  }
  const Layout &part = *from.layout(), &whole = *to.layout();
  auto isSpread = [&](int axis) { return from.shape()[size_t(axis)] != to.shape()[size_t(axis)]; };
  // Copies of the operand may hold different elements of the result, but not the other way round.
  auto follows = [&](const std::vector<Mode> &p, const std::vector<Mode> &w) {
    bool copies = std::all_of(p.begin(), p.end(), [](const Mode &mode) { return mode.axis < 0; });
    return copies || std::equal(p.begin(), p.end(), w.begin(), w.end(), [&](const Mode &a, const Mode &b) {
             return a.extent == b.extent && (a.axis < 0 || (a.axis == b.axis && (isSpread(a.axis) || a.stride == b.stride)));
           });
  };
  auto position = [&](const Layout &layout, int64_t r, bool spread) {
    std::vector<int64_t> index(size_t(from.rank()));
    layout.addRegister(r, index);
    for (int axis = 0; axis < from.rank(); ++axis)
      if (isSpread(axis) != spread)
        index[size_t(axis)] = 0;
    return index;
  };
  bool fits = follows(part.lane, whole.lane) && follows(part.warp, whole.warp);
  std::set<std::vector<int64_t>> held;
  for (int64_t r = 0; fits && r < part.numRegs(); ++r) {
    held.insert(position(part, r, false));
    fits = position(part, r, true) == std::vector<int64_t>(size_t(from.rank()));
  }
  for (int64_t r = 0; fits && r < whole.numRegs(); ++r)
    fits = held.count(position(whole, r, false)) != 0;
  if (!fits)
    reporter.error(op, ErrorCode::BadLayout,
                   opText(op) + " would move elements between threads: from " + operandText(op, 0) + " to " + to.str());
}

//===-- Clusters -------------------------------------------------------------------------------------------------------------===//

void verifyClusterMeeting(Operation &op, VerifyReporter &reporter) {
  OpKind other = op.is(OpKind::ClusterWait) ? OpKind::ClusterArrive : OpKind::ClusterWait;
  if (clusterCtas(op.function()) == 1)
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " in a kernel without `cluster`");
  else if (op.parentOp())
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " stands in a region; all threads of the cluster come to it");
  else
    for (Operation *before = op.prev();; before = before->prev())
      if (bool isFirst = !before; isFirst || before->is(op.kind()) || before->is(other)) {
        if (op.is(OpKind::ClusterWait) ? isFirst || !before->is(other) : !isFirst && !before->is(other))
          reporter.error(op, ErrorCode::BadStructure,
                         "each cluster_arrive is followed by one cluster_wait, and here " + opText(op) + " follows " +
                             (isFirst ? "none" : opText(*before)));
        return;
      }
}

void verifyClusterStore(Operation &op, VerifyReporter &reporter) {
  if (clusterCtas(op.function()) == 1) {
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " in a kernel without `cluster`");
    return;
  }
  if (!expectOperand(op, 0, TypeKind::Tile, reporter) || !expectOperand(op, 1, TypeKind::Smem, reporter) ||
      !expectMbarrier(op, 2, reporter))
    return;
  Type tile = op.operand(0)->type(), memory = op.operand(1)->type();
  if (tile.shape() != memory.shape() || tile.dtype() != memory.dtype() || memory.stages() != 1 || memory.swizzle())
    reporter.error(op, ErrorCode::OperandType,
                   opText(op) + " needs a tile and shared memory of one shape and element type, in one stage and not swizzled: " +
                       operandText(op, 0) + ", " + operandText(op, 1));
  else if (int64_t bytes = dtypeBytes(tile.dtype()); bytes < 4)
    reporter.error(op, ErrorCode::UnsupportedDType,
                   opText(op) + " moves elements of 4 or 8 bytes, not " + std::string(dtypeName(tile.dtype())));
}

} // namespace minic
