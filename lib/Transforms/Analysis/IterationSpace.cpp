#include "minic/Transforms/Analysis/IterationSpace.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace minic {

bool isFreeInRegion(const Operation &op) {
  AxisRule axes = op.info().axes;
  return op.is(OpKind::Constant) || op.is(OpKind::Iota) || op.is(OpKind::Size) || axes == AxisRule::Broadcast ||
         axes == AxisRule::Permute || axes == AxisRule::Indexed || axes == AxisRule::Gathered;
}

bool readsFromMemory(const Operation &op, unsigned operand) {
  return op.info().axes == AxisRule::Indexed || (op.info().axes == AxisRule::Gathered && operand == 0);
}

bool isExpensive(const Operation &op) {
  const OpInfo &info = op.info();
  return info.expands || info.axes == AxisRule::Reduce || info.axes == AxisRule::Contract || info.axes == AxisRule::Scan ||
         op.is(OpKind::Div) || op.is(OpKind::Rem) || op.is(OpKind::Sqrt);
}

namespace {

/// Union-find over the axes of values and uses.
class AxisClasses {
public:
  int add(const DimExpr &extent) {
    parent.push_back(int(parent.size()));
    extents.push_back(extent);
    contracted.push_back(false);
    return int(parent.size()) - 1;
  }
  int find(int i) {
    while (parent[size_t(i)] != i)
      i = parent[size_t(i)] = parent[size_t(parent[size_t(i)])];
    return i;
  }
  void join(int a, int b) {
    a = find(a), b = find(b);
    if (a == b)
      return;
    if (a > b)
      std::swap(a, b);
    parent[size_t(b)] = a;
    if (contracted[size_t(b)])
      contracted[size_t(a)] = true;
    // One size may be spelled by a name and the other by its value; they are equal, and the value says more.
    if (extents[size_t(b)].isConstant())
      extents[size_t(a)] = extents[size_t(b)];
  }
  void contract(int i) { contracted[size_t(find(i))] = true; }
  bool isContracted(int i) { return contracted[size_t(find(i))]; }
  const DimExpr &extent(int i) { return extents[size_t(find(i))]; }
  bool isUnit(int i) { return extent(i).isConstant(1); }

private:
  std::vector<int> parent;
  std::vector<DimExpr> extents;
  std::vector<bool> contracted;
};

using AxisList = std::vector<int>;
constexpr int noAxis = -1;

/// Joins an op's use axes and result axes as its row says; returns the axes that it contracts, or nullopt for opaque ops.
std::optional<AxisList> relateAxes(const Operation &op, const std::vector<AxisList> &uses, const std::vector<AxisList> &results,
                                   AxisClasses &classes) {
  AxisList contracted;
  switch (op.info().axes) {
  case AxisRule::None:
  case AxisRule::Indexed:
    break;
  case AxisRule::Gathered:
    for (size_t a = 0; a < uses[1].size(); ++a)
      classes.join(uses[1][a], results[0][size_t(op.intAttr("axis")) + a]);
    break;
  case AxisRule::Parallel:
    for (const AxisList &use : uses)
      for (size_t a = 0; a < use.size(); ++a)
        classes.join(use[a], results[0][a]);
    break;
  case AxisRule::Broadcast: {
    std::vector<int64_t> dims = op.intsAttr("dims");
    for (size_t a = 0; a < dims.size(); ++a) {
      int result = results[0][size_t(dims[a])];
      if (!classes.isUnit(uses[0][a]) || classes.isUnit(result))
        classes.join(uses[0][a], result);
    }
    break;
  }
  case AxisRule::Permute: {
    std::vector<int64_t> perm = op.intsAttr("perm");
    for (size_t a = 0; a < perm.size(); ++a)
      classes.join(uses[0][size_t(perm[a])], results[0][a]);
    break;
  }
  case AxisRule::Reduce: {
    std::vector<int64_t> axes = op.intsAttr("axes");
    size_t pieces = op.optionalInts("chunks").size(); // Stand in front.
    for (size_t u = 0; u < uses.size(); ++u)
      for (size_t a = 0, kept = pieces; a < uses[u].size(); ++a) {
        classes.join(uses[u][a], uses[0][a]);
        if (a < pieces)
          classes.join(results[u][a], results[0][a]);
        if (std::find(axes.begin(), axes.end(), int64_t(a)) == axes.end())
          classes.join(uses[u][a], results[u][kept++]);
        else if (u == 0)
          contracted.push_back(uses[u][a]);
      }
    break;
  }
  case AxisRule::Contract: {
    size_t rank = uses[0].size(), row = rank - 2, column = rank - 1;
    size_t pieces = results[0].size() - rank; // Stand in front.
    for (size_t b = 0; b < row; ++b) {
      classes.join(uses[0][b], results[0][pieces + b]);
      classes.join(uses[1][b], results[0][pieces + b]);
    }
    classes.join(uses[0][row], results[0][pieces + row]);
    classes.join(uses[1][column], results[0][pieces + column]);
    classes.join(uses[0][column], uses[1][row]);
    contracted.push_back(uses[0][column]);
    break;
  }
  case AxisRule::Scan:
    for (size_t a = 0; a < uses[0].size(); ++a)
      classes.join(uses[0][a], results[0][a]);
    contracted.push_back(uses[0][size_t(op.intAttr("axis"))]);
    break;
  case AxisRule::Opaque:
    return std::nullopt;
  }
  return contracted;
}

} // namespace

std::optional<IterationSpace> IterationSpace::compute(std::span<Operation *const> ops, std::string *why) {
  auto fail = [&](std::string reason) {
    if (why)
      *why = std::move(reason);
    return std::nullopt;
  };
  AxisClasses classes;
  IterationSpace space;
  auto fresh = [&](const Value *value) {
    AxisList axes;
    for (const DimExpr &dim : value->type().shape())
      axes.push_back(classes.add(dim));
    return axes;
  };

  bool multiplies = std::ranges::any_of(ops, [](const Operation *op) { return op->info().axes == AxisRule::Contract; });
  std::vector<std::pair<const Operation *, AxisList>> contractions;
  AxisList held;
  struct Cut {
    int axis, pieces;
    int64_t chunk;
  };
  std::vector<Cut> cuts;
  std::set<const Value *> fromSums; // Results of reductions and matmuls, and what is made of them. Looked up only.
  for (Operation *op : ops) {
    auto isFromSum = [&](const Value *operand) { return fromSums.count(operand) != 0; };
    bool contracts = op->info().axes == AxisRule::Contract, usesSum = std::ranges::any_of(op->operands(), isFromSum);
    if (contracts && usesSum)
      return fail("an operand of " + std::string(op->info().name) + " is known only after a reduction here");
    std::vector<AxisList> uses, results;
    for (unsigned i = 0; i < op->numOperands(); ++i) {
      auto definition = space.resultAxes.find(op->operand(i));
      if (readsFromMemory(*op, i)) {
        if (definition != space.resultAxes.end())
          return fail(std::string(op->info().name) + " reads other elements than its producer makes here");
        space.useAxes[{op, i}] = uses.emplace_back();
        continue;
      }
      uses.push_back(fresh(op->operand(i)));
      if (definition != space.resultAxes.end())
        for (size_t a = 0; a < uses[i].size(); ++a)
          classes.join(uses[i][a], definition->second[a]);
      space.useAxes[{op, i}] = uses[i];
    }
    for (Value *result : op->results()) {
      results.push_back(fresh(result));
      space.resultAxes[result] = results.back();
      if (contracts || usesSum || op->info().axes == AxisRule::Reduce)
        fromSums.insert(result);
    }
    auto contracted = relateAxes(*op, uses, results, classes);
    if (!contracted)
      return fail(std::string(op->info().name) + " has no loops of its own");
    if (multiplies && usesSum && op->info().axes == AxisRule::Reduce && !contracted->empty() && !op->attr("chunks")) {
      held.insert(held.end(), contracted->begin(), contracted->end());
      continue;
    }
    for (int axis : *contracted)
      classes.contract(axis);
    if (op->info().axes == AxisRule::Reduce || op->info().axes == AxisRule::Contract) // Over no axes too.
      contractions.emplace_back(op, *contracted);
    std::vector<int64_t> chunks = op->optionalInts("chunks");
    for (size_t i = 0; i < chunks.size(); ++i)
      cuts.push_back({(*contracted)[i], results[0][i], chunks[i]});
  }

  // No value may run along one loop with two axes, of size 1 neither: an access names each loop once.
  auto repeats = [&](const AxisList &axes) {
    for (size_t a = 0; a < axes.size(); ++a)
      for (size_t b = a + 1; b < axes.size(); ++b)
        if (classes.find(axes[a]) == classes.find(axes[b]))
          return true;
    return false;
  };
  auto anyRepeats = [&] {
    // What counts pieces runs in parallel, outside what they are pieces of.
    for (const Cut &cut : cuts)
      if (classes.isContracted(cut.pieces))
        return true;
    for (const auto &[use, axes] : space.useAxes)
      if (repeats(axes))
        return true;
    for (const auto &[value, axes] : space.resultAxes)
      if (repeats(axes))
        return true;
    return false;
  };
  if (anyRepeats())
    return fail("two axes of one value would run in one loop");

  // Nothing forces two readers of one tensor, or two reductions of equal extents, into the same loops; but that is where they share
  // what they read, so they run together unless it would break the rule above (x times its own transpose).
  auto tryJoin = [&](const AxisList &a, const AxisList &b) {
    bool joined = true;
    for (size_t i = 0; i < a.size(); ++i)
      joined &= a[i] == noAxis || b[i] == noAxis || classes.find(a[i]) == classes.find(b[i]);
    if (joined)
      return;
    AxisClasses before = classes;
    for (size_t i = 0; i < a.size(); ++i)
      if (a[i] != noAxis && b[i] != noAxis)
        classes.join(a[i], b[i]);
    if (anyRepeats())
      classes = before;
  };
  // An axis of size 1 that a broadcast stretches, here or behind a transpose, has a loop of its own, whatever the other reader does
  // with it.
  AxisList stretched;
  for (Operation *op : ops)
    if (op->info().axes == AxisRule::Broadcast)
      for (int axis : space.useAxes[{op, 0}])
        if (classes.isUnit(axis))
          stretched.push_back(axis);
  auto withoutStretched = [&](AxisList axes) {
    for (int &axis : axes)
      if (std::ranges::any_of(stretched, [&](int other) { return classes.find(axis) == classes.find(other); }))
        axis = noAxis;
    return axes;
  };
  std::map<const Value *, AxisList> firstUse; // Looked up only.
  for (Operation *op : ops)
    for (unsigned i = 0; i < op->numOperands(); ++i) {
      if (space.resultAxes.count(op->operand(i)) || readsFromMemory(*op, i))
        continue;
      AxisList axes = withoutStretched(space.useAxes[{op, i}]);
      auto [it, isFirst] = firstUse.emplace(op->operand(i), axes);
      if (!isFirst)
        tryJoin(it->second, axes);
    }
  for (const auto &[op, axes] : contractions) {
    const AxisList &first = contractions.front().second;
    bool sameExtents = axes.size() == first.size();
    for (size_t i = 0; sameExtents && i < axes.size(); ++i)
      sameExtents = classes.extent(axes[i]) == classes.extent(first[i]);
    if (sameExtents)
      tryJoin(first, axes);
  }

  // All contractions must be over the same loops, or the nest would need one loop inside another's sweep.
  auto signature = [&](const AxisList &axes) {
    AxisList roots;
    for (int axis : axes)
      roots.push_back(classes.find(axis));
    std::sort(roots.begin(), roots.end());
    return roots;
  };
  for (const auto &[op, axes] : contractions)
    if (signature(axes) != signature(contractions.front().second))
      return fail("reductions over different axes");

  // One axis is cut one way.
  for (const Cut &a : cuts)
    for (const Cut &b : cuts) {
      if (classes.find(a.axis) != classes.find(b.axis))
        continue;
      if (a.chunk != b.chunk)
        return fail("reductions that cut an axis into different pieces");
      classes.join(a.pieces, b.pieces);
    }
  for (const auto &[op, axes] : contractions)
    for (const Cut &cut : cuts)
      if (!op->attr("chunks") && std::ranges::any_of(axes, [&](int axis) { return classes.find(axis) == classes.find(cut.axis); }))
        return fail("reductions over an axis and over its pieces");
  for (int axis : held)
    if (classes.isContracted(axis))
      return fail("reductions over different axes");
  if (anyRepeats())
    return fail("two axes of one value would run in one loop");

  // Order of the loops: what counts pieces; a matmul's row, column, contracted axis; else as the axes of the widest values stand in
  // memory, those that are made last first, so that outputs are written as they lie. An operand axis of size 1 that a broadcast
  // stretches is a loop of its own, of one trip: outermost, out of the way.
  AxisList units;
  AxisList pieces;
  for (const Cut &cut : cuts)
    pieces.push_back(cut.pieces);
  auto isPiece = [&](int axis) {
    return std::ranges::any_of(pieces, [&](int piece) { return classes.find(piece) == classes.find(axis); });
  };
  std::vector<const AxisList *> order = {&units, &pieces};
  std::set<int> ordered; // A matmul's loops have their order, whatever else runs along them.
  for (Operation *op : ops)
    if (op->info().axes == AxisRule::Contract) {
      order.push_back(&space.resultAxes[op->result()]);
      for (const AxisList *axes : {&space.useAxes[{op, 0}], &space.useAxes[{op, 1}]})
        for (int axis : *axes)
          ordered.insert(classes.find(axis));
    }
  for (Operation *op : ops)
    if (op->info().axes == AxisRule::Broadcast)
      for (size_t a = 0; a < space.useAxes[{op, 0}].size(); ++a) {
        int use = space.useAxes[{op, 0}][a], result = space.resultAxes[op->result()][size_t(op->intsAttr("dims")[a])];
        if (!classes.isUnit(use) || classes.isUnit(result))
          continue;
        if (ordered.count(classes.find(use)))
          return fail("an axis of size 1 that a broadcast stretches is a loop of a matmul");
        units.push_back(use);
      }
  std::vector<const AxisList *> others;
  for (size_t position = ops.size(); position-- > 0;) {
    Operation *op = ops[position];
    for (Value *result : op->results())
      others.push_back(&space.resultAxes[result]);
    for (unsigned i = 0; i < op->numOperands(); ++i)
      others.push_back(&space.useAxes[{op, i}]);
  }
  auto width = [&](const AxisList *axes) { return axes->size() - size_t(std::ranges::count_if(*axes, isPiece)); };
  std::stable_sort(others.begin(), others.end(), [&](auto *a, auto *b) { return width(a) > width(b); });
  order.insert(order.end(), others.begin(), others.end());

  std::map<int, int> loopOf;
  for (const AxisList *axes : order)
    for (int axis : *axes) {
      int root = classes.find(axis);
      if (loopOf.emplace(root, int(space.loops.size())).second)
        space.loops.push_back({classes.extent(root), classes.isContracted(root)});
    }
  for (int axis : held)
    space.loops[size_t(loopOf.at(classes.find(axis)))].held = true;
  for (const Cut &cut : cuts) {
    LoopAxis &loop = space.loops[size_t(loopOf.at(classes.find(cut.axis)))];
    loop.chunk = cut.chunk;
    loop.pieces = loopOf.at(classes.find(cut.pieces));
  }
  if (space.loops.empty()) // Scalars run along one loop too, so that their tiles have an axis which lanes can repeat.
    space.loops.push_back({1});
  auto toLoops = [&](AxisList &axes) {
    for (int &axis : axes)
      axis = loopOf.at(classes.find(axis));
  };
  for (auto &[use, axes] : space.useAxes)
    toLoops(axes);
  for (auto &[value, axes] : space.resultAxes)
    toLoops(axes);
  return space;
}

bool IterationSpace::countsPieces(int loop) const {
  return std::ranges::any_of(loops, [&](const LoopAxis &axis) { return axis.pieces == loop; });
}

bool IterationSpace::runsAlong(const std::vector<int> &axes, int loop) const {
  return std::ranges::any_of(axes, [&](int axis) { return axis == loop || loops[size_t(axis)].pieces == loop; });
}

bool IterationSpace::holdsRows() const {
  return std::ranges::any_of(loops, [](const LoopAxis &axis) { return axis.held; });
}

bool IterationSpace::reducesHeld(const Operation &op) const {
  const std::vector<int> *axes = op.info().axes == AxisRule::Reduce ? &axesOfUse(&op, 0) : nullptr;
  return axes && std::ranges::any_of(op.intsAttr("axes"), [&](int64_t a) { return loops[size_t((*axes)[size_t(a)])].held; });
}

bool IterationSpace::isReduced(const std::vector<int> &axes) const {
  return std::any_of(axes.begin(), axes.end(), [&](int axis) { return loops[size_t(axis)].reduced; });
}

} // namespace minic
