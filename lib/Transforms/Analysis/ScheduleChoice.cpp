#include "minic/Transforms/Analysis/ScheduleChoice.h"

#include <algorithm>
#include <bit>
#include <set>

namespace minic {

/// The least power of two that holds `extent`, at most `limit`; `limit` where the extent is not known.
static int64_t blockFor(const DimExpr &extent, int64_t limit) {
  auto size = extent.constant();
  if (!size)
    return limit;
  return std::min<int64_t>(limit, int64_t(std::bit_ceil(uint64_t(std::clamp<int64_t>(*size, 1, limit)))));
}

/// Elements of the widest stored type in 16 bytes. In exact numerics it follows what is reduced alone, so that a reduction has one
/// order whatever it is fused with.
static int64_t vectorElements(std::span<Operation *const> ops, bool exact) {
  auto reduces = [](const Operation *op) { return op->info().axes == AxisRule::Reduce; };
  bool reducedOnly = exact && std::ranges::any_of(ops, reduces);
  int64_t bytes = 1;
  for (Operation *op : ops) {
    if (reducedOnly && !reduces(op))
      continue;
    for (Value *value : op->operands())
      bytes = std::max(bytes, dtypeBytes(value->type().dtype()));
    for (Value *value : op->results())
      bytes = std::max(bytes, dtypeBytes(value->type().dtype()));
  }
  if (exact)
    bytes = std::max<int64_t>(bytes, 4);
  return std::min<int64_t>(8, 16 / bytes);
}

/// A row that is at most this long may stand in one block of one CTA; one of known length in a block of a cluster.
static constexpr int64_t maxBlock = 8192, maxClusterBlock = 1 << 19;

/// The size, or how large it can be at most if it fits one block.
static std::optional<int64_t> boundOf(const DimExpr &extent, std::span<const DimFact> facts) {
  if (extent.isConstant())
    return extent.constant();
  int64_t most = mostOf(extent, facts);
  // Of a row that may be empty the loop stays, so there is nothing to gain.
  return most <= maxBlock && leastOf(extent, facts) >= 1 ? std::optional(most) : std::nullopt;
}

/// The number of rows, where all sizes are known.
static std::optional<int64_t> rowsOf(const IterationSpace &space) {
  int64_t rows = 1;
  for (const LoopAxis &axis : space.axes())
    if (!axis.reduced) {
      if (!axis.extent.isConstant() || __builtin_mul_overflow(rows, *axis.extent.constant(), &rows))
        return std::nullopt;
    }
  return rows;
}

/// What a row of a reduction is cut by.
struct RowShape {
  int64_t block, vec, bytes;   ///< Elements, elements of an access, bytes of an element.
  std::optional<int64_t> rows; ///< If known, and if the order of the reduction may follow from it.
};

/// Two to four such CTAs fit a multiprocessor, so that one loads while others meet.
constexpr int64_t threadsOfClusterCta = 256;

/// About 32 elements a thread, which it holds in registers: enough loads in flight, and several CTAs on a multiprocessor, so that
/// some compute while others wait for memory. With too few rows to fill the GPU, fewer; where no cluster is larger, more.
static int64_t threadsPerRow(const RowShape &row, const TargetInfo &target) {
  constexpr int64_t elements = 32, fullAccess = 16, busyThreads = 960, maxSpread = 256;
  int64_t accesses = row.block / row.vec;
  int64_t threads = std::clamp(row.block / elements, std::min(accesses, fullAccess), threadsOfClusterCta * maxClusterCtas);
  if (row.rows)
    while (threads < std::min(accesses, maxSpread) && *row.rows * threads < busyThreads * target.multiprocessors)
      threads *= 2;
  return threads;
}

/// Rows of less than 2 KiB share a CTA of 128 threads: smaller ones come and go faster than the GPU starts them.
static int64_t rowsPerCta(const RowShape &row, int64_t threads) {
  return row.block * row.bytes < 2048 ? std::max<int64_t>(1, 128 / threads) : 1;
}

/// No loop is left where the last axis stands in one block.
static bool reducesOnlyLast(const IterationSpace &space) {
  for (int axis = 0; axis + 1 < space.rank(); ++axis)
    if (space.axes()[size_t(axis)].reduced)
      return false;
  return true;
}

static Schedule rowsSchedule(const IterationSpace &space, int64_t vec, std::span<const DimFact> facts, const TargetInfo &target,
                             bool exact) {
  const auto &loops = space.axes();
  const int64_t bytes = 16 / vec;
  size_t rank = loops.size();
  Schedule s;
  for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
    list->assign(rank, 1);
  size_t last = rank - 1;
  // A vector access needs every row to start at a multiple of it.
  while (vec > 1 && !loops[last].extent.isMultipleOf(vec))
    vec /= 2;
  bool reduces = std::any_of(loops.begin(), loops.end(), [](const LoopAxis &axis) { return axis.reduced; });
  auto innermost = [&](bool reduced) {
    for (size_t axis = rank; axis-- > 0;)
      if (loops[axis].reduced == reduced && (reduced || !loops[axis].extent.isConstant(1)))
        return int(axis);
    return -1;
  };
  // Lanes run along the last axis first, what it does not take goes to `outer` (copies if there is none).
  auto placeLanes = [&](int outer) {
    int64_t along = std::min<int64_t>(32, std::max<int64_t>(1, s.block[last] / vec));
    s.vec[last] = vec;
    if (outer < 0 || size_t(outer) == last)
      along = 32;
    s.lanes[last] = along;
    if (along < 32)
      s.lanes[size_t(outer)] = 32 / along;
  };

  if (!reduces) {
    // About 1024 elements a program, inner axes first; 4 warps.
    int64_t left = 1024;
    for (size_t axis = rank; axis-- > 0;) {
      s.block[axis] = axis == last || loops[axis].extent.isConstant() ? blockFor(loops[axis].extent, left) : 1;
      left /= s.block[axis];
    }
    vec = std::min(vec, s.block[last]);
    size_t outer = last;
    for (size_t axis = last; axis-- > 0;)
      if (s.block[axis] > 1) {
        outer = axis;
        break;
      }
    placeLanes(int(outer));
    int64_t warps = 4;
    for (size_t axis = rank; axis-- > 0 && warps > 1;) {
      int64_t take = std::clamp<int64_t>(s.block[axis] / (s.lanes[axis] * s.vec[axis]), 1, warps);
      s.warps[axis] = take;
      warps /= take;
    }
  } else if (loops[last].reduced) {
    // A row stands in one block up to 8192 elements, and a longer one streams. Of a length that is not known, four warps take 1024
    // at a time: few registers, and code that is compiled fast.
    int row = innermost(false);
    auto length = boundOf(loops[last].extent, facts);
    bool hasClusters = target.name == opInfo(OpKind::ClusterStore).needs && reducesOnlyLast(space);
    s.block[last] = length ? blockFor(*length, hasClusters ? maxClusterBlock : maxBlock) : 1024;
    if (length && *length > s.block[last])
      s.block[last] = maxBlock; // Too long for any block: it streams.
    vec = std::min(vec, s.block[last]);
    RowShape shape{.block = s.block[last], .vec = vec, .bytes = bytes, .rows = exact ? std::nullopt : rowsOf(space)};
    int64_t threads = length ? threadsPerRow(shape, target) : 128;
    s.vec[last] = vec;
    s.lanes[last] = row < 0 ? 32 : std::min<int64_t>(threads, 32);
    s.warps[last] = std::max<int64_t>(threads / 32, 1);
    s.cluster = s.block[last] > maxBlock ? threads / threadsOfClusterCta : 1;
    // With more than 32 elements a thread, registers would leave room for one CTA, and nothing would load while it waits for the
    // others.
    s.resident = s.cluster == maxClusterCtas && s.block[last] / threads <= 64 ? 2 : 1;
    if (row >= 0) {
      s.lanes[size_t(row)] = 32 / s.lanes[last];
      s.warps[size_t(row)] = std::max<int64_t>(1, rowsPerCta(shape, threads) / s.lanes[size_t(row)]);
      s.block[size_t(row)] = s.warps[size_t(row)] * s.lanes[size_t(row)];
    }
  } else {
    // Columns: lanes side by side along the last axis, warps along the reduced one.
    size_t column = size_t(innermost(true));
    s.block[last] = blockFor(loops[last].extent, 32 * vec);
    vec = std::min(vec, s.block[last]);
    placeLanes(int(column));
    s.block[column] = std::max(blockFor(loops[column].extent, 64), s.lanes[column]);
    s.warps[column] = std::clamp<int64_t>(s.block[column] / s.lanes[column], 1, 8);
  }
  return s;
}

/// Along the axis of a scan one element after the other; lanes and warps side by side along the innermost other axis.
static Schedule scanSchedule(const IterationSpace &space) {
  const auto &loops = space.axes();
  Schedule s;
  for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
    list->assign(loops.size(), 1);
  for (size_t axis = loops.size(); axis-- > 0;) {
    if (loops[axis].reduced)
      continue;
    s.block[axis] = blockFor(loops[axis].extent, 128);
    s.lanes[axis] = 32;
    s.warps[axis] = std::max<int64_t>(s.block[axis] / 32, 1);
    return s;
  }
  if (!loops.empty())
    s.lanes.back() = 32; // Copies.
  return s;
}

static Schedule matmulSchedule(const IterationSpace &space, DType accumulator, const TargetInfo &target) {
  const auto &loops = space.axes();
  size_t m = loops.size() - 3, n = m + 1, k = m + 2;
  Schedule s;
  s.family = Schedule::Family::Matmul;
  for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
    list->assign(loops.size(), 1);
  struct Tile {
    int64_t bm, bn, bk, warpsM, warpsN;
  };
  // Largest first: the first that gives every multiprocessor a tile, else the last. f64 accumulators take two registers each.
  static constexpr Tile tiles[] = {{128, 128, 8, 4, 2}, {64, 64, 16, 2, 2}, {32, 32, 16, 1, 1}};
  const Tile *choice = nullptr;
  for (const Tile &tile : tiles) {
    if (accumulator == DType::F64 && tile.bm == 128)
      continue;
    auto rows = loops[m].extent.constant(), columns = loops[n].extent.constant();
    int64_t batches = 1;
    for (size_t axis = 0; axis < m; ++axis)
      batches *= loops[axis].extent.constant().value_or(1);
    choice = &tile;
    if (!rows || !columns) {
      if (tile.bm == 64)
        break;
      continue;
    }
    int64_t programs = batches * ((*rows + tile.bm - 1) / tile.bm) * ((*columns + tile.bn - 1) / tile.bn);
    if (programs >= target.multiprocessors)
      break;
  }
  s.block[m] = choice->bm;
  s.block[n] = choice->bn;
  s.block[k] = choice->bk;
  s.warps[m] = choice->warpsM;
  s.warps[n] = choice->warpsN;
  s.lanes[m] = 4;
  s.lanes[n] = 8;
  s.vec[m] = s.vec[n] = accumulator == DType::F64 ? 2 : 4;
  return s;
}

/// True if each reduction of the region runs in the order that it has in a kernel of its own: what exact numerics promise.
static bool keepsOrder(const Schedule &schedule, const IterationSpace &space, std::span<Operation *const> ops,
                       const TargetInfo &target) {
  for (Operation *op : ops) {
    if (op->info().axes != AxisRule::Reduce)
      continue;
    auto alone = IterationSpace::compute({&op, 1});
    Schedule own = rowsSchedule(*alone, vectorElements({&op, 1}, true), op->function().facts, target, true);
    const std::vector<int> &here = space.axesOfUse(op, 0), &there = alone->axesOfUse(op, 0);
    for (int64_t axis : op->intsAttr("axes")) {
      size_t a = size_t(here[size_t(axis)]), b = size_t(there[size_t(axis)]);
      if (schedule.block[a] != own.block[b] || schedule.warps[a] != own.warps[b] || schedule.lanes[a] != own.lanes[b] ||
          schedule.vec[a] != own.vec[b])
        return false;
    }
  }
  return true;
}

std::optional<Schedule> chooseSchedule(const IterationSpace &space, std::span<Operation *const> ops, const TargetInfo &target,
                                       bool exact) {
  const Operation *contraction = nullptr;
  for (Operation *op : ops) {
    if (op->info().axes == AxisRule::Contract)
      contraction = op;
    if (op->info().axes == AxisRule::Scan)
      return scanSchedule(space);
  }
  if (!contraction) {
    Schedule schedule = rowsSchedule(space, vectorElements(ops, exact), ops.front()->function().facts, target, exact);
    if (exact && !keepsOrder(schedule, space, ops, target))
      return std::nullopt;
    return schedule;
  }
  // Kernels of the matmul family reduce with `dot` only.
  for (Operation *op : ops)
    if (op->info().axes == AxisRule::Reduce)
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
  DType type = contraction->operand(0)->type().dtype();
  return matmulSchedule(space, computeDType(type), target);
}

} // namespace minic
