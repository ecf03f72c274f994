// The tensor cores of a warp: fragments from shared memory, and products of them.
#include "SharedMemory.h"

#include "minic/IR/SharedLayout.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

namespace minic::codegen {

namespace nvvm = llvm::Intrinsic;

llvm::Value *packWord(IRBuilder &ir, std::span<llvm::Value *const> elements) {
  if (elements.size() == 1)
    return ir.CreateBitCast(elements[0], ir.getInt32Ty());
  llvm::Value *value = llvm::PoisonValue::get(llvm::FixedVectorType::get(elements[0]->getType(), unsigned(elements.size())));
  for (size_t i = 0; i < elements.size(); ++i)
    value = ir.CreateInsertElement(value, elements[i], uint64_t(i));
  return ir.CreateBitCast(value, ir.getInt32Ty());
}

llvm::Value *packPair(IRBuilder &ir, llvm::Value *low, llvm::Value *high) { return packWord(ir, std::array{low, high}); }

Registers unpackWord(IRBuilder &ir, llvm::Value *word, llvm::Type *type) {
  unsigned count = 32 / type->getPrimitiveSizeInBits();
  if (count == 1)
    return {ir.CreateBitCast(word, type)};
  llvm::Value *elements = ir.CreateBitCast(word, llvm::FixedVectorType::get(type, count));
  Registers result;
  for (unsigned i = 0; i < count; ++i)
    result.push_back(ir.CreateExtractElement(elements, uint64_t(i)));
  return result;
}

void lowerCpAsyncGroup(KernelLowering &k, Operation &op) {
  if (op.is(OpKind::CpAsyncCommit))
    k.ir.CreateIntrinsic(nvvm::nvvm_cp_async_commit_group, {});
  else
    k.ir.CreateIntrinsic(nvvm::nvvm_cp_async_wait_group, {k.i32(op.intAttr("pending"))});
}

/// Whose rows lanes give the addresses of: lane i that of row i mod 8 of matrix i div 8. A register of the result stands for two or
/// four matrices, those of the register modes behind a lane's piece. Axes are the memory's.
static Layout addressLayout(const Layout &tile, bool hasPieces) {
  std::span<const Mode> matrices = std::span(tile.reg).subspan(hasPieces ? 1 : 0);
  bool areFour = matrices.size() > 1 && matrices[1].extent == 2;
  Layout layout{.reg = {}, .lane = {{0, 8, 1}, matrices[0], areFour ? matrices[1] : Mode{-1, 2, 0}}, .warp = tile.warp};
  layout.reg.assign(matrices.begin() + (areFour ? 2 : 1), matrices.end());
  return layout;
}

/// The layout of a tile whose axes change places.
static Layout turned(Layout layout) {
  for (auto *modes : {&layout.reg, &layout.lane, &layout.warp})
    for (Mode &mode : *modes)
      mode.axis = mode.axis < 0 ? mode.axis : 1 - mode.axis;
  return layout;
}

/// Where a lane gets elements of a column in memory (of a row otherwise).
static bool readsColumns(const Layout &inMemory) { return inMemory.lane[0].axis == 0; }

/// Fragments as ldmatrix has them: a lane's piece is 4 bytes of a row, or two 16-bit elements of a column.
static Registers loadMatrices(KernelLowering &k, llvm::Value *memory, Type type, const Layout &inMemory, SharedPlace start) {
  bool transposed = readsColumns(inMemory);
  int64_t piece = 4 / dtypeBytes(type.dtype());
  Layout rows = addressLayout(inMemory, piece > 1);
  int64_t matrices = inMemory.numRegs() / rows.numRegs() / piece;
  nvvm::ID load =
      matrices == 4 ? transposed ? nvvm::nvvm_ldmatrix_sync_aligned_m8n8_x4_trans_b16 : nvvm::nvvm_ldmatrix_sync_aligned_m8n8_x4_b16
      : transposed  ? nvvm::nvvm_ldmatrix_sync_aligned_m8n8_x2_trans_b16
                    : nvvm::nvvm_ldmatrix_sync_aligned_m8n8_x2_b16;
  SwizzledAccess access(k, memory, type, rows, start);
  Registers result;
  for (int64_t r = 0; r < rows.numRegs(); ++r) {
    llvm::Value *address = access.address(r);
    llvm::Value *loaded = k.ir.CreateIntrinsic(load, {address->getType()}, {address});
    for (unsigned i = 0; i < matrices; ++i) {
      Registers elements = unpackWord(k.ir, k.ir.CreateExtractValue(loaded, i), k.elementType(type.dtype()));
      result.insert(result.end(), elements.begin(), elements.end());
    }
  }
  return result;
}

void lowerLdMatrix(KernelLowering &k, Operation &op) {
  Type memory = op.operand(0)->type(), tile = op.result()->type();
  auto *row = llvm::dyn_cast<llvm::ConstantInt>(k.scalar(op.operand(1)));
  auto *column = llvm::dyn_cast<llvm::ConstantInt>(k.scalar(op.operand(2)));
  if (!row || !column)
    return k.fail(op, "needs a row and a column that are constants, or come from loops with `unroll = full`");
  Layout inMemory = op.wordAttr("form") == "t" ? turned(*tile.layout()) : *tile.layout();
  llvm::Value *start = k.scalar(op.operand(0));
  SharedPlace place{row->getSExtValue(), column->getSExtValue()};
  if (tile.dtype() != DType::F64)
    return k.set(op.result(), loadMatrices(k, start, memory, inMemory, place));
  // There are no matrices of wider elements. What is read ahead in a loop stays ahead: LLVM would sink loads behind the loop's phi,
  // but no frozen ones.
  Registers loaded = loadSwizzled(k, start, memory, inMemory, place);
  for (llvm::Value *&element : loaded)
    element = k.ir.CreateFreeze(element);
  k.set(op.result(), std::move(loaded));
}

//===- Products -===//

using Operands = std::vector<llvm::Value *>;

/// What a register of mma holds: f64, or 32 bits of several elements, f16 as a vector and f32 as tf32.
static llvm::Value *operandOf(KernelLowering &k, DType dtype, std::span<llvm::Value *const> elements) {
  if (dtype == DType::F64)
    return elements[0];
  if (dtype == DType::F32)
    return k.ir.CreateIntrinsic(nvvm::nvvm_f2tf32_rna, {elements[0]});
  llvm::Value *word = packWord(k.ir, elements);
  return dtype == DType::F16 ? k.ir.CreateBitCast(word, llvm::FixedVectorType::get(k.ir.getHalfTy(), 2)) : word;
}

/// The fragments of a tile, of 16 rows or 8 columns each, as mma takes them.
static std::vector<Operands> fragmentsOf(KernelLowering &k, Value *tile, int64_t extent) {
  DType dtype = tile->type().dtype();
  size_t size = size_t(extent * MmaTiling{.dtype = dtype}.depth() / 32), word = size_t(std::max<int64_t>(4 / dtypeBytes(dtype), 1));
  std::span<llvm::Value *const> registers = k.get(tile);
  std::vector<Operands> fragments(registers.size() / size);
  for (size_t r = 0; r < registers.size(); r += word)
    fragments[r / size].push_back(operandOf(k, dtype, registers.subspan(r, word)));
  return fragments;
}

static void multiply(KernelLowering &k, nvvm::ID product, Operands operands, std::span<llvm::Value *> sums) {
  operands.insert(operands.end(), sums.begin(), sums.end());
  llvm::Value *result = k.ir.CreateIntrinsic(product, {}, operands);
  for (unsigned i = 0; i < sums.size(); ++i)
    sums[i] = k.ir.CreateExtractValue(result, i);
}

/// Of f64, 16 rows by 8 columns by 8 of k: one instruction since sm_90, four before. Registers of a go by k first, then by rows.
static void multiplyDoubles(KernelLowering &k, const Operands &a, const Operands &b, std::span<llvm::Value *> sums) {
  if (k.target.computeMajor >= 9)
    return multiply(k, nvvm::nvvm_mma_m16n8k8_row_col_f64, {a[0], a[2], a[1], a[3], b[0], b[1]}, sums);
  for (size_t step : {0u, 1u})
    for (size_t half : {0u, 1u})
      multiply(k, nvvm::nvvm_mma_m8n8k4_row_col_f64, {a[2 * half + step], b[step]}, sums.subspan(2 * half, 2));
}

static nvvm::ID productOf(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return nvvm::nvvm_mma_m16n8k16_row_col_f32_f32;
  case DType::BF16:
    return nvvm::nvvm_mma_m16n8k16_row_col_bf16;
  case DType::F32:
    return nvvm::nvvm_mma_m16n8k8_row_col_tf32;
  case DType::I8:
    return nvvm::nvvm_mma_m16n8k32_row_col_s8;
  default:
    return nvvm::nvvm_mma_m16n8k32_row_col_u8;
  }
}

void lowerMma(KernelLowering &k, Operation &op) {
  DType dtype = op.operand(0)->type().dtype();
  constexpr size_t ofAcc = 4;
  std::vector<Operands> rows = fragmentsOf(k, op.operand(0), 16), columns = fragmentsOf(k, op.operand(1), 8);
  Registers acc = k.get(op.operand(2));
  std::span<llvm::Value *> rest = acc;
  for (const Operands &a : rows)
    for (const Operands &b : columns) {
      std::span<llvm::Value *> sums = rest.first(ofAcc);
      rest = rest.subspan(ofAcc);
      if (dtype == DType::F64) {
        multiplyDoubles(k, a, b, sums);
        continue;
      }
      Operands operands = a;
      operands.insert(operands.end(), b.begin(), b.end());
      multiply(k, productOf(dtype), std::move(operands), sums);
    }
  k.set(op.result(), std::move(acc));
}

} // namespace minic::codegen
