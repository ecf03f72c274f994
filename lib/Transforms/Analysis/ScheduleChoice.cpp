#include "minic/Transforms/Analysis/ScheduleChoice.h"
#include "MatmulChoice.h"

#include <algorithm>
#include <bit>
#include <numeric>
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

bool hasClusters(const TargetInfo &target) { return target.name == opInfo(OpKind::ClusterStore).needs; }

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
  int64_t loaded = 0;          ///< Bytes that are read for each element; 0 if the order of the reduction must not follow from it.
  std::optional<int64_t> rows; ///< If known, and if the order of the reduction may follow from it.
};

/// Two to four such CTAs fit a multiprocessor, so that one loads while others meet.
constexpr int64_t threadsOfClusterCta = 256;
constexpr int64_t elementsPerThread = 32;

/// About 32 elements a thread, which it holds in registers, or 128 bytes of all that is read: enough loads in flight, and several
/// CTAs on a multiprocessor, so that some compute while others wait for memory; of 16-bit rows 16, whose packed loads are few. With
/// too few rows to fill the GPU, fewer; where no cluster is larger, more.
static int64_t threadsPerRow(const RowShape &row, const TargetInfo &target) {
  constexpr int64_t fullAccess = 16, busyThreads = 440, maxSpread = 128, bytesPerThread = 128;
  int64_t accesses = row.block / row.vec, elements = elementsPerThread;
  if (row.loaded && row.block <= maxBlock)
    elements =
        std::clamp<int64_t>(int64_t(std::bit_floor(uint64_t(bytesPerThread / row.loaded))), row.vec, row.loaded == 2 ? 16 : 32);
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

/// What a thread holds of a column that is read again. CTAs are small, so that several on a multiprocessor load, meet and store at
/// different times, and a cluster of them holds a column.
constexpr int64_t elementsOfColumn = 64, threadsOfColumnCta = 128, maxThreadsOfColumnCta = 512;

/// How many columns side by side are held on chip: 32 or 16 in a cluster of 8 at most (with vectors of 2 a warp reads two or four
/// whole pieces of 128 or 64 bytes), else a sector in any cluster. 0 if a column is too long.
static int64_t columnsOnChip(int64_t length, int64_t bytes, const TargetInfo &target) {
  constexpr int64_t smallCta = elementsOfColumn * threadsOfColumnCta, largeCta = elementsOfColumn * maxThreadsOfColumnCta;
  int64_t block = blockFor(length, maxClusterBlock), sector = 32 / bytes;
  int64_t ctas = hasClusters(target) ? int64_t(maxClusterCtas) : 1;
  for (int64_t columns : {32, 16})
    if (block * columns <= std::max(ctas / 2 * smallCta, largeCta))
      return columns;
  return block * sector <= ctas * largeCta ? sector : 0;
}

bool fitsOnChip(Type operand, std::span<const int64_t> axes, const TargetInfo &target) {
  int64_t block = 1;
  for (int64_t axis : axes) {
    auto extent = operand.shape()[size_t(axis)].constant();
    if (!extent || *extent > maxClusterBlock)
      return false;
    block *= blockFor(*extent, maxClusterBlock);
    if (block > maxClusterBlock)
      return false;
  }
  if (axes.back() + 1 == operand.rank())
    return block <= (axes.size() == 1 && hasClusters(target) ? maxClusterBlock : maxBlock);
  return axes.size() == 1 && columnsOnChip(block, dtypeBytes(operand.dtype()), target) > 0;
}

/// True if something along a reduced axis needs what is known after the reduction.
static bool readsAgain(const IterationSpace &space, std::span<Operation *const> ops) {
  std::set<const Value *> known;
  for (Operation *op : ops) {
    bool after = op->info().axes == AxisRule::Reduce ||
                 std::ranges::any_of(op->operands(), [&](const Value *operand) { return known.count(operand) != 0; });
    for (Value *result : op->results()) {
      if (after && space.isInner(result))
        return true;
      if (after)
        known.insert(result);
    }
  }
  return false;
}

/// Cuts a region without matmuls: element-wise ops with any number of reductions over the same axes.
class RowsChooser {
public:
  RowsChooser(const IterationSpace &space, std::span<Operation *const> ops, const TargetInfo &target, bool exact)
      : space(space), loops(space.axes()), ops(ops), facts(ops.front()->function().facts), target(target), exact(exact),
        last(loops.size() - 1), vec(vectorElements(ops, exact)), bytes(16 / vec) {
    for (auto *list : {&s.block, &s.warps, &s.lanes, &s.vec})
      list->assign(loops.size(), 1);
    // A vector access needs every row to start at a multiple of it.
    while (vec > 1 && !loops[last].extent.isMultipleOf(vec))
      vec /= 2;
  }

  Schedule choose() {
    for (size_t axis = loops.size(); axis-- > 0;)
      if (loops[axis].reduced)
        reduced.push_back(axis);
      else if (!loops[axis].extent.isConstant(1) && !space.countsPieces(int(axis)))
        kept.push_back(axis);
    if (reduced.empty())
      cutElements(1024);
    else if (loops[last].reduced)
      cutRows();
    else if (auto columns = columnsOfChains())
      cutElements(std::clamp<int64_t>(std::bit_floor(uint64_t(*columns / target.multiprocessors)), 128, 512));
    else
      cutColumns();
    return s;
  }

private:
  /// Lanes run along the last axis first, what it does not take goes to `outer` (copies if there is none).
  void placeLanes(size_t outer) {
    s.vec[last] = vec;
    s.lanes[last] = outer == last ? 32 : std::clamp<int64_t>(s.block[last] / vec, 1, 32);
    if (outer != last)
      s.lanes[outer] = 32 / s.lanes[last];
  }

  /// Calls `visit` with each operand that is read from memory along loops, and those.
  template <typename Visit> void forEachRead(Visit &&visit) const {
    for (Operation *op : ops)
      for (unsigned i = 0; i < op->numOperands(); ++i)
        if (!space.has(op->operand(i)) && !readsFromMemory(*op, i))
          visit(op->operand(i), space.axesOfUse(op, i));
  }

  /// The loop along which memory is read that lies across the last one; none where all reads are along that.
  std::optional<size_t> axisAcross() const {
    std::optional<size_t> across;
    forEachRead([&](const Value *, const std::vector<int> &axes) {
      bool runsAlongLast = std::ranges::find(axes, int(last)) != axes.end();
      if (!across && runsAlongLast && size_t(axes.back()) != last && !loops[size_t(axes.back())].extent.isConstant(1))
        across = size_t(axes.back());
    });
    return across;
  }

  /// What is read at other indices from rows of odd length comes one element at a time, and each time from as many sectors as lanes
  /// lie apart.
  void moveLanesTogether() {
    constexpr int64_t bytesOfLane = 4;
    for (const Operation *op : ops)
      for (unsigned i = 0; i < op->numOperands(); ++i)
        if (Type read = op->operand(i)->type();
            readsFromMemory(*op, i) && read.rank() > 0 && !read.shape().back().isMultipleOf(vec))
          vec = std::min(vec, std::max<int64_t>(bytesOfLane / dtypeBytes(read.dtype()), 1));
  }

  /// The block, or as small a one that blocks of it are not much longer than the extent; a warp still has a whole line.
  int64_t withoutWaste(int64_t block, const DimExpr &extent) const {
    auto size = extent.constant();
    auto isWasted = [&] { return (*size + block - 1) / block * block * 7 > *size * 8; };
    while (size && block > 32 * vec && isWasted())
      block /= 2;
    return block;
  }

  /// The number of columns of a few numbers each, such as pieces of a product, if there are enough of them for each thread to add
  /// up its own.
  std::optional<int64_t> columnsOfChains() const {
    auto length = loops[reduced.front()].extent.constant();
    auto columns = rowsOf(space);
    bool fits = !exact && reduced.size() == 1 && !loops[reduced.front()].chunk && length && *length <= mostInChain && columns &&
                *columns >= 32 * target.multiprocessors && !readsAgain(space, ops);
    return fits ? columns : std::nullopt;
  }

  /// About `left` elements a program, inner axes first; 4 warps. Where memory is read across the last axis, a square.
  void cutElements(int64_t left) {
    moveLanesTogether();
    if (auto across = axisAcross()) {
      s.block[last] = blockFor(loops[last].extent, 64);
      s.block[*across] = blockFor(loops[*across].extent, bytes > 2 ? 64 : 128);
      vec = std::min(vec, s.block[last]);
      placeLanes(*across);
      s.warps[*across] = std::clamp<int64_t>(s.block[*across] / s.lanes[*across], 1, 8);
      return;
    }
    for (size_t axis = loops.size(); axis-- > 0;) {
      if (loops[axis].reduced)
        continue;
      s.block[axis] = axis == last || loops[axis].extent.isConstant() ? blockFor(loops[axis].extent, left) : 1;
      if (axis == last && axis > 0)
        s.block[axis] = withoutWaste(s.block[axis], loops[axis].extent);
      left /= s.block[axis];
    }
    vec = std::min(vec, s.block[last]);
    size_t outer = last;
    for (size_t axis = last; axis-- > 0;)
      if (s.block[axis] > 1) {
        outer = axis;
        break;
      }
    placeLanes(outer);
    int64_t warps = 4;
    for (size_t axis = loops.size(); axis-- > 0 && warps > 1;) {
      int64_t take = std::clamp<int64_t>(s.block[axis] / (s.lanes[axis] * s.vec[axis]), 1, warps);
      s.warps[axis] = take;
      warps /= take;
    }
  }

  /// The bytes of an element of each operand that runs along the reduced axes.
  std::vector<int64_t> loadedBytes() const {
    std::set<const Value *> seen;
    std::vector<int64_t> result;
    forEachRead([&](const Value *operand, const std::vector<int> &axes) {
      if (space.isReduced(axes) && seen.insert(operand).second)
        result.push_back(dtypeBytes(operand->type().dtype()));
    });
    return result;
  }

  std::optional<int64_t> lengthOf(size_t axis) const { return boundOf(loops[axis].length(), facts); }

  /// Rows of 16-bit elements and odd length: one element at a time there are too many accesses. Of one row a program, each starts
  /// at an aligned place before it. What runs along rows but has none itself, such as a bias, would lie askew.
  static constexpr int64_t alignedVector = 4;
  bool alignsRows(int64_t length) const {
    std::vector<int64_t> loaded = loadedBytes();
    bool fits = !exact && reduced.size() == 1 && !kept.empty() && !loops[last].chunk && loops[last].extent.isConstant() &&
                vec < alignedVector && length + alignedVector - 1 <= maxBlock && length * 4 >= 2048 && !loaded.empty() &&
                std::ranges::max(loaded) <= 2;
    for (size_t axis = 1; axis < loops.size(); ++axis)
      fits &= loops[axis].extent.isConstant();
    forEachRead([&](const Value *, const std::vector<int> &axes) {
      fits &= !space.isReduced(axes) || (std::ranges::is_sorted(axes) && axes.size() == loops.size());
    });
    return fits;
  }

  /// A row stands in one block up to 8192 elements, in a cluster up to more, and a longer one streams. Of a length that is not
  /// known, four warps take 1024 at a time: few registers, and code that is compiled fast.
  void cutRows() {
    auto length = lengthOf(last);
    bool inCluster = hasClusters(target) && reduced.size() == 1 && !loops[last].chunk;
    s.block[last] = length ? blockFor(*length, inCluster ? maxClusterBlock : maxBlock) : 1024;
    if (length && *length > s.block[last])
      s.block[last] = maxBlock; // Too long for any block: it streams.
    vec = std::min(vec, s.block[last]);
    bool aligns = length && *length <= maxBlock && alignsRows(*length);
    if (aligns)
      s.align = vec = alignedVector;
    s.vec[last] = vec;
    // Short rows of an outer reduced axis together.
    int64_t elements = s.block[last];
    for (size_t axis : reduced)
      if (auto rows = axis == last ? std::nullopt : lengthOf(axis)) {
        s.block[axis] = blockFor(*rows, std::max<int64_t>(1, maxBlock / elements));
        elements *= s.block[axis];
      }

    std::vector<int64_t> loaded = loadedBytes();
    // Of 16-bit elements read one at a time, fewer threads have more loads in flight each.
    bool isSingle = vec == 1 && !loaded.empty() && std::ranges::max(loaded) <= 2;
    RowShape shape{.block = elements, .vec = vec, .bytes = bytes};
    if (!exact && !aligns && !isSingle)
      shape.loaded = std::min<int64_t>(std::accumulate(loaded.begin(), loaded.end(), int64_t(0)), 128);
    if (!exact)
      shape.rows = rowsOf(space);
    int64_t threads = length ? threadsPerRow(shape, target) : 128;
    if (aligns) // The last vectors of all threads may hold few elements of the row: more vectors a thread waste less.
      threads = std::max<int64_t>(threads / 2, 32);
    s.cluster = elements > maxBlock ? threads / threadsOfClusterCta : 1;
    // With more than 32 elements a thread, registers would leave room for one CTA, and nothing would load while it waits for the
    // others.
    s.resident = s.cluster == maxClusterCtas && elements / threads <= 2 * elementsPerThread ? 2 : 1;
    int64_t lanes = std::min<int64_t>(threads, 32), warps = std::max<int64_t>(threads / 32, 1);
    for (size_t axis : reduced) {
      int64_t places = s.block[axis] / s.vec[axis];
      s.lanes[axis] = std::min(lanes, places);
      s.warps[axis] = std::min(warps, std::max<int64_t>(places / s.lanes[axis], 1));
      lanes /= s.lanes[axis];
      warps /= s.warps[axis];
    }
    if (aligns)
      s.block[last] = blockFor(*length + vec - 1, maxBlock);
    int64_t idle = 32 / std::min<int64_t>(threads, 32) * lanes;
    if (kept.empty()) {
      s.lanes[last] *= idle; // Copies.
      return;
    }
    size_t row = kept.front();
    s.lanes[row] = idle;
    s.warps[row] = std::max<int64_t>(1, rowsPerCta(shape, threads) / idle);
    s.block[row] = s.warps[row] * s.lanes[row];
  }

  /// Lanes side by side along the last axis, warps along the reduced one. A column that is read again stands on chip if it can.
  void cutColumns() {
    size_t column = reduced.front();
    auto length = lengthOf(column);
    int64_t onChip = 0;
    if (!exact && length && reduced.size() == 1 && !loops[column].chunk && readsAgain(space, ops) && !loadedBytes().empty())
      onChip = columnsOnChip(*length, std::ranges::max(loadedBytes()), target);
    s.block[last] = blockFor(loops[last].extent, onChip ? onChip : 32 * 16 / bytes);
    vec = std::min(vec, onChip ? std::min<int64_t>(s.block[last], 2) : s.block[last]);
    placeLanes(column);
    int64_t threads = 256;
    if (onChip) {
      s.block[column] = std::max(blockFor(*length, maxClusterBlock), s.lanes[column]);
      threads = std::max(s.block[column] * s.block[last] / elementsOfColumn, threadsOfColumnCta);
      // Rows of odd length: pieces of neighbouring blocks share sectors, and more CTAs at a time only lose them from L1 earlier.
      int64_t perCta = vec > 1 ? threadsOfColumnCta : maxThreadsOfColumnCta;
      s.cluster = hasClusters(target) ? std::clamp<int64_t>(threads / perCta, 1, maxClusterCtas) : 1;
    } else {
      s.block[column] = std::max(length ? blockFor(*length, maxBlock / s.block[last]) : 64, s.lanes[column]);
      if (int64_t chunk = loops[column].chunk)
        s.block[column] = std::min(s.block[column], chunk);
    }
    s.warps[column] = std::clamp<int64_t>(s.block[column] / s.lanes[column], 1, threads / 32);
  }

  const IterationSpace &space;
  const std::vector<LoopAxis> &loops;
  std::span<Operation *const> ops;
  std::span<const DimFact> facts;
  const TargetInfo &target;
  bool exact;
  size_t last;
  int64_t vec, bytes;
  std::vector<size_t> reduced, kept; ///< Last first; without axes of size 1 and those that count pieces.
  Schedule s;
};

static Schedule rowsSchedule(const IterationSpace &space, std::span<Operation *const> ops, const TargetInfo &target, bool exact) {
  return RowsChooser(space, ops, target, exact).choose();
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

/// True if each reduction of the region runs in the order that it has in a kernel of its own: what exact numerics promise.
static bool keepsOrder(const Schedule &schedule, const IterationSpace &space, std::span<Operation *const> ops,
                       const TargetInfo &target) {
  for (Operation *op : ops) {
    if (op->info().axes != AxisRule::Reduce)
      continue;
    auto alone = IterationSpace::compute({&op, 1});
    Schedule own = rowsSchedule(*alone, {&op, 1}, target, true);
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
                                       bool exact, std::vector<ConsideredTile> *considered) {
  const Operation *contraction = nullptr;
  for (Operation *op : ops) {
    if (op->info().axes == AxisRule::Contract)
      contraction = op;
    if (op->info().axes == AxisRule::Scan)
      return scanSchedule(space);
  }
  if (!contraction) {
    Schedule schedule = rowsSchedule(space, ops, target, exact);
    if (exact && !keepsOrder(schedule, space, ops, target))
      return std::nullopt;
    return schedule;
  }
  return matmulSchedule(space, ops, target, exact, considered);
}

} // namespace minic
