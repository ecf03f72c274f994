// Mbarriers, TMA, and the fence between the two ways to shared memory.
#include "AsmCall.h"

#include "minic/IR/SharedLayout.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

namespace minic::codegen {

namespace nvvm = llvm::Intrinsic;

//===- Mbarriers -===//

void lowerMbarrierInit(KernelLowering &k, Operation &op) {
  IRBuilder &ir = k.ir;
  int64_t count = op.result()->type().shape()[0].getCoefficient();
  auto *array = llvm::ArrayType::get(ir.getInt64Ty(), uint64_t(count));
  llvm::Module &module = *ir.GetInsertBlock()->getModule();
  std::string name = k.kernel.name + "_mbarrier_" + std::to_string(module.global_size());
  auto *global = new llvm::GlobalVariable(module, array, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
                                          llvm::PoisonValue::get(array), name, nullptr, llvm::GlobalValue::NotThreadLocal, 3);
  global->setAlignment(llvm::Align(16));
  k.guarded(k.isFirstThread(), [&] {
    for (int64_t i = 0; i < count; ++i)
      ir.CreateIntrinsic(nvvm::nvvm_mbarrier_init_shared,
                         {ir.CreateConstInBoundsGEP2_32(array, global, 0, unsigned(i)), k.i32(op.intAttr("count"))});
  });
  k.hasNewMbarriers = true;
  k.set(op.result(), {global});
}

llvm::Value *mbarrierAt(KernelLowering &k, Operation &op, unsigned i, llvm::Value **lap) {
  int64_t count = op.operand(i)->type().shape()[0].getCoefficient();
  llvm::Value *slot = ringSlot(k, k.scalar(op.operand(i + 1)), count, lap);
  return k.ir.CreateInBoundsGEP(k.ir.getInt64Ty(), k.scalar(op.operand(i)), slot);
}

void lowerMbarrierExpect(KernelLowering &k, Operation &op) {
  llvm::Value *mbarrier = mbarrierAt(k, op, 0);
  k.guarded(k.isFirstThread(), [&] {
    k.ir.CreateIntrinsic(nvvm::nvvm_mbarrier_arrive_expect_tx_scope_cta_space_cta, {mbarrier, k.i32(op.intAttr("bytes"))});
  });
}

void lowerMbarrierArrive(KernelLowering &k, Operation &op) {
  llvm::Value *mbarrier = mbarrierAt(k, op, 0);
  llvm::Value *when = op.numOperands() > 2 ? k.scalar(op.operand(2)) : nullptr;
  // One lane for its warp; where one thread is active, there is no other.
  llvm::Value *leader = k.isFirstThread() ? k.ir.CreateICmpEQ(k.lane(), k.i32(0)) : nullptr;
  k.guarded(k.both(when, leader), [&] { k.ir.CreateIntrinsic(nvvm::nvvm_mbarrier_arrive_shared, {mbarrier}); });
}

void lowerMbarrierWait(KernelLowering &k, Operation &op) {
  IRBuilder &ir = k.ir;
  llvm::Value *lap = nullptr, *mbarrier = mbarrierAt(k, op, 0, &lap);
  llvm::Value *parity = ir.CreateAnd(lap, uint64_t(1));
  // Before its first phase an mbarrier tests as if one of parity 1 had completed: nothing waits for a lap before the first.
  if (op.wordAttr("lap") == "previous")
    parity = ir.CreateXor(parity, uint64_t(1));
  llvm::BasicBlock *spin = k.newBlock("spin"), *done = k.newBlock("done");
  ir.CreateBr(spin);
  ir.SetInsertPoint(spin);
  llvm::Value *ready = ir.CreateIntrinsic(nvvm::nvvm_mbarrier_try_wait_parity_scope_cta_space_cta, {mbarrier, parity});
  ir.CreateCondBr(ready, done, spin);
  ir.SetInsertPoint(done);
}

//===- TMA -===//

namespace {

/// One copy of TMA.
struct TmaCopy {
  llvm::Value *memory;
  std::vector<llvm::Value *> at; ///< Coordinates, the last axis first.
};

/// The copies of a box, one for each slab; indices are operands from `first` on.
std::vector<TmaCopy> copiesOf(KernelLowering &k, Operation &op, Value &map, Value &memory, unsigned first) {
  IRBuilder &ir = k.ir;
  std::vector<llvm::Value *> start;
  for (unsigned axis = unsigned(map.type().rank()); axis-- > 0;)
    start.push_back(ir.CreateTrunc(k.scalar(op.operand(first + axis)), ir.getInt32Ty()));
  std::vector<TmaCopy> copies{{k.scalar(&memory), start}};
  for (int64_t slab = 1; slab < slabsOfBox(map.type()); ++slab) {
    TmaCopy &copy = copies.emplace_back(copies[0]);
    copy.memory = ir.CreateInBoundsGEP(ir.getInt8Ty(), copy.memory, k.i32(slab * slabBytes(memory.type())));
    copy.at[0] = ir.CreateAdd(copy.at[0], k.i32(slab * slabColumns(memory.type())));
  }
  return copies;
}

void lowerTmaLoad(KernelLowering &k, Operation &op) {
  static constexpr llvm::Intrinsic::ID byRank[] = {
      nvvm::nvvm_cp_async_bulk_tensor_g2s_tile_1d, nvvm::nvvm_cp_async_bulk_tensor_g2s_tile_2d,
      nvvm::nvvm_cp_async_bulk_tensor_g2s_tile_3d, nvvm::nvvm_cp_async_bulk_tensor_g2s_tile_4d,
      nvvm::nvvm_cp_async_bulk_tensor_g2s_tile_5d};
  IRBuilder &ir = k.ir;
  llvm::Value *mbarrier = mbarrierAt(k, op, 2);
  std::vector<TmaCopy> copies = copiesOf(k, op, *op.operand(0), *op.operand(1), 4);
  k.guarded(k.isFirstThread(), [&] {
    for (const TmaCopy &copy : copies) {
      // A CTA's own address is one in its cluster as well; a cast would go through generic addresses.
      llvm::Value *memory = ir.CreateIntToPtr(ir.CreatePtrToInt(copy.memory, ir.getInt64Ty()), ir.getPtrTy(7));
      std::vector<llvm::Value *> operands = {memory, mbarrier, k.scalar(op.operand(0))};
      operands.insert(operands.end(), copy.at.begin(), copy.at.end());
      // No multicast, no cache hint, one CTA.
      operands.insert(operands.end(), {ir.getInt16(0), ir.getInt64(0), ir.getFalse(), ir.getFalse(), ir.getInt32(0)});
      ir.CreateIntrinsic(byRank[copy.at.size() - 1], operands);
    }
  });
}

void lowerTmaStore(KernelLowering &k, Operation &op) {
  static constexpr llvm::Intrinsic::ID byRank[] = {
      nvvm::nvvm_cp_async_bulk_tensor_s2g_tile_1d, nvvm::nvvm_cp_async_bulk_tensor_s2g_tile_2d,
      nvvm::nvvm_cp_async_bulk_tensor_s2g_tile_3d, nvvm::nvvm_cp_async_bulk_tensor_s2g_tile_4d,
      nvvm::nvvm_cp_async_bulk_tensor_s2g_tile_5d};
  IRBuilder &ir = k.ir;
  std::vector<TmaCopy> copies = copiesOf(k, op, *op.operand(1), *op.operand(0), 2);
  k.guarded(k.isFirstThread(), [&] {
    for (const TmaCopy &copy : copies) {
      std::vector<llvm::Value *> operands = {copy.memory, k.scalar(op.operand(1))};
      operands.insert(operands.end(), copy.at.begin(), copy.at.end());
      operands.insert(operands.end(), {ir.getInt64(0), ir.getFalse()});
      ir.CreateIntrinsic(byRank[copy.at.size() - 1], operands);
    }
    ir.CreateIntrinsic(nvvm::nvvm_cp_async_bulk_commit_group, {});
  });
}

} // namespace

void lowerTma(KernelLowering &k, Operation &op) {
  switch (op.kind()) {
  case OpKind::TmaLoad:
    return lowerTmaLoad(k, op);
  case OpKind::TmaStore:
    return lowerTmaStore(k, op);
  case OpKind::TmaStoreWait:
    return k.guarded(k.isFirstThread(),
                     [&] { k.ir.CreateIntrinsic(nvvm::nvvm_cp_async_bulk_wait_group_read, {k.i32(op.intAttr("pending"))}); });
  default:
    return k.guarded(k.isFirstThread(), [&] {
      llvm::Value *map = k.scalar(op.operand(0));
      k.ir.CreateIntrinsic(nvvm::nvvm_prefetch_tensormap, {map->getType()}, {map});
    });
  }
}

void lowerLaunchWait(KernelLowering &k, Operation &) {
  // As text: the intrinsic is said to touch no memory, and loads would move across it.
  AsmCall(k.ir).emit("griddepcontrol.wait;", /*convergent=*/true);
}

void lowerFenceAsync(KernelLowering &k, Operation &) { k.ir.CreateIntrinsic(nvvm::nvvm_fence_proxy_async_shared_cta, {}); }

} // namespace minic::codegen
