// Constants, element-wise ops, and the ops that only renumber registers.
#include "Lowering.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <cmath>

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
  case DType::I8:
  case DType::U8:
  case DType::F8E4M3: // Their bits.
  case DType::F8E5M2:
    return ir.getInt8Ty();
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

/// Exact for all codes, in f16: f8e5m2 is its upper byte; the bits of f8e4m3 below its exponent's top bit read as 2^-8 of its
/// number.
static llvm::Value *float8ToFloat(IRBuilder &ir, llvm::Value *bits, DType type) {
  auto asFloat = [&](llvm::Value *half) { return ir.CreateFPExt(ir.CreateBitCast(half, ir.getHalfTy()), ir.getFloatTy()); };
  llvm::Value *wide = ir.CreateZExt(bits, ir.getInt16Ty());
  if (type == DType::F8E5M2)
    return asFloat(ir.CreateShl(wide, uint64_t(8)));
  llvm::Value *sign = ir.CreateShl(ir.CreateAnd(wide, ir.getInt16(0x80)), uint64_t(8)),
              *magnitude = ir.CreateAnd(wide, ir.getInt16(0x7f));
  llvm::Value *number = ir.CreateFMul(asFloat(ir.CreateOr(sign, ir.CreateShl(magnitude, uint64_t(7)))),
                                      llvm::ConstantFP::get(ir.getFloatTy(), 256.0));
  return ir.CreateSelect(ir.CreateICmpEQ(magnitude, ir.getInt16(0x7f)), llvm::ConstantFP::getNaN(ir.getFloatTy()), number);
}

llvm::Value *KernelLowering::widened(llvm::Value *value, DType type) {
  if (!isNarrow(type))
    return value;
  if (isStorageOnly(type))
    return float8ToFloat(ir, value, type);
  llvm::Type *wide = elementType(computeDType(type));
  return isFloat(type) ? ir.CreateFPExt(value, wide) : type == DType::I8 ? ir.CreateSExt(value, wide) : ir.CreateZExt(value, wide);
}

llvm::Constant *KernelLowering::number(const Attribute &attribute, DType type) {
  if (isStorageOnly(type))
    return ir.getInt8(uint8_t(doubleToNarrow(*attribute.asNumber(), type)));
  if (isFloat(type)) {
    llvm::APFloat bits(*attribute.asNumber());
    bool inexact;
    bits.convert(elementType(type)->getFltSemantics(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    return llvm::ConstantFP::get(ir.getContext(), bits);
  }
  return llvm::ConstantInt::get(elementType(type), uint64_t(*attribute.asInt()), /*IsSigned=*/true, /*ImplicitTrunc=*/true);
}

void lowerConstant(KernelLowering &k, Operation &op) {
  Type type = op.result()->type();
  size_t count = type.isTile() ? size_t(type.layout()->numRegs()) : 1;
  k.set(op.result(), Registers(count, k.number(*op.attr("value"), type.dtype())));
}

//===- Renumbered registers -===//

void lowerBroadcast(KernelLowering &k, Operation &op) {
  // The verifier has seen that each element is in the same thread. Along an axis where the operand is smaller a thread holds one
  // position.
  Type from = op.operand(0)->type(), to = op.result()->type();
  std::vector<int64_t> extents = from.extents(), whole = to.extents();
  auto element = [&](const Layout &layout, int64_t r) {
    std::vector<int64_t> index(extents.size(), 0);
    layout.addRegister(r, index);
    for (size_t axis = 0; axis < index.size(); ++axis)
      if (extents[axis] == 1 || extents[axis] != whole[axis])
        index[axis] = 0;
    return index;
  };
  const Registers &registers = k.get(op.operand(0));
  std::map<std::vector<int64_t>, llvm::Value *> holders;
  for (int64_t r = 0; r < from.layout()->numRegs(); ++r)
    holders.try_emplace(element(*from.layout(), r), registers[size_t(r)]);
  Registers result;
  for (int64_t r = 0; r < to.layout()->numRegs(); ++r)
    result.push_back(holders.at(element(*to.layout(), r)));
  k.set(op.result(), std::move(result));
}

void lowerIota(KernelLowering &k, Operation &op) {
  Type type = op.result()->type();
  const Layout &layout = *type.layout();
  int axis = int(op.intAttr("axis"));
  llvm::Value *first = k.ir.CreateZExt(k.threadOffset(layout, axis), k.ir.getInt64Ty(), "", /*IsNonNeg=*/true);
  first = k.ir.CreateAdd(k.scalar(op.operand(0)), first);
  Registers result;
  for (int64_t r = 0; r < layout.numRegs(); ++r) {
    std::vector<int64_t> index(std::max<size_t>(size_t(type.rank()), 1), 0);
    layout.addRegister(r, index);
    result.push_back(k.ir.CreateTrunc(k.ir.CreateAdd(first, k.i64(index[size_t(axis)])), k.elementType(type.dtype())));
  }
  k.set(op.result(), std::move(result));
}

void lowerInBounds(KernelLowering &k, Operation &op) {
  const Layout &layout = *op.result()->type().layout();
  int axis = int(op.intAttr("axis"));
  llvm::Value *index = k.scalar(op.operand(0)), *limit = k.limit(index, *op.attr("size")->asDim(), layout, axis);
  llvm::Value *first = mayBeNegative(*op.operand(0)) ? k.first(index, layout, axis) : nullptr;
  Registers result;
  for (int64_t r = 0; r < layout.numRegs(); ++r) {
    std::vector<int64_t> place(size_t(op.result()->type().rank()), 0);
    layout.addRegister(r, place);
    llvm::Value *position = k.i32(place[size_t(axis)]), *inside = k.ir.CreateICmpSGT(limit, position);
    result.push_back(first ? k.both(inside, k.ir.CreateICmpSLE(first, position)) : inside);
  }
  k.set(op.result(), std::move(result));
}

//===- Element-wise ops -===//

static llvm::ConstantInt *integer(llvm::Value *like, int64_t value) {
  return llvm::ConstantInt::getSigned(llvm::cast<llvm::IntegerType>(like->getType()), value);
}

/// LLVM's shifts are poison from the width on, where the rows say 0; a select does not mind poison that it leaves out.
static llvm::Value *insideWidth(IRBuilder &ir, llvm::Value *amount, llvm::Value *shifted) {
  llvm::Value *inside = ir.CreateICmpULT(amount, integer(amount, amount->getType()->getIntegerBitWidth()));
  return ir.CreateSelect(inside, shifted, integer(amount, 0));
}
/// LLVM makes of a shift that a select guards PTX's own, which clamps its amount, but drops the upper half of one of 64 bits
/// before; where nothing but the lower bits reach the shift it leaves the select.
static llvm::Value *lowerBits(IRBuilder &ir, llvm::Value *y) {
  return ir.CreateAnd(y, integer(y, y->getType()->getIntegerBitWidth() - 1));
}
static llvm::Value *shiftLeft(IRBuilder &ir, llvm::Value *x, llvm::Value *y) {
  return insideWidth(ir, y, ir.CreateShl(x, lowerBits(ir, y)));
}
static llvm::Value *shiftRightUnsigned(IRBuilder &ir, llvm::Value *x, llvm::Value *y) {
  return insideWidth(ir, y, ir.CreateLShr(x, lowerBits(ir, y)));
}
static llvm::Value *shiftRight(IRBuilder &ir, llvm::Value *x, llvm::Value *y) {
  return ir.CreateAShr(x, ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, y, integer(y, y->getType()->getIntegerBitWidth() - 1)));
}

static llvm::Value *signOf(IRBuilder &ir, llvm::Value *x) {
  llvm::Value *zero = llvm::Constant::getNullValue(x->getType());
  if (x->getType()->isIntegerTy())
    return ir.CreateSelect(ir.CreateICmpSGT(x, zero), integer(x, 1), ir.CreateSelect(ir.CreateICmpSLT(x, zero), integer(x, -1), x));
  llvm::Value *below = ir.CreateSelect(ir.CreateFCmpOLT(x, zero), llvm::ConstantFP::get(x->getType(), -1.0), x);
  return ir.CreateSelect(ir.CreateFCmpOGT(x, zero), llvm::ConstantFP::get(x->getType(), 1.0), below);
}

/// LLVM's signed divisions by 0, and of the least integer by -1, are undefined. A divisor of 0 or -1 is replaced by 1.
static llvm::Value *harmless(IRBuilder &ir, llvm::Value *divisor) {
  llvm::Value *isHarmless = ir.CreateICmpUGT(ir.CreateAdd(divisor, integer(divisor, 1)), integer(divisor, 1));
  return ir.CreateSelect(isHarmless, divisor, integer(divisor, 1));
}
static llvm::Value *signedDiv(IRBuilder &ir, llvm::Value *x, llvm::Value *y) {
  llvm::Value *quotient = ir.CreateSDiv(x, harmless(ir, y));
  quotient = ir.CreateSelect(ir.CreateICmpEQ(y, integer(y, -1)), ir.CreateNeg(x), quotient);
  return ir.CreateSelect(ir.CreateIsNull(y), integer(y, -1), quotient);
}
static llvm::Value *signedRem(IRBuilder &ir, llvm::Value *x, llvm::Value *y) {
  return ir.CreateSelect(ir.CreateIsNull(y), x, ir.CreateSRem(x, harmless(ir, y))); // Of a division by 1 it is 0, as of one by -1.
}

/// LLVM's divisions by 0 are undefined; the row says that a divisor of 0 counts as 1.
static llvm::Value *nonZero(IRBuilder &ir, llvm::Value *divisor) {
  return ir.CreateBinaryIntrinsic(llvm::Intrinsic::umax, divisor, llvm::ConstantInt::get(divisor->getType(), 1));
}
static llvm::Value *unsignedDiv(IRBuilder &ir, llvm::Value *x, llvm::Value *y) { return ir.CreateUDiv(x, nonZero(ir, y)); }
static llvm::Value *unsignedRem(IRBuilder &ir, llvm::Value *x, llvm::Value *y) { return ir.CreateURem(x, nonZero(ir, y)); }

llvm::Value *emitPrimitive(IRBuilder &ir, OpKind kind, std::span<llvm::Value *const> operands, bool isFloat) {
  llvm::Value *const none = nullptr;
  [[maybe_unused]] llvm::Value *x = operands[0], *y = operands.size() > 1 ? operands[1] : none,
                               *z = operands.size() > 2 ? operands[2] : none;
  switch (kind) {
#define MINIC_SCALAR(id, name, hostFloat, hostInt, llvmFloat, llvmInt, ...)                                                        \
  case OpKind::id:                                                                                                                 \
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
      {"eq", P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ},   {"ne", P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE},
      {"lt", P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT}, {"le", P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE},
      {"gt", P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT}, {"ge", P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE},
  };
  for (const Row &row : rows) {
    if (row.name != predicate)
      continue;
    x = k.widened(x, type); // Exact, and sm_80 has no comparison of bf16.
    y = k.widened(y, type);
    return k.ir.CreateCmp(isFloat(type) ? row.onFloat : type == DType::I1 ? row.onBool : row.onSigned, x, y);
  }
  return nullptr;
}

/// Truncates and saturates; NaN gives 0. PTX's cvt.rzi saturates; for NaN it gives 0 only from f32 to 32 bits (PTX ISA, `cvt`,
/// "Integer Notes"), and LLVM's fptosi.sat would check the range once more.
static llvm::Value *floatToInt(KernelLowering &k, llvm::Value *x, DType from, DType to) {
  IRBuilder &ir = k.ir;
  bool to64 = dtypeBytes(to) == 8;
  x = k.widened(x, from);
  bool isDouble = from == DType::F64;
  llvm::Intrinsic::ID id = isDouble ? (to64 ? llvm::Intrinsic::nvvm_d2ll_rz : llvm::Intrinsic::nvvm_d2i_rz)
                                    : (to64 ? llvm::Intrinsic::nvvm_f2ll_rz : llvm::Intrinsic::nvvm_f2i_rz);
  llvm::Value *result = ir.CreateIntrinsic(id, {x});
  if (isDouble || to64)
    result = ir.CreateSelect(ir.CreateFCmpUNO(x, x), llvm::Constant::getNullValue(result->getType()), result);
  if (!isNarrow(to))
    return result;
  auto [least, greatest] = integerRange(to);
  result = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, result, ir.getInt32(uint32_t(least)));
  result = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, result, ir.getInt32(uint32_t(greatest)));
  return ir.CreateTrunc(result, ir.getInt8Ty());
}

/// f64 or an integer to f32 rounded to odd, that is toward zero with the last bit set if that dropped anything. f32 has enough bits
/// more than narrower floats that rounding this is as rounding the original (Boldo and Melquiond, "Emulation of FMA and correctly
/// rounded sums", 2008).
static llvm::Value *toOddFloat(KernelLowering &k, llvm::Value *x, DType from) {
  IRBuilder &ir = k.ir;
  namespace I = llvm::Intrinsic;
  bool is64 = x->getType()->isIntegerTy(64);
  llvm::Value *chopped = ir.CreateIntrinsic(isFloat(from) ? I::nvvm_d2f_rz
                                            : is64        ? I::nvvm_ll2f_rz
                                                          : I::nvvm_i2f_rz,
                                            {x}),
              *dropped;
  if (isFloat(from)) // Not of NaN.
    dropped = ir.CreateFCmpONE(ir.CreateFPExt(chopped, x->getType()), x);
  else
    dropped = ir.CreateICmpNE(ir.CreateIntrinsic(is64 ? I::nvvm_f2ll_rz : I::nvvm_f2i_rz, {chopped}), x);
  llvm::Value *sticky = ir.CreateZExt(dropped, ir.getInt32Ty());
  llvm::Value *odd = ir.CreateOr(ir.CreateBitCast(chopped, ir.getInt32Ty()), sticky);
  return ir.CreateBitCast(odd, ir.getFloatTy());
}

/// In integers, to nearest even.
static llvm::Value *floatToFloat8(IRBuilder &ir, llvm::Value *x, DType to) {
  bool hasInfinity = to == DType::F8E5M2;
  int mantissaBits = hasInfinity ? 2 : 3, bias = hasInfinity ? 15 : 7, dropped = 23 - mantissaBits;
  uint32_t overflow = hasInfinity ? 0x7c : 0x7f;
  auto bitsOf = [&](llvm::Value *value) { return ir.CreateBitCast(value, ir.getInt32Ty()); };
  llvm::Value *bits = bitsOf(x), *magnitude = ir.CreateAnd(bits, ir.getInt32(0x7fffffff));
  // A number: the rounding bias carries into what is kept. Its exponent counts from another zero.
  llvm::Value *even = ir.CreateAnd(ir.CreateLShr(magnitude, uint64_t(dropped)), ir.getInt32(1));
  llvm::Value *rounded = ir.CreateAdd(ir.CreateAdd(magnitude, even), ir.getInt32((1u << (dropped - 1)) - 1));
  llvm::Value *number = ir.CreateSub(ir.CreateLShr(rounded, uint64_t(dropped)), ir.getInt32(uint32_t(127 - bias) << mantissaBits));
  number = ir.CreateBinaryIntrinsic(llvm::Intrinsic::umin, number, ir.getInt32(overflow));
  if (hasInfinity)
    number = ir.CreateSelect(ir.CreateFCmpUNO(x, x), ir.getInt32(0x7e), number);
  // A denormal: beside a number whose last bit is worth the least denormal, the addition rounds.
  llvm::Constant *large = llvm::ConstantFP::get(ir.getFloatTy(), std::ldexp(1.0, 1 - bias + dropped));
  llvm::Value *denormal = ir.CreateSub(bitsOf(ir.CreateFAdd(ir.CreateBitCast(magnitude, ir.getFloatTy()), large)), bitsOf(large));
  llvm::Value *isNormal = ir.CreateICmpUGE(magnitude, ir.getInt32(uint32_t(127 - bias + 1) << 23));
  llvm::Value *sign = ir.CreateAnd(ir.CreateLShr(bits, uint64_t(24)), ir.getInt32(0x80));
  return ir.CreateTrunc(ir.CreateOr(sign, ir.CreateSelect(isNormal, number, denormal)), ir.getInt8Ty());
}

static llvm::Value *emitConvert(KernelLowering &k, llvm::Value *x, DType from, DType to) {
  IRBuilder &ir = k.ir;
  llvm::Type *type = k.elementType(to);
  if (from == to)
    return x;
  if (isNarrow(from) && (isInteger(from) || isStorageOnly(from))) { // What follows sees signed integers of 32 or 64 bits.
    x = k.widened(x, from);
    from = computeDType(from);
    if (from == to)
      return x;
  }
  if (to == DType::I1)
    return isFloat(from) ? ir.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType())) : ir.CreateIsNotNull(x);
  if (from == DType::I1)
    return isFloat(to) ? ir.CreateSelect(x, k.number(1.0, to), k.number(0.0, to)) : ir.CreateZExt(x, type);
  if (isStorageOnly(to))
    return floatToFloat8(ir, isNarrow(from) || from == DType::F32 ? k.widened(x, from) : toOddFloat(k, x, from), to);
  if (to == DType::BF16 && from != DType::F32 && from != DType::F16 && k.target.computeMajor < 9)
    return ir.CreateFPTrunc(toOddFloat(k, x, from), type);
  if (isFloat(from) && isFloat(to)) {
    if (isNarrowFloat(from) && isNarrowFloat(to)) // Neither holds the other; f32 holds both.
      return ir.CreateFPTrunc(k.widened(x, from), type);
    return ir.CreateFPCast(x, type);
  }
  if (isFloat(from))
    return floatToInt(k, x, from, to);
  if (isFloat(to))
    return ir.CreateSIToFP(x, type);
  return ir.CreateSExtOrTrunc(x, type);
}

/// One lane; null if there is no code for it.
static llvm::Value *emitElementwise(KernelLowering &k, Operation &op, std::vector<llvm::Value *> lane) {
  DType from = op.operand(0)->type().dtype(), to = op.result()->type().dtype();
  switch (op.kind()) {
  case OpKind::Compare:
    return emitCompare(k, op.wordAttr("predicate"), lane[0], lane[1], from);
  case OpKind::Select:
    return k.ir.CreateSelect(lane[0], lane[1], lane[2]);
  case OpKind::Convert:
    return emitConvert(k, lane[0], from, to);
  case OpKind::Bitcast:
    return k.ir.CreateBitCast(lane[0], k.elementType(to));
  default:
    break;
  }
  // Narrow types are computed in wide ones and converted once. Kernels that the passes made say so themselves.
  for (llvm::Value *&value : lane)
    value = k.widened(value, from);
  llvm::Value *result = emitPrimitive(k.ir, op.kind(), lane, isFloat(from));
  if (!result || !isNarrow(to))
    return result;
  return isFloat(to) ? k.ir.CreateFPTrunc(result, k.elementType(to)) : k.ir.CreateTrunc(result, k.elementType(to));
}

bool isReluConvert(const Operation &op) {
  const Operation *relu = op.operand(0)->definition();
  DType to = op.result()->type().dtype();
  return op.is(OpKind::Convert) && relu && relu->is(OpKind::Relu) && isNarrowFloat(to) && !isStorageOnly(to) &&
         op.operand(0)->type().dtype() == DType::F32;
}

/// False where it does not fit.
static bool lowerReluConvert(KernelLowering &k, Operation &op) {
  if (!isReluConvert(op))
    return false;
  DType to = op.result()->type().dtype();
  const Registers &from = k.get(op.operand(0)->definition()->operand(0));
  if (from.size() % 2)
    return false;
  namespace I = llvm::Intrinsic;
  Registers result;
  for (size_t r = 0; r < from.size(); r += 2) {
    llvm::Value *pair =
        k.ir.CreateIntrinsic(to == DType::BF16 ? I::nvvm_ff2bf16x2_rn_relu : I::nvvm_ff2f16x2_rn_relu, {from[r + 1], from[r]});
    result.push_back(k.ir.CreateExtractElement(pair, uint64_t(0)));
    result.push_back(k.ir.CreateExtractElement(pair, uint64_t(1)));
  }
  k.set(op.result(), std::move(result));
  return true;
}

void lowerElementwise(KernelLowering &k, std::span<Operation *const> run) {
  k.setLoc(*run[0]);
  if (run.size() == 1 && !run[0]->info().expands && lowerReluConvert(k, *run[0]))
    return;
  std::unordered_map<const Value *, Registers> results;
  const size_t count = k.get(run[0]->operand(0)).size();
  for (size_t first = 0; first < count; first += registersAtOnce)
    for (Operation *op : run) {
      k.setLoc(*op);
      for (size_t r = first; r < std::min(first + registersAtOnce, count); ++r) {
        std::vector<llvm::Value *> lane;
        for (Value *operand : op->operands()) {
          auto it = results.find(operand);
          lane.push_back((it == results.end() ? k.get(operand) : it->second)[r]);
        }
        llvm::Value *value = op->info().expands ? nullptr : emitElementwise(k, *op, lane);
        if (!value) {
          k.fail(*op, op->info().expands ? "reached the code generator unexpanded; run expand-math before"
                                         : "has no code for GPUs on " + std::string(dtypeName(op->operand(0)->type().dtype())));
          value = llvm::Constant::getNullValue(k.elementType(op->result()->type().dtype()));
        }
        results[op->result()].push_back(value);
      }
    }
  for (Operation *op : run)
    k.set(op->result(), std::move(results[op->result()]));
}

} // namespace minic::codegen
