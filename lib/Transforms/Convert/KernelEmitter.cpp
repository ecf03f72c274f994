#include "KernelEmitter.h"

#include "../Analysis/MatmulChoice.h"
#include "KernelBlock.h"

#include "minic/IR/Combiner.h"
#include "minic/IR/ScalarEval.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

#include <algorithm>
#include <map>
#include <set>

namespace minic {
namespace {

class KernelEmitter : KernelBlock {
public:
  KernelEmitter(Operation &fusion, const IterationSpace &space, const Schedule &schedule, bool exact, Function &kernel)
      : KernelBlock(space, schedule, Builder(kernel.body())), region(fusion.region()), exact(exact) {
    for (Operation &op : region)
      if (!op.info().terminator)
        ops.push_back(&op);
    for (unsigned i = 0; i < region.arguments().size(); ++i)
      bufferOf[region.argument(i)] = kernel.params()[i];
    for (unsigned i = 0; i < yield().numOperands(); ++i)
      outputBuffers.push_back(kernel.params()[region.arguments().size() + i]);
  }

  void run() {
    emitProgramId();
    emitAlignedStart();
    computeStages();
    if (ops.back()->info().axes == AxisRule::Scan) {
      emitScan(*ops.back());
    } else {
      for (int stage = 0; stage < numStages; ++stage)
        emitReductionSweep(stage);
      emitStores();
    }
    builder.create(OpKind::Return, {}, {});
  }

private:
  using Scope = std::map<Value *, Value *>;
  using LoadKey = std::pair<Value *, std::vector<int>>;

  Operation &yield() const { return *region.back(); }

  //===- Loops -===//

  void emitProgramId() {
    offsets.assign(size_t(space.rank()), nullptr);
    std::vector<DimExpr> grid;
    std::vector<Type> types;
    for (int axis = 0; axis < space.rank(); ++axis)
      if (!space.axes()[size_t(axis)].reduced) {
        grid.push_back(DimExpr::ceilDiv(space.axes()[size_t(axis)].extent, schedule.block[size_t(axis)]));
        types.push_back(context.index());
      }
    if (grid.empty())
      return;
    Operation *id = builder.create(OpKind::ProgramId, std::span<Value *const>(), types, {{"grid", Attribute::dims(grid)}});
    unsigned result = 0;
    for (int axis = 0; axis < space.rank(); ++axis) {
      if (space.axes()[size_t(axis)].reduced)
        continue;
      Value *position = id->result(result++);
      position->setName("p" + std::to_string(axis));
      offsets[size_t(axis)] = scaled(position, schedule.block[size_t(axis)]);
    }
  }

  /// Where the last axis starts, so that memory is aligned there: the first element of a row less what it is beyond a multiple. Of
  /// one row; all axes but the outermost are of known extents.
  void emitAlignedStart() {
    if (schedule.align == 1)
      return;
    Value *row = nullptr;
    int64_t pitch = 1;
    for (int axis = space.rank(); axis-- > 0;) {
      if (Value *offset = offsets[size_t(axis)]) {
        Value *part = scaled(offset, pitch);
        row = row ? builder.scalarOp(OpKind::Add, {part, row}) : part;
      }
      pitch *= space.axes()[size_t(axis)].extent.constant().value_or(1);
    }
    if (!row)
      return;
    Value *beyond = builder.scalarOp(OpKind::RemU, {row, builder.constantIndex(schedule.align)});
    alignedStart = builder.scalarOp(OpKind::Sub, {builder.constantIndex(0), beyond});
    alignedStart->setName("start");
  }

  Value *scaled(Value *position, int64_t factor) {
    return factor == 1 ? position : builder.scalarOp(OpKind::Mul, {position, builder.constantIndex(factor)});
  }

  /// A reduction belongs to the sweep after those whose results it needs.
  void computeStages() {
    std::map<const Value *, int> depth;
    for (Operation *op : ops) {
      int needed = 0;
      for (Value *operand : op->operands())
        if (auto it = depth.find(operand); it != depth.end())
          needed = std::max(needed, it->second);
      bool reduction = isReduction(*op);
      if (reduction) {
        stageOf[op] = needed;
        numStages = std::max(numStages, needed + 1);
      }
      for (Value *result : op->results())
        depth[result] = needed + (reduction ? 1 : 0);
    }
  }

  /// Has a sweep; what is held is reduced in its block.
  bool isReduction(const Operation &op) const {
    return (op.info().axes == AxisRule::Reduce && !space.reducesHeld(op)) || op.info().axes == AxisRule::Contract;
  }

  std::vector<int> reducedLoops() const {
    std::vector<int> loops;
    for (int axis = 0; axis < space.rank(); ++axis)
      if (space.axes()[size_t(axis)].reduced)
        loops.push_back(axis);
    return loops;
  }

  /// Emits a loop over the blocks of each reduced axis around `body`, which maps carried values to their next ones.
  template <typename Body> std::vector<Value *> emitSweep(std::vector<Value *> carried, Body &&body) {
    std::vector<int> loops = reducedLoops();
    std::vector<Builder> saved;
    std::vector<Operation *> nest;
    Builder outermost = builder;
    for (int axis : loops) {
      const LoopAxis &loopAxis = space.axes()[size_t(axis)];
      int64_t step = schedule.block[size_t(axis)];
      if (alignedStart && axis == space.rank() - 1) {
        offsets[size_t(axis)] = alignedStart; // The block holds the row, so there is one trip.
        continue;
      }
      Value *first = loopAxis.chunk ? scaled(offsets[size_t(loopAxis.pieces)], loopAxis.chunk) : nullptr;
      if (first && step == loopAxis.chunk) {
        offsets[size_t(axis)] = first;
        continue;
      }
      std::vector<Value *> operands = {builder.constantIndex(0), sweepEnd(loopAxis, first), builder.constantIndex(step)};
      operands.insert(operands.end(), carried.begin(), carried.end());
      std::vector<Type> types;
      for (Value *value : carried)
        types.push_back(value->type());
      Operation *loop = builder.create(OpKind::For, operands, types);
      if (isShortChain(loopAxis, step) && loops.size() == 1)
        loop->setAttr("unroll", Attribute::word("full"));
      Block &block = loop->addRegion();
      offsets[size_t(axis)] = block.addArgument(context.index(), "i" + std::to_string(axis));
      for (Value *&value : carried)
        value = block.addArgument(value->type(), "acc");
      nest.push_back(loop);
      builder = Builder(block);
      builder.setLoc(outermost.loc());
      if (first)
        offsets[size_t(axis)] = builder.scalarOp(OpKind::Add, {first, offsets[size_t(axis)]});
    }
    std::vector<Value *> next = body(carried);
    for (size_t i = nest.size(); i-- > 0;) {
      builder.create(OpKind::Yield, next, {});
      next.assign(nest[i]->results().begin(), nest[i]->results().end());
      builder = Builder(*nest[i]->parent());
    }
    builder = outermost;
    return next;
  }

  /// How far a sweep goes: through the axis, or its piece, of which the last may be shorter.
  Value *sweepEnd(const LoopAxis &axis, Value *first) {
    Value *end = builder.dim(axis.length());
    if (!first || axis.extent.isMultipleOf(axis.chunk))
      return end;
    return builder.scalarOp(OpKind::Min, {end, builder.scalarOp(OpKind::Sub, {builder.dim(axis.extent), first})});
  }

  /// A few numbers that a thread adds up: written out, all loads can start at once.
  bool isShortChain(const LoopAxis &axis, int64_t step) const {
    auto length = axis.extent.constant();
    return step == 1 && !axis.chunk && length && *length <= mostInChain && ops.back()->info().axes != AxisRule::Scan;
  }

  //===- Values -===//

  bool isInner(Value *value) const { return space.has(value) && space.isInner(value); }

  /// Marks the ops that `roots` need, stopping at what is there already.
  std::set<Operation *> needed(const std::vector<Value *> &roots, bool inner) const {
    std::set<Operation *> result;
    std::vector<Value *> stack(roots);
    while (!stack.empty()) {
      Value *value = stack.back();
      stack.pop_back();
      Operation *op = value->definition();
      if (!op || outer.count(value) || isInner(value) != inner)
        continue;
      if (result.insert(op).second && !isReduction(*op))
        stack.insert(stack.end(), op->operands().begin(), op->operands().end());
    }
    return result;
  }

  /// Emits, outside all loops, the values and loads without reduced axes that inner values or outputs depend on.
  void emitOuter(const std::vector<Value *> &roots) {
    std::set<Operation *> inner = needed(roots, true);
    std::vector<Value *> start = roots;
    for (Operation *op : inner)
      start.insert(start.end(), op->operands().begin(), op->operands().end());
    std::set<Operation *> wanted = needed(start, false);
    for (Operation *op : ops) {
      if (wanted.count(op) && !isReduction(*op))
        emitOp(*op, outer, outerLoads);
      if (inner.count(op))
        for (unsigned i = 0; i < op->numOperands(); ++i)
          if (bufferOf.count(op->operand(i)) && !readsFromMemory(*op, i) && !space.isReduced(space.axesOfUse(op, i)))
            operandTile(*op, i, outer, outerLoads);
    }
  }

  void emitInner(const std::vector<Value *> &roots, Scope &scope, std::map<LoadKey, Value *> &loads) {
    std::set<Operation *> wanted = needed(roots, true);
    for (Operation *op : ops)
      if (wanted.count(op))
        emitOp(*op, scope, loads);
  }

  Value *operandTile(Operation &op, unsigned i, Scope &scope, std::map<LoadKey, Value *> &loads) {
    Value *operand = op.operand(i);
    if (auto it = scope.find(operand); it != scope.end())
      return it->second;
    if (auto it = outer.find(operand); it != outer.end())
      return it->second;
    assert(bufferOf.count(operand) && "an operand that no scope has");
    const std::vector<int> &axes = space.axesOfUse(&op, i);
    // Loads outside the loops serve inside as well, never the other way round.
    auto &cache = space.isReduced(axes) ? loads : outerLoads;
    Value *&tile = cache[{operand, axes}];
    if (!tile) {
      builder.setLoc(op.loc()); // What is loaded is of the op that reads it.
      tile = emitLoad(operand, axes);
    }
    return tile;
  }

  Value *emitLoad(Value *input, const std::vector<int> &axes) {
    std::vector<Value *> operands = {bufferOf.at(input)};
    for (int axis : axes)
      operands.push_back(offsets[size_t(axis)]);
    Operation *load =
        builder.create(OpKind::Load, operands, std::vector<Type>{tileType(input->type().dtype(), axes)}, dimsAttr(axes));
    load->result()->setName(input->name() + "_t");
    return load->result();
  }

  void emitOp(Operation &op, Scope &scope, std::map<LoadKey, Value *> &loads) {
    builder.setLoc(op.loc());
    if (space.reducesHeld(op))
      return emitHeldReduction(op, scope, loads);
    Value *result = op.result();
    Type type = tileType(result->type().dtype(), space.axesOf(result));
    Value *tile = nullptr;
    if (op.is(OpKind::Constant)) {
      tile = builder.create(OpKind::Constant, {}, {type}, {{"value", *op.attr("value")}})->result();
    } else if (op.is(OpKind::Transpose)) {
      tile = operandTile(op, 0, scope, loads); // Loop axes do not move.
    } else if (op.is(OpKind::Broadcast)) {
      tile = operandTile(op, 0, scope, loads);
      if (tile->type() != type)
        tile = builder.create(OpKind::Broadcast, {tile}, {type})->result();
    } else if (op.is(OpKind::Iota)) {
      tile = emitIota(op);
    } else if (op.is(OpKind::Size)) {
      tile = builder.create(OpKind::Iota, {builder.dim(*op.attr("expr")->asDim())}, {type}, {{"axis", Attribute(0)}})->result();
    } else if (op.is(OpKind::Slice)) {
      tile = emitSlice(op);
    } else if (op.is(OpKind::Pad)) {
      tile = emitPad(op);
    } else if (op.is(OpKind::Concat)) {
      tile = emitConcat(op);
    } else if (op.is(OpKind::Gather)) {
      tile = emitGather(op, operandTile(op, 1, scope, loads));
    } else {
      assert(op.info().elementwise && "an op that tile cannot say");
      std::vector<Value *> operands;
      for (unsigned i = 0; i < op.numOperands(); ++i)
        operands.push_back(operandTile(op, i, scope, loads));
      tile = builder.create(op.kind(), operands, std::vector<Type>{type}, {op.attrs().begin(), op.attrs().end()})->result();
    }
    if (!op.is(OpKind::Transpose))
      tile->setName(result->name());
    scope[result] = tile;
  }

  Value *emitIota(Operation &op) {
    Value *result = op.result();
    int axis = space.axesOf(result)[size_t(op.intAttr("axis"))];
    Value *tile =
        builder
            .create(OpKind::Iota, {offsets[size_t(axis)]}, {tileType(result->type().dtype(), {axis})}, {{"axis", Attribute(axis)}})
            ->result();
    return broadcastTo(tile, tileType(result->type().dtype(), space.axesOf(result)));
  }

  //===- Sweeps -===//

  /// A sweep in steps of 1 that carries the sum so far.
  void emitScan(Operation &op) {
    Value *result = op.result();
    DType wide = computeDType(result->type().dtype());
    emitOuter({result});
    builder.setLoc(op.loc());
    Value *zero = builder.constant(tileType(wide, space.axesOf(result)), Scalar{}.toAttr(wide));
    emitSweep({zero}, [&](const std::vector<Value *> &carried) {
      Scope scope;
      std::map<LoadKey, Value *> loads;
      emitInner({op.operand(0)}, scope, loads);
      Value *next = builder.convert(operandTile(op, 0, scope, loads), wide);
      Value *sum = builder.scalarOp(OpKind::Add, {carried[0], next});
      emitStore(builder.convert(sum, result->type().dtype()), 0);
      return std::vector<Value *>{sum};
    });
  }

  void emitReductionSweep(int stage) {
    std::vector<Operation *> reductions;
    std::vector<Value *> roots;
    for (Operation *op : ops)
      if (stageOf.count(op) && stageOf[op] == stage) {
        reductions.push_back(op);
        roots.insert(roots.end(), op->operands().begin(), op->operands().end());
      }
    emitOuter(roots);

    std::vector<Value *> inits;
    for (Operation *op : reductions)
      appendIdentities(*op, inits);
    std::vector<Value *> results = emitSweep(inits, [&](const std::vector<Value *> &accs) {
      Scope scope;
      std::map<LoadKey, Value *> loads;
      emitInner(roots, scope, loads);
      std::vector<Value *> next;
      size_t position = 0;
      for (Operation *op : reductions) {
        std::vector<Value *> mine(accs.begin() + position, accs.begin() + position + op->numResults());
        position += op->numResults();
        std::vector<Value *> tiles;
        for (unsigned i = 0; i < op->numOperands(); ++i) {
          Value *tile = operandTile(*op, i, scope, loads);
          builder.setLoc(op->loc());
          tiles.push_back(boundWhereNothingIsLoaded(*op, i, tile, identityOf(*op, i)));
        }
        std::vector<Value *> combined = accumulate(*op, mine, tiles);
        next.insert(next.end(), combined.begin(), combined.end());
      }
      return next;
    });
    size_t position = 0;
    for (Operation *op : reductions)
      for (Value *result : op->results())
        outer[result] = finished(*op, *result, results[position++]);
  }

  /// The results of a reduction that has no sweep: its operands' blocks are all there is.
  void emitHeldReduction(Operation &op, Scope &scope, std::map<LoadKey, Value *> &loads) {
    std::vector<Value *> identities, tiles;
    appendIdentities(op, identities);
    for (unsigned i = 0; i < op.numOperands(); ++i)
      tiles.push_back(boundWhereNothingIsLoaded(op, i, operandTile(op, i, scope, loads), identityOf(op, i)));
    std::vector<Value *> values = accumulate(op, identities, tiles);
    for (unsigned i = 0; i < op.numResults(); ++i)
      scope[op.result(i)] = finished(op, *op.result(i), values[i]);
  }

  void appendIdentities(Operation &op, std::vector<Value *> &values) {
    builder.setLoc(op.loc());
    for (unsigned i = 0; i < op.numResults(); ++i) {
      DType dtype = computeDType(op.operand(i)->type().dtype());
      values.push_back(builder.constant(tileType(dtype, space.axesOf(op.result(i))), identityOf(op, i)));
    }
  }

  /// The sum of a reduction as its result.
  Value *finished(const Operation &op, const Value &result, Value *value) {
    builder.setLoc(op.loc());
    // A chain that ends in -0.0 (a tiny product was rounded) ends in +0.0 where padding is multiplied and added too: +0.0 it is.
    if (op.info().axes == AxisRule::Contract && isFloat(value->type().dtype()))
      value = builder.scalarOp(OpKind::Add, {value, builder.constant(value->type(), 0.0)});
    value = builder.convertSum(value, result.type().dtype());
    value->setName(result.name());
    return value;
  }

  /// Lanes past the edge are absent because a load there is. Along a loop that an operand runs by broadcast or as a constant only,
  /// nothing is absent, and reads at other indices find something there, as a product does; a select keeps the lanes past the edge
  /// out.
  Value *boundWhereNothingIsLoaded(Operation &op, unsigned operand, Value *tile, const Attribute &identity) {
    for (int axis : space.axesOfUse(&op, operand)) {
      const LoopAxis &loop = space.axes()[size_t(axis)];
      bool isReduced = loop.reduced || (loop.held && space.reducesHeld(op));
      bool isCut = loop.held && !loop.extent.isMultipleOf(schedule.block[size_t(axis)]);
      if (!isReduced || (!isCut && isLoadedAlong(op, operand, axis)))
        continue;
      Value *valid = inBounds(axis, space.axes()[size_t(axis)].extent);
      valid = broadcastTo(valid, context.withDType(tile->type(), DType::I1));
      tile = builder.select(valid, tile, builder.constant(tile->type(), identity));
    }
    return tile;
  }

  bool isLoadedAlong(Operation &op, unsigned operand, int axis) const {
    auto runsAlong = [&](const Operation *user, unsigned i) {
      const std::vector<int> &axes = space.axesOfUse(user, i);
      return std::find(axes.begin(), axes.end(), axis) != axes.end();
    };
    std::vector<std::pair<Operation *, unsigned>> stack = {{&op, operand}};
    std::set<Operation *> seen;
    bool loaded = false;
    while (!stack.empty()) {
      auto [user, i] = stack.back();
      stack.pop_back();
      if (readsFromMemory(*user, i))
        return false;
      if (!runsAlong(user, i))
        continue;
      Operation *definition = user->operand(i)->definition();
      loaded |= !definition; // An argument of the region: memory.
      if (definition && seen.insert(definition).second)
        for (unsigned j = 0; j < definition->numOperands(); ++j)
          stack.push_back({definition, j});
    }
    return loaded;
  }

  static Attribute identityOf(const Operation &op, unsigned i) {
    if (op.info().axes == AxisRule::Contract)
      return 0.0;
    if (const Attribute *init = op.attr("init"))
      return (*init->asList())[i];
    return reductionIdentity(op.wordAttr("combiner"), op.operand(i)->type().dtype());
  }

  std::vector<Value *> accumulate(Operation &op, const std::vector<Value *> &accs, const std::vector<Value *> &tiles) {
    std::vector<int64_t> axes;
    if (op.info().axes == AxisRule::Contract) {
      for (int axis : reducedLoops())
        axes.push_back(axis);
      return {multiply(op, tiles, accs[0], axes)};
    }
    for (int64_t axis : op.intsAttr("axes")) // A unit axis among the reduced loops may be another's.
      axes.push_back(space.axesOfUse(&op, 0)[size_t(axis)]);
    std::ranges::sort(axes);
    std::vector<Type> types;
    for (Value *acc : accs)
      types.push_back(acc->type());
    std::vector<NamedAttribute> attrs;
    for (const NamedAttribute &attribute : op.attrs())
      if (attribute.name == "axes")
        attrs.push_back({"axes", Attribute::ints(axes)});
      else if (attribute.name != "chunks")
        attrs.push_back(attribute);
    Operation *reduce = builder.create(OpKind::Reduce, tiles, types, attrs);
    if (op.numRegions() == 0)
      return {builder.scalarOp(combinerKind(op.wordAttr("combiner")), {accs[0], reduce->result()})};

    Block &from = op.region(), &to = reduce->addRegion();
    std::vector<Value *> arguments;
    for (Value *argument : from.arguments())
      arguments.push_back(to.addArgument(argument->type(), argument->name()));
    ValueMap map;
    Builder inner(to);
    inner.create(OpKind::Yield, inlineBlock(inner, from, arguments, map), {});
    return combineTiles(from, accs, {reduce->results().begin(), reduce->results().end()});
  }

  Value *multiply(Operation &op, const std::vector<Value *> &tiles, Value *acc, const std::vector<int64_t> &axes) {
    std::vector<NamedAttribute> attrs{{"axes", Attribute::ints(axes)}};
    if (const Attribute *precision = op.attr("precision"))
      attrs.push_back({"precision", *precision});
    bool isApart = sumsBlocksApart(schedule, op, exact);
    Value *start = isApart ? builder.constant(acc->type(), 0.0) : acc;
    Value *sum = builder.create(OpKind::Dot, {tiles[0], tiles[1], start}, {acc->type()}, attrs)->result();
    return isApart ? builder.scalarOp(OpKind::Add, {acc, sum}) : sum;
  }

  /// The combiner's scalar ops on whole tiles: running values first, the new block's second.
  std::vector<Value *> combineTiles(Block &combiner, const std::vector<Value *> &accs, const std::vector<Value *> &parts) {
    ValueMap map;
    for (unsigned i = 0; i < accs.size(); ++i) {
      map.map(combiner.argument(i), accs[i]);
      map.map(combiner.argument(unsigned(accs.size()) + i), parts[i]);
    }
    for (Operation &op : combiner) {
      if (op.info().terminator)
        break;
      std::vector<Value *> operands;
      for (Value *operand : op.operands())
        operands.push_back(map(operand));
      Type shape = accs[0]->type();
      Type type = context.withDType(shape, op.result()->type().dtype());
      map.map(op.result(),
              builder.create(op.kind(), operands, std::vector<Type>{type}, {op.attrs().begin(), op.attrs().end()})->result());
    }
    std::vector<Value *> results;
    for (Value *value : combiner.back()->operands())
      results.push_back(map(value));
    return results;
  }

  void emitStores() {
    std::vector<Value *> innerRoots;
    std::vector<Value *> all(yield().operands().begin(), yield().operands().end());
    emitOuter(all);
    for (Value *value : all)
      if (isInner(value))
        innerRoots.push_back(value);
    for (unsigned i = 0; i < all.size(); ++i)
      if (!isInner(all[i]))
        emitStore(outer.at(all[i]), i);
    if (innerRoots.empty())
      return;
    emitSweep({}, [&](const std::vector<Value *> &) {
      Scope scope;
      std::map<LoadKey, Value *> loads;
      emitInner(innerRoots, scope, loads);
      for (unsigned i = 0; i < all.size(); ++i)
        if (isInner(all[i]))
          emitStore(scope.at(all[i]), i);
      return std::vector<Value *>();
    });
  }

  void emitStore(Value *tile, unsigned output) {
    const std::vector<int> &axes = space.axesOf(yield().operand(output));
    std::vector<Value *> operands = {tile, outputBuffers[output]};
    for (int axis : axes)
      operands.push_back(offsets[size_t(axis)]);
    builder.setLoc(yield().operand(output)->definition()->loc());
    builder.create(OpKind::Store, operands, {}, dimsAttr(axes));
  }

  Block &region;
  bool exact;
  std::vector<Operation *> ops;
  std::vector<Value *> outputBuffers;
  Value *alignedStart = nullptr; ///< Along the last axis, instead of 0.
  std::map<Operation *, int> stageOf;
  int numStages = 0;
  Scope outer; ///< Tiles without reduced axes.
  std::map<LoadKey, Value *> outerLoads;
};

} // namespace

void emitKernel(Operation &fusion, const IterationSpace &space, const Schedule &schedule, bool exact, Function &kernel) {
  KernelEmitter(fusion, space, schedule, exact, kernel).run();
}

} // namespace minic
