// fuse: groups a graph's ops into fusion regions, one kernel each.
//
//   %m = reduce max %x, axes = [1]          %y = fusion %x {
//   %b = broadcast %m, dims = [0]     ->      ^(%x: ...): %m = reduce max %x ... yield %y
//   %y = sub %x, %b                         }
//
// Groups grow along edges from producer to consumer, in program order. Two groups merge if the merged one has a common loop nest
// (IterationSpace) and a schedule, keeps products on tensor cores and no slower there (losesTensorCores), fits the target as one
// kernel (KernelResources), closes no cycle, gives outputs that every program owns alone, and repeats no expensive work.
// Constants, broadcasts, transposes, slices and the like cost nothing in a region and are copied to each one that reads through
// them, where slices, pads, concats and gathers read memory, so never what their own region makes; reshapes are views of memory,
// custom ops launches of their kernels, and both stand between regions, and tables (constants that are lists) are memory that
// regions read. At the end a convert that widens what one other group alone reads moves there: half the bytes go through memory. In
// eager mode every op is its own group.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Analysis/KernelResources.h"
#include "minic/Transforms/Analysis/LibraryMatmul.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"
#include "minic/Transforms/FusionReport.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace minic {

const FusionReasonInfo &fusionReasonInfo(FusionReason reason) {
  static constexpr FusionReasonInfo rows[] = {
#define MINIC_FUSION_REASON(name, code, why, change) {code, why, change},
#include "minic/Transforms/FusionReasons.def"
#undef MINIC_FUSION_REASON
  };
  return rows[size_t(reason)];
}

namespace {

/// A reshape is a view of memory, a custom op a launch of its kernel: each is no part of a region.
bool standsAlone(const Operation &op) { return op.is(OpKind::Reshape) || op.is(OpKind::Custom); }

/// Whether ops may be one kernel.
struct Verdict {
  std::optional<FusionReason> reason; ///< None: one kernel.
  std::string detail;
  std::optional<KernelResources> resources;
  explicit operator bool() const { return !reason; }
};

bool isTable(const Operation &op) { return op.is(OpKind::Constant) && op.attr("value")->asList(); }

/// Readers that the search for cycles looks at before it gives up, which counts as a cycle: it keeps the time of a merge bounded.
constexpr int maxSearch = 1024;

/// Ops are known by their positions in the graph.
constexpr int noGroup = -1;
constexpr int memory = -1; ///< A reader that needs the value in memory.

class Fusion {
public:
  Fusion(Function &graph, PassContext &context) : graph(graph), context(context), maxOps(size_t(context.step->number("max"))) {}

  void run() {
    findMaterialized();
    for (Operation &op : graph.body())
      unshareOperands(op);
    makeGroups();
    if (!context.eager) {
      growGroups();
      narrowEdges();
    }
    if (context.fusionReport)
      report();
    rewrite();
  }

private:
  using Group = std::vector<int>; ///< In program order; without the free ops between them.

  //===- Groups -===//

  /// Free ops that must exist in memory: they are returned, viewed, given to a custom op, or read at other indices.
  void findMaterialized() {
    for (Operation &op : graph.body())
      for (unsigned i = 0; i < op.numOperands(); ++i)
        if (Operation *definition = op.operand(i)->definition();
            definition && (op.is(OpKind::Return) || standsAlone(op) || readsFromMemory(op, i)))
          materialized.insert(definition);
  }

  bool isCopied(const Operation &op) const { return isFreeInRegion(op) && !isTable(op) && !materialized.count(&op); }

  /// A free op that an op reads twice, as in b times its own transpose, runs along other loops each time: each gets its own.
  void unshareOperands(Operation &op) {
    if (isFreeInRegion(op) || op.info().terminator)
      return;
    std::unordered_set<const Operation *> read;
    std::vector<Operation *> stack = {&op};
    while (!stack.empty()) {
      Operation *user = stack.back();
      stack.pop_back();
      for (unsigned i = 0; i < user->numOperands(); ++i) {
        Operation *definition = user->operand(i)->definition();
        if (!definition || !isCopied(*definition))
          continue;
        if (!read.insert(definition).second) {
          Builder builder(user);
          builder.setLoc(definition->loc());
          ValueMap map;
          definition = cloneOperation(builder, *definition, map);
          user->setOperand(i, definition->result());
        }
        stack.push_back(definition);
      }
    }
  }

  void makeGroups() {
    for (Operation &op : graph.body()) {
      order[&op] = int(ops.size());
      ops.push_back(&op);
      bool grouped = !op.info().terminator && !isTable(op) && !isCopied(op);
      groupOf.push_back(grouped ? int(groups.size()) : noGroup);
      if (grouped)
        groups.push_back({order[&op]});
    }
    seen.assign(ops.size(), 0);
    readersOf.resize(ops.size());
    for (int op = 0; op < int(ops.size()); ++op)
      if (isGrouped(op))
        for (Value *result : ops[size_t(op)]->results())
          readersOf[size_t(op)].push_back(findReaders(result));
  }

  bool isGrouped(int op) const { return groupOf[size_t(op)] != noGroup; }

  /// Starts a walk that visits each op once: `visit` is true the first time.
  void startWalk() { ++walkNumber; }
  bool visit(int op) { return std::exchange(seen[size_t(op)], walkNumber) != walkNumber; }

  /// The group ops that `op` reads, through free ops.
  std::vector<int> producers(int op) {
    std::vector<int> result, stack;
    auto pushOperands = [&](const Operation &reader) {
      for (unsigned i = reader.numOperands(); i-- > 0;)
        if (Operation *definition = reader.operand(i)->definition())
          stack.push_back(order.at(definition));
    };
    startWalk();
    pushOperands(*ops[size_t(op)]);
    while (!stack.empty()) {
      int definition = stack.back();
      stack.pop_back();
      if (!visit(definition))
        continue;
      if (isGrouped(definition))
        result.push_back(definition);
      else
        pushOperands(*ops[size_t(definition)]);
    }
    return result;
  }

  /// The group ops that read a value, through free ops, or `memory`; in program order.
  std::vector<int> findReaders(Value *value) {
    std::vector<int> result;
    std::vector<Value *> stack{value};
    startWalk();
    while (!stack.empty()) {
      Value *next = stack.back();
      stack.pop_back();
      for (const Use &use : next->uses()) {
        int user = order.at(use.user);
        if (!visit(user))
          continue;
        if (isGrouped(user))
          result.push_back(user);
        else if (use.user->info().terminator)
          result.push_back(memory);
        else
          stack.push_back(use.user->result());
      }
    }
    std::sort(result.begin(), result.end());
    return result;
  }

  /// Ops of a region: the group and the free ops that its operands come through, in program order.
  std::vector<Operation *> regionOps(const Group &group) {
    std::vector<int> found(group);
    startWalk();
    for (size_t i = 0; i < found.size(); ++i)
      for (Value *operand : ops[size_t(found[i])]->operands()) {
        if (!operand->definition())
          continue;
        int definition = order.at(operand->definition());
        if (!isGrouped(definition) && !isTable(*operand->definition()) && visit(definition))
          found.push_back(definition);
      }
    std::sort(found.begin(), found.end());
    std::vector<Operation *> result;
    for (int op : found)
      result.push_back(ops[size_t(op)]);
    return result;
  }

  /// Results of the group that something outside the groups `a` and `b` reads.
  std::vector<Value *> outputs(const Group &group, int a, int b) const {
    std::vector<Value *> result;
    auto isOutside = [&](int reader) { return reader == memory || (groupOf[size_t(reader)] != a && groupOf[size_t(reader)] != b); };
    for (int op : group)
      for (Value *value : ops[size_t(op)]->results()) {
        const std::vector<int> &readers = readersOf[size_t(op)][value->index()];
        if (readers.empty() || std::any_of(readers.begin(), readers.end(), isOutside))
          result.push_back(value);
      }
    return result;
  }

  //===- Merging -===//

  void growGroups() {
    for (int op = 0; op < int(ops.size()); ++op)
      if (isGrouped(op))
        for (int producer : producers(op))
          if (int from = groupOf[size_t(producer)]; from != groupOf[size_t(op)]) {
            Verdict verdict = tryMerge(from, groupOf[size_t(op)]);
            if (context.fusionReport)
              verdicts[{producer, op}] = std::move(verdict);
          }
  }

  Verdict tryMerge(int producer, int consumer) {
    Group &a = groups[size_t(producer)], &b = groups[size_t(consumer)];
    if (a.size() + b.size() > maxOps)
      return {FusionReason::ManyOps, "more than " + std::to_string(maxOps)};
    Group merged;
    std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged));
    Verdict verdict = judge(merged, producer, consumer);
    if (verdict && closesCycle(producer, consumer))
      verdict.reason = FusionReason::Cycle;
    if (!verdict)
      return verdict;
    for (int op : a)
      groupOf[size_t(op)] = consumer;
    b = std::move(merged);
    a.clear();
    return verdict;
  }

  /// What one group widens for another alone goes through memory narrow: the convert moves to the reader.
  void narrowEdges() {
    for (int op = int(ops.size()); op-- > 0;) {
      if (!isGrouped(op) || !isWidening(*ops[size_t(op)]) || groups[size_t(groupOf[size_t(op)])].size() == 1)
        continue;
      int home = groupOf[size_t(op)], reader = readingGroup(op);
      if (reader == memory || reader == home)
        continue;
      Group without = groups[size_t(home)], with = groups[size_t(reader)];
      std::erase(without, op);
      with.insert(std::ranges::lower_bound(with, op), op);
      groupOf[size_t(op)] = reader;
      if (judge(without, home, home) && judge(with, reader, reader)) {
        groups[size_t(home)] = std::move(without);
        groups[size_t(reader)] = std::move(with);
      } else {
        groupOf[size_t(op)] = home;
      }
    }
  }

  static bool isWidening(const Operation &op) {
    return op.is(OpKind::Convert) && dtypeBytes(op.operand(0)->type().dtype()) < dtypeBytes(op.result()->type().dtype());
  }

  /// The group that all readers of an op's result are in; `memory` if there is none.
  int readingGroup(int op) const {
    const std::vector<int> &readers = readersOf[size_t(op)][0];
    int group = readers.empty() || readers[0] == memory ? memory : groupOf[size_t(readers[0])];
    return std::ranges::all_of(readers, [&](int reader) { return reader != memory && groupOf[size_t(reader)] == group; }) ? group
                                                                                                                          : memory;
  }

  /// Whether the ops may be one kernel. `a` and `b` are the groups that they are in.
  Verdict judge(const Group &merged, int a, int b) {
    for (int op : merged) {
      if (standsAlone(*ops[size_t(op)]))
        return {ops[size_t(op)]->is(OpKind::Custom) ? FusionReason::Custom : FusionReason::View};
      if (ops[size_t(op)]->info().axes == AxisRule::Scan)
        return {FusionReason::Scan};
    }
    std::vector<Operation *> region = regionOps(merged);
    std::string why;
    auto space = IterationSpace::compute(region, &why);
    if (!space)
      return {readsOwnMemory(region) ? FusionReason::ReadElsewhere : FusionReason::NoCommonLoops, why};
    auto schedule = chooseSchedule(*space, region, context.target, context.exact());
    if (!schedule) {
      bool isCut = std::ranges::any_of(region, [](const Operation *op) { return op->attr("chunks") != nullptr; });
      return {isCut ? FusionReason::Pieces : FusionReason::NoSchedule};
    }
    if (losesTensorCores(*schedule, *space, region, context.target, context.exact()))
      return {FusionReason::LosesTensorCores};

    // Along a loop that runs in parallel, a value that does not have it is computed by each of the programs; of one that is held
    // there is one.
    auto missesParallelAxis = [&](const Value *value) {
      const std::vector<int> &axes = space->axesOf(value);
      for (int axis = 0; axis < space->rank(); ++axis) {
        const LoopAxis &loop = space->axes()[size_t(axis)];
        if (!loop.reduced && !loop.held && !loop.extent.isConstant(1) && !space->runsAlong(axes, axis))
          return true;
      }
      return false;
    };
    // An output that runs along some of the reduced loops is stored in a sweep over all of them: not at all where another has no
    // trips.
    auto missesReducedAxis = [&](const Value *value) {
      const std::vector<int> &axes = space->axesOf(value);
      for (int axis = 0; axis < space->rank(); ++axis) {
        const LoopAxis &loop = space->axes()[size_t(axis)];
        if (loop.reduced && !loop.extent.isConstant(1) && std::find(axes.begin(), axes.end(), axis) == axes.end())
          return space->isInner(value);
      }
      return false;
    };
    // A prologue of a matmul runs once per tile of the other operand: too often for anything but cheap arithmetic.
    bool matmul = std::any_of(region.begin(), region.end(), [](Operation *op) { return op->info().axes == AxisRule::Contract; });
    for (int position : merged) {
      const Operation &op = *ops[size_t(position)];
      if (!isExpensive(op))
        continue;
      bool prologue = matmul && op.info().axes != AxisRule::Contract && space->isInner(op.result());
      if (prologue)
        return {FusionReason::FeedsProduct, nameOf(op)};
      if (missesParallelAxis(op.result()))
        return {FusionReason::RepeatsWork, nameOf(op)};
    }
    std::vector<Value *> results = outputs(merged, a, b);
    if (context.matmul == MatmulProvider::CublasLt && matmul && !libraryMatmul(region, results))
      return {FusionReason::Library}; // What the library does not do stays in kernels of its own.
    for (const Value *value : results)
      if (missesParallelAxis(value) || missesReducedAxis(value))
        return {FusionReason::SharedOutput, nameOf(*value)};
    Verdict verdict{.resources = estimateResources(*space, *schedule, region, results)};
    if (verdict.resources->parameterBytes > context.target.maxParameterBytes)
      verdict.reason = FusionReason::Parameters;
    else if (verdict.resources->sharedBytes > context.target.sharedBytesPerCta)
      verdict.reason = FusionReason::SharedMemory;
    else if (verdict.resources->registers > context.target.maxRegistersPerThread)
      verdict.reason = FusionReason::Registers;
    return verdict;
  }

  static bool readsOwnMemory(std::span<Operation *const> region) {
    return std::ranges::any_of(region, [&](const Operation *op) {
      for (unsigned i = 0; i < op->numOperands(); ++i)
        if (readsFromMemory(*op, i) && std::ranges::find(region, op->operand(i)->definition()) != region.end())
          return true;
      return false;
    });
  }

  static std::string nameOf(const Value &value) {
    if (!value.name().empty())
      return "%" + value.name();
    const Operation &op = *value.definition();
    std::string_view combiner = op.wordAttr("combiner");
    return "(" + std::string(combiner.empty() ? op.info().name : combiner) + ")";
  }
  static std::string nameOf(const Operation &op) { return nameOf(*op.results().front()); }

  /// An edge for each value that one op leaves for another: those within a kernel, and those between two with what kept them apart.
  void report() {
    std::map<int, std::optional<KernelResources>> resourcesOf; // Of groups.
    for (int op = 0; op < int(ops.size()); ++op) {
      if (!isGrouped(op))
        continue;
      for (int producer : producers(op))
        for (const Value *value : ops[size_t(producer)]->results())
          if (std::ranges::binary_search(readersOf[size_t(producer)][value->index()], op))
            context.fusionReport->edges.push_back(edgeOf(producer, *value, op, resourcesOf));
    }
  }

  FusionEdge edgeOf(int producer, const Value &value, int reader, std::map<int, std::optional<KernelResources>> &resourcesOf) {
    FusionEdge edge{.from = nameOf(value),
                    .to = nameOf(*ops[size_t(reader)]),
                    .fromOp = producer,
                    .toOp = reader,
                    .fromLoc = ops[size_t(producer)]->loc(),
                    .toLoc = ops[size_t(reader)]->loc(),
                    .bytes = value.type().numElements() * DimExpr(dtypeBytes(value.type().dtype()))};
    int home = groupOf[size_t(producer)];
    if (home == groupOf[size_t(reader)]) {
      std::vector<Value *> stored = outputs(groups[size_t(home)], home, home);
      edge.isStored = std::ranges::find(stored, &value) != stored.end();
      auto [known, isNew] = resourcesOf.try_emplace(home);
      if (isNew)
        known->second = judge(groups[size_t(home)], home, home).resources;
      edge.resources = known->second;
      return edge;
    }
    edge.reason = context.eager ? FusionReason::Eager : FusionReason::NarrowEdge;
    if (auto verdict = verdicts.find({producer, reader}); verdict != verdicts.end() && verdict->second.reason) {
      edge.reason = verdict->second.reason;
      edge.detail = verdict->second.detail;
      edge.resources = verdict->second.resources;
    }
    return edge;
  }

  /// A path from one group to the other through a third would become a cycle. Ops after the consumer's last are groups of their own
  /// so far, from which no path leads back.
  bool closesCycle(int producer, int consumer) const {
    int last = groups[size_t(consumer)].back(), left = maxSearch;
    std::vector<int> stack;
    std::unordered_set<int> found;
    auto visitReaders = [&](int group, bool direct) {
      for (int op : groups[size_t(group)])
        for (const std::vector<int> &readers : readersOf[size_t(op)])
          for (int reader : readers) {
            if (reader > last || left-- <= 0)
              break;
            int next = reader == memory ? group : groupOf[size_t(reader)];
            if (next != group && !(direct && next == consumer) && found.insert(next).second)
              stack.push_back(next);
          }
    };
    visitReaders(producer, true);
    while (!stack.empty() && left > 0) {
      int group = stack.back();
      stack.pop_back();
      if (group == consumer)
        return true;
      visitReaders(group, false);
    }
    return left <= 0;
  }

  //===- Rewriting -===//

  /// Groups so that producers come first; ties in program order.
  std::vector<int> topologicalGroups() {
    std::vector<int> waiting(groups.size(), 0);
    std::vector<std::set<int>> readers(groups.size());
    for (int g = 0; g < int(groups.size()); ++g)
      for (int op : groups[size_t(g)])
        for (int producer : producers(op))
          if (int from = groupOf[size_t(producer)]; from != g && readers[size_t(from)].insert(g).second)
            ++waiting[size_t(g)];
    std::set<std::pair<int, int>> ready; // (position of the last op, group): a group stands where its last op stood.
    auto push = [&](int g) { ready.insert({groups[size_t(g)].back(), g}); };
    for (int g = 0; g < int(groups.size()); ++g)
      if (!groups[size_t(g)].empty() && waiting[size_t(g)] == 0)
        push(g);
    std::vector<int> result;
    while (!ready.empty()) {
      int g = ready.begin()->second;
      ready.erase(ready.begin());
      result.push_back(g);
      for (int reader : readers[size_t(g)])
        if (--waiting[size_t(reader)] == 0)
          push(reader);
    }
    assert(std::count_if(groups.begin(), groups.end(), [](const Group &g) { return !g.empty(); }) == int64_t(result.size()) &&
           "merging closed a cycle");
    return result;
  }

  void rewrite() {
    std::vector<std::vector<Operation *>> regions;
    std::vector<std::vector<Value *>> results;
    std::vector<int> schedule = topologicalGroups();
    for (int g : schedule) {
      regions.push_back(regionOps(groups[size_t(g)]));
      results.push_back(outputs(groups[size_t(g)], g, g));
    }

    Builder builder(graph.terminator());
    ValueMap moved; // Old result -> result of the fusion op.
    for (size_t i = 0; i < schedule.size(); ++i) {
      if (regions[i].size() == 1 && standsAlone(*regions[i][0])) {
        cloneOperation(builder, *regions[i][0], moved);
        continue;
      }
      buildRegion(builder, regions[i], results[i], moved);
    }
    Operation *end = graph.terminator();
    for (unsigned i = 0; i < end->numOperands(); ++i)
      end->setOperand(i, moved(end->operand(i)));
    for (size_t i = ops.size(); i-- > 0;)
      if (!ops[i]->info().terminator && !isTable(*ops[i]))
        ops[i]->erase();
  }

  void buildRegion(Builder &builder, const std::vector<Operation *> &region, const std::vector<Value *> &outputs, ValueMap &moved) {
    std::unordered_set<const Operation *> inside(region.begin(), region.end());
    std::unordered_set<const Value *> known;
    std::vector<Value *> inputs;
    for (Operation *op : region)
      for (Value *operand : op->operands())
        if (!inside.count(operand->definition()) && known.insert(operand).second)
          inputs.push_back(operand);
    std::vector<Value *> operands;
    std::vector<Type> types;
    for (Value *input : inputs)
      operands.push_back(moved(input));
    for (Value *output : outputs)
      types.push_back(output->type());
    builder.setLoc(region.back()->loc());
    Operation *fusion = builder.create(OpKind::Fusion, operands, types);
    Block &body = fusion->addRegion();
    ValueMap inner;
    for (Value *input : inputs)
      inner.map(input, body.addArgument(input->type(), input->name()));
    Builder bodyBuilder(body);
    for (Operation *op : region) {
      bodyBuilder.setLoc(op->loc());
      cloneOperation(bodyBuilder, *op, inner);
    }
    std::vector<Value *> yields;
    for (size_t i = 0; i < outputs.size(); ++i) {
      yields.push_back(inner(outputs[i]));
      fusion->result(unsigned(i))->setName(outputs[i]->name());
      moved.map(outputs[i], fusion->result(unsigned(i)));
    }
    bodyBuilder.create(OpKind::Yield, yields, {});
  }

  Function &graph;
  PassContext &context;
  /// Past about 64 ops an element takes as long to compute as to read and write, so that two regions take no longer than one, while
  /// compiling takes time that grows faster than a region.
  const size_t maxOps;
  std::unordered_set<const Operation *> materialized;
  std::vector<Operation *> ops;
  std::unordered_map<const Operation *, int> order; ///< Positions in `ops`.
  std::vector<int> groupOf;                         ///< Of each op.
  std::vector<Group> groups;
  std::vector<std::vector<std::vector<int>>> readersOf; ///< Of each result of each grouped op.
  std::map<std::pair<int, int>, Verdict> verdicts;      ///< Of producer and consumer, where anybody asks.
  std::vector<unsigned> seen;                           ///< The last walk that visited each op.
  unsigned walkNumber = 0;
};

} // namespace

Expected<void> passes::fuse(Function &function, PassContext &context) {
  Fusion(function, context).run();
  return {};
}

} // namespace minic
