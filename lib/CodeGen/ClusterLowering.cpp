// Clusters: their meetings, and stores to the shared memory of all their CTAs.
#include "AsmCall.h"
#include "SharedMemory.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <set>

namespace minic::codegen {

namespace nvvm = llvm::Intrinsic;

void lowerClusterMeeting(KernelLowering &k, Operation &op) {
  if (op.is(OpKind::ClusterWait)) {
    k.ir.CreateIntrinsic(nvvm::nvvm_barrier_cluster_wait_aligned, {});
    return;
  }
  // Relaxed: only mbarriers are to be seen, and a releasing arrive would wait for all memory.
  if (std::exchange(k.hasNewMbarriers, false))
    k.guarded(k.isFirstThread(), [&] { k.ir.CreateIntrinsic(nvvm::nvvm_fence_mbarrier_init_release_cluster, {}); });
  k.ir.CreateIntrinsic(nvvm::nvvm_barrier_cluster_arrive_relaxed_aligned, {});
}

/// The address in shared::cluster, 32 bits, that a shared address has in the CTA `rank`.
static llvm::Value *remote(KernelLowering &k, llvm::Value *address, llvm::Value *rank) {
  AsmCall call(k.ir);
  call.addResult(k.ir.getInt32Ty(), "r");
  call.addOperand(k.ir.CreateTrunc(k.ir.CreatePtrToInt(address, k.ir.getInt64Ty()), k.ir.getInt32Ty()), "r");
  call.addOperand(rank, "r");
  return call.emit("mapa.shared::cluster.u32 $0, $1, $2;", /*convergent=*/false)[0];
}

void lowerClusterStore(KernelLowering &k, Operation &op) {
  IRBuilder &ir = k.ir;
  Type tile = op.operand(0)->type();
  const Layout &layout = *tile.layout();
  std::vector<int64_t> strides = op.operand(1)->type().smemStrides();
  llvm::Type *element = k.elementType(tile.dtype());
  unsigned bits = element->getPrimitiveSizeInBits();
  llvm::Value *base = ir.CreateInBoundsGEP(element, k.scalar(op.operand(1)), threadPosition(k, layout, strides));
  llvm::Value *mbarrier = mbarrierAt(k, op, 2);
  const Registers &values = k.get(op.operand(0));

  auto storeTo = [&](llvm::Value *rank) {
    llvm::Value *to = remote(k, base, rank), *counted = remote(k, mbarrier, rank);
    std::set<int64_t> stored; // A register that replicates an earlier one is skipped.
    for (int64_t r = 0; r < layout.numRegs(); ++r) {
      int64_t position = registerPosition(layout, r, strides);
      if (!stored.insert(position).second)
        continue;
      AsmCall call(ir);
      call.addOperand(ir.CreateAdd(to, k.i32(position * bits / 8)), "r");
      call.addOperand(ir.CreateBitCast(values[size_t(r)], ir.getIntNTy(bits)), bits == 64 ? "l" : "r");
      call.addOperand(counted, "r");
      call.emit("st.async.shared::cluster.mbarrier::complete_tx::bytes.b" + std::to_string(bits) + " [$0], $1, [$2];",
                /*convergent=*/false);
    }
  };
  int64_t ctas = clusterCtas(k.kernel);
  // Where all lanes of each warp hold the same, each of the first ones stores to one CTA.
  bool isSpread = layout.lane == std::vector<Mode>{{-1, 32, 0}} &&
                  std::none_of(layout.warp.begin(), layout.warp.end(), [](const Mode &mode) { return mode.axis < 0; });
  if (isSpread)
    return k.guarded(ir.CreateICmpULT(k.lane(), k.i32(ctas)), [&] { storeTo(k.lane()); });
  k.guarded(k.isHolder(layout), [&] {
    for (int64_t rank = 0; rank < ctas; ++rank)
      storeTo(k.i32(rank));
  });
}

} // namespace minic::codegen
