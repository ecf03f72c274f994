// dot over shared memory: a chain of fused multiply-adds per accumulator register.
#include "SharedMemory.h"

#include <algorithm>
#include <map>

namespace minic::codegen {

namespace {

/// Positions along k whose code stands in a row before the loop goes round.
constexpr int64_t unrolledSteps = 8;

/// One operand of the dot as the thread reads it.
struct Operand {
  llvm::Value *memory;
  DType dtype;
  std::vector<int64_t> strides;   ///< Of all tile axes; 0 where the operand has extent 1.
  std::vector<int64_t> outer;     ///< The same with 0 for contracted axes.
  std::vector<int64_t> positions; ///< What each accumulator register adds.
  llvm::Value *thread;            ///< What the thread adds.
  int64_t alignment;              ///< Elements that divide `thread` and what the loop adds.
};

class Dot {
public:
  Dot(KernelLowering &k, Operation &op);
  Registers run();

private:
  Operand makeOperand(Value *value);
  std::vector<size_t> orderOfProducts() const;
  /// The steps `first` (an i32, null for 0) to `first + unrolled - 1`.
  Registers steps(llvm::Value *first, Registers acc);
  llvm::Value *position(const Operand &operand, llvm::Value *first);

  KernelLowering &k;
  Operation &op;
  const Layout &layout;
  std::vector<int64_t> axes, extents; ///< Contracted axes and their extents, the last one fastest.
  int64_t total = 1, unrolled = 1;
  Operand lhs, rhs;
};

Dot::Dot(KernelLowering &k, Operation &op) : k(k), op(op), layout(*op.result()->type().layout()), axes(op.intsAttr("axes")) {
  std::vector<int64_t> a = op.operand(0)->type().extents(), b = op.operand(1)->type().extents();
  for (int64_t axis : axes) {
    extents.push_back(std::max(a[size_t(axis)], b[size_t(axis)]));
    total *= extents.back();
  }
  // A run of steps stays within the fastest contracted axis, so that it moves at one stride.
  int64_t fastest = extents.empty() ? 1 : extents.back();
  for (unrolled = std::clamp<int64_t>(fastest, 1, unrolledSteps); fastest % unrolled != 0;)
    --unrolled;
  lhs = makeOperand(op.operand(0));
  rhs = makeOperand(op.operand(1));
}

Operand Dot::makeOperand(Value *value) {
  Operand operand{.memory = k.scalar(value), .dtype = value->type().dtype(), .strides = value->type().smemStrides()};
  std::vector<int64_t> shape = value->type().extents();
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] == 1)
      operand.strides[axis] = 0;
  operand.outer = operand.strides;
  for (int64_t axis : axes)
    operand.outer[size_t(axis)] = 0;
  for (int64_t r = 0; r < layout.numRegs(); ++r)
    operand.positions.push_back(registerPosition(layout, r, operand.outer));
  operand.thread = threadPosition(k, layout, operand.outer);
  operand.alignment = threadAlignment(layout, operand.outer, operand.dtype);
  if (total > unrolled)
    for (size_t i = 0; i < axes.size(); ++i) {
      int64_t stride = operand.strides[size_t(axes[i])];
      operand.alignment = powerOfTwoIn(i + 1 == axes.size() ? unrolled * stride : stride, operand.alignment);
    }
  return operand;
}

/// Accumulators row by row, every other row backwards: one product after the other shares an operand with it. The register file
/// gives two operands a cycle, and the third must be one that was read just before (the `.reuse` of SASS).
std::vector<size_t> Dot::orderOfProducts() const {
  std::map<int64_t, std::vector<size_t>> rows;
  for (size_t r = 0; r < lhs.positions.size(); ++r)
    rows[lhs.positions[r]].push_back(r);
  std::vector<size_t> order;
  bool backwards = false;
  for (auto &[position, row] : rows) {
    std::ranges::stable_sort(row, {}, [&](size_t r) { return rhs.positions[r]; });
    if (backwards)
      std::ranges::reverse(row);
    backwards = !backwards;
    order.insert(order.end(), row.begin(), row.end());
  }
  return order;
}

llvm::Value *Dot::position(const Operand &operand, llvm::Value *first) {
  if (!first)
    return operand.thread;
  llvm::Value *sum = operand.thread;
  int64_t below = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    llvm::Value *digit = below == 1 ? first : k.ir.CreateUDiv(first, k.i32(below));
    if (i > 0 && extents[i] > 1)
      digit = k.ir.CreateURem(digit, k.i32(extents[i]));
    below *= extents[i];
    sum = addIndex(k.ir, sum, mulIndex(k.ir, digit, k.i32(operand.strides[size_t(axes[i])])));
  }
  return sum;
}

Registers Dot::steps(llvm::Value *first, Registers acc) {
  auto reader = [&](const Operand &operand) {
    int64_t stride = axes.empty() ? 0 : operand.strides[size_t(axes.back())];
    std::set<int64_t> offsets;
    for (int64_t step = 0; step < unrolled; ++step)
      for (int64_t position : operand.positions)
        offsets.insert(position + step * stride);
    return std::pair(
        SharedReader(k, operand.memory, operand.dtype, position(operand, first), operand.alignment, std::move(offsets)), stride);
  };
  auto [left, leftStride] = reader(lhs);
  auto [right, rightStride] = reader(rhs);
  bool floats = isFloat(op.operand(2)->type().dtype());
  std::vector<size_t> order = orderOfProducts();
  for (int64_t step = 0; step < unrolled; ++step)
    for (size_t r : order) {
      llvm::Value *x = k.widened(left.read(lhs.positions[r] + step * leftStride), lhs.dtype);
      llvm::Value *y = k.widened(right.read(rhs.positions[r] + step * rightStride), rhs.dtype);
      llvm::Value *operands[] = {x, y, acc[r]};
      acc[r] = floats ? emitPrimitive(k.ir, OpKind::Fma, operands, true) : k.ir.CreateAdd(acc[r], k.ir.CreateMul(x, y));
    }
  return acc;
}

Registers Dot::run() {
  const Registers &acc = k.get(op.operand(2));
  if (total == 0)
    return acc;
  if (total == unrolled)
    return steps(nullptr, acc);
  return k.loop(k.i32(0), k.i32(total), k.i32(unrolled), acc,
                [&](llvm::Value *first, const Registers &carried) { return steps(first, carried); });
}

} // namespace

void lowerDot(KernelLowering &k, Operation &op) { k.set(op.result(), Dot(k, op).run()); }

} // namespace minic::codegen
