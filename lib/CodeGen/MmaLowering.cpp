// The tensor cores of a warp: fragments from shared memory, and products of them.
#include "SharedMemory.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

namespace minic::codegen {

namespace nvvm = llvm::Intrinsic;

llvm::Value *packPair(IRBuilder &ir, llvm::Value *low, llvm::Value *high) {
  auto *pair = llvm::FixedVectorType::get(low->getType(), 2);
  llvm::Value *value = ir.CreateInsertElement(llvm::PoisonValue::get(pair), low, uint64_t(0));
  return ir.CreateBitCast(ir.CreateInsertElement(value, high, uint64_t(1)), ir.getInt32Ty());
}

std::pair<llvm::Value *, llvm::Value *> unpackPair(IRBuilder &ir, llvm::Value *packed, llvm::Type *type) {
  llvm::Value *pair = ir.CreateBitCast(packed, llvm::FixedVectorType::get(type, 2));
  return {ir.CreateExtractElement(pair, uint64_t(0)), ir.CreateExtractElement(pair, uint64_t(1))};
}

void lowerCpAsyncGroup(KernelLowering &k, Operation &op) {
  if (op.is(OpKind::CpAsyncCommit))
    k.ir.CreateIntrinsic(nvvm::nvvm_cp_async_commit_group, {});
  else
    k.ir.CreateIntrinsic(nvvm::nvvm_cp_async_wait_group, {k.i32(op.intAttr("pending"))});
}

/// Whose rows lanes give the addresses of: lane i that of row i mod 8 of matrix i div 8. A register of the result stands for two or
/// four matrices, those of the register modes behind the pair. Axes are the memory's.
static Layout addressLayout(const Layout &tile) {
  const std::vector<Mode> &registers = tile.reg;
  bool areFour = registers.size() > 2 && registers[2].extent == 2;
  Layout layout{.reg = {}, .lane = {{0, 8, 1}, registers[1], areFour ? registers[2] : Mode{-1, 2, 0}}, .warp = tile.warp};
  layout.reg.assign(registers.begin() + (areFour ? 3 : 2), registers.end());
  return layout;
}

/// The layout of a tile whose axes change places.
static Layout turned(Layout layout) {
  for (auto *modes : {&layout.reg, &layout.lane, &layout.warp})
    for (Mode &mode : *modes)
      mode.axis = mode.axis < 0 ? mode.axis : 1 - mode.axis;
  return layout;
}

void lowerLdMatrix(KernelLowering &k, Operation &op) {
  IRBuilder &ir = k.ir;
  Type memory = op.operand(0)->type(), tile = op.result()->type();
  auto *row = llvm::dyn_cast<llvm::ConstantInt>(k.scalar(op.operand(1)));
  auto *column = llvm::dyn_cast<llvm::ConstantInt>(k.scalar(op.operand(2)));
  if (!row || !column)
    return k.fail(op, "needs a row and a column that are constants, or come from loops with `unroll = full`");
  Layout inMemory = op.wordAttr("form") == "t" ? turned(*tile.layout()) : *tile.layout();
  bool transposed = inMemory.reg[0].axis == 0; // A lane gets pairs of a column, not of a row.
  const Layout *rows = k.kernel.module().context().layout(addressLayout(inMemory));
  size_t matrices = size_t(tile.layout()->numRegs() / rows->numRegs() / 2);
  nvvm::ID load =
      matrices == 4 ? transposed ? nvvm::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16 : nvvm::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16
      : transposed  ? nvvm::nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16
                    : nvvm::nvvm_ldmatrix_sync_aligned_m8n8_x2_b16;
  SwizzledAccess access(k, k.scalar(op.operand(0)), memory, *rows, {row->getSExtValue(), column->getSExtValue()});
  Registers result;
  for (int64_t r = 0; r < rows->numRegs(); ++r) {
    llvm::Value *address = access.address(r);
    llvm::Value *loaded = ir.CreateIntrinsic(load, {address->getType()}, {address});
    for (unsigned i = 0; i < matrices; ++i) {
      auto [low, high] = unpackPair(ir, ir.CreateExtractValue(loaded, i), k.elementType(tile.dtype()));
      result.insert(result.end(), {low, high});
    }
  }
  k.set(op.result(), std::move(result));
}

/// Registers `first` to `first + count - 1` as mma takes them: pairs, in i32s of bf16 or vectors of f16.
static void addFragment(KernelLowering &k, Value *tile, size_t first, size_t count, std::vector<llvm::Value *> &operands) {
  const Registers &registers = k.get(tile);
  for (size_t r = first; r < first + count; r += 2) {
    llvm::Value *pair = packPair(k.ir, registers[r], registers[r + 1]);
    if (tile->type().dtype() == DType::F16)
      pair = k.ir.CreateBitCast(pair, llvm::FixedVectorType::get(k.ir.getHalfTy(), 2));
    operands.push_back(pair);
  }
}

void lowerMma(KernelLowering &k, Operation &op) {
  constexpr size_t ofA = 8, ofB = 4, ofAcc = 4; // Registers of m16n8k16.
  bool isHalf = op.operand(0)->type().dtype() == DType::F16;
  nvvm::ID product = isHalf ? nvvm::nvvm_mma_m16n8k16_row_col_f32_f32 : nvvm::nvvm_mma_m16n8k16_row_col_bf16;
  size_t rows = k.get(op.operand(0)).size() / ofA, columns = k.get(op.operand(1)).size() / ofB;
  Registers acc = k.get(op.operand(2));
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column) {
      llvm::Value **sums = &acc[(row * columns + column) * ofAcc];
      std::vector<llvm::Value *> operands;
      addFragment(k, op.operand(0), row * ofA, ofA, operands);
      addFragment(k, op.operand(1), column * ofB, ofB, operands);
      operands.insert(operands.end(), sums, sums + ofAcc);
      llvm::Value *result = k.ir.CreateIntrinsic(product, {}, operands);
      for (unsigned i = 0; i < ofAcc; ++i)
        sums[i] = k.ir.CreateExtractValue(result, i);
    }
  k.set(op.result(), std::move(acc));
}

} // namespace minic::codegen
