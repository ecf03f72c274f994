// Reductions over register and lane modes.
//
// The order is reductionOrder's: the modes of an axis from the slowest to the fastest, each by halving, x[i] with x[i + n/2]. Lanes
// exchange by butterflies, so that all of them end with the result; each combines its own value with the other's.
#include "Lowering.h"

#include "minic/IR/Combiner.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <bit>

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
  /// Accumulates `other` (one value per operand) into register `r`.
  void combine(size_t r, const Registers &other);
  int64_t digit(int64_t r, size_t mode) const;

  KernelLowering &k;
  Operation &op;
  const Layout &layout;
  std::vector<Registers> values; ///< One list per operand.
  std::vector<bool> reduced = std::vector<bool>(layout.reg.size(), false);
};

void Reduction::combine(size_t r, const Registers &other) {
  if (op.numRegions() == 0) {
    OpKind kind = combinerKind(op.wordAttr("combiner"));
    for (size_t i = 0; i < values.size(); ++i) {
      llvm::Value *operands[] = {values[i][r], other[i]};
      values[i][r] = emitPrimitive(k.ir, kind, operands, isFloat(op.operand(unsigned(i))->type().dtype()));
    }
    return;
  }
  Block &combiner = op.region();
  size_t count = values.size();
  for (size_t i = 0; i < count; ++i) {
    k.set(combiner.argument(unsigned(i)), {values[i][r]});
    k.set(combiner.argument(unsigned(count + i)), {other[i]});
  }
  std::vector<Registers> combined = k.lowerRegion(combiner);
  for (size_t i = 0; i < count; ++i)
    values[i][r] = combined[i][0];
}

int64_t Reduction::digit(int64_t r, size_t mode) const {
  for (size_t i = 0; i < mode; ++i)
    r /= layout.reg[i].extent;
  return r % layout.reg[mode].extent;
}

void Reduction::overRegisters(int axis) {
  for (size_t mode = layout.reg.size(); mode-- > 0;) {
    if (layout.reg[mode].axis != axis)
      continue;
    int64_t step = 1;
    for (size_t i = 0; i < mode; ++i)
      step *= layout.reg[i].extent;
    for (int64_t left = layout.reg[mode].extent; left > 1;) {
      // Of an extent that is no power of two the last positions have no partner in the first round.
      int64_t half = int64_t(std::bit_floor(uint64_t(left - 1)));
      for (int64_t r = 0; r < layout.numRegs(); ++r) {
        if (digit(r, mode) + half >= left)
          continue;
        bool isLive = true; // Digits that an earlier step folded away hold nothing of interest.
        for (size_t i = 0; i < layout.reg.size(); ++i)
          isLive &= !reduced[i] || digit(r, i) == 0;
        if (!isLive)
          continue;
        Registers other;
        for (const Registers &list : values)
          other.push_back(list[size_t(r + half * step)]);
        combine(size_t(r), other);
      }
      left = half;
    }
    reduced[mode] = true;
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
        Registers other;
        for (const Registers &list : values)
          other.push_back(shuffleXor(k, list[r], half * step));
        combine(r, other);
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
