#include "FmaChoice.h"

#include "TensorCoreChoice.h"

#include <algorithm>
#include <cmath>

namespace minic {
namespace {

struct FmaTile {
  int64_t bm, bn, bk, warpsM, warpsN;
};

int64_t programsOf(const FmaTile &tile, int64_t batches, int64_t rows, int64_t columns) {
  return batches * ((rows + tile.bm - 1) / tile.bm) * ((columns + tile.bn - 1) / tile.bn);
}

/// Largest first: the first that gives every multiprocessor a tile and is not half empty, else the last; the one between where
/// sizes are not known. f64 accumulators take two registers each.
FmaTile fmaTile(int64_t batches, std::optional<int64_t> rows, std::optional<int64_t> columns, DType accumulator,
                const TargetInfo &target, std::vector<ConsideredTile> *considered = nullptr) {
  static constexpr FmaTile large{128, 128, 8, 4, 2}, middle{64, 64, 16, 2, 2}, small{32, 32, 16, 1, 1};
  if (!rows || !columns)
    return middle;
  auto fills = [&](const FmaTile &tile) {
    bool isEmpty = *rows <= tile.bm / 2 || *columns <= tile.bn / 2;
    int64_t programs = programsOf(tile, batches, *rows, *columns);
    bool isTaken = !isEmpty && programs >= target.multiprocessors;
    if (considered && !isTaken)
      considered->push_back(
          {tileText(tile.bm, tile.bn, Schedule::Unit::Fma), std::nullopt,
           isEmpty ? "half of it or more would be empty"
                   : std::to_string(programs) + " programs for " + std::to_string(target.multiprocessors) + " multiprocessors"});
    return isTaken;
  };
  if (accumulator != DType::F64 && fills(large))
    return large;
  return fills(middle) ? middle : small;
}

} // namespace

Schedule fmaSchedule(const IterationSpace &space, std::span<Operation *const> ops, DType accumulator, const TargetInfo &target,
                     std::vector<ConsideredTile> *considered) {
  const auto &loops = space.axes();
  size_t m = loops.size() - 3, n = m + 1, k = m + 2;
  Schedule s;
  s.family = Schedule::Family::Matmul;
  for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
    list->assign(loops.size(), 1);
  FmaTile tile = fmaTile(batchesOf(space), loops[m].extent.constant(), loops[n].extent.constant(), accumulator, target, considered);
  s.block[m] = tile.bm;
  s.block[n] = tile.bn;
  s.block[k] = loops[k].chunk ? std::min(tile.bk, loops[k].chunk) : tile.bk;
  if (loops[k].extent.constant().value_or(tile.bk + 1) <= tile.bk) // Two sums lose less than one (sumsBlocksApart).
    s.block[k] = std::min<int64_t>(s.block[k], 8);
  // Functions of f64 take many registers for each element: so a thread has a quarter of them.
  bool isHeavy = accumulator == DType::F64 && std::ranges::any_of(ops, [](const Operation *op) { return op->info().expands; });
  s.warps[m] = tile.warpsM * (isHeavy ? 2 : 1);
  s.warps[n] = tile.warpsN * (isHeavy ? 2 : 1);
  s.lanes[m] = 4;
  s.lanes[n] = 8;
  s.vec[m] = s.vec[n] = accumulator == DType::F64 ? 2 : 4;
  return s;
}

double timeOfFma(int64_t batches, int64_t rows, int64_t columns, int64_t length, DType accumulator, const TargetInfo &target) {
  constexpr double waiting = 1000, multipliesOfWarp = 32, schedulers = 4, share = 0.7; // Of cycles that multiply.
  FmaTile tile = fmaTile(batches, rows, columns, accumulator, target);
  double atOnce = std::ceil(double(programsOf(tile, batches, rows, columns)) / target.multiprocessors);
  double ofBlock = double(tile.bm * tile.bn * tile.bk) / (multipliesOfWarp * share), warps = double(tile.warpsM * tile.warpsN);
  double perBlock = std::max(waiting + ofBlock / std::min(warps, schedulers), atOnce * ofBlock / schedulers);
  return std::ceil(double(length) / double(tile.bk)) * perBlock;
}

std::optional<Schedule> fmaRing(const IterationSpace &space, const Operation &product, const TargetInfo &target) {
  constexpr int64_t bk = 16, stages = 4, worthTurning = 512;
  const auto &loops = space.axes();
  size_t m = loops.size() - 3, n = m + 1, k = m + 2;
  if (target.name != opInfo(OpKind::TmaLoad).needs || product.operand(0)->type().dtype() != DType::F32 ||
      !liesInMatrices(space, product) || !loops[k].extent.isConstant() || (loops[k].chunk && loops[k].chunk < bk))
    return std::nullopt;
  int64_t rows = loops[m].extent.constant().value_or(unknownSize), columns = loops[n].extent.constant().value_or(unknownSize);
  // Copies of rows that do not start at multiples of 16 bytes read an element at a time, and cost more than they bring.
  auto rowOf = [&](unsigned i) { return loops[size_t(inMemory(space, product, i)->axes.back())].extent; };
  if (!rowOf(0).isMultipleOf(16 / dtypeBytes(DType::F32)) || !rowOf(1).isMultipleOf(16 / dtypeBytes(DType::F32)))
    return std::nullopt;
  auto isTurned = [&](unsigned i) { return inMemory(space, product, i)->axes.back() == int(k); };
  if ((isTurned(0) && columns < worthTurning) || (isTurned(1) && rows < worthTurning))
    return std::nullopt;
  constexpr int64_t bm = 128;
  auto programs = [&](int64_t bn) { return batchesOf(space) * ((rows + bm - 1) / bm) * ((columns + bn - 1) / bn); };
  auto time = [&](int64_t bn) { return (programs(bn) + target.multiprocessors - 1) / target.multiprocessors * bn; };
  if (rows <= bm / 2 || programs(128) < target.multiprocessors)
    return std::nullopt;
  Schedule s;
  s.family = Schedule::Family::Matmul;
  for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
    list->assign(loops.size(), 1);
  s.block[m] = bm;
  s.block[n] = time(256) <= time(128) ? 256 : 128;
  s.block[k] = bk;
  s.warps[m] = 4;
  s.warps[n] = 2;
  s.lanes[m] = 4;
  s.lanes[n] = 8;
  s.vec[m] = s.vec[n] = 4;
  s.stages = stages;
  s.raster = 8;
  return s;
}

} // namespace minic
