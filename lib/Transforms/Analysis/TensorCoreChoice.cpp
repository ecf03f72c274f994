#include "TensorCoreChoice.h"

#include "minic/IR/SharedLayout.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace minic {

//===- What they take -===//

/// Along columns and the contracted axis; below it a block would be mostly empty, and one launch is quicker than copies before it.
static constexpr int64_t leastWork = 64;

/// Whether there is an mma for such operands, of f32 as what they may be rounded to.
static bool isMultipliedByMma(const Operation &product) {
  auto form = tensorCoreForm(product);
  return form && form->parts == 1 && opInfo(OpKind::Mma).dtypes.contains(product.operand(0)->type().dtype());
}

static bool hasWgmma(const TargetInfo &target) { return target.name == opInfo(OpKind::Wgmma).needs; }

/// The tensor cores of a target that take such a product: those of sm_90a's warpgroups, else those of a warp where they are
/// faster than fused multiply-adds.
static Schedule::Unit unitFor(const Operation &product, const TargetInfo &target) {
  DType dtype = product.operand(0)->type().dtype();
  if (!tensorCoreForm(product))
    return Schedule::Unit::Fma;
  if (hasWgmma(target) && opInfo(OpKind::Wgmma).dtypes.contains(dtype))
    return Schedule::Unit::Wgmma;
  bool isFaster = dtype != DType::F64 || target.mmaRateOfF64 > 0;
  return isFaster && isMultipliedByMma(product) ? Schedule::Unit::Mma : Schedule::Unit::Fma;
}

std::optional<TensorCoreProduct> tensorCoreProduct(const IterationSpace &space, const Operation &product,
                                                   const TargetInfo &target) {
  const auto &loops = space.axes();
  Schedule::Unit unit = unitFor(product, target);
  if (unit == Schedule::Unit::Fma || loops.size() < 3)
    return std::nullopt;
  int m = space.rank() - 3, n = m + 1, k = m + 2;
  auto columns = loops[size_t(n)].extent.constant(), length = loops[size_t(k)].extent.constant();
  if (!liesInMatrices(space, product) || !columns || !length || *columns < leastWork || *length < leastWork)
    return std::nullopt;
  TensorCoreForm form = *tensorCoreForm(product);
  if (int64_t chunk = loops[size_t(k)].chunk) {
    if (chunk < form.depth)
      return std::nullopt; // A block would reach into the next piece.
    length = std::min(*length, chunk);
  }
  return TensorCoreProduct{.rows = loops[size_t(m)].extent,
                           .columns = *columns,
                           .length = *length,
                           .batches = batchesOf(space),
                           .rank = size_t(space.rank()),
                           .dtype = product.operand(0)->type().dtype(),
                           .form = form,
                           .unit = unit};
}

std::optional<TensorCoreProduct> tensorCoreProducts(const IterationSpace &space, std::span<Operation *const> products,
                                                    const TargetInfo &target) {
  auto first = tensorCoreProduct(space, *products[0], target);
  if (!first || products.size() == 1)
    return first;
  if (first->unit != Schedule::Unit::Wgmma)
    return std::nullopt;
  auto lhs = inMemory(space, *products[0], 0), rhs = inMemory(space, *products[0], 1);
  for (const Operation *product : products.subspan(1)) {
    auto next = tensorCoreProduct(space, *product, target);
    if (!next || next->form != first->form || inMemory(space, *product, 0) != lhs ||
        inMemory(space, *product, 1)->axes != rhs->axes)
      return std::nullopt;
  }
  first->products = int64_t(products.size());
  return first;
}

std::optional<TensorCoreForm> tensorCoreForm(const Operation &product) {
  DType dtype = product.operand(0)->type().dtype();
  if (dtype == DType::F32) {
    std::string_view precision = product.wordAttr("precision");
    if (precision == "bf16x6")
      return TensorCoreForm{.depth = swizzledRow / dtypeBytes(DType::BF16), .parts = 3, .products = 6, .promotes = true};
    return precision == "tf32" ? std::optional(TensorCoreForm{.depth = swizzledRow / dtypeBytes(dtype)}) : std::nullopt;
  }
  if (!opInfo(OpKind::Wgmma).dtypes.contains(dtype) && !opInfo(OpKind::Mma).dtypes.contains(dtype))
    return std::nullopt;
  return TensorCoreForm{.depth = swizzledRow / dtypeBytes(dtype), .promotes = isStorageOnly(dtype)};
}

std::string whyNoMma(const Schedule &schedule, const Operation &product) {
  if (!isMultipliedByMma(product))
    return "its product is not one that mma takes";
  size_t n = schedule.block.size() - 2;
  DType dtype = product.operand(0)->type().dtype();
  MmaTiling tiling{dtype, schedule.block[n - 1], schedule.block[n], schedule.warps[n - 1], schedule.warps[n]};
  if (schedule.block[n + 1] < tiling.depth())
    return "mma has blocks of at least " + std::to_string(tiling.depth()) + " of k for " + std::string(dtypeName(dtype));
  constexpr int64_t mostBytes = 512; // Of a thread's 255 registers; fragments and addresses take the rest.
  int64_t sums = tiling.rows * tiling.columns / schedule.numThreads();
  if (sums * dtypeBytes(tiling.sums()) > mostBytes)
    return "a thread would hold " + std::to_string(sums) + " accumulators of " + std::string(dtypeName(tiling.sums())) +
           ", more than " + std::to_string(mostBytes / dtypeBytes(tiling.sums()));
  return "";
}

//===- Schedules -===//

int64_t wgmmaBytes(const Schedule &schedule, const TensorCoreForm &form, int64_t products) {
  constexpr int64_t bytes = 2, reserved = 2048; // Of the result.
  size_t n = schedule.block.size() - 2;
  int64_t bm = schedule.block[n - 1], blocks = form.parts * (bm + products * schedule.block[n]) * swizzledRow;
  return schedule.stages * blocks + bm / 64 * 2 * 64 * 64 * bytes + reserved;
}

int64_t mmaBytes(const Schedule &schedule, DType dtype) {
  constexpr int64_t alignment = 1024;
  size_t n = schedule.block.size() - 2;
  int64_t bm = schedule.block[n - 1], bn = schedule.block[n];
  MmaTiling tiling{dtype, bm, bn, schedule.warps[n - 1], schedule.warps[n]};
  auto [partRows, partColumns] = tiling.part();
  int64_t part = partRows * (partColumns + MmaTiling::partPadding) * dtypeBytes(tiling.sums());
  return schedule.stages * (bm + bn) * schedule.block[n + 1] * dtypeBytes(dtype) + (part + alignment - 1) / alignment * alignment;
}

/// A schedule for tensor cores that is all 1 but for what its unit says.
static Schedule tensorCoreSchedule(const TensorCoreProduct &product, Schedule::Unit unit, int64_t bm, int64_t bn, int64_t bk) {
  Schedule s;
  s.family = Schedule::Family::Matmul;
  s.unit = unit;
  for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
    list->assign(product.rank, 1);
  size_t n = product.rank - 2;
  s.block[n - 1] = bm;
  s.block[n] = bn;
  s.block[n + 1] = bk;
  s.lanes[n] = 32;
  s.raster = 8;
  return s;
}

std::string tileText(int64_t bm, int64_t bn, Schedule::Unit unit) {
  std::string_view unitName = unit == Schedule::Unit::Wgmma ? "wgmma" : unit == Schedule::Unit::Mma ? "mma" : "fma";
  return std::to_string(bm) + "x" + std::to_string(bn) + ", " + std::string(unitName);
}

/// Cycles of all waves of programs, where one takes `perBlock` for each block of k.
static double cyclesOf(const TensorCoreProduct &product, int64_t bm, int64_t bn, int64_t bk, double perBlock,
                       const TargetInfo &target) {
  constexpr double filling = 1500; // Until the first block is there.
  int64_t rows = product.rows.constant().value_or(unknownSize);
  int64_t programs = product.batches * ((rows + bm - 1) / bm) * ((product.columns + bn - 1) / bn);
  double waves = std::ceil(double(programs) / target.multiprocessors);
  return waves * std::ceil(double(product.length) / double(bk)) * perBlock + filling;
}

std::optional<int64_t> countWholeValues(const IterationSpace &space, std::span<Operation *const> ops) {
  if (!space.holdsRows())
    return std::nullopt;
  auto isWhole = [&](const std::vector<int> &axes) {
    return space.runsAlong(axes, space.rank() - 3) && space.runsAlong(axes, space.rank() - 2);
  };
  std::map<const Operation *, size_t> positions; // Looked up only.
  for (size_t i = 0; i < ops.size(); ++i)
    positions[ops[i]] = i;
  std::vector<int64_t> change(ops.size() + 1, 0); // One that ends with an op leaves its registers to the result.
  for (size_t i = 0; i < ops.size(); ++i) {
    for (const Value *result : ops[i]->results()) {
      if (isFreeInRegion(*ops[i]) || !isWhole(space.axesOf(result)))
        continue;
      size_t last = i;
      for (const Use &use : result->uses()) { // What others read lives to the end.
        auto user = positions.find(use.user);
        last = std::max(last, user == positions.end() ? ops.size() : user->second);
      }
      ++change[i];
      --change[last];
    }
    for (unsigned k = 0; k < ops[i]->numOperands(); ++k) // What is read has no later use.
      change[0] += !space.has(ops[i]->operand(k)) && isWhole(space.axesOfUse(ops[i], k));
  }
  int64_t live = 0, most = 1;
  for (int64_t difference : change)
    most = std::max(most, live += difference);
  return most;
}

std::optional<TimedSchedule> wgmmaSchedule(const TensorCoreProduct &product, std::optional<int64_t> wholeValues,
                                           const TargetInfo &target, std::vector<ConsideredTile> *considered) {
  struct Tile {
    int64_t bm, bn;
  };
  static constexpr Tile tiles[] = {{128, 256}, {128, 128}, {64, 256}, {64, 128}, {128, 64}, {64, 64}};
  constexpr int64_t enoughStages = 8, mostRegisters = 200;
  const TensorCoreForm &form = product.form;
  int64_t rows = product.rows.constant().value_or(tiles[0].bm); // No others are brought.
  const Tile *best = nullptr;
  double least = 0, leastOfAll = HUGE_VAL;
  auto note = [&](const Tile &tile, std::optional<double> cycles, std::string why = {}) {
    if (considered)
      considered->push_back({tileText(tile.bm, tile.bn, Schedule::Unit::Wgmma), cycles, std::move(why)});
  };
  for (const Tile &tile : tiles) {
    int64_t columns = product.products * tile.bn;
    if ((tile.bn > 64 && product.columns <= tile.bn / 2) || (tile.bm > 64 && rows <= tile.bm / 2)) {
      note(tile, std::nullopt, "half of it or more would be empty");
      continue;
    }
    if (columns * (form.promotes ? 2 : 1) > mostWgmmaColumns) {
      note(tile, std::nullopt, "a warpgroup has no registers for its sums");
      continue;
    }
    double math = double(form.products * tile.bm * columns) / 32; // m64nN takes N / 2 cycles for 32 bytes of K.
    double traffic = trafficOf(double(form.parts * (std::min(tile.bm, rows) + columns) * swizzledRow));
    double cycles = cyclesOf(product, tile.bm, tile.bn, form.depth, std::max(math, traffic), target);
    leastOfAll = std::min(leastOfAll, cycles);
    if (wholeValues && (tile.bn < product.columns || *wholeValues * 64 * tile.bn / 128 > mostRegisters)) {
      note(tile, cycles, tile.bn < product.columns ? "it does not hold whole rows, which are reduced" : "whole rows would spill");
      continue;
    }
    note(tile, cycles);
    if (!best || cycles < least) {
      best = &tile;
      least = cycles;
    }
  }
  if (!best || least > leastOfAll + secondLaunch + ownWaits)
    return std::nullopt;
  Schedule s = tensorCoreSchedule(product, Schedule::Unit::Wgmma, best->bm, best->bn, form.depth);
  s.warps[product.rank - 3] = best->bm / 16;
  s.stages = enoughStages;
  while (s.stages > 1 && wgmmaBytes(s, form, product.products) > target.maxSharedBytesPerCta)
    --s.stages;
  return TimedSchedule{s, least};
}

TimedSchedule mmaSchedule(const TensorCoreProduct &product, const TargetInfo &target, std::vector<ConsideredTile> *considered) {
  struct Tile {
    int64_t bm, bn, bytesOfK, warpsM, warpsN;
  };
  static constexpr Tile tiles[] = {{128, 256, 128, 2, 4}, {128, 256, 64, 2, 4}, {128, 128, 64, 2, 2}, {128, 64, 64, 2, 2},
                                   {64, 128, 64, 2, 2},   {64, 64, 128, 2, 2},  {32, 64, 128, 1, 4},  {16, 64, 128, 1, 4}};
  static constexpr Tile tilesOfF64[] = {{128, 64, 128, 4, 2}, {64, 64, 128, 2, 2}, {32, 64, 128, 1, 4}, {16, 64, 128, 1, 4}};
  constexpr int64_t enoughStages = 4, fewStages = 3;
  int64_t bytes = dtypeBytes(product.dtype);
  double rate = product.dtype == DType::F64 ? target.mmaRateOfF64 : target.mmaRate * 2.0 / double(bytes);
  auto rows = product.rows.constant();
  const Tile *best = nullptr;
  double least = 0;
  for (const Tile &tile : product.dtype == DType::F64 ? std::span<const Tile>(tilesOfF64) : tiles) {
    if ((tile.bn > 64 && product.columns <= tile.bn / 2) || (rows && tile.bm > 16 && *rows <= tile.bm / 2))
      continue;
    if (tile.bytesOfK > 64 && fewStages * (tile.bm + tile.bn) * tile.bytesOfK > target.maxSharedBytesPerCta)
      continue;
    int64_t bk = tile.bytesOfK / bytes;
    double math = double(tile.bm * tile.bn * bk) / rate;
    double shared = double((tile.bm * tile.warpsN + tile.bn * tile.warpsM) * tile.bytesOfK) / 128;
    double perBlock = math + (shared + trafficOf(double((tile.bm + tile.bn) * tile.bytesOfK))) / 4;
    double cycles = cyclesOf(product, tile.bm, tile.bn, bk, perBlock, target);
    if (considered)
      considered->push_back({tileText(tile.bm, tile.bn, Schedule::Unit::Mma), cycles, ""});
    if (!best || cycles < least) {
      best = &tile;
      least = cycles;
    }
  }
  Schedule s = tensorCoreSchedule(product, Schedule::Unit::Mma, best->bm, best->bn, best->bytesOfK / bytes);
  s.warps[product.rank - 3] = best->warpsM;
  s.warps[product.rank - 2] = best->warpsN;
  for (s.stages = enoughStages; s.stages > 1 && mmaBytes(s, product.dtype) > target.maxSharedBytesPerCta;)
    --s.stages;
  return {s, least};
}

double timeOf(const TensorCoreProduct &product, double bytesOfOperands, const TargetInfo &target) {
  bool isWgmma = product.unit == Schedule::Unit::Wgmma;
  double cycles = isWgmma ? wgmmaSchedule(product, std::nullopt, target)->cycles : mmaSchedule(product, target).cycles;
  return std::max(cycles, bytesOfOperands / (20.0 * target.multiprocessors));
}

} // namespace minic
