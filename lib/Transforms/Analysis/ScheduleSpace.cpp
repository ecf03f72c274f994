#include "minic/Transforms/Analysis/ScheduleSpace.h"

#include "MatmulChoice.h"
#include "minic/Transforms/Analysis/KernelResources.h"
#include "minic/Transforms/Analysis/LibraryMatmul.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <set>

namespace minic {

Expected<RegionLoops> RegionLoops::of(Operation &fusion) {
  std::vector<Operation *> ops;
  for (Operation &op : fusion.region())
    if (!op.info().terminator)
      ops.push_back(&op);
  std::string why;
  auto space = IterationSpace::compute(ops, &why);
  if (!space)
    return Diagnostic{.code = ErrorCode::NoSchedule, .message = "this region has no common loops: " + why, .loc = fusion.loc()};
  std::span<Value *const> outputs = fusion.terminatorOfRegion()->operands();
  return RegionLoops{std::move(*space), std::move(ops), {outputs.begin(), outputs.end()}};
}

//===- What fits -===//

static std::string tooMany(int64_t count, const std::string &what, int64_t most) {
  return std::to_string(count) + " " + what + ", more than " + std::to_string(most);
}

/// The sweep over a reduced axis has one trip, for the last one alone: then the CTAs of a cluster meet once.
static bool reducesInOneBlock(const Schedule &schedule, const IterationSpace &space) {
  bool reduces = false;
  for (int axis = 0; axis < space.rank(); ++axis) {
    const LoopAxis &loop = space.axes()[size_t(axis)];
    if (!loop.reduced)
      continue;
    if (axis + 1 < space.rank() || loop.extent.constant().value_or(INT64_MAX) > schedule.block[size_t(axis)])
      return false;
    reduces = true;
  }
  return reduces;
}

/// CTAs of a launch, as far as sizes are known.
static int64_t gridOf(const Schedule &schedule, const IterationSpace &space) {
  int64_t ctas = schedule.cluster;
  for (int axis = 0; axis < space.rank(); ++axis) {
    const LoopAxis &loop = space.axes()[size_t(axis)];
    int64_t block = schedule.block[size_t(axis)];
    if (!loop.reduced && loop.extent.isConstant() &&
        __builtin_mul_overflow(ctas, (*loop.extent.constant() + block - 1) / block, &ctas))
      return INT64_MAX;
  }
  return ctas;
}

static bool cutsAlike(const Schedule &a, const Schedule &b, size_t axis) {
  return a.block[axis] == b.block[axis] && a.warps[axis] == b.warps[axis] && a.lanes[axis] == b.lanes[axis] &&
         a.vec[axis] == b.vec[axis];
}

/// What a schedule with stages asks of the products of a region.
static std::optional<std::string> whyProductsDoNotFit(const Schedule &schedule, const RegionLoops &region,
                                                      const TargetInfo &target) {
  auto contracts = [](const Operation *op) { return op->info().axes == AxisRule::Contract; };
  int64_t products = std::ranges::count_if(region.ops, contracts);
  if (products == 0 || schedule.stages == 0)
    return std::nullopt;
  const Operation &first = **std::ranges::find_if(region.ops, contracts);
  if (products > 1 && schedule.unit != Schedule::Unit::Wgmma)
    return "several products, which `unit = wgmma` alone has in one kernel with stages";
  if (std::string why = schedule.unit == Schedule::Unit::Mma ? whyNoMma(schedule, first) : ""; !why.empty())
    return why;
  int64_t columns = products * schedule.block[schedule.block.size() - 2];
  if (schedule.unit == Schedule::Unit::Wgmma && columns > mostWgmmaColumns)
    return tooMany(columns, "columns of sums side by side", mostWgmmaColumns);
  int64_t bytes = ringBytes(schedule, first, products);
  return bytes > target.maxSharedBytesPerCta ? std::optional(tooMany(bytes, "bytes of shared memory", target.maxSharedBytesPerCta))
                                             : std::nullopt;
}

/// `whyUnfit` where the cost model's own schedule is known.
static std::optional<std::string> whyUnfit(const Schedule &schedule, const Schedule &own, const RegionLoops &region,
                                           const TargetInfo &target, bool exact) {
  if (schedule.toAttr() == own.toAttr())
    return std::nullopt;
  const IterationSpace &space = region.space;
  if (schedule.family != own.family)
    return std::string("#") + schedule.toAttr().name + " where the region is one for #" + own.toAttr().name;
  if (schedule.usesTensorCores() && !own.usesTensorCores())
    return std::string("tensor cores, which do not take this product");
  if (schedule.stages > 0 && own.stages == 0)
    return std::string("warps that load through TMA, which does not reach this product's operands");
  if (schedule.unit == Schedule::Unit::Wgmma && target.name != opInfo(OpKind::Wgmma).needs)
    return "tensor cores that " + std::string(target.name) + " does not have";
  if (auto parsed = Schedule::parse(schedule.toAttr(), space.rank()); !parsed)
    return parsed.errors().front().message;
  if (auto why = whyProductsDoNotFit(schedule, region, target))
    return why;
  for (size_t axis = 0; axis < space.axes().size(); ++axis) {
    const LoopAxis &loop = space.axes()[axis];
    if (loop.chunk && (schedule.block[axis] > loop.chunk || schedule.block[size_t(loop.pieces)] != 1))
      return std::string("a block that reaches beyond a piece");
    if (loop.held && schedule.block[axis] < loop.extent.constant().value_or(INT64_MAX))
      return "a block of " + std::to_string(schedule.block[axis]) + " that does not hold the rows of " + loop.extent.str() +
             " that are reduced";
    if (loop.held && schedule.unit != Schedule::Unit::Wgmma)
      return std::string("rows of a product that are reduced, which warps of other units than wgmma do not have whole");
  }
  bool scans = std::ranges::any_of(region.ops, [](const Operation *op) { return op->info().axes == AxisRule::Scan; });
  for (size_t axis = 0; axis < space.axes().size(); ++axis)
    if ((exact || scans) && space.axes()[axis].reduced && !cutsAlike(schedule, own, axis))
      return std::string("another order of ") + (scans ? "a scan" : "a reduction, which exact numerics fix");

  int64_t threads = schedule.numThreads() / schedule.cluster;
  if (threads > target.maxThreadsPerCta)
    return tooMany(threads, "threads in a CTA", target.maxThreadsPerCta);
  if (schedule.cluster > 1 && !hasClusters(target))
    return "a cluster, which " + std::string(target.name) + " does not have";
  if (schedule.cluster > 1 && !reducesInOneBlock(schedule, space))
    return "a cluster, and no reduction along the last axis alone in one block";
  if (int64_t ctas = gridOf(schedule, space); ctas > INT32_MAX)
    return tooMany(ctas, "CTAs", INT32_MAX);

  KernelResources resources = estimateResources(space, schedule, region.ops, region.outputs);
  if (resources.sharedBytes > target.sharedBytesPerCta)
    return tooMany(resources.sharedBytes, "bytes of shared memory", target.sharedBytesPerCta);
  if (resources.registers > target.maxRegistersPerThread)
    return tooMany(resources.registers, "registers for the values of a thread", target.maxRegistersPerThread);
  // What is not counted takes registers too: nothing runs with less than 32.
  int64_t registers = std::max<int64_t>(resources.registers, 32) * threads * schedule.resident;
  if (registers > target.registersPerMultiprocessor)
    return tooMany(registers, "registers on a multiprocessor", target.registersPerMultiprocessor);
  return std::nullopt;
}

static std::optional<std::string> whyNoLibrary(const RegionLoops &region, bool exact) {
  if (exact)
    return "a library adds in an order of its own, and exact numerics fix the order";
  std::string why;
  return libraryMatmul(region.ops, region.outputs, &why) ? std::nullopt : std::optional("cuBLASLt does not compute this: " + why);
}

std::optional<std::string> whyUnfit(const Schedule &schedule, const RegionLoops &region, const TargetInfo &target, bool exact) {
  if (schedule.isLibrary())
    return whyNoLibrary(region, exact);
  auto own = chooseSchedule(region.space, region.ops, target, exact);
  if (!own)
    return "no schedule of " + std::string(target.name) + " runs this region";
  return whyUnfit(schedule, *own, region, target, exact);
}

//===- Neighbours -===//

namespace {

/// Walks from schedules to those next to them, nearest first.
class SpaceWalk {
public:
  SpaceWalk(const RegionLoops &region, const TargetInfo &target, bool exact, const Schedule &own)
      : region(region), target(target), exact(exact), own(own), loops(region.space.axes()), last(loops.size() - 1) {}

  std::vector<Schedule> run(size_t limit) {
    found.push_back(own);
    if (loops.empty())
      return std::move(found);
    visited.insert(keyOf(own));
    queue.push_back(own);
    for (Schedule &start : otherStarts())
      add(std::move(start));
    // What is many steps away is nothing like the cost model's choice; the walk ends there even where little fits.
    for (size_t steps = 0; !queue.empty() && found.size() < limit && steps < 16 * limit; ++steps) {
      Schedule from = std::move(queue.front());
      queue.pop_front();
      visitNeighbours(from);
    }
    if (found.size() > limit)
      found.resize(std::max<size_t>(limit, 1));
    return std::move(found);
  }

private:
  static std::string keyOf(const Schedule &schedule) { return Attribute(schedule.toAttr()).str(); }

  /// Whole families that steps would reach late: a row in chunks, and in one warp.
  std::vector<Schedule> otherStarts() const {
    std::vector<Schedule> starts;
    if (own.family != Schedule::Family::Rows || !loops[last].reduced)
      return starts;
    int64_t chunk = std::min<int64_t>(own.block[last] / 2, 8192);
    if (own.block[last] > 1024) {
      Schedule streamed = own;
      streamed.block[last] = chunk;
      streamed.cluster = streamed.resident = 1;
      streamed.warps[last] = std::max<int64_t>(1, std::min<int64_t>(chunk / (32 * streamed.vec[last]), 8));
      starts.push_back(std::move(streamed));
    }
    if (own.warps[last] > 1 && own.cluster == 1) {
      Schedule narrow = own;
      narrow.warps[last] = 1;
      starts.push_back(std::move(narrow));
    }
    return starts;
  }

  /// The hardware gives the layout, and with it all but the block, which warps have which part of it (mma alone), and how far
  /// copies run ahead.
  void visitTensorCores(const Schedule &from) {
    size_t k = last, n = k - 1, m = n - 1;
    bool isWgmma = from.unit == Schedule::Unit::Wgmma;
    auto numbers = [&](Schedule &s) {
      std::vector<int64_t *> list{&s.block[m], &s.block[n], &s.stages, &s.raster};
      if (!isWgmma)
        list.insert(list.end(), {&s.block[k], &s.warps[m], &s.warps[n]});
      return list;
    };
    Schedule copy = from;
    for (size_t i = 0; i < numbers(copy).size(); ++i)
      for (bool up : {true, false}) {
        Schedule next = from;
        int64_t &number = *numbers(next)[i];
        if (!isWgmma && &number == &next.stages)
          number += up ? 1 : -1;
        else
          number = up ? number * 2 : number / 2;
        if (isWgmma)
          next.warps[m] = next.block[m] / 16;
        add(std::move(next));
      }
  }

  void visitNeighbours(const Schedule &from) {
    if (from.usesTensorCores())
      return visitTensorCores(from);
    auto scaled = [&](auto &&scale) {
      for (bool up : {true, false}) {
        Schedule next = from;
        scale(next, [up](int64_t &number) { number = up ? number * 2 : number % 2 ? 0 : number / 2; });
        add(std::move(next));
      }
    };
    for (size_t axis = 0; axis < loops.size(); ++axis) {
      if (loops[axis].extent.isConstant(1))
        continue;
      scaled([&](Schedule &s, auto change) { change(s.block[axis]); });
      scaled([&](Schedule &s, auto change) { change(s.warps[axis]); });
      scaled([&](Schedule &s, auto change) { // The same work of a thread, in larger CTAs.
        change(s.block[axis]);
        change(s.warps[axis]);
      });
      scaled([&](Schedule &s, auto change) {
        change(s.cluster);
        change(s.warps[axis]);
      });
      for (size_t other = 0; other < loops.size(); ++other)
        if (other != axis && from.lanes[axis] > 1)
          for (bool grow : {false, true}) { // Lanes go over, with the block that they stand for or without.
            Schedule next = from;
            next.lanes[axis] /= 2;
            next.lanes[other] *= 2;
            if (grow)
              next.block[other] *= 2;
            add(std::move(next));
          }
    }
    scaled([&](Schedule &s, auto change) {
      if (s.family == Schedule::Family::Matmul)
        change(s.vec[last - 2]), change(s.vec[last - 1]);
      else
        change(s.vec[last]);
    });
    scaled([](Schedule &s, auto change) { change(s.cluster); });
    scaled([](Schedule &s, auto change) { change(s.resident); });
  }

  /// Steps may lead through what does not fit, unless it is no schedule at all.
  void add(Schedule schedule) {
    if (schedule.resident > 4 || !visited.insert(keyOf(schedule)).second ||
        !Schedule::parse(schedule.toAttr(), region.space.rank()))
      return;
    if (isSensible(schedule) && !whyUnfit(schedule, own, region, target, exact))
      found.push_back(schedule);
    queue.push_back(std::move(schedule));
  }

  /// No block is larger than its axis, no two threads do the same and no access is wider than 16 bytes, or no more so than in the
  /// cost model's schedule.
  bool isSensible(const Schedule &schedule) const {
    for (size_t axis = 0; axis < loops.size(); ++axis) {
      auto extent = loops[axis].extent.constant();
      if (extent && schedule.block[axis] > std::max(int64_t(std::bit_ceil(uint64_t(*extent))), own.block[axis]))
        return false;
    }
    return (schedule.usesTensorCores() || copies(schedule) <= copies(own)) &&
           schedule.vec[widest()] <= std::max(own.vec[widest()], 16 / narrowestBytes());
  }

  /// The axis that accesses are wide along.
  size_t widest() const { return own.family == Schedule::Family::Matmul ? last - 1 : last; }

  /// How many threads hold the same element.
  static int64_t copies(const Schedule &schedule) {
    int64_t product = 1;
    for (size_t axis = 0; axis < schedule.block.size(); ++axis)
      product *= std::max<int64_t>(1, schedule.vec[axis] * schedule.lanes[axis] * schedule.warps[axis] / schedule.block[axis]);
    return product;
  }

  /// Of an element in memory.
  int64_t narrowestBytes() const {
    int64_t bytes = 16;
    auto look = [&](const Value *value) { bytes = std::min<int64_t>(bytes, dtypeBytes(value->type().dtype())); };
    for (const Operation *op : region.ops)
      for (const Value *operand : op->operands())
        if (!region.space.has(operand))
          look(operand);
    std::ranges::for_each(region.outputs, look);
    return std::max<int64_t>(bytes, 1);
  }

  const RegionLoops &region;
  const TargetInfo &target;
  const bool exact;
  const Schedule own;
  const std::vector<LoopAxis> &loops;
  const size_t last;
  std::vector<Schedule> found;
  std::deque<Schedule> queue;
  std::set<std::string> visited;
};

} // namespace

std::vector<Schedule> scheduleSpace(const RegionLoops &region, const TargetInfo &target, bool exact, size_t limit) {
  auto own = chooseSchedule(region.space, region.ops, target, exact);
  if (!own)
    return {};
  return SpaceWalk(region, target, exact, *own).run(limit);
}

} // namespace minic
