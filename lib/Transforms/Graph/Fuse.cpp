// fuse: groups a graph's ops into fusion regions, one kernel each.
//
//   %m = reduce max %x, axes = [1]          %y = fusion %x {
//   %b = broadcast %m, dims = [0]     ->      ^(%x: ...): %m = reduce max %x ... yield %y
//   %y = sub %x, %b                         }
//
// Groups grow along edges from producer to consumer, in program order. Two groups merge if the merged one has a common loop nest
// (IterationSpace) and a schedule, closes no cycle, gives outputs that every program owns alone, and repeats no expensive work.
// Constants, broadcasts, transposes, slices and the like cost nothing in a region and are copied to each one that reads through
// them, where slices, pads, concats and gathers read memory, so never what their own region makes; reshapes are views of memory and
// stand between regions, and tables (constants that are lists) are memory that regions read. In eager mode every op is its own
// group.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Analysis/IterationSpace.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <cassert>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace minic {
namespace {

bool isTable(const Operation &op) { return op.is(OpKind::Constant) && op.attr("value")->asList(); }

/// Regions past this size gain nothing and cost compile time and registers.
constexpr size_t maxGroupOps = 256;

struct Group {
  std::vector<Operation *> ops; ///< In program order; without the free ops between them.
};

class Fusion {
public:
  Fusion(Function &graph, PassContext &context) : graph(graph), context(context) {}

  void run() {
    for (Operation &op : graph.body())
      unshareOperands(op);
    makeGroups();
    if (!context.eager)
      growGroups();
    rewrite();
  }

private:
  //===- Groups -===//

  /// A free op that must exist in memory: it is returned, a reshape views it, or it is read at other indices.
  static bool isMaterialized(const Operation &op) {
    for (const Use &use : op.result()->uses())
      if (use.user->is(OpKind::Return) || use.user->is(OpKind::Reshape) || readsFromMemory(*use.user, use.index))
        return true;
    return false;
  }

  static bool isCopied(const Operation &op) { return isFreeInRegion(op) && !isTable(op) && !isMaterialized(op); }

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
    int position = 0;
    for (Operation &op : graph.body()) {
      order[&op] = position++;
      if (op.info().terminator || isTable(op) || (isFreeInRegion(op) && !isMaterialized(op)))
        continue;
      groupOf[&op] = int(groups.size());
      groups.push_back({{&op}});
    }
  }

  bool isGrouped(const Operation *op) const { return op && groupOf.count(op); }

  /// The group ops that `op` reads, through free ops.
  std::vector<Operation *> producers(const Operation &op) const {
    std::vector<Operation *> result, stack;
    std::unordered_set<const Operation *> seen;
    for (unsigned i = op.numOperands(); i-- > 0;)
      if (Operation *definition = op.operand(i)->definition())
        stack.push_back(definition);
    while (!stack.empty()) {
      Operation *definition = stack.back();
      stack.pop_back();
      if (!seen.insert(definition).second)
        continue;
      if (isGrouped(definition)) {
        result.push_back(definition);
        continue;
      }
      for (unsigned i = definition->numOperands(); i-- > 0;)
        if (Operation *source = definition->operand(i)->definition())
          stack.push_back(source);
    }
    return result;
  }

  /// The group ops that read a value, through free ops; null entries for uses that need it in memory.
  std::vector<Operation *> consumers(Value *value) const {
    std::vector<Operation *> result;
    std::vector<Value *> stack{value};
    std::unordered_set<const Value *> seen;
    while (!stack.empty()) {
      Value *next = stack.back();
      stack.pop_back();
      if (!seen.insert(next).second)
        continue;
      for (const Use &use : next->uses()) {
        if (isGrouped(use.user))
          result.push_back(use.user);
        else if (use.user->info().terminator)
          result.push_back(nullptr);
        else
          stack.push_back(use.user->result());
      }
    }
    return result;
  }

  /// Ops of a region: the group and the free ops that its operands come through, in program order.
  std::vector<Operation *> regionOps(const std::vector<Operation *> &members) const {
    std::set<std::pair<int, Operation *>> ops;
    std::vector<Operation *> stack(members.begin(), members.end());
    for (Operation *op : members)
      ops.insert({order.at(op), op});
    while (!stack.empty()) {
      Operation *op = stack.back();
      stack.pop_back();
      for (Value *operand : op->operands()) {
        Operation *definition = operand->definition();
        if (definition && !isGrouped(definition) && !isTable(*definition) && ops.insert({order.at(definition), definition}).second)
          stack.push_back(definition);
      }
    }
    std::vector<Operation *> result;
    for (auto &[position, op] : ops)
      result.push_back(op);
    return result;
  }

  /// Results of the group that something outside reads.
  std::vector<Value *> outputs(const std::vector<Operation *> &members, int a, int b) const {
    std::vector<Value *> result;
    for (Operation *op : members)
      for (Value *value : op->results()) {
        auto readers = consumers(value);
        if (readers.empty() || std::any_of(readers.begin(), readers.end(), [&](Operation *reader) {
              return !reader || (groupOf.at(reader) != a && groupOf.at(reader) != b);
            }))
          result.push_back(value);
      }
    return result;
  }

  //===- Merging -===//

  void growGroups() {
    for (Operation &op : graph.body())
      if (isGrouped(&op))
        for (Operation *producer : producers(op))
          tryMerge(groupOf[producer], groupOf[&op]);
  }

  void tryMerge(int producer, int consumer) {
    if (producer == consumer)
      return;
    std::vector<Operation *> merged;
    const auto &a = groups[size_t(producer)].ops, &b = groups[size_t(consumer)].ops;
    if (a.size() + b.size() > maxGroupOps)
      return;
    std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged),
               [&](Operation *x, Operation *y) { return order.at(x) < order.at(y); });
    if (!isLegal(merged, producer, consumer) || closesCycle(producer, consumer))
      return;
    for (Operation *op : groups[size_t(producer)].ops)
      groupOf[op] = consumer;
    groups[size_t(consumer)].ops = std::move(merged);
    groups[size_t(producer)].ops.clear();
  }

  bool isLegal(const std::vector<Operation *> &members, int a, int b) const {
    for (Operation *op : members)
      if (op->is(OpKind::Reshape) || op->info().axes == AxisRule::Scan)
        return false;
    std::vector<Operation *> ops = regionOps(members);
    auto space = IterationSpace::compute(ops);
    if (!space || !chooseSchedule(*space, ops, context.target, context.exact()))
      return false;

    // Along a loop that runs in parallel, a value that does not have it is computed by each of the programs.
    auto missesParallelAxis = [&](const Value *value) {
      const std::vector<int> &axes = space->axesOf(value);
      for (int axis = 0; axis < space->rank(); ++axis) {
        const LoopAxis &loop = space->axes()[size_t(axis)];
        if (!loop.reduced && !loop.extent.isConstant(1) && std::find(axes.begin(), axes.end(), axis) == axes.end())
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
    for (Operation *op : members)
      if (isExpensive(*op) && missesParallelAxis(op->result()))
        return false;
    for (Value *output : outputs(members, a, b))
      if (missesParallelAxis(output) || missesReducedAxis(output))
        return false;
    // A prologue of a matmul runs once per tile of the other operand: too often for anything but cheap arithmetic.
    bool matmul = std::any_of(ops.begin(), ops.end(), [](Operation *op) { return op->info().axes == AxisRule::Contract; });
    if (matmul)
      for (Operation *op : members)
        if (isExpensive(*op) && op->info().axes != AxisRule::Contract && space->isInner(op->result()))
          return false;
    return true;
  }

  /// A path from one group to the other through a third would become a cycle.
  bool closesCycle(int producer, int consumer) const {
    int last = order.at(groups[size_t(consumer)].ops.back());
    std::vector<int> stack;
    std::unordered_set<int> seen;
    auto visit = [&](int group, bool direct) {
      for (Operation *op : groups[size_t(group)].ops)
        for (Value *value : op->results())
          for (Operation *reader : consumers(value)) {
            if (!reader)
              continue;
            int next = groupOf.at(reader);
            if (next == group || (direct && next == consumer))
              continue;
            // Nothing that starts after the consumer's last op leads back to it.
            if (order.at(groups[size_t(next)].ops.front()) <= last && seen.insert(next).second)
              stack.push_back(next);
          }
    };
    visit(producer, true);
    while (!stack.empty()) {
      int group = stack.back();
      stack.pop_back();
      if (group == consumer)
        return true;
      visit(group, false);
    }
    return false;
  }

  //===- Rewriting -===//

  /// Groups so that producers come first; ties in program order.
  std::vector<int> topologicalGroups() const {
    std::vector<int> waiting(groups.size(), 0);
    std::vector<std::set<int>> readers(groups.size());
    for (size_t g = 0; g < groups.size(); ++g)
      for (Operation *op : groups[g].ops)
        for (Operation *producer : producers(*op))
          if (groupOf.at(producer) != int(g) && readers[size_t(groupOf.at(producer))].insert(int(g)).second)
            ++waiting[g];
    std::set<std::pair<int, int>> ready; // (position of the last op, group): a group stands where its last op stood.
    auto push = [&](int g) { ready.insert({order.at(groups[size_t(g)].ops.back()), g}); };
    for (size_t g = 0; g < groups.size(); ++g)
      if (!groups[g].ops.empty() && waiting[g] == 0)
        push(int(g));
    std::vector<int> result;
    while (!ready.empty()) {
      int g = ready.begin()->second;
      ready.erase(ready.begin());
      result.push_back(g);
      for (int reader : readers[size_t(g)])
        if (--waiting[size_t(reader)] == 0)
          push(reader);
    }
    assert(std::count_if(groups.begin(), groups.end(), [](const Group &g) { return !g.ops.empty(); }) == int64_t(result.size()) &&
           "merging closed a cycle");
    return result;
  }

  void rewrite() {
    std::vector<std::vector<Operation *>> regions;
    std::vector<std::vector<Value *>> results;
    std::vector<int> schedule = topologicalGroups();
    for (int g : schedule) {
      regions.push_back(regionOps(groups[size_t(g)].ops));
      results.push_back(outputs(groups[size_t(g)].ops, g, g));
    }
    std::vector<Operation *> old;
    for (Operation &op : graph.body())
      if (!op.info().terminator && !isTable(op))
        old.push_back(&op);

    Builder builder(graph.terminator());
    ValueMap moved; // Old result -> result of the fusion op.
    for (size_t i = 0; i < schedule.size(); ++i) {
      if (regions[i].size() == 1 && regions[i][0]->is(OpKind::Reshape)) {
        cloneOperation(builder, *regions[i][0], moved);
        continue;
      }
      buildRegion(builder, regions[i], results[i], moved);
    }
    Operation *end = graph.terminator();
    for (unsigned i = 0; i < end->numOperands(); ++i)
      end->setOperand(i, moved(end->operand(i)));
    for (size_t i = old.size(); i-- > 0;)
      old[i]->erase();
  }

  void buildRegion(Builder &builder, const std::vector<Operation *> &ops, const std::vector<Value *> &outputs, ValueMap &moved) {
    std::unordered_set<const Operation *> inside(ops.begin(), ops.end());
    std::vector<Value *> inputs;
    for (Operation *op : ops)
      for (Value *operand : op->operands()) {
        bool external = !operand->definition() || !inside.count(operand->definition());
        if (external && std::find(inputs.begin(), inputs.end(), operand) == inputs.end())
          inputs.push_back(operand);
      }
    std::vector<Value *> operands;
    std::vector<Type> types;
    for (Value *input : inputs)
      operands.push_back(moved(input));
    for (Value *output : outputs)
      types.push_back(output->type());
    builder.setLoc(ops.back()->loc());
    Operation *fusion = builder.create(OpKind::Fusion, operands, types);
    Block &body = fusion->addRegion();
    ValueMap inner;
    for (Value *input : inputs)
      inner.map(input, body.addArgument(input->type(), input->name()));
    Builder bodyBuilder(body);
    for (Operation *op : ops) {
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
  std::vector<Group> groups;
  std::unordered_map<const Operation *, int> groupOf, order;
};

} // namespace

Expected<void> passes::fuse(Function &function, PassContext &context) {
  Fusion(function, context).run();
  return {};
}

} // namespace minic
