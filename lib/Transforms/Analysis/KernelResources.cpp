#include "minic/Transforms/Analysis/KernelResources.h"

#include "MatmulChoice.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace minic {
namespace {

class Estimator {
public:
  Estimator(const IterationSpace &space, const Schedule &schedule, std::span<Operation *const> ops, std::span<Value *const> outputs)
      : space(space), schedule(schedule), ops(ops), outputs(outputs) {}

  KernelResources run() {
    int64_t buffers = int64_t(outputs.size());
    for (size_t i = 0; i < ops.size(); ++i)
      visit(*ops[i], int64_t(i) + 1, buffers);
    for (Value *output : outputs)
      use(output, int64_t(ops.size()) + 1); // Stores come last.
    resources.parameterBytes = 8 * buffers + 4 * int64_t(names.size());
    resources.registers = mostLive();
    return resources;
  }

private:
  struct Range {
    int64_t from, to, registers;
  };

  /// The value whose registers a value has: broadcasts and transposes have none of their own.
  const Value *rootOf(const Value *value) const {
    auto it = roots.find(value);
    return it == roots.end() ? value : it->second;
  }

  void use(const Value *value, int64_t position) {
    auto it = ranges.find(rootOf(value));
    if (it != ranges.end())
      it->second.to = position;
  }

  void visit(Operation &op, int64_t position, int64_t &buffers) {
    for (unsigned i = 0; i < op.numOperands(); ++i) {
      Value *operand = op.operand(i);
      // Memory is loaded just before it is first read.
      bool isShared = op.info().axes == AxisRule::Contract && schedule.stages > 0; // From there.
      int64_t registers = isShared || space.has(operand) ? 0 : registersOf(operand->type(), space.axesOfUse(&op, i));
      if (!space.has(operand) && ranges.try_emplace(operand, Range{position - 1, position, registers}).second) {
        ++buffers;
        collectNames(operand->type());
      }
      use(operand, position);
    }
    for (Value *result : op.results()) {
      collectNames(result->type());
      if (op.is(OpKind::Broadcast) || op.is(OpKind::Transpose)) {
        roots[result] = rootOf(op.operand(0));
      } else if (!op.is(OpKind::Constant)) {
        // Accumulators of all dots live through one sweep.
        bool isDot = op.info().axes == AxisRule::Contract;
        int64_t registers =
            isDot && schedule.usesTensorCores() ? accumulatorRegisters(op) : registersOf(result->type(), space.axesOf(result));
        ranges[result] = {isDot ? 0 : position, position, registers};
      }
    }
    if (op.info().axes == AxisRule::Reduce)
      for (unsigned i = 0; i < op.numOperands(); ++i)
        resources.sharedBytes += exchangedBytes(op, i);
    if (op.info().axes == AxisRule::Contract && schedule.stages == 0)
      for (unsigned i : {0u, 1u})
        resources.sharedBytes += stagedBytes(op, i);
  }

  /// What follows a product on tensor cores is computed in parts of 64 columns, which a warpgroup holds.
  static constexpr int64_t partRegisters = 64 * 64 / 128;
  int64_t accumulatorRegisters(const Operation &product) const {
    size_t n = schedule.block.size() - 2;
    auto form = tensorCoreForm(product);
    int64_t registers = std::max<int64_t>(dtypeBytes(computeDType(product.operand(0)->type().dtype())) / 4, 1);
    return schedule.block[n - 1] * schedule.block[n] / schedule.numThreads() * (form && form->promotes ? 2 : registers);
  }

  /// Where rows are reduced the part is whole rows: a thread has two rows, and every fourth pair of columns.
  int64_t registersOfPart(const std::vector<int> &axes) const {
    if (!space.holdsRows())
      return partRegisters;
    for (int axis : axes)
      if (space.axes()[size_t(axis)].held)
        return schedule.block[size_t(axis)] / (space.runsAlong(axes, axis - 1) ? 2 : 4);
    return 2;
  }

  int64_t registersOf(Type type, const std::vector<int> &axes) const {
    if (schedule.usesTensorCores())
      return registersOfPart(axes);
    int64_t elements = 1, held = 1;
    bool inner = false;
    for (int axis : axes) {
      elements *= schedule.block[size_t(axis)];
      held *= heldAlong(size_t(axis));
      inner |= space.axes()[size_t(axis)].reduced;
    }
    // Operands of dots are spread over all threads while they are loaded.
    if (inner && schedule.family == Schedule::Family::Matmul)
      held = std::max<int64_t>(1, elements / schedule.numThreads());
    return held * std::max<int64_t>(1, dtypeBytes(type.dtype()) / 4);
  }

  /// Elements of a block that one thread holds along an axis. What no row reaches takes no register: 781 elements of a block of
  /// 1024.
  int64_t heldAlong(size_t axis) const {
    int64_t block = schedule.block[axis], threads = std::min(block, schedule.lanes[axis] * schedule.warps[axis]);
    auto extent = space.axes()[axis].extent.constant();
    if (!extent || *extent >= block)
      return block / threads;
    int64_t vec = schedule.vec[axis];
    int64_t reached = *extent + (axis + 1 == schedule.block.size() ? std::max<int64_t>(schedule.align, 1) - 1 : 0);
    int64_t vectors = (reached + vec - 1) / vec;
    return std::min(block / threads, (vectors + threads - 1) / threads * vec);
  }

  /// What the warps along a reduced axis hand over to each other: one part per warp.
  int64_t exchangedBytes(const Operation &op, unsigned operand) const {
    int64_t elements = 1, parts = 1;
    for (int axis : space.axesOfUse(&op, operand)) {
      bool reduced = space.axes()[size_t(axis)].reduced;
      elements *= reduced ? schedule.warps[size_t(axis)] : schedule.block[size_t(axis)];
      parts *= reduced ? schedule.warps[size_t(axis)] : 1;
    }
    return parts > 1 ? elements * accumulatorBytes(op.operand(operand)->type()) : 0;
  }

  /// A block of an operand, its rows padded by 16 bytes.
  int64_t stagedBytes(const Operation &op, unsigned operand) const {
    int64_t elements = 1, rows = 1;
    for (int axis : space.axesOfUse(&op, operand)) {
      elements *= schedule.block[size_t(axis)];
      if (space.axes()[size_t(axis)].reduced)
        rows *= schedule.block[size_t(axis)];
    }
    return elements * dtypeBytes(op.operand(operand)->type().dtype()) + 16 * rows;
  }

  static int64_t accumulatorBytes(Type type) { return std::max<int64_t>(4, dtypeBytes(type.dtype())); }

  void collectNames(Type type) {
    std::vector<std::string> found;
    for (const DimExpr &dim : type.shape())
      if (!dim.isConstant())
        dim.collectNames(found);
    names.insert(found.begin(), found.end());
  }

  int64_t mostLive() const {
    std::vector<int64_t> change(ops.size() + 2, 0);
    for (const auto &[value, range] : ranges) {
      change[size_t(range.from)] += range.registers;
      change[size_t(range.to)] -= range.registers; // A result may take the registers of an operand that ends with it.
    }
    int64_t live = 0, most = 0;
    for (int64_t difference : change)
      most = std::max(most, live += difference);
    return most;
  }

  const IterationSpace &space;
  const Schedule &schedule;
  std::span<Operation *const> ops;
  std::span<Value *const> outputs;
  KernelResources resources;
  std::set<std::string> names;
  std::unordered_map<const Value *, const Value *> roots;
  std::unordered_map<const Value *, Range> ranges; // Summed over only.
};

} // namespace

KernelResources estimateResources(const IterationSpace &space, const Schedule &schedule, std::span<Operation *const> ops,
                                  std::span<Value *const> outputs) {
  return Estimator(space, schedule, ops, outputs).run();
}

} // namespace minic
