#include "MatmulChoice.h"

#include "FmaChoice.h"

#include <algorithm>
#include <bit>
#include <set>

namespace minic {

bool sumsBlocksApart(const Schedule &schedule, const Operation &product, bool exact) {
  constexpr int64_t mostSums = 32;
  DType dtype = product.operand(0)->type().dtype();
  if (schedule.unit != Schedule::Unit::Fma)
    return schedule.unit == Schedule::Unit::Wgmma && isStorageOnly(dtype);
  size_t n = schedule.block.size() - 2;
  int64_t sums = schedule.block[n - 1] * schedule.block[n] / schedule.numThreads();
  return !exact && isFloat(dtype) && schedule.stages == 0 && sums <= mostSums;
}

int64_t ringBytes(const Schedule &schedule, const Operation &product, int64_t products) {
  if (schedule.unit == Schedule::Unit::Wgmma) {
    auto form = tensorCoreForm(product);
    return form ? wgmmaBytes(schedule, *form, products) : 0;
  }
  if (schedule.unit == Schedule::Unit::Mma)
    return mmaBytes(schedule, product.operand(0)->type().dtype());
  size_t k = schedule.block.size() - 1;
  int64_t elements = (schedule.block[k - 2] + schedule.block[k - 1]) * schedule.block[k];
  return schedule.stages * elements * dtypeBytes(product.operand(0)->type().dtype());
}

//===- Pieces of k -===//

/// Longer chains would want a tree, and pieces of fewer blocks do not fill a ring.
static constexpr int64_t mostPieces = mostInChain, leastBlocks = 4, blockOfFma = 16;

/// What pieces must bring: the model is no finer.
static constexpr double leastGain = 0.15;

std::optional<int64_t> chooseChunk(Operation &matmul, const TargetInfo &target) {
  Operation *ops[] = {&matmul};
  auto alone = IterationSpace::compute(ops);
  if (!alone || matmul.attr("chunks"))
    return std::nullopt;
  for (const LoopAxis &axis : alone->axes())
    if (!axis.extent.isConstant() || axis.extent.constant() == 0)
      return std::nullopt;
  auto sizeOf = [&](int fromLast) { return *alone->axes()[size_t(alone->rank() - fromLast)].extent.constant(); };
  int64_t rows = sizeOf(3), columns = sizeOf(2), length = sizeOf(1), batches = batchesOf(*alone);
  DType dtype = matmul.operand(0)->type().dtype(), accumulator = computeDType(dtype);
  double operands = double(batches) * double(length) * double(rows + columns) * double(dtypeBytes(dtype));
  double sums = double(batches) * double(rows) * double(columns) * double(dtypeBytes(accumulator));
  auto whole = tensorCoreProduct(*alone, matmul, target);
  if (!whole && fmaRing(*alone, matmul, target)) // Has tiles enough.
    return std::nullopt;
  auto timeInPieces = [&](int64_t pieces, int64_t chunk) {
    if (!whole)
      return timeOfFma(batches * pieces, rows, columns, chunk, accumulator, target);
    TensorCoreProduct cut = *whole;
    cut.length = chunk;
    cut.batches *= pieces;
    return timeOf(cut, operands, target);
  };
  double least = timeInPieces(1, length) * (1 - leastGain);
  std::optional<int64_t> best;
  int64_t leastChunk = leastBlocks * (whole ? whole->form.depth : blockOfFma);
  for (int64_t chunk = int64_t(std::bit_ceil(uint64_t(length))) / 2; chunk >= leastChunk; chunk /= 2) {
    int64_t pieces = (length + chunk - 1) / chunk;
    if (pieces > mostPieces)
      break;
    // Sums are written and read, on an H200 at 5 TB/s, half the rate of operands.
    double time = timeInPieces(pieces, chunk) + secondLaunch + trafficOf(4 * double(pieces) * sums) / target.multiprocessors;
    if (time < least) { // So must twice as many pieces.
      least = time * (1 - leastGain);
      best = chunk;
    }
  }
  return best;
}

//===- Regions -===//

static std::vector<Operation *> contractionsOf(std::span<Operation *const> ops) {
  std::vector<Operation *> contractions;
  for (Operation *op : ops)
    if (op->info().axes == AxisRule::Contract)
      contractions.push_back(op);
  return contractions;
}

std::optional<Schedule> matmulSchedule(const IterationSpace &space, std::span<Operation *const> ops, const TargetInfo &target,
                                       bool exact, std::vector<ConsideredTile> *considered) {
  std::vector<Operation *> contractions = contractionsOf(ops);
  // Kernels of the matmul family reduce with `dot`, and rows of the result where a program has them whole.
  for (Operation *op : ops)
    if (op->info().axes == AxisRule::Reduce && !space.reducesHeld(*op))
      return std::nullopt;
  // What feeds no product must not run along k: its sweep is over.
  std::set<const Operation *> feeding;
  for (size_t i = ops.size(); i-- > 0;)
    if (ops[i]->info().axes == AxisRule::Contract || feeding.count(ops[i]))
      for (const Value *operand : ops[i]->operands())
        feeding.insert(operand->definition());
  for (Operation *op : ops)
    for (unsigned i = 0; i < op->numOperands() && op->info().axes != AxisRule::Contract && !feeding.count(op); ++i)
      if (space.isReduced(space.axesOfUse(op, i)))
        return std::nullopt;
  // The loops must be batch axes, then row, column and contracted axis.
  size_t rank = space.axes().size();
  if (rank < 3 || !space.axes()[rank - 1].reduced || space.axes()[rank - 2].reduced || space.axes()[rank - 3].reduced)
    return std::nullopt;
  for (size_t axis = 0; axis < rank; ++axis)
    if (space.axes()[axis].held && axis != rank - 2)
      return std::nullopt;
  DType type = contractions.back()->operand(0)->type().dtype();
  bool isAllowed = !exact || isInteger(type); // Integers wrap in any order.
  if (isAllowed && feedsProductAlone(space, ops))
    if (auto product = tensorCoreProducts(space, contractions, target)) {
      if (product->unit == Schedule::Unit::Wgmma) {
        if (auto timed = wgmmaSchedule(*product, countWholeValues(space, ops), target, considered))
          return timed->schedule;
      } else if (!space.holdsRows()) {
        return mmaSchedule(*product, target, considered).schedule;
      }
    }
  if (space.holdsRows()) // No other unit's warps have rows whole.
    return std::nullopt;
  if (contractions.size() == 1 && feedsProductAlone(space, ops))
    if (auto ring = fmaRing(space, *contractions[0], target))
      return ring;
  if (contractions.size() > 2) // Their sums beside each other spill.
    return std::nullopt;
  return fmaSchedule(space, ops, computeDType(type), target, considered);
}

/// Cycles of L2 in which results that one kernel leaves for another are written and read: of all products but the last.
static double handingOver(std::span<Operation *const> products, const TargetInfo &target) {
  double bytes = 0;
  for (const Operation *product : products.first(products.size() - 1)) {
    double one = double(dtypeBytes(product->result()->type().dtype()));
    for (const DimExpr &size : product->result()->type().shape())
      one *= double(size.constant().value_or(unknownSize));
    bytes += 2 * one;
  }
  return trafficOf(bytes / double(target.multiprocessors));
}

bool losesTensorCores(const Schedule &schedule, const IterationSpace &space, std::span<Operation *const> ops,
                      const TargetInfo &target, bool exact) {
  std::vector<Operation *> contractions = contractionsOf(ops);
  if (exact || contractions.empty() || (contractions.size() == 1 && schedule.usesTensorCores()))
    return false;
  std::vector<TensorCoreProduct> alone;
  for (Operation *contraction : contractions) {
    auto own = IterationSpace::compute({&contraction, 1});
    if (auto product = own ? tensorCoreProduct(*own, *contraction, target) : std::nullopt)
      alone.push_back(*product);
  }
  if (!schedule.usesTensorCores())
    return !alone.empty();
  // Together, the first operand is read once, and what one product gives for another never leaves registers. But all share the
  // registers for sums, so the tile has fewer columns of each: two have 128 where one has 256, of as many rows, which is the same
  // traffic from L2; three have 64, of fewer rows for what they bring.
  double apart = handingOver(contractions, target);
  for (const TensorCoreProduct &product : alone)
    apart += wgmmaSchedule(product, std::nullopt, target)->cycles;
  auto together = wgmmaSchedule(*tensorCoreProducts(space, contractions, target), countWholeValues(space, ops), target);
  return !together || together->cycles > apart;
}

} // namespace minic
