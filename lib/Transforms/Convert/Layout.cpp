// layout: lays tiles out over registers, lanes and warps, as the kernel's schedule says; splits reductions; moves dot operands
// through shared memory.
//
//   %t = load %x, %r, %j, mask = [] : tile<4x1024xf32>     ->  ..., vec = 4 : tile<4x1024xf32, #l0>
//   %m = reduce max %t, axes = [1] : tile<4x1xf32>         ->  reduce over = reg; over = lane; and, if warps share the axis:
//                                                              convert_layout to all warps, reduce over = reg or lane
//   %c = dot %a, %b, %acc                                  ->  barrier; shared_store %a; shared_store %b; barrier; dot from shared
//   memory
#include "../ReduceSteps.h"
#include "minic/IR/Builder.h"
#include "minic/IR/Schedule.h"
#include "minic/Transforms/Analysis/Bounds.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <unordered_set>

namespace minic {
namespace {

/// Made anew by each that needs it, from its operands alone.
bool computesAgain(const Operation &op) {
  return op.info().elementwise || op.is(OpKind::Broadcast) || op.is(OpKind::Constant) || op.is(OpKind::InBounds) ||
         op.is(OpKind::Iota);
}

class LayoutPass {
public:
  LayoutPass(Function &kernel, Schedule schedule)
      : kernel(kernel), schedule(std::move(schedule)), context(kernel.module().context()) {}

  void run() {
    // Operands of dots get their own copies first: they are laid out for loading, not for the accumulator.
    std::vector<Operation *> dots;
    walk(kernel.body(), [&](Operation &op) {
      if (op.is(OpKind::Dot))
        dots.push_back(&op);
    });
    for (Operation *dot : dots)
      stageOperands(*dot);
    assign(kernel.body());
    kernel.setAttr("threads", Attribute(schedule.numThreads()));
    for (auto [name, value] : {std::pair("cluster", schedule.cluster), std::pair("resident", schedule.resident)})
      if (value > 1)
        kernel.setAttr(name, Attribute(value));
    kernel.removeAttr("schedule");
  }

private:
  //===- Layouts of ordinary tiles -===//

  bool hasLayout(const Value *value) const { return value->type().layout() != nullptr; }

  void setLayout(Value *value) {
    if (value->type().isTile() && !hasLayout(value))
      value->setType(context.withLayout(value->type(), context.layout(schedule.layoutOf(value->type().extents()))));
  }

  void assign(Block &block) {
    for (Value *argument : block.arguments())
      setLayout(argument);
    for (Operation &op : block) {
      if (op.is(OpKind::Reduce)) {
        splitReduce(op);
        continue;
      }
      for (Value *result : op.results())
        setLayout(result);
      for (unsigned r = 0; r < op.numRegions(); ++r)
        assign(op.region(r));
      if (op.is(OpKind::Load) && readsAcross(op))
        exchangeLoaded(op);
      if (op.is(OpKind::Load) || op.is(OpKind::Store))
        setVector(op);
    }
  }

  /// Rows of any length that start where memory is aligned are moved in vectors, of which the first and the last may reach over the
  /// edge.
  void setVector(Operation &access) const {
    int64_t width = vectorWidth(access), wide = 1;
    if (int axis = contiguousAxis(access); axis >= 0) {
      const Layout &layout = *accessTile(access).layout();
      if (!layout.reg.empty() && layout.reg[0].axis == axis && layout.reg[0].stride == 1)
        wide = std::min({layout.reg[0].extent, 16 / dtypeBytes(accessBuffer(access)->type().dtype()), rowAlignment(access)});
    }
    access.setAttr("vec", Attribute(std::max(width, wide)));
    if (wide > width)
      access.setAttr("edges", Attribute::word("split"));
  }

  /// The tile axis that runs along the buffer's memory; -1 if its steps there are not of one element.
  static int contiguousAxis(const Operation &access) {
    std::vector<int64_t> dims = accessDims(access), steps = access.optionalInts("steps");
    bool isContiguous = !dims.empty() && !accessBuffer(access)->type().isStrided() && (steps.empty() || steps.back() == 1) &&
                        std::ranges::none_of(dims, [](int64_t axis) { return axis < 0; });
    return isContiguous ? int(dims.back()) : -1;
  }

  /// Neighbours in memory are neighbours in the tile along another axis than those that a thread holds and lanes hold side by side.
  bool readsAcross(const Operation &load) const {
    constexpr int64_t worthWhile = 8;
    int axis = contiguousAxis(load);
    Type type = load.result()->type();
    if (axis < 0 || schedule.cluster > 1 || insideLoop(load) || type.extents()[size_t(axis)] < worthWhile)
      return false;
    for (const auto *modes : {&type.layout()->reg, &type.layout()->lane})
      if (!modes->empty() && modes->front().axis >= 0 && modes->front().stride == 1)
        return modes->front().axis != axis && modes->front().extent > 1 &&
               type.extents()[size_t(modes->front().axis)] >= worthWhile;
    return false;
  }

  /// Loads the tile as it lies in memory and turns it in shared memory.
  void exchangeLoaded(Operation &load) {
    Value *loaded = load.result();
    Type wanted = loaded->type();
    std::vector<Use> uses(loaded->uses().begin(), loaded->uses().end());
    if (!load.intsAttr("mask").empty() && !load.attr("fill"))
      load.setAttr("fill", isFloat(wanted.dtype()) ? Attribute(0.0) : Attribute(0)); // All of it goes through shared memory.
    loaded->setType(context.withLayout(wanted, coalescedFor(&load, wanted)));
    Builder behind(*load.parent(), load.next());
    behind.setLoc(load.loc());
    Value *turned = behind.create(OpKind::ConvertLayout, {loaded}, {wanted})->result();
    for (const Use &use : uses)
      use.user->setOperand(use.index, turned);
  }

  /// All threads side by side along the memory that `load` reads, where it is given; else along the tile's last axis.
  const Layout *coalescedFor(const Operation *load, Type tile) const {
    std::vector<int64_t> extents = tile.extents();
    std::vector<int> order;
    int64_t vec = 16 / dtypeBytes(tile.dtype());
    if (load) {
      std::vector<int64_t> dims = accessDims(*load);
      for (size_t a = dims.size(); a-- > 0;)
        if (dims[a] >= 0)
          order.push_back(int(dims[a]));
      const DimExpr &last = accessBuffer(*load)->type().shape().back();
      while (vec > 1 && !last.isMultipleOf(vec))
        vec /= 2;
    }
    for (int axis = int(extents.size()); axis-- > 0;)
      if (std::find(order.begin(), order.end(), axis) == order.end())
        order.push_back(axis);
    vec = std::min(vec, extents[size_t(order[0])]);
    return context.layout(Schedule::coalesced(extents, order, vec, schedule.numWarps()));
  }

  //===- Reductions -===//

  void reduceAxis(Builder &builder, Operation &op, std::vector<Value *> &values, int64_t axis) {
    reduceInWarps(builder, op, values, axis);
    if (!holdsAxis(values[0]->type().layout()->warp, axis))
      return;
    exchangeWarps(builder, values, axis);
    reduceInWarps(builder, op, values, axis);
  }

  void splitReduce(Operation &op) {
    Builder builder(&op);
    builder.setLoc(op.loc());
    std::vector<Value *> values(op.operands().begin(), op.operands().end());
    // One axis after the other, last first, as the levels above do it: the same order of operations.
    std::vector<int64_t> axes = op.intsAttr("axes");
    for (size_t i = axes.size(); i-- > 0;)
      reduceAxis(builder, op, values, axes[i]);
    for (unsigned i = 0; i < op.numResults(); ++i) {
      // Nothing to combine (every reduced extent is 1), or a narrow sum that only has to be converted.
      Value *value = builder.convert(values[i], op.result(i)->type().dtype());
      value->setName(op.result(i)->name());
      op.result(i)->replaceAllUsesWith(value);
    }
    op.erase();
  }

  /// The layout in which every warp holds what each warp held along `axis`. Of a few parts every thread holds all; of more, lanes
  /// that would hold copies hold them side by side. Either way the slowest digits are combined first.
  static Layout gatheredLayout(Layout layout, int64_t axis) {
    constexpr int64_t few = 8;
    std::vector<Mode> moved;
    int64_t parts = layout.numRegs();
    for (Mode &mode : layout.warp)
      if (mode.axis == axis) {
        moved.push_back(mode);
        parts *= mode.extent;
        mode = {-1, mode.extent, 0};
      }
    auto copies = std::ranges::find_if(layout.lane, [](const Mode &mode) { return mode.axis < 0; });
    int64_t left = copies != layout.lane.end() && parts > few ? copies->extent : 1;
    std::vector<Mode> lanes;
    for (Mode mode : moved) {
      int64_t taken = std::min(left, mode.extent);
      if (taken > 1)
        lanes.push_back({mode.axis, taken, mode.stride});
      if (taken < mode.extent)
        layout.reg.push_back({mode.axis, mode.extent / taken, mode.stride * taken});
      left /= taken;
    }
    if (!lanes.empty()) {
      lanes.push_back({-1, left, 0});
      layout.lane.insert(layout.lane.erase(copies), lanes.begin(), lanes.end());
    }
    return layout.normalized();
  }

  /// Every warp gets what each warp holds along `axis`.
  void exchangeWarps(Builder &builder, std::vector<Value *> &values, int64_t axis) {
    const Layout *gathered = context.layout(gatheredLayout(*values[0]->type().layout(), axis));
    std::vector<Type> types;
    for (const Value *value : values)
      types.push_back(context.withLayout(value->type(), gathered));
    Operation *exchange = builder.create(OpKind::ConvertLayout, values, types);
    values.assign(exchange->results().begin(), exchange->results().end());
  }

  Value *allocShared(Type type, std::string_view name, SourceLoc loc) {
    Builder top(kernel.body(), kernel.body().front());
    top.setLoc(loc);
    Value *memory = top.create(OpKind::AllocShared, {}, {type})->result();
    memory->setName(name);
    return memory;
  }

  static bool insideLoop(const Operation &op) { return op.parentOp() && op.parentOp()->is(OpKind::For); }

  //===- Dot operands -===//

  void stageOperands(Operation &dot) {
    Builder builder(&dot);
    builder.setLoc(dot.loc());
    std::vector<int64_t> contracted = dot.intsAttr("axes");
    std::vector<Value *> tiles, memories;
    for (unsigned i : {0u, 1u}) {
      Value *root = dot.operand(i);
      const Layout *layout = coalescedFor(loadBehind(root), root->type());
      tiles.push_back(copyChain(builder, root, layout));
    }
    if (insideLoop(dot))
      builder.create(OpKind::BarrierOp, {}, {}); // Everyone is done with the last block's operands.
    for (unsigned i : {0u, 1u}) {
      Type type = context.smem(tiles[i]->type().dtype(), tiles[i]->type().extents(), operandStrides(tiles[i]->type(), contracted));
      Value *memory = allocShared(type, i == 0 ? "lhs" : "rhs", dot.loc());
      builder.create(OpKind::SharedStore, {tiles[i], memory}, {});
      memories.push_back(memory);
    }
    builder.create(OpKind::BarrierOp, {}, {});
    dot.setOperand(0, memories[0]);
    dot.setOperand(1, memories[1]);
  }

  static int64_t elementsOf(const Value &value) { return value.type().isTile() ? *value.type().numElements().constant() : 0; }

  static const Operation *loadBehind(Value *value) {
    while (Operation *op = value->definition()) {
      if (op->is(OpKind::Load))
        return op;
      if (op->numOperands() == 0)
        return nullptr;
      // The operand that runs along most of the tile leads to the load that matters.
      Value *widest = op->operand(0);
      for (Value *operand : op->operands())
        if (elementsOf(*operand) > elementsOf(*widest))
          widest = operand;
      value = widest;
    }
    return nullptr;
  }

  /// Copies what computes `value` from loads, in `layout` cut to each tile's extents.
  Value *copyChain(Builder &builder, Value *value, const Layout *layout) {
    ValueMap copies;
    std::vector<Value *> stack{value};
    while (!stack.empty()) {
      Value *next = stack.back();
      if (copies.contains(next) || !next->type().isTile()) {
        stack.pop_back();
        continue;
      }
      Operation *op = next->definition();
      assert(op && (op->is(OpKind::Load) || computesAgain(*op)) && "an operand of dot that is not computed from loads");
      size_t before = stack.size();
      for (unsigned i = op->numOperands(); i-- > 0;)
        if (Value *operand = op->operand(i); operand->type().isTile() && !copies.contains(operand))
          stack.push_back(operand);
      if (stack.size() > before)
        continue; // First those.
      Operation *copy = cloneOperation(builder, *op, copies);
      copy->result()->setType(context.withLayout(next->type(), context.layout(cutLayout(*layout, next->type().extents()))));
      stack.pop_back();
    }
    return copies(value);
  }

  /// Contracted axes outermost, so that a thread's elements of the accumulator lie side by side; 16 bytes of padding spread the
  /// banks of an operand that is stored across its memory order.
  std::vector<int64_t> operandStrides(Type type, const std::vector<int64_t> &contracted) {
    std::vector<int64_t> extents = type.extents(), strides(extents.size(), 0);
    auto isContracted = [&](size_t axis) {
      return std::find(contracted.begin(), contracted.end(), int64_t(axis)) != contracted.end();
    };
    int64_t stride = 1;
    for (size_t axis = extents.size(); axis-- > 0;)
      if (!isContracted(axis)) {
        strides[axis] = stride;
        stride *= extents[axis];
      }
    stride += 16 / dtypeBytes(type.dtype());
    for (size_t axis = extents.size(); axis-- > 0;)
      if (isContracted(axis)) {
        strides[axis] = stride;
        stride *= extents[axis];
      }
    return strides;
  }

  Function &kernel;
  Schedule schedule;
  Context &context;
};

/// What stands behind `value` that a copy next to the dot could not compute again; null if there is nothing of the kind.
const Operation *notFromLoads(Value *value) {
  std::vector<Value *> stack{value};
  std::unordered_set<const Value *> seen;
  while (!stack.empty()) {
    Value *next = stack.back();
    stack.pop_back();
    if (!next->type().isTile() || !seen.insert(next).second)
      continue;
    const Operation *op = next->definition();
    if (!op)
      return next->argumentOf()->parentOp();
    if (!op->is(OpKind::Load) && !computesAgain(*op))
      return op;
    stack.insert(stack.end(), op->operands().begin(), op->operands().end());
  }
  return nullptr;
}

} // namespace

Expected<void> passes::layout(Function &function, PassContext &) {
  if (function.kind != FunctionKind::Kernel)
    return {};
  const Attribute *attribute = function.attr("schedule");
  if (!attribute || !attribute->asRecord())
    return Diagnostic{.code = ErrorCode::NoSchedule,
                      .message = "kernel @" + function.name + " has no schedule, so its tiles have no layout",
                      .loc = function.loc,
                      .fix = "write `schedule = #rows<...>` after its level"};
  // All tiles of a kernel have one axis per loop axis.
  int rank = -1;
  Diagnostics errors;
  walk(function.body(), [&](Operation &op) {
    for (unsigned i = 0; op.is(OpKind::Dot) && i < 2; ++i)
      if (const Operation *source = notFromLoads(op.operand(i)); source && errors.empty())
        errors.push_back({.code = ErrorCode::BadSchedule,
                          .message = "an operand of this dot comes from " + std::string(source->info().name) +
                                     ", and operands are staged from loads and element-wise work on them",
                          .loc = op.loc(),
                          .fix = "store it to a buffer in a kernel before this one"});
    for (Value *result : op.results())
      if (result->type().isTile()) {
        for (int64_t extent : result->type().extents())
          if (!std::has_single_bit(uint64_t(extent)) && errors.empty())
            errors.push_back({.code = ErrorCode::BadSchedule,
                              .message = "no schedule lays out " + result->type().str() + ": its extents are not powers of two",
                              .loc = op.loc(),
                              .fix = "take the next power of two and mask the rest"});
        if (rank < 0)
          rank = result->type().rank();
        else if (rank != result->type().rank() && errors.empty())
          errors.push_back({.code = ErrorCode::BadSchedule,
                            .message = "tiles of one kernel have different ranks: " + std::to_string(rank) + " and " +
                                       std::to_string(result->type().rank()),
                            .loc = op.loc(),
                            .fix = "give every tile one axis per loop axis, of extent 1 where it does not run along it"});
      }
  });
  if (!errors.empty())
    return errors;
  if (rank < 0) {
    // A kernel whose loops never run has no tiles; its schedule still says how many threads it has.
    const Attribute *block = attribute->asRecord()->find("block");
    rank = block && block->asInts() ? int(block->asInts()->size()) : 3;
  }
  auto schedule = Schedule::parseForKernel(*attribute->asRecord(), rank);
  if (!schedule) {
    Diagnostic error = schedule.errors().front();
    error.loc = function.loc;
    return error;
  }
  bool isInLoop = false;
  walk(function.body(), [&](Operation &op) { isInLoop |= op.is(OpKind::Reduce) && op.parentOp(); });
  if (schedule->cluster > 1 && isInLoop)
    return Diagnostic{.code = ErrorCode::BadSchedule,
                      .message = "the CTAs of a cluster exchange what they reduce once, and kernel @" + function.name +
                                 " reduces in a loop",
                      .loc = function.loc,
                      .fix = "take a block that holds the whole axis, or no cluster"};
  LayoutPass(function, *schedule).run();
  return {};
}

} // namespace minic
