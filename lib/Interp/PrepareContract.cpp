// reduce and dot made ready: the order in which positions are combined, and the loops of a product.
#include "Preparer.h"

#include "minic/IR/Combiner.h"

#include <algorithm>

namespace minic::interp {

/// Machine level: after some modes of `axis` were combined, `reducedLayout` numbers what is left lanes first, then warps, in the
/// order of the lists; the elements that are left stand in the order of their old strides.
static std::vector<int64_t> orderOfRest(const Layout &layout, int axis, std::string_view over) {
  std::vector<Mode> rest;
  for (const auto *modes : {&layout.reg, &layout.lane, &layout.warp})
    for (const Mode &mode : *modes)
      if (mode.axis == axis && mode.extent > 1 && !(over == "reg" && modes == &layout.reg) &&
          !(over == "lane" && modes == &layout.lane))
        rest.push_back(mode);
  bool ascending = std::is_sorted(rest.begin(), rest.end(), [](const Mode &a, const Mode &b) { return a.stride < b.stride; });
  if (over.empty() || ascending)
    return {};
  std::vector<int64_t> order{0};
  for (const Mode &mode : rest) {
    int64_t stride = 1;
    for (const Mode &lower : rest)
      stride *= lower.stride < mode.stride ? lower.extent : 1;
    size_t faster = order.size();
    for (int64_t digit = 1; digit < mode.extent; ++digit)
      for (size_t i = 0; i < faster; ++i)
        order.push_back(order[i] + digit * stride);
  }
  return order;
}

bool Preparer::stepsOf(const Operation &op, ReduceInfo::Axis &axis) {
  Type type = op.operand(0)->type();
  std::vector<int64_t> extents = type.extents();
  if (function.level == Level::Machine && type.layout()) {
    if (!layoutCovers(*type.layout(), extents))
      return fail(ErrorCode::BadLayout, "a layout does not cover its tile", &op);
    std::string_view over = op.wordAttr("over");
    Layout part = *type.layout();
    if (over == "reg")
      part.lane.clear(), part.warp.clear();
    else if (over == "lane")
      part.reg.clear(), part.warp.clear();
    axis.steps = reductionOrder(part, axis.axis);
    axis.order = orderOfRest(*type.layout(), axis.axis, over);
    return true;
  }
  const Attribute *schedule = function.attr("schedule");
  if (const RecordAttr *record = schedule ? schedule->asRecord() : nullptr)
    if (auto parsed = Schedule::parseForKernel(*record, type.rank())) {
      Layout layout = parsed->layoutOf(extents);
      if (layoutCovers(layout, extents)) {
        axis.steps = reductionOrder(layout, axis.axis);
        return true;
      }
    }
  axis.steps = {{extents[size_t(axis.axis)], 1}};
  return true;
}

bool Preparer::prepareReduce(const Operation &op, Instr &instr) {
  ReduceInfo info;
  info.extents = op.operand(0)->type().extents();
  if (op.numRegions()) {
    info.region = std::make_unique<Body>();
    if (!prepareBlock(op.region(), *info.region))
      return false;
    const Attribute *inits = op.attr("init");
    const AttributeList *list = inits ? inits->asList() : nullptr;
    if (!list || list->size() != op.numOperands() || op.region().arguments().size() != 2 * op.numOperands())
      return fail(ErrorCode::BadRegion, "a reduce whose region does not fit its operands", &op);
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      info.accumulators.push_back(op.region().argument(i)->type().dtype());
      info.inits.push_back(Scalar::of((*list)[i], info.accumulators[i]));
    }
  } else {
    std::string_view word = op.wordAttr("combiner");
    info.combiner = combinerKind(word);
    for (const Value *operand : op.operands()) {
      DType acc = computeDType(operand->type().dtype());
      info.accumulators.push_back(acc);
      info.inits.push_back(Scalar::of(reductionIdentity(word, acc), acc));
    }
  }
  std::vector<int64_t> axes = op.intsAttr("axes");
  std::sort(axes.begin(), axes.end());
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i] < 0 || size_t(axes[i]) >= info.extents.size())
      return fail(ErrorCode::BadAxis, "a reduce over an axis that its operand has not", &op);
    if (!stepsOf(op, info.axes.emplace_back(ReduceInfo::Axis{int(axes[i]), {}, {}})))
      return false;
  }
  instr.info = std::move(info);
  return true;
}

void Preparer::operandOfDot(const Value &value, std::span<const int64_t> axes, std::span<const int64_t> contracted,
                            DotOperand &operand, std::vector<int64_t> &packedStrides) {
  Type type = value.type();
  operand.cells = type.isSmem() ? cellsOf(type) : nullptr;
  std::vector<int64_t> extents = type.extents(), strides = rowMajorStrides(extents);
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t axis = size_t(axes[i]);
    operand.loop.push_back(contracted[i]);
    operand.stride.push_back(extents[axis] == 1 ? 0 : strides[axis]);
  }
  packedStrides.assign(extents.size(), 0);
  for (size_t axis = extents.size(); axis-- > 0;)
    if (std::find(axes.begin(), axes.end(), int64_t(axis)) == axes.end()) {
      packedStrides[axis] = extents[axis] == 1 ? 0 : operand.outer;
      operand.outer *= extents[axis];
    }
  for (size_t axis = 0; axis < extents.size(); ++axis)
    if (std::find(axes.begin(), axes.end(), int64_t(axis)) == axes.end()) {
      operand.loop.push_back(extents[axis]);
      operand.stride.push_back(strides[axis]);
    }
}

bool Preparer::prepareDot(const Operation &op, Instr &instr) {
  std::vector<int64_t> axes = op.intsAttr("axes"), acc = op.operand(2)->type().extents();
  std::vector<int64_t> lhs = op.operand(0)->type().extents(), rhs = op.operand(1)->type().extents();
  bool fits = lhs.size() == acc.size() && rhs.size() == acc.size();
  std::sort(axes.begin(), axes.end());
  DotInfo info;
  std::vector<int64_t> contracted;
  for (int64_t axis : axes) {
    fits = fits && axis >= 0 && size_t(axis) < acc.size() && acc[size_t(axis)] == 1;
    if (!fits)
      break;
    int64_t l = lhs[size_t(axis)], r = rhs[size_t(axis)];
    fits = l == r || l == 1 || r == 1;
    contracted.push_back(std::max(l, r));
  }
  for (size_t axis = 0; fits && axis < acc.size(); ++axis)
    if (std::find(axes.begin(), axes.end(), int64_t(axis)) == axes.end())
      fits = (lhs[axis] == acc[axis] || lhs[axis] == 1) && (rhs[axis] == acc[axis] || rhs[axis] == 1);
  auto total = checkedProduct(contracted);
  if (!fits || !total)
    return fail(ErrorCode::ShapeMismatch, "the shapes of a dot do not agree", &op);
  info.contracted = *total;
  info.compute = computeDType(op.operand(0)->type().dtype());
  std::vector<int64_t> lhsPacked, rhsPacked;
  operandOfDot(*op.operand(0), axes, contracted, info.lhs, lhsPacked);
  operandOfDot(*op.operand(1), axes, contracted, info.rhs, rhsPacked);

  // The innermost loop runs along acc's last real axis: what follows it has extent 1, so acc is contiguous there, and so is each
  // packed operand that has the axis.
  std::vector<int64_t> outer = acc;
  for (size_t axis = acc.size(); axis-- > 0;)
    if (acc[axis] > 1) {
      info.run = acc[axis];
      info.lhsStep = int(lhsPacked[axis]);
      info.rhsStep = int(rhsPacked[axis]);
      outer[axis] = 1;
      break;
    }
  std::vector<int64_t> accStrides = rowMajorStrides(acc);
  forEachOffset(outer, accStrides, [&](int64_t offset) { info.runs.push_back({offset, 0, 0}); });
  size_t next = 0;
  forEachOffset(outer, lhsPacked, [&](int64_t offset) { info.runs[next++].lhs = offset; });
  next = 0;
  forEachOffset(outer, rhsPacked, [&](int64_t offset) { info.runs[next++].rhs = offset; });

  if (info.lhs.cells || info.rhs.cells) {
    const ThreadMap *threads = threadsOf(op.operand(2)->type());
    info.lhs.readers.assign(size_t(info.lhs.outer), threads ? noThread : manyThreads);
    info.rhs.readers.assign(size_t(info.rhs.outer), threads ? noThread : manyThreads);
    auto merge = [](int32_t &readers, int32_t thread) {
      if (readers == noThread)
        readers = thread;
      else if (readers != thread)
        readers = manyThreads;
    };
    if (threads)
      for (const DotInfo::Run &run : info.runs)
        for (int64_t i = 0; i < info.run; ++i) {
          int32_t thread = threads->reader[size_t(run.acc + i)];
          merge(info.lhs.readers[size_t(run.lhs + i * info.lhsStep)], thread);
          merge(info.rhs.readers[size_t(run.rhs + i * info.rhsStep)], thread);
        }
  }
  instr.info = std::move(info);
  return true;
}

} // namespace minic::interp
