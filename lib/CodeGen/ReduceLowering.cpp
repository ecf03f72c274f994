// Reductions over register and lane modes.
//
// The order is reductionOrder's: the modes of an axis from the slowest to the fastest, each by halving, x[i] with x[i + n/2]. Lanes
// exchange by butterflies, so that all of them end with the result; each combines its own value with the other's.
#include "Lowering.h"

#include "minic/IR/Combiner.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <bit>
#include <functional>

namespace minic::codegen {

namespace {

class Reduction {
public:
  Reduction(KernelLowering &k, Operation &op) : k(k), op(op), layout(*op.operand(0)->type().layout()) {
    for (Value *operand : op.operands()) { // 16-bit floats accumulate in f32.
      Registers &list = values.emplace_back();
      for (llvm::Value *value : k.get(operand))
        list.push_back(k.widened(value, operand->type().dtype()));
    }
  }
  /// Halves every register mode along `axis`.
  void overRegisters(int axis);
  /// The same for lanes.
  void overLanes(int axis);
  /// Registers of operand `i` whose digit along every reduced register mode is 0.
  Registers result(size_t i) const;

private:
  /// Accumulates `other` (one value per operand) into `value`.
  void combine(Registers &value, const Registers &other);
  /// What the modes, the fastest one first, leave of the registers that begin with `r`. Depth first, so that few partial results
  /// live at once.
  Registers fold(std::span<const size_t> modes, int64_t r);
  int64_t digit(int64_t r, size_t mode) const;

  KernelLowering &k;
  Operation &op;
  const Layout &layout;
  std::vector<Registers> values; ///< One list per operand.
  std::vector<bool> reduced = std::vector<bool>(layout.reg.size(), false);
};

void Reduction::combine(Registers &value, const Registers &other) {
  if (op.numRegions() == 0) {
    OpKind kind = combinerKind(op.wordAttr("combiner"));
    for (size_t i = 0; i < value.size(); ++i) {
      llvm::Value *operands[] = {value[i], other[i]};
      value[i] = emitPrimitive(k.ir, kind, operands, isFloat(op.operand(unsigned(i))->type().dtype()));
    }
    return;
  }
  Block &combiner = op.region();
  size_t count = value.size();
  for (size_t i = 0; i < count; ++i) {
    k.set(combiner.argument(unsigned(i)), {value[i]});
    k.set(combiner.argument(unsigned(count + i)), {other[i]});
  }
  std::vector<Registers> combined = k.lowerRegion(combiner);
  for (size_t i = 0; i < count; ++i)
    value[i] = combined[i][0];
}

int64_t Reduction::digit(int64_t r, size_t mode) const {
  for (size_t i = 0; i < mode; ++i)
    r /= layout.reg[i].extent;
  return r % layout.reg[mode].extent;
}

Registers Reduction::fold(std::span<const size_t> modes, int64_t r) {
  Registers folded;
  if (modes.empty()) {
    for (const Registers &list : values)
      folded.push_back(list[size_t(r)]);
    return folded;
  }
  int64_t step = 1;
  for (size_t i = 0; i < modes.front(); ++i)
    step *= layout.reg[i].extent;
  // How many positions each round leaves; of a number that is no power of two the last ones have no partner in the first round.
  std::vector<int64_t> left = {layout.reg[modes.front()].extent};
  while (left.back() > 1)
    left.push_back(int64_t(std::bit_floor(uint64_t(left.back() - 1))));
  std::function<Registers(int64_t, size_t)> after = [&](int64_t position, size_t round) {
    if (round == 0)
      return fold(modes.subspan(1), r + position * step);
    Registers value = after(position, round - 1);
    if (position + left[round] < left[round - 1])
      combine(value, after(position + left[round], round - 1));
    return value;
  };
  return after(0, left.size() - 1);
}

void Reduction::overRegisters(int axis) {
  std::vector<size_t> modes; // The slowest ones are folded first, so they are the innermost.
  for (size_t mode = 0; mode < layout.reg.size(); ++mode)
    if (layout.reg[mode].axis == axis)
      modes.push_back(mode);
  for (size_t mode : modes)
    reduced[mode] = true;
  for (int64_t r = 0; r < layout.numRegs(); ++r) {
    bool isFirst = true; // Of what is folded into one value.
    for (size_t i = 0; i < layout.reg.size(); ++i)
      isFirst &= !reduced[i] || digit(r, i) == 0;
    if (!isFirst)
      continue;
    Registers folded = fold(modes, r);
    for (size_t i = 0; i < values.size(); ++i)
      values[i][size_t(r)] = folded[i];
  }
}

/// The value of the lane whose number differs in the bits of `mask`.
llvm::Value *shuffleXor(KernelLowering &k, llvm::Value *value, int64_t mask) {
  IRBuilder &ir = k.ir;
  llvm::Type *type = value->getType(), *word = ir.getInt32Ty();
  unsigned bits = type->getPrimitiveSizeInBits();
  auto exchange = [&](llvm::Value *part) -> llvm::Value * {
    return ir.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {k.i32(-1), part, k.i32(mask), k.i32(31)});
  };
  llvm::Value *plain = ir.CreateBitCast(value, ir.getIntNTy(bits));
  if (bits <= 32)
    return ir.CreateBitCast(ir.CreateTrunc(exchange(ir.CreateZExt(plain, word)), ir.getIntNTy(bits)), type);
  llvm::Value *low = exchange(ir.CreateTrunc(plain, word));
  llvm::Value *high = exchange(ir.CreateTrunc(ir.CreateLShr(plain, uint64_t(32)), word));
  low = ir.CreateZExt(low, plain->getType());
  high = ir.CreateShl(ir.CreateZExt(high, plain->getType()), uint64_t(32));
  return ir.CreateBitCast(ir.CreateOr(high, low), type);
}

void Reduction::overLanes(int axis) {
  for (size_t mode = layout.lane.size(); mode-- > 0;) {
    if (layout.lane[mode].axis != axis)
      continue;
    int64_t step = 1;
    for (size_t i = 0; i < mode; ++i)
      step *= layout.lane[i].extent;
    for (int64_t half = layout.lane[mode].extent / 2; half > 0; half /= 2)
      for (size_t r = 0; r < values[0].size(); ++r) {
        Registers value, other;
        for (const Registers &list : values) {
          value.push_back(list[r]);
          other.push_back(shuffleXor(k, list[r], half * step));
        }
        combine(value, other);
        for (size_t i = 0; i < values.size(); ++i)
          values[i][r] = value[i];
      }
  }
}

Registers Reduction::result(size_t i) const {
  llvm::Type *type = k.elementType(op.result(unsigned(i))->type().dtype());
  Registers kept;
  for (int64_t r = 0; r < layout.numRegs(); ++r) {
    bool isFirst = true;
    for (size_t mode = 0; mode < reduced.size(); ++mode)
      isFirst &= !reduced[mode] || digit(r, mode) == 0;
    if (isFirst)
      kept.push_back(type->is16bitFPTy() ? k.ir.CreateFPTrunc(values[i][size_t(r)], type) : values[i][size_t(r)]);
  }
  return kept;
}

} // namespace

void lowerReduce(KernelLowering &k, Operation &op) {
  Reduction reduction(k, op);
  std::vector<int64_t> axes = op.intsAttr("axes");
  std::sort(axes.rbegin(), axes.rend()); // The last axis first, as everywhere.
  for (int64_t axis : axes) {
    if (op.wordAttr("over") == "reg")
      reduction.overRegisters(int(axis));
    else
      reduction.overLanes(int(axis));
  }
  for (unsigned i = 0; i < op.numResults(); ++i)
    k.set(op.result(i), reduction.result(i));
}

} // namespace minic::codegen
