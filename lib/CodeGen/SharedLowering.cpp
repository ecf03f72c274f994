// Shared memory: arrays and their parts, stores, loads, and the barrier between them.
#include "SharedMemory.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <algorithm>

namespace minic::codegen {

static int64_t roundUp(int64_t bytes, int64_t to) { return (bytes + to - 1) / to * to; }

/// What the launch sizes: rings are larger than what a kernel may declare, and TMA puts swizzled blocks at their alignment.
static bool isDynamic(const Operation &alloc) {
  return alloc.result()->type().swizzle() ||
         std::ranges::any_of(alloc.result()->uses(), [](const Use &use) { return use.user->is(OpKind::Stage); });
}

SharedBytes sharedBytesOf(Function &kernel) {
  SharedBytes bytes;
  walk(kernel.body(), [&](Operation &op) {
    if (op.is(OpKind::MbarrierInit))
      bytes.declared += roundUp(8 * op.result()->type().shape()[0].getCoefficient(), 16);
    if (!op.is(OpKind::AllocShared))
      return;
    Type type = op.result()->type();
    (isDynamic(op) ? bytes.dynamic : bytes.declared) += roundUp(sharedBytes(type), isDynamic(op) ? swizzleAlignment : 16);
  });
  return bytes;
}

int64_t powerOfTwoIn(int64_t value, int64_t limit) { return value == 0 ? limit : std::min(limit, value & -value); }

int64_t threadAlignment(const Layout &layout, const std::vector<int64_t> &strides, DType dtype) {
  int64_t alignment = std::max<int64_t>(16 / dtypeBytes(dtype), 1);
  for (const auto *modes : {&layout.lane, &layout.warp})
    for (const Mode &mode : *modes)
      if (mode.axis >= 0 && mode.extent > 1)
        alignment = powerOfTwoIn(mode.stride * strides[size_t(mode.axis)], alignment);
  return alignment;
}

llvm::Value *threadPosition(KernelLowering &k, const Layout &layout, const std::vector<int64_t> &strides) {
  llvm::Value *position = k.i32(0);
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (strides[axis] != 0)
      position = addIndex(k.setup, position, mulIndex(k.setup, k.threadOffset(layout, int(axis)), k.i32(strides[axis])));
  return position;
}

int64_t registerPosition(const Layout &layout, int64_t r, const std::vector<int64_t> &strides) {
  std::vector<int64_t> index(strides.size(), 0);
  layout.addRegister(r, index);
  int64_t position = 0;
  for (size_t axis = 0; axis < strides.size(); ++axis)
    position += index[axis] * strides[axis];
  return position;
}

//===- Reads -===//

SharedReader::SharedReader(KernelLowering &k, llvm::Value *memory, DType dtype, llvm::Value *position, int64_t alignment,
                           std::set<int64_t> offsets)
    : k(k), dtype(dtype), pointer(k.ir.CreateInBoundsGEP(k.memoryType(dtype), memory, position)), widest(alignment),
      offsets(std::move(offsets)) {}

std::pair<int64_t, int64_t> SharedReader::pieceOf(int64_t offset) const {
  // The widest aligned piece of which every element is wanted. All its elements find the same one.
  for (int64_t width = widest; width > 1; width /= 2) {
    int64_t first = offset - offset % width, found = 0;
    for (auto it = offsets.lower_bound(first); it != offsets.end() && *it < first + width; ++it)
      ++found;
    if (found == width)
      return {first, width};
  }
  return {offset, 1};
}

llvm::Value *SharedReader::read(int64_t offset) {
  auto [first, width] = pieceOf(offset);
  Registers &elements = loaded[first];
  if (elements.empty()) {
    llvm::Type *element = k.memoryType(dtype);
    llvm::Type *type = width == 1 ? element : llvm::FixedVectorType::get(element, unsigned(width));
    llvm::Value *address = k.ir.CreateInBoundsGEP(element, pointer, k.i32(first));
    llvm::Value *piece = k.ir.CreateAlignedLoad(type, address, llvm::Align(uint64_t(width * dtypeBytes(dtype))));
    for (int64_t i = 0; i < width; ++i)
      elements.push_back(k.fromMemory(width == 1 ? piece : k.ir.CreateExtractElement(piece, uint64_t(i)), dtype));
  }
  return elements[size_t(offset - first)];
}

//===- Swizzled memory -===//

SwizzledAccess::SwizzledAccess(KernelLowering &k, llvm::Value *memory, Type type, const Layout &layout, SharedPlace start)
    : k(k), memory(memory), type(type), layout(layout), start(start) {
  const std::vector<int64_t> columns = {0, 1};
  widthOfPiece = threadAlignment(layout, columns, type.dtype());
  for (int64_t r = 0; r < layout.numRegs(); r += widthOfPiece)
    while (widthOfPiece > 1 && !isPiece(r))
      widthOfPiece /= 2;
}

bool SwizzledAccess::isPiece(int64_t r) const {
  int64_t first = registerPosition(layout, r, {0, 1}), row = registerPosition(layout, r, {1, 0});
  bool whole = first % widthOfPiece == 0 && r + widthOfPiece <= layout.numRegs();
  for (int64_t i = 1; whole && i < widthOfPiece; ++i)
    whole = registerPosition(layout, r + i, {0, 1}) == first + i && registerPosition(layout, r + i, {1, 0}) == row;
  return whole;
}

llvm::Value *SwizzledAccess::address(int64_t r) {
  // The pattern repeats after 8 rows, and from slab to slab: so much further is the same number of bytes for all threads.
  int64_t row = start.row + registerPosition(layout, r, {1, 0}), column = start.column + registerPosition(layout, r, {0, 1});
  int64_t columns = slabColumns(type), further = row / 8 * 8 * type.swizzle() + column / columns * slabBytes(type);
  llvm::Value *&offset = offsets[{row % 8, column % columns}];
  if (!offset)
    offset = offsetOf(row % 8, column % columns);
  llvm::Value *place = k.ir.CreateInBoundsGEP(k.ir.getInt8Ty(), memory, offset);
  return further ? k.ir.CreateInBoundsGEP(k.ir.getInt8Ty(), place, k.i32(further)) : place;
}

llvm::Value *SwizzledAccess::offsetOf(int64_t fromRow, int64_t fromColumn) {
  // elementOffset of SharedLayout.h, for a row and a column that depend on the thread.
  IRBuilder &ir = k.setup;
  int64_t bytes = dtypeBytes(type.dtype()), swizzle = type.swizzle();
  llvm::Value *row = addIndex(ir, k.threadOffset(layout, 0), k.i32(fromRow));
  llvm::Value *column = addIndex(ir, k.threadOffset(layout, 1), k.i32(fromColumn));
  llvm::Value *slab = ir.CreateUDiv(column, k.i32(slabColumns(type)));
  llvm::Value *inRow = mulIndex(ir, ir.CreateURem(column, k.i32(slabColumns(type))), k.i32(bytes));
  llvm::Value *line = ir.CreateUDiv(row, k.i32(128 / swizzle));
  llvm::Value *pattern = ir.CreateAnd(line, uint64_t(swizzle / 16 - 1));
  llvm::Value *inLine = ir.CreateXor(inRow, ir.CreateShl(pattern, uint64_t(4)));
  llvm::Value *offset = addIndex(ir, mulIndex(ir, slab, k.i32(slabBytes(type))), mulIndex(ir, row, k.i32(swizzle)));
  return addIndex(ir, offset, inLine);
}

Registers loadSwizzled(KernelLowering &k, llvm::Value *memory, Type type, const Layout &layout, SharedPlace start) {
  SwizzledAccess access(k, memory, type, layout, start);
  llvm::Type *element = k.memoryType(type.dtype());
  Registers result;
  for (int64_t r = 0; r < layout.numRegs(); r += access.width()) {
    llvm::Type *piece = access.width() == 1 ? element : llvm::FixedVectorType::get(element, unsigned(access.width()));
    llvm::Value *loaded = k.ir.CreateAlignedLoad(piece, access.address(r), access.align());
    for (int64_t i = 0; i < access.width(); ++i)
      result.push_back(k.fromMemory(access.width() == 1 ? loaded : k.ir.CreateExtractElement(loaded, uint64_t(i)), type.dtype()));
  }
  return result;
}

namespace {

void storeSwizzled(KernelLowering &k, Operation &op) {
  Type type = op.operand(0)->type();
  const Layout &layout = *type.layout();
  SwizzledAccess access(k, k.scalar(op.operand(1)), op.operand(1)->type(), layout);
  llvm::Type *element = k.memoryType(type.dtype());
  const Registers &value = k.get(op.operand(0));
  std::map<std::pair<int64_t, int64_t>, bool> stored; // A register that replicates an earlier one is skipped.
  k.guarded(k.isHolder(layout), [&] {
    for (int64_t r = 0; r < layout.numRegs(); r += access.width()) {
      if (std::exchange(stored[{registerPosition(layout, r, {1, 0}), registerPosition(layout, r, {0, 1})}], true))
        continue;
      llvm::Value *data = nullptr;
      if (access.width() > 1)
        data = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, unsigned(access.width())));
      for (int64_t i = 0; i < access.width(); ++i) {
        llvm::Value *part = k.toMemory(value[size_t(r + i)], type.dtype());
        data = access.width() == 1 ? part : k.ir.CreateInsertElement(data, part, uint64_t(i));
      }
      k.ir.CreateAlignedStore(data, access.address(r), access.align());
    }
  });
}

} // namespace

void lowerSharedLoad(KernelLowering &k, Operation &op) {
  Type memory = op.operand(0)->type(), type = op.result()->type();
  if (memory.swizzle())
    return k.set(op.result(), loadSwizzled(k, k.scalar(op.operand(0)), memory, *type.layout()));
  const Layout &layout = *type.layout();
  std::vector<int64_t> strides = memory.smemStrides();
  std::vector<int64_t> positions;
  for (int64_t r = 0; r < layout.numRegs(); ++r)
    positions.push_back(registerPosition(layout, r, strides));
  SharedReader reader(k, k.scalar(op.operand(0)), type.dtype(), threadPosition(k, layout, strides),
                      threadAlignment(layout, strides, type.dtype()), {positions.begin(), positions.end()});
  Registers result;
  for (int64_t position : positions)
    result.push_back(reader.read(position));
  k.set(op.result(), std::move(result));
}

//===- Arrays, stores, barriers -===//

/// The kernel's part of shared memory that the launch sizes.
static llvm::GlobalVariable *dynamicShared(KernelLowering &k) {
  llvm::Module &module = *k.ir.GetInsertBlock()->getModule();
  std::string name = k.kernel.name + "_dynamic";
  if (llvm::GlobalVariable *known = module.getNamedGlobal(name))
    return known;
  auto *global =
      new llvm::GlobalVariable(module, llvm::ArrayType::get(k.ir.getInt8Ty(), 0), /*isConstant=*/false,
                               llvm::GlobalValue::ExternalLinkage, nullptr, name, nullptr, llvm::GlobalValue::NotThreadLocal, 3);
  global->setAlignment(llvm::Align(swizzleAlignment));
  return global;
}

void lowerAllocShared(KernelLowering &k, Operation &op) {
  Type type = op.result()->type();
  if (isDynamic(op)) {
    int64_t offset = k.takeDynamic(roundUp(sharedBytes(type), swizzleAlignment));
    k.set(op.result(), {k.ir.CreateInBoundsGEP(k.ir.getInt8Ty(), dynamicShared(k), k.i32(offset))});
    return;
  }
  int64_t elements = stridedElements(type) * type.stages();
  auto *array = llvm::ArrayType::get(k.memoryType(type.dtype()), uint64_t(std::max<int64_t>(elements, 1)));
  llvm::Module &module = *k.ir.GetInsertBlock()->getModule();
  // Numbered, not named after the value: values are renamed by printing and parsing, and the PTX must not change.
  std::string name = k.kernel.name + "_shared_" + std::to_string(module.global_size());
  auto *global = new llvm::GlobalVariable(module, array, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                                          llvm::PoisonValue::get(array), name, nullptr, llvm::GlobalValue::NotThreadLocal, 3);
  global->setAlignment(llvm::Align(16));
  k.set(op.result(), {global});
}

void lowerSharedStore(KernelLowering &k, Operation &op) {
  if (op.operand(1)->type().swizzle())
    return storeSwizzled(k, op);
  Type type = op.operand(0)->type();
  const Layout &layout = *type.layout();
  std::vector<int64_t> strides = op.operand(1)->type().smemStrides();
  IRBuilder &ir = k.ir;
  llvm::Type *element = k.memoryType(type.dtype());
  const Registers &value = k.get(op.operand(0));
  // By position, so that what is contiguous moves together; a register that replicates an earlier one finds its place taken.
  std::map<int64_t, size_t> byPosition;
  for (int64_t r = 0; r < layout.numRegs(); ++r)
    byPosition.try_emplace(registerPosition(layout, r, strides), size_t(r));
  int64_t widest = threadAlignment(layout, strides, type.dtype());
  llvm::Value *pointer = ir.CreateInBoundsGEP(element, k.scalar(op.operand(1)), threadPosition(k, layout, strides));

  k.guarded(k.isHolder(layout), [&] {
    for (auto it = byPosition.begin(); it != byPosition.end();) {
      int64_t first = it->first, width = powerOfTwoIn(first, widest);
      auto isWhole = [&] {
        auto end = it;
        for (int64_t i = 0; i < width; ++i, ++end)
          if (end == byPosition.end() || end->first != first + i)
            return false;
        return true;
      };
      while (!isWhole())
        width /= 2;
      llvm::Value *data = nullptr;
      if (width > 1)
        data = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, unsigned(width)));
      for (int64_t i = 0; i < width; ++i, ++it) {
        llvm::Value *part = k.toMemory(value[it->second], type.dtype());
        data = width == 1 ? part : ir.CreateInsertElement(data, part, uint64_t(i));
      }
      ir.CreateAlignedStore(data, ir.CreateInBoundsGEP(element, pointer, k.i32(first)),
                            llvm::Align(uint64_t(width * dtypeBytes(type.dtype()))));
    }
  });
}

void lowerBarrier(KernelLowering &k, Operation &) {
  if (std::exchange(k.hasNewMbarriers, false))
    k.guarded(k.isFirstThread(), [&] { k.ir.CreateIntrinsic(llvm::Intrinsic::nvvm_fence_mbarrier_init_release_cluster, {}); });
  if (k.role)
    k.ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_count, {k.barrierId, k.i32(32 * roleWarps(*k.role))});
  else
    k.ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {k.i32(0)});
}

//===- Stages and views -===//

llvm::Value *ringSlot(KernelLowering &k, llvm::Value *position, int64_t stages, llvm::Value **lap) {
  llvm::Value *n = k.ir.CreateTrunc(position, k.ir.getInt32Ty());
  if (lap)
    *lap = stages == 1 ? n : k.ir.CreateUDiv(n, k.i32(stages));
  return stages == 1 ? k.i32(0) : k.ir.CreateURem(n, k.i32(stages));
}

void lowerStage(KernelLowering &k, Operation &op) {
  Type type = op.operand(0)->type();
  llvm::Value *slot = ringSlot(k, k.scalar(op.operand(1)), type.stages());
  llvm::Value *bytes = mulIndex(k.ir, slot, k.i32(stageBytes(type)));
  k.set(op.result(), {k.ir.CreateInBoundsGEP(k.ir.getInt8Ty(), k.scalar(op.operand(0)), bytes)});
}

void lowerSharedView(KernelLowering &k, Operation &op) {
  Type type = op.operand(0)->type();
  IRBuilder &ir = k.ir;
  if (!type.swizzle())
    return k.set(op.result(), {k.scalar(op.operand(0))});
  llvm::Value *row = ir.CreateTrunc(k.scalar(op.operand(1)), ir.getInt32Ty());
  llvm::Value *column = ir.CreateTrunc(k.scalar(op.operand(2)), ir.getInt32Ty());
  llvm::Value *slab = ir.CreateUDiv(column, k.i32(slabColumns(type)));
  llvm::Value *bytes = addIndex(ir, mulIndex(ir, row, k.i32(type.swizzle())), mulIndex(ir, slab, k.i32(slabBytes(type))));
  k.set(op.result(), {ir.CreateInBoundsGEP(ir.getInt8Ty(), k.scalar(op.operand(0)), bytes)});
}

} // namespace minic::codegen
