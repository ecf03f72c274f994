// The tensor cores: wgmma, its waits, and the moves of tiles that lie as wgmma leaves them.
//
// LLVM has no intrinsic for wgmma.mma_async, so each op is one piece of assembly text. What keeps ptxas from serializing it: the
// fence, the products and the commit stand in one piece; accumulators go in and out in their own places ("0", "1", ...); and
// whatever must stay behind a wait goes through the wait.
#include "AsmCall.h"

#include "minic/IR/SharedLayout.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

namespace minic::codegen {

namespace {

/// The 64-bit word that describes swizzled memory to wgmma (PTX ISA, "Matrix Descriptor Format"): address, leading and stride byte
/// offsets in units of 16 bytes, and the swizzle (1: 128 bytes) from bit 62 on.
llvm::Value *descriptor(KernelLowering &k, llvm::Value *memory, int64_t leadingBytes) {
  constexpr int64_t strideBytes = 1024; // Eight rows of 128 bytes.
  IRBuilder &ir = k.ir;
  llvm::Value *address = ir.CreatePtrToInt(memory, ir.getInt32Ty());
  llvm::Value *low = ir.CreateAnd(ir.CreateLShr(address, uint64_t(4)), uint64_t(0x3fff));
  uint64_t high = uint64_t(1) << 62 | uint64_t(strideBytes >> 4) << 32 | uint64_t(leadingBytes >> 4) << 16;
  return ir.CreateOr(ir.CreateZExt(low, ir.getInt64Ty()), ir.getInt64(high), "", /*IsDisjoint=*/true);
}

llvm::Value *advanced(KernelLowering &k, llvm::Value *descriptor, int64_t bytes) {
  return bytes ? k.ir.CreateAdd(descriptor, k.ir.getInt64(uint64_t(bytes >> 4))) : descriptor;
}

/// Memory with rows of K (a as it is, b transposed): a step of K is 32 bytes of a row; slabs follow each other along K.
std::vector<llvm::Value *> descriptorsAlongRows(KernelLowering &k, Value *memory, int64_t depth) {
  Type type = memory->type();
  llvm::Value *first = descriptor(k, k.scalar(memory), 16); // One slab at a time, so the leading offset does not count.
  std::vector<llvm::Value *> result;
  for (int64_t at = 0; at < depth * dtypeBytes(type.dtype()); at += wgmmaDepthBytes)
    result.push_back(advanced(k, first, at / type.swizzle() * slabBytes(type) + at % type.swizzle()));
  return result;
}

/// Memory with rows of M or N (a transposed, b as it is) of 16-bit elements: a step of K is 16 rows; the leading offset leads from
/// slab to slab.
std::vector<llvm::Value *> descriptorsAcrossRows(KernelLowering &k, Value *memory, int64_t depth) {
  Type type = memory->type();
  llvm::Value *first = descriptor(k, k.scalar(memory), slabBytes(type));
  std::vector<llvm::Value *> result;
  for (int64_t at = 0; at < depth; at += wgmmaDepthBytes / dtypeBytes(type.dtype()))
    result.push_back(advanced(k, first, at * type.swizzle()));
  return result;
}

/// As wgmma names an element type (PTX ISA, "wgmma.mma_async").
std::string wgmmaTypeName(DType type) {
  switch (type) {
  case DType::F32:
    return "tf32";
  case DType::F8E4M3:
    return "e4m3";
  case DType::F8E5M2:
    return "e5m2";
  case DType::I8:
    return "s8";
  default:
    return std::string(dtypeName(type));
  }
}

/// What follows the predicate: signs of a and b, of floats; whether they are transposed, of 16-bit ones.
std::string wgmmaFlags(DType type, bool inRegisters, bool aTransposed, bool transposed) {
  if (!isFloat(type))
    return "";
  if (dtypeBytes(type) != 2)
    return ", 1, 1";
  return std::string(", 1, 1") + (inRegisters ? "" : aTransposed ? ", 1" : ", 0") + (transposed ? ", 0" : ", 1");
}

} // namespace

void lowerUndefined(KernelLowering &k, Operation &op) {
  // As zeros ptxas would write them for every tile, though the first product does not read them.
  Type type = op.result()->type();
  k.set(op.result(), Registers(size_t(type.layout()->numRegs()), llvm::PoisonValue::get(k.elementType(type.dtype()))));
}

void lowerWgmma(KernelLowering &k, Operation &op) {
  Type result = op.result()->type(), a = op.operand(0)->type();
  bool aTransposed = op.wordAttr("form")[0] == 't', transposed = op.wordAttr("form")[1] == 't', inRegisters = a.isTile();
  int64_t n = result.extents()[1], depth = a.extents()[aTransposed ? 0 : 1];
  size_t count = size_t(result.layout()->numRegs());
  std::string type = wgmmaTypeName(a.dtype()), sum = result.dtype() == DType::F32 ? "f32" : "s32";
  std::string shape = "m64n" + std::to_string(n) + "k" + std::to_string(wgmmaDepthBytes / dtypeBytes(a.dtype()));

  AsmCall call(k.ir);
  for (size_t i = 0; i < count; ++i)
    call.addResult(k.elementType(result.dtype()), isFloat(result.dtype()) ? "f" : "r");
  auto bs = transposed ? descriptorsAlongRows(k, op.operand(1), depth) : descriptorsAcrossRows(k, op.operand(1), depth);
  auto as = inRegisters   ? std::vector<llvm::Value *>()
            : aTransposed ? descriptorsAcrossRows(k, op.operand(0), depth)
                          : descriptorsAlongRows(k, op.operand(0), depth);

  // The predicate says whether the first product adds to the accumulators; the others always do.
  std::string products;
  for (size_t step = 0; step < bs.size(); ++step) {
    std::string left;
    size_t number = call.nextNumber();
    if (inRegisters) {
      for (size_t pair = 0; pair < 4; ++pair)
        call.addOperand(packPair(k.ir, k.get(op.operand(0))[8 * step + 2 * pair], k.get(op.operand(0))[8 * step + 2 * pair + 1]),
                        "r");
      left = "{" + numberedOperands(number, 4) + "}";
    } else {
      call.addOperand(as[step], "l");
      left = "$" + std::to_string(number);
    }
    std::string right = "$" + std::to_string(call.nextNumber());
    call.addOperand(bs[step], "l");
    products += "wgmma.mma_async.sync.aligned." + shape + "." + sum + "." + type + "." + type + " {" + numberedOperands(0, count) +
                "}, " + left + ", " + right + ", " + (step == 0 ? "p" : "1") +
                wgmmaFlags(a.dtype(), inRegisters, aTransposed, transposed) + "; ";
  }
  std::string predicate = "$" + std::to_string(call.nextNumber());
  llvm::Value *accumulate = op.numOperands() > 3 ? k.scalar(op.operand(3)) : k.ir.getInt1(op.numOperands() > 2);
  call.addOperand(k.ir.CreateZExt(accumulate, k.ir.getInt32Ty()), "r");
  if (op.numOperands() > 2)
    for (size_t i = 0; i < count; ++i)
      call.addOperand(k.get(op.operand(2))[i], std::to_string(i));
  k.set(op.result(), call.emit("{ .reg .pred p; setp.ne.b32 p, " + predicate + ", 0; wgmma.fence.sync.aligned; " + products +
                                   "wgmma.commit_group.sync.aligned; }",
                               /*convergent=*/true));
}

/// The constraint letter of a register, and the type in which it goes through assembly.
static std::pair<const char *, llvm::Type *> asmForm(IRBuilder &ir, llvm::Type *type) {
  if (type->isFloatTy())
    return {"f", type};
  if (type->isDoubleTy())
    return {"d", type};
  unsigned bits = type->getPrimitiveSizeInBits();
  return bits == 64   ? std::pair("l", type)
         : bits == 32 ? std::pair("r", type)
                      : std::pair("h", llvm::cast<llvm::Type>(ir.getInt16Ty()));
}

void lowerWgmmaWait(KernelLowering &k, Operation &op) {
  IRBuilder &ir = k.ir;
  AsmCall call(ir);
  Registers all;
  for (Value *operand : op.operands())
    all.insert(all.end(), k.get(operand).begin(), k.get(operand).end());
  for (llvm::Value *value : all) {
    auto [constraint, type] = asmForm(ir, value->getType());
    call.addResult(type, constraint);
  }
  auto fitted = [&](llvm::Value *value, llvm::Type *type) {
    unsigned bits = value->getType()->getPrimitiveSizeInBits();
    return bits == 1 ? type->isIntegerTy(1) ? ir.CreateTrunc(value, type) : ir.CreateZExt(value, type)
                     : ir.CreateBitCast(value, type);
  };
  for (size_t i = 0; i < all.size(); ++i)
    call.addOperand(fitted(all[i], asmForm(ir, all[i]->getType()).second), std::to_string(i));
  Registers done = call.emit("wgmma.wait_group.sync.aligned " + std::to_string(op.intAttr("pending")) + ";",
                             /*convergent=*/true);
  size_t next = 0;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Registers own;
    for (llvm::Value *before : k.get(op.operand(i))) {
      llvm::Value *value = done[next++];
      bool isBool = before->getType()->isIntegerTy(1);
      own.push_back(isBool ? ir.CreateTrunc(value, before->getType()) : ir.CreateBitCast(value, before->getType()));
    }
    k.set(op.result(i), std::move(own));
  }
}

void lowerStMatrix(KernelLowering &k, Operation &op) {
  // Lane i gives the address of row i mod 8 of matrix i div 8; the four matrices are 16 rows by 16 columns.
  IRBuilder &ir = k.ir;
  Type type = op.operand(1)->type();
  const Registers &registers = k.get(op.operand(0));
  llvm::Value *row = k.setup.CreateAnd(k.lane(), uint64_t(15)), *half = k.setup.CreateLShr(k.lane(), uint64_t(4));
  llvm::Value *line = k.setup.CreateAdd(row, k.setup.CreateShl(k.warp(), uint64_t(4)));
  llvm::Value *base = k.setup.CreateShl(line, uint64_t(7)), *pattern = k.setup.CreateAnd(k.lane(), uint64_t(7));
  int64_t perSlab = slabColumns(type) / 16;
  for (int64_t q = 0; q < type.extents()[1] / 16; ++q) {
    llvm::Value *chunk = k.setup.CreateXor(k.setup.CreateOr(half, uint64_t(2 * (q % perSlab))), pattern);
    llvm::Value *offset = k.setup.CreateAdd(base, k.setup.CreateShl(chunk, uint64_t(4)));
    llvm::Value *address = ir.CreateInBoundsGEP(ir.getInt8Ty(), k.scalar(op.operand(1)), offset);
    address = ir.CreateInBoundsGEP(ir.getInt8Ty(), address, k.i32(q / perSlab * slabBytes(type)));
    std::vector<llvm::Value *> operands = {address};
    for (size_t pair = 0; pair < 4; ++pair)
      operands.push_back(packPair(ir, registers[size_t(8 * q) + 2 * pair], registers[size_t(8 * q) + 2 * pair + 1]));
    ir.CreateIntrinsic(llvm::Intrinsic::nvvm_stmatrix_sync_aligned_m8n8_x4_b16, {address->getType()}, operands);
  }
}

void lowerExtractTile(KernelLowering &k, Operation &op) {
  Type from = op.operand(0)->type(), to = op.result()->type();
  std::vector<int64_t> start;
  for (unsigned i = 1; i < op.numOperands(); ++i) {
    auto *index = llvm::dyn_cast<llvm::ConstantInt>(k.scalar(op.operand(i)));
    int64_t extent = to.extents()[i - 1], at = index ? index->getSExtValue() : -1;
    if (at < 0 || at % extent || at + extent > from.extents()[i - 1])
      return k.fail(op, "needs indices that are constants, or come from loops with `unroll = full`, and that are multiples of the "
                        "part's extents inside the tile");
    start.push_back(at);
  }
  std::map<std::vector<int64_t>, size_t> registers;
  for (int64_t r = 0; r < from.layout()->numRegs(); ++r) {
    std::vector<int64_t> index(start.size(), 0);
    from.layout()->addRegister(r, index);
    registers.try_emplace(std::move(index), size_t(r));
  }
  Registers result;
  for (int64_t r = 0; r < to.layout()->numRegs(); ++r) {
    std::vector<int64_t> index = start;
    to.layout()->addRegister(r, index);
    result.push_back(k.get(op.operand(0))[registers.at(index)]);
  }
  k.set(op.result(), std::move(result));
}

} // namespace minic::codegen
