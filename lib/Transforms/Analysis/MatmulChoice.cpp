#include "MatmulChoice.h"

#include "minic/IR/SharedLayout.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

namespace minic {

//===- Tensor cores -===//

namespace {

/// Along columns and the contracted axis; below it a block would be mostly empty, and one launch is quicker than copies before it.
constexpr int64_t leastWork = 64;
constexpr size_t maxTmaRank = 5;      ///< PTX ISA, "Tensors".
constexpr int64_t unknownSize = 4096; ///< What the cost model takes for a size that is not known.

/// Whether there is an mma for such operands, of f32 as what they may be rounded to.
bool isMultipliedByMma(const Operation &product) {
  auto form = tensorCoreForm(product);
  return form && form->parts == 1 && opInfo(OpKind::Mma).dtypes.contains(product.operand(0)->type().dtype());
}

bool hasWgmma(const TargetInfo &target) { return target.name == opInfo(OpKind::Wgmma).needs; }

/// The tensor cores of a target that take such a product: those of sm_90a's warpgroups, else those of a warp where they are
/// faster than fused multiply-adds.
Schedule::Unit unitFor(const Operation &product, const TargetInfo &target) {
  DType dtype = product.operand(0)->type().dtype();
  if (!tensorCoreForm(product))
    return Schedule::Unit::Fma;
  if (hasWgmma(target) && opInfo(OpKind::Wgmma).dtypes.contains(dtype))
    return Schedule::Unit::Wgmma;
  bool isFaster = dtype != DType::F64 || target.mmaRateOfF64 > 0;
  return isFaster && isMultipliedByMma(product) ? Schedule::Unit::Mma : Schedule::Unit::Fma;
}

/// Products that the target's tensor cores take: operands that lie in memory, where TMA or copies of 16 bytes reach them or a copy
/// of them (`prepare-operands`).
struct TensorCoreProduct {
  DimExpr rows;
  int64_t columns, length, batches; ///< Of one product; pieces of k count as batches, and the length is that of one.
  size_t rank;                      ///< Of the loops.
  DType dtype;                      ///< Of the operands.
  TensorCoreForm form;
  Schedule::Unit unit;
  int64_t products = 1; ///< In one kernel, with one first operand.
};

/// How an operand of a product lies in memory, behind transposes.
struct InMemory {
  const Value *value;
  std::vector<int> axes; ///< Of the loops, in the order of memory.
  bool operator==(const InMemory &) const = default;
};

/// None if another op of the region, or one that is free in a region and has no memory, makes the operand.
std::optional<InMemory> inMemory(const IterationSpace &space, const Operation &product, unsigned i) {
  std::vector<int> axes = space.axesOfUse(&product, i);
  const Value *value = product.operand(i);
  while (value->definition() && value->definition()->is(OpKind::Transpose)) {
    std::vector<int64_t> perm = value->definition()->intsAttr("perm");
    std::vector<int> inner(axes.size());
    for (size_t a = 0; a < axes.size(); ++a)
      inner[size_t(perm[a])] = axes[a];
    axes = inner;
    value = value->definition()->operand(0);
  }
  const Operation *maker = value->definition();
  if (maker && (space.has(value) || isFreeInRegion(*maker)))
    return std::nullopt;
  return InMemory{value, axes};
}

/// What runs along the contracted axis feeds the product alone. A transpose that is a result too, or is viewed or read at other
/// indices, would be stored in a sweep of its own.
bool feedsProductAlone(const IterationSpace &space, std::span<Operation *const> ops) {
  for (const Operation *op : ops)
    for (const Value *value : op->results())
      for (const Use &use : space.isInner(value) ? value->uses() : std::span<const Use>())
        if (use.user->info().terminator || use.user->is(OpKind::Reshape) || use.user->is(OpKind::Custom) ||
            readsFromMemory(*use.user, use.index))
          return false;
  return true;
}

/// True if both operands lie in memory as matrices, or several one after the other, that TMA can bring in boxes.
bool liesInMatrices(const IterationSpace &space, const Operation &product) {
  auto lhs = inMemory(space, product, 0), rhs = inMemory(space, product, 1);
  int m = space.rank() - 3, n = m + 1, k = m + 2;
  auto endsWith = [](const std::vector<int> &axes, int row, int column) {
    return axes.size() <= maxTmaRank && axes.size() >= 2 && axes[axes.size() - 2] == row && axes.back() == column;
  };
  // No tensor map has a size of 0.
  bool isEmpty = std::ranges::any_of(space.axes(), [](const auto &axis) { return axis.extent.constant() == 0; });
  return !isEmpty && lhs && rhs && (endsWith(lhs->axes, m, k) || endsWith(lhs->axes, k, m)) &&
         (endsWith(rhs->axes, k, n) || endsWith(rhs->axes, n, k));
}

/// Batches and pieces, or as many as are known.
int64_t batchesOf(const IterationSpace &space) {
  int64_t batches = 1;
  for (int axis = 0; axis < space.rank() - 3; ++axis)
    batches *= space.axes()[size_t(axis)].extent.constant().value_or(1);
  return batches;
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

/// The products of a region as the work of one kernel. Several have one first operand, and second ones that lie alike: beside each
/// other these are one with the columns of all, and so are the sums of a warpgroup.
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

/// Blocks of the operands, two parts of 64x64 of the result for each warpgroup, mbarriers, alignment.
int64_t wgmmaBytes(const Schedule &schedule, const TensorCoreForm &form, int64_t products) {
  constexpr int64_t bytes = 2, reserved = 2048; // Of the result.
  size_t n = schedule.block.size() - 2;
  int64_t bm = schedule.block[n - 1], blocks = form.parts * (bm + products * schedule.block[n]) * swizzledRow;
  return schedule.stages * blocks + bm / 64 * 2 * 64 * 64 * bytes + reserved;
}

/// Blocks of the operands, and a part of the result on its way.
int64_t mmaBytes(const Schedule &schedule, DType dtype) {
  constexpr int64_t alignment = 1024;
  size_t n = schedule.block.size() - 2;
  int64_t bm = schedule.block[n - 1], bn = schedule.block[n];
  MmaTiling tiling{dtype, bm, bn, schedule.warps[n - 1], schedule.warps[n]};
  auto [partRows, partColumns] = tiling.part();
  int64_t part = partRows * (partColumns + MmaTiling::partPadding) * dtypeBytes(tiling.sums());
  return schedule.stages * (bm + bn) * schedule.block[n + 1] * dtypeBytes(dtype) + (part + alignment - 1) / alignment * alignment;
}

/// A schedule, and the cycles that the product takes with it.
struct TimedSchedule {
  Schedule schedule;
  double cycles;
};

/// A schedule for tensor cores that is all 1 but for what its unit says.
Schedule tensorCoreSchedule(const TensorCoreProduct &product, Schedule::Unit unit, int64_t bm, int64_t bn, int64_t bk) {
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
double cyclesOf(const TensorCoreProduct &product, int64_t bm, int64_t bn, int64_t bk, double perBlock, const TargetInfo &target) {
  constexpr double filling = 1500; // Until the first block is there.
  int64_t rows = product.rows.constant().value_or(unknownSize);
  int64_t programs = product.batches * ((rows + bm - 1) / bm) * ((product.columns + bn - 1) / bn);
  double waves = std::ceil(double(programs) / target.multiprocessors);
  return waves * std::ceil(double(product.length) / double(bk)) * perBlock + filling;
}

/// A second launch in cycles, 2.2 us in a graph on an H200; and what its kernel waits for memory by itself.
constexpr double secondLaunch = 3900, ownWaits = 2100;

/// L2 gives about 46 bytes a cycle and multiprocessor.
double trafficOf(double bytes) { return bytes / 46; }

/// Values as large as the product that live at a time, where a program computes whole rows of it; none where it goes through parts.
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

/// The tile that takes the fewest cycles: of the tensor cores or of the L2, whichever is slower, over all waves of programs. None
/// if there are more products than the registers of a warpgroup hold sums of; or, of whole rows, whose reductions would be a launch
/// of their own otherwise, if it takes longer than that.
std::optional<TimedSchedule> wgmmaSchedule(const TensorCoreProduct &product, std::optional<int64_t> wholeValues,
                                           const TargetInfo &target, std::vector<ConsideredTile> *considered = nullptr) {
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

/// The same for warps that load and multiply themselves, whose fragments come from shared memory: 128 bytes a cycle. Products hide
/// most of that and of the copies, not all: a quarter fits what is known of such kernels. Accumulators of f64 take two registers,
/// so its tiles are smaller: 128x128 spills on sm_90.
TimedSchedule mmaSchedule(const TensorCoreProduct &product, const TargetInfo &target,
                          std::vector<ConsideredTile> *considered = nullptr) {
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

/// Cycles of a product, at least those in which memory gives its operands once: about 20 bytes a cycle and multiprocessor.
double timeOf(const TensorCoreProduct &product, double bytesOfOperands, const TargetInfo &target) {
  bool isWgmma = product.unit == Schedule::Unit::Wgmma;
  double cycles = isWgmma ? wgmmaSchedule(product, std::nullopt, target)->cycles : mmaSchedule(product, target).cycles;
  return std::max(cycles, bytesOfOperands / (20.0 * target.multiprocessors));
}

} // namespace

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

//===- Fused multiply-adds -===//

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

/// Cycles of such a product: warps wait for each block, and of the programs of a multiprocessor one multiplies while others wait.
double timeOfFma(int64_t batches, int64_t rows, int64_t columns, int64_t length, DType accumulator, const TargetInfo &target) {
  constexpr double waiting = 1000, multipliesOfWarp = 32, schedulers = 4, share = 0.7; // Of cycles that multiply.
  FmaTile tile = fmaTile(batches, rows, columns, accumulator, target);
  double atOnce = std::ceil(double(programsOf(tile, batches, rows, columns)) / target.multiprocessors);
  double ofBlock = double(tile.bm * tile.bn * tile.bk) / (multipliesOfWarp * share), warps = double(tile.warpsM * tile.warpsN);
  double perBlock = std::max(waiting + ofBlock / std::min(warps, schedulers), atOnce * ofBlock / schedulers);
  return std::ceil(double(length) / double(tile.bk)) * perBlock;
}

} // namespace

/// Where there are tiles enough, one warp loads and the others multiply larger ones; none else. What lies in rows of k is turned
/// first (`prepare-operands`), which the other operand must be wide enough for.
static std::optional<Schedule> fmaRing(const IterationSpace &space, const Operation &product, const TargetInfo &target) {
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

//===- Both -===//

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
