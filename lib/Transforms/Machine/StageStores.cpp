// stage-stores: what a consumer stores goes through shared memory and TMA, in whole lines.
//
//   for %j ... {                                       ->  %buf = alloc_shared : smem<64x64xbf16, stages = 4>
//     store %part, %y, %row, %col                          for %j ... {
//   }                                                        tma_store_wait pending = 1; barrier
//                                                            stmatrix %part, %slot; fence_async; barrier
//                                                            tma_store %slot, %y_map, %row, %col
//                                                          }
//                                                          tma_store_wait pending = 0
//
// A thread has pairs of columns of a result of wgmma; stored as they are, a warp would touch eight rows in pieces of 16 bytes. Each
// consumer has two buffers: the one that was stored before the last one is free. TMA drops what lies outside, masks or not.
//
// Where rows of the result do not start at multiples of 16 bytes TMA cannot store, and the consumer's threads do, side by side
// along a row:
//
//                                                            stmatrix %part, %slot; barrier
//                                                            %line = shared_load %slot; barrier
//                                                            store %line, %y, %row, %col
#include "../KernelSignature.h"
#include "minic/IR/Builder.h"
#include "minic/IR/Schedule.h"
#include "minic/IR/SharedLayout.h"
#include "minic/Transforms/Analysis/Bounds.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <array>

namespace minic {
namespace {

/// Rows and columns, behind batches at one index each.
bool isMatrix(const std::vector<int64_t> &dims) {
  return dims.size() >= 2 && dims[dims.size() - 2] == 0 && dims.back() == 1 &&
         std::ranges::count(dims, -1) == int64_t(dims.size()) - 2;
}

/// Parts of 64x64 16-bit elements, as wgmma leaves them, that go to row-major matrices.
bool canStage(const Operation &op) {
  if (!op.is(OpKind::Store))
    return false;
  Type tile = op.operand(0)->type(), buffer = accessBuffer(op)->type();
  return tile.extents() == std::vector<int64_t>{64, 64} && tile.layout()->normalized() == wgmmaLayout(64).normalized() &&
         isFloat(tile.dtype()) && dtypeBytes(tile.dtype()) == 2 && !buffer.isStrided() && isMatrix(accessDims(op)) &&
         !op.attr("steps");
}

/// Whether TMA can store to the buffer's rows, of 16-bit elements.
bool takesTma(const Operation &store) { return accessBuffer(store)->type().shape().back().isMultipleOf(8); }

/// A loop over 64 columns at a time, from the first one on. An unrolled loop has constant bounds.
bool goesThroughParts(const Operation &op) {
  auto is = [&](unsigned i, int64_t value) { return *op.operand(i)->definition()->attr("value")->asInt() == value; };
  return op.is(OpKind::For) && op.attr("unroll") && is(0, 0) && is(2, 64);
}

class StoreStaging {
public:
  StoreStaging(Function &kernel, Operation &role, Operation &parts)
      : kernel(kernel), role(role), parts(parts), context(kernel.module().context()) {}

  void run() {
    std::vector<Operation *> stores;
    for (Operation &op : parts.region())
      if (canStage(op))
        stores.push_back(&op);
    if (stores.empty())
      return;
    Builder outside(&role);
    outside.setLoc(stores[0]->loc());
    who = !role.region().arguments().empty() ? role.region().argument(0) : role.region().addArgument(context.index(), "who");
    int64_t groups = role.attr("instances") ? role.intAttr("instances") : 1;
    DType dtype = stores[0]->operand(0)->type().dtype();
    bool byTma = takesTma(*stores[0]); // What shares the buffers waits for them in one way.
    std::erase_if(stores, [&](const Operation *op) { return op->operand(0)->type().dtype() != dtype || takesTma(*op) != byTma; });
    TypeStorage buffers{
        .kind = TypeKind::Smem, .dtype = dtype, .shape = {64, 64}, .swizzle = 128, .stages = buffersOfGroup * groups};
    memory = outside.create(OpKind::AllocShared, {}, {context.type(buffers)})->result();
    memory->setName("out");
    buffers.stages = 1;
    one = context.type(buffers);
    // Allocations stand before the roles.
    while (memory->definition()->prev() && memory->definition()->prev()->is(OpKind::Role))
      memory->definition()->moveBefore(memory->definition()->prev());
    for (Block *loads : {&role.region(), &parts.region()}) // All lanes go through shared memory.
      for (Operation &op : *loads)
        if (op.is(OpKind::Load) && !op.intsAttr("mask").empty() && !op.attr("fill"))
          op.setAttr("fill", isFloat(op.result()->type().dtype()) ? Attribute(0.0) : Attribute(0));
    for (size_t i = 0; i < stores.size(); ++i)
      stage(*stores[i], int64_t(i), int64_t(stores.size()));
    if (byTma) {
      Builder behind(*role.region().back()->parent(), role.region().back());
      behind.setLoc(parts.loc());
      behind.create(OpKind::TmaStoreWait, {}, {}, {{"pending", Attribute(0)}});
    }
    signature.dropUnused();
  }

private:
  static constexpr int64_t buffersOfGroup = 2;

  void stage(Operation &store, int64_t number, int64_t count) {
    Builder builder(&store);
    builder.setLoc(store.loc());
    Value *left = parts.region().argument(0);
    // Number `number` of `count` stores of part left / 64.
    Value *part = builder.scalarOp(OpKind::DivU, {left, builder.constantIndex(64)});
    Value *order = builder.scalarOp(
        OpKind::Add, {builder.scalarOp(OpKind::Mul, {part, builder.constantIndex(count)}), builder.constantIndex(number)});
    Value *two = builder.constantIndex(buffersOfGroup);
    Value *mine = builder.scalarOp(OpKind::Mul, {who, two});
    Value *place = builder.scalarOp(OpKind::Add, {mine, builder.scalarOp(OpKind::RemU, {order, two})});
    Value *slot = builder.create(OpKind::Stage, {memory, place}, {one})->result();
    // Of an odd number of stores the first ones of two tiles have one buffer.
    bool takesTurns = *parts.operand(1)->definition()->attr("value")->asInt() / 64 * count % buffersOfGroup == 0;
    if (takesTma(store))
      storeByTma(builder, store, slot, takesTurns);
    else
      storeByThreads(builder, store, slot);
  }

  void storeByTma(Builder &builder, Operation &store, Value *slot, bool takesTurns) {
    Value *buffer = store.operand(1);
    std::vector<int64_t> box(size_t(buffer->type().rank()), 1);
    box[box.size() - 2] = box.back() = 64;
    TypeStorage map{.kind = TypeKind::TensorMap, .dtype = one.dtype(), .shape = buffer->type().shape(), .swizzle = 128, .box = box};
    Value *out = signature.addTensorMap(buffer, context.type(map));
    builder.create(OpKind::TmaStoreWait, {}, {}, {{"pending", Attribute(takesTurns ? buffersOfGroup - 1 : 0)}});
    builder.create(OpKind::BarrierOp, {}, {});
    builder.create(OpKind::StMatrix, {store.operand(0), slot}, {});
    builder.create(OpKind::FenceAsync, {}, {});
    builder.create(OpKind::BarrierOp, {}, {});
    std::vector<Value *> copy{slot, out};
    copy.insert(copy.end(), store.operands().begin() + firstIndex(store), store.operands().end());
    builder.create(OpKind::TmaStore, copy, std::vector<Type>());
    store.erase();
  }

  void storeByThreads(Builder &builder, Operation &store, Value *slot) {
    constexpr int64_t warpsOfGroup = 4;
    const std::array<int, 2> fastest{1, 0};
    builder.create(OpKind::StMatrix, {store.operand(0), slot}, {});
    builder.create(OpKind::BarrierOp, {}, {});
    int64_t vec = 4; // Of a row that does not start at multiples of 8 elements.
    while (!accessBuffer(store)->type().shape().back().isMultipleOf(vec))
      vec /= 2;
    Layout layout = Schedule::coalesced(one.extents(), fastest, vec, warpsOfGroup);
    Type lines = context.tile(one.dtype(), one.extents(), context.layout(layout));
    store.setOperand(0, builder.create(OpKind::SharedLoad, {slot}, {lines})->result());
    store.setAttr("vec", Attribute(vectorWidth(store)));
    // The buffer is free, and all loads stand before all stores: each would wait for its own behind its mask.
    builder.create(OpKind::BarrierOp, {}, {});
  }

  Function &kernel;
  Operation &role, &parts;
  Context &context;
  Value *memory = nullptr, *who = nullptr;
  KernelSignature signature{kernel};
  Type one; ///< One buffer.
};

} // namespace

Expected<void> passes::stageStores(Function &kernel, PassContext &) {
  if (!isWarpSpecialized(kernel))
    return {};
  for (Operation &role : kernel.body())
    if (role.is(OpKind::Role))
      for (Operation &op : role.region())
        if (goesThroughParts(op))
          StoreStaging(kernel, role, op).run();
  return {};
}

} // namespace minic
