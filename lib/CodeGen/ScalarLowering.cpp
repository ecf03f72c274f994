// Constants, element-wise ops, and the ops that only renumber registers.
#include "Lowering.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

namespace minic::codegen {

llvm::Type *KernelLowering::elementType(DType type) {
  switch (type) {
  case DType::F64:
    return ir.getDoubleTy();
  case DType::F32:
    return ir.getFloatTy();
  case DType::F16:
    return ir.getHalfTy();
  case DType::BF16:
    return ir.getBFloatTy();
  case DType::I32:
    return ir.getInt32Ty();
  case DType::I1:
    return ir.getInt1Ty();
  case DType::I64:
  case DType::Index:
    return ir.getInt64Ty();
  }
  return nullptr;
}

llvm::Type *KernelLowering::memoryType(DType type) { return type == DType::I1 ? ir.getInt8Ty() : elementType(type); }

llvm::Value *KernelLowering::fromMemory(llvm::Value *value, DType type) {
  return type == DType::I1 ? ir.CreateICmpNE(value, ir.getInt8(0)) : value;
}

llvm::Value *KernelLowering::toMemory(llvm::Value *value, DType type) {
  return type == DType::I1 ? ir.CreateZExt(value, ir.getInt8Ty()) : value;
}

llvm::Constant *KernelLowering::number(const Attribute &attribute, DType type) {
  auto value = attribute.asNumber();
  if (!value)
    return nullptr;
  if (isFloat(type)) {
    llvm::APFloat bits(*value);
    bool inexact;
    bits.convert(elementType(type)->getFltSemantics(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    return llvm::ConstantFP::get(ir.getContext(), bits);
  }
  int64_t integer = attribute.asInt() ? *attribute.asInt() : int64_t(*value);
  return llvm::ConstantInt::get(elementType(type), uint64_t(integer), /*IsSigned=*/true, /*ImplicitTrunc=*/true);
}

void lowerConstant(KernelLowering &k, Operation &op) {
  Type type = op.result()->type();
  llvm::Constant *value = k.number(*op.attr("value"), type.dtype());
  if (!value)
    return k.fail(op, "with a list of values has no code for GPUs; a kernel's constants are one number");
  k.set(op.result(), Registers(type.isTile() ? size_t(type.layout()->numRegs()) : 1, value));
}

//===- Registers of another layout -===//

/// For each register of `to` the register of `from` that holds the same element in the same thread, or nothing if some element is in
/// another thread. Axes where `from` has extent 1 repeat.
static std::optional<std::vector<size_t>> matchRegisters(Type from, Type to, int64_t warps) {
  const Layout &a = *from.layout(), &b = *to.layout();
  std::vector<int64_t> extents = from.extents();
  if (extents.size() != to.extents().size())
    return std::nullopt;
  auto project = [&](std::vector<int64_t> index) {
    for (size_t axis = 0; axis < index.size(); ++axis)
      if (extents[axis] == 1)
        index[axis] = 0;
    return index;
  };
  const std::vector<int64_t> zero(extents.size(), 0);
  for (int64_t warp = 0; warp < warps; ++warp)
    for (int64_t lane = 0; lane < 32; ++lane) {
      std::vector<int64_t> x = zero, y = zero;
      a.addThread(lane, warp, x);
      b.addThread(lane, warp, y);
      if (project(x) != project(y))
        return std::nullopt;
    }
  std::map<std::vector<int64_t>, size_t> holders;
  for (int64_t r = 0; r < a.numRegs(); ++r) {
    std::vector<int64_t> index = zero;
    a.addRegister(r, index);
    holders.try_emplace(project(index), size_t(r));
  }
  std::vector<size_t> result;
  for (int64_t r = 0; r < b.numRegs(); ++r) {
    std::vector<int64_t> index = zero;
    b.addRegister(r, index);
    auto it = holders.find(project(index));
    if (it == holders.end())
      return std::nullopt;
    result.push_back(it->second);
  }
  return result;
}

Registers KernelLowering::operandAs(const Operation &op, unsigned i, Type to) {
  Type from = op.operand(i)->type();
  const Registers &registers = get(op.operand(i));
  if (!from.isTile() || from.layout() == to.layout())
    return registers;
  auto matched = matchRegisters(from, to, threads / 32);
  if (!matched) {
    fail(op, "needs elements of operand " + std::to_string(i) + " that other threads hold");
    return Registers(size_t(to.layout()->numRegs()), llvm::Constant::getNullValue(elementType(from.dtype())));
  }
  Registers result;
  for (size_t r : *matched)
    result.push_back(registers[r]);
  return result;
}

void lowerBroadcast(KernelLowering &k, Operation &op) { k.set(op.result(), k.operandAs(op, 0, op.result()->type())); }

void lowerInBounds(KernelLowering &k, Operation &op) {
  const Layout &layout = *op.result()->type().layout();
  int axis = int(op.intAttr("axis"));
  llvm::Value *limit = k.limit(k.scalar(op.operand(0)), *op.attr("size")->asDim(), layout, axis);
  Registers result;
  for (int64_t r = 0; r < layout.numRegs(); ++r) {
    std::vector<int64_t> index(size_t(op.result()->type().rank()), 0);
    layout.addRegister(r, index);
    result.push_back(k.ir.CreateICmpSGT(limit, k.i32(index[size_t(axis)])));
  }
  k.set(op.result(), std::move(result));
}

//===- Element-wise ops -===//

llvm::Value *emitPrimitive(IRBuilder &ir, OpKind kind, std::span<llvm::Value *const> operands, bool isFloat) {
  llvm::Value *const none = nullptr;
  [[maybe_unused]] llvm::Value *x = operands[0], *y = operands.size() > 1 ? operands[1] : none, *z = operands.size() > 2 ? operands[2] : none;
  switch (kind) {
#define MINIC_SCALAR(id, name, hostFloat, hostInt, llvmFloat, llvmInt, ...)                                                                 \
  case OpKind::id:                                                                                                                          \
    return isFloat ? llvmFloat : llvmInt;
#define MINIC_MATH(...)
#define MINIC_OP(...)
#include "minic/IR/ScalarOps.def"
#undef MINIC_SCALAR
#undef MINIC_MATH
#undef MINIC_OP
  default:
    return nullptr;
  }
}

static llvm::Value *emitCompare(KernelLowering &k, std::string_view predicate, llvm::Value *x, llvm::Value *y, DType type) {
  using P = llvm::CmpInst::Predicate;
  struct Row {
    std::string_view name;
    P onFloat, onSigned, onBool; // `true` is 1, which as a signed i1 would be -1.
  };
  static constexpr Row rows[] = {
      {"eq", P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},    {"ne", P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {"lt", P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT},  {"le", P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {"gt", P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT},  {"ge", P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  for (const Row &row : rows) {
    if (row.name != predicate)
      continue;
    if (isNarrowFloat(type)) { // Exact, and sm_80 has no bf16 comparison.
      x = k.ir.CreateFPExt(x, k.ir.getFloatTy());
      y = k.ir.CreateFPExt(y, k.ir.getFloatTy());
    }
    return k.ir.CreateCmp(isFloat(type) ? row.onFloat : type == DType::I1 ? row.onBool : row.onSigned, x, y);
  }
  return nullptr;
}

/// Truncates and saturates; NaN gives 0. PTX's cvt.rzi saturates; for NaN it gives 0 only from f32 to 32 bits (PTX ISA, `cvt`, "Integer
/// Notes"), and LLVM's fptosi.sat would check the range once more.
static llvm::Value *floatToInt(KernelLowering &k, llvm::Value *x, DType from, bool to64) {
  IRBuilder &ir = k.ir;
  if (isNarrowFloat(from))
    x = ir.CreateFPExt(x, ir.getFloatTy());
  bool isDouble = from == DType::F64;
  llvm::Intrinsic::ID id = isDouble ? (to64 ? llvm::Intrinsic::nvvm_d2ll_rz : llvm::Intrinsic::nvvm_d2i_rz)
                                    : (to64 ? llvm::Intrinsic::nvvm_f2ll_rz : llvm::Intrinsic::nvvm_f2i_rz);
  llvm::Value *result = ir.CreateIntrinsic(id, {x});
  if (!isDouble && !to64)
    return result;
  return ir.CreateSelect(ir.CreateFCmpUNO(x, x), llvm::Constant::getNullValue(result->getType()), result);
}

/// Rounds once. LLVM converts to bf16 through f32 on targets without an instruction for it, which would round twice.
static llvm::Value *intToFloat(KernelLowering &k, llvm::Value *x, bool from64, DType to) {
  IRBuilder &ir = k.ir;
  llvm::Type *type = k.elementType(to);
  if (to != DType::BF16 || k.target.computeMajor >= 9)
    return ir.CreateSIToFP(x, type);
  if (!from64)
    return ir.CreateFPTrunc(ir.CreateSIToFP(x, ir.getDoubleTy()), type);
  // To f64 rounded to odd: toward zero, with the last bit set if that dropped anything. Rounding that to fewer than 52 bits is as
  // rounding the integer.
  llvm::Value *chopped = ir.CreateIntrinsic(llvm::Intrinsic::nvvm_ll2d_rz, {x});
  llvm::Value *back = ir.CreateIntrinsic(llvm::Intrinsic::nvvm_d2ll_rz, {chopped});
  llvm::Value *sticky = ir.CreateZExt(ir.CreateICmpNE(back, x), ir.getInt64Ty());
  llvm::Value *odd = ir.CreateOr(ir.CreateBitCast(chopped, ir.getInt64Ty()), sticky);
  return ir.CreateFPTrunc(ir.CreateBitCast(odd, ir.getDoubleTy()), type);
}

static llvm::Value *emitConvert(KernelLowering &k, llvm::Value *x, DType from, DType to) {
  IRBuilder &ir = k.ir;
  llvm::Type *type = k.elementType(to);
  auto is64 = [](DType t) { return t == DType::I64 || t == DType::Index; };
  if (from == to)
    return x;
  if (to == DType::I1)
    return isFloat(from) ? ir.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType())) : ir.CreateIsNotNull(x);
  if (from == DType::I1)
    return isFloat(to) ? ir.CreateSelect(x, llvm::ConstantFP::get(type, 1.0), llvm::ConstantFP::get(type, 0.0)) : ir.CreateZExt(x, type);
  if (isFloat(from) && isFloat(to)) {
    if (isNarrowFloat(from) && isNarrowFloat(to)) // Neither holds the other; f32 holds both.
      return ir.CreateFPTrunc(ir.CreateFPExt(x, ir.getFloatTy()), type);
    return ir.CreateFPCast(x, type);
  }
  if (isFloat(from))
    return floatToInt(k, x, from, is64(to));
  if (isFloat(to))
    return intToFloat(k, x, is64(from), to);
  return ir.CreateSExtOrTrunc(x, type);
}

void lowerElementwise(KernelLowering &k, Operation &op) {
  if (op.info().expands)
    return k.fail(op, "reached the code generator unexpanded; run expand-math before");
  Type type = op.result()->type();
  DType from = op.operand(0)->type().dtype();
  std::vector<Registers> operands;
  for (unsigned i = 0; i < op.numOperands(); ++i)
    operands.push_back(k.operandAs(op, i, type));

  Registers result;
  std::vector<llvm::Value *> lane(operands.size());
  size_t count = type.isTile() ? size_t(type.layout()->numRegs()) : 1;
  for (size_t r = 0; r < count; ++r) {
    for (size_t i = 0; i < operands.size(); ++i)
      lane[i] = operands[i][r];
    llvm::Value *value;
    switch (op.kind()) {
    case OpKind::Compare:
      value = emitCompare(k, op.wordAttr("predicate"), lane[0], lane[1], from);
      break;
    case OpKind::Select:
      value = k.ir.CreateSelect(lane[0], lane[1], lane[2]);
      break;
    case OpKind::Convert:
      value = emitConvert(k, lane[0], from, type.dtype());
      break;
    case OpKind::Bitcast:
      value = k.ir.CreateBitCast(lane[0], k.elementType(type.dtype()));
      break;
    default:
      value = emitPrimitive(k.ir, op.kind(), lane, isFloat(from));
    }
    if (!value)
      return k.fail(op, "has no code for GPUs on " + std::string(dtypeName(from)));
    result.push_back(value);
  }
  k.set(op.result(), std::move(result));
}

} // namespace minic::codegen
