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
// consumer has two buffers: the one that was stored before the last one is free. TMA drops what lies outside, masks or not. A
// buffer has rows of 128 bytes: of 32 bits, half of a part at a time, which shared_store puts there.
//
// Where rows of the result do not start at multiples of 16 bytes TMA cannot store, and of 16 bits the consumer's threads do, side
// by side along a row:
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

int64_t storedBytes(const Operation *store) { return dtypeBytes(store->operand(0)->type().dtype()); }

/// Whether TMA can store to the buffer's rows.
bool takesTma(const Operation &store) {
  constexpr int mostAxes = 5; // PTX ISA, "Tensors".
  Type buffer = accessBuffer(store)->type();
  return buffer.rank() <= mostAxes && buffer.shape().back().isMultipleOf(16 / storedBytes(&store));
}

/// Parts of 64x64 elements of 16 or 32 bits, as wgmma leaves them, that go to row-major matrices.
bool canStage(const Operation &op) {
  if (!op.is(OpKind::Store))
    return false;
  Type tile = op.operand(0)->type(), buffer = accessBuffer(op)->type();
  int64_t bytes = dtypeBytes(tile.dtype());
  return tile.extents() == std::vector<int64_t>{64, 64} && tile.layout()->normalized() == wgmmaLayout(64).normalized() &&
         (bytes == 4 ? takesTma(op) : isFloat(tile.dtype()) && bytes == 2) && !buffer.isStrided() && isMatrix(accessDims(op)) &&
         !op.attr("steps");
}

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
    const Operation *narrowest =
        *std::ranges::min_element(stores, {}, storedBytes); // Threads would store it in the smallest pieces.
    DType dtype = narrowest->operand(0)->type().dtype();
    bool byTma = takesTma(*narrowest); // What shares the buffers waits for them in one way.
    std::erase_if(stores, [&](const Operation *op) { return op->operand(0)->type().dtype() != dtype || takesTma(*op) != byTma; });
    columns = rowBytes / dtypeBytes(dtype);
    TypeStorage buffers{
        .kind = TypeKind::Smem, .dtype = dtype, .shape = {rows, columns}, .swizzle = rowBytes, .stages = buffersOfGroup * groups};
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
    slotsOfPart = int64_t(stores.size()) * (64 / columns);
    for (Operation *store : stores)
      if (byTma)
        storeByTma(*store);
      else
        storeByThreads(*store);
    if (byTma) {
      Builder behind(*role.region().back()->parent(), role.region().back());
      behind.setLoc(parts.loc());
      behind.create(OpKind::TmaStoreWait, {}, {}, {{"pending", Attribute(0)}});
    }
    signature.dropUnused();
  }

private:
  static constexpr int64_t buffersOfGroup = 2, rows = 64, rowBytes = 128;

  /// The next buffer that a part fills: number `filled` of `slotsOfPart` of part left / 64.
  Value *nextSlot(Builder &builder) {
    Value *part = builder.scalarOp(OpKind::DivU, {parts.region().argument(0), builder.constantIndex(64)});
    Value *order = builder.scalarOp(
        OpKind::Add, {builder.scalarOp(OpKind::Mul, {part, builder.constantIndex(slotsOfPart)}), builder.constantIndex(filled++)});
    Value *two = builder.constantIndex(buffersOfGroup);
    Value *mine = builder.scalarOp(OpKind::Mul, {who, two});
    Value *place = builder.scalarOp(OpKind::Add, {mine, builder.scalarOp(OpKind::RemU, {order, two})});
    return builder.create(OpKind::Stage, {memory, place}, {one})->result();
  }

  void storeByTma(Operation &store) {
    Builder builder(&store);
    builder.setLoc(store.loc());
    Value *buffer = store.operand(1);
    std::vector<int64_t> box(size_t(buffer->type().rank()), 1);
    std::copy_n(one.extents().begin(), 2, box.end() - 2);
    TypeStorage map{
        .kind = TypeKind::TensorMap, .dtype = one.dtype(), .shape = buffer->type().shape(), .swizzle = rowBytes, .box = box};
    Value *out = signature.addTensorMap(buffer, context.type(map));
    // Of an odd number of buffers the first ones of two tiles have the same.
    bool takesTurns = *parts.operand(1)->definition()->attr("value")->asInt() / 64 * slotsOfPart % buffersOfGroup == 0;
    for (int64_t start = 0; start < 64; start += columns) {
      Value *slot = nextSlot(builder);
      builder.create(OpKind::TmaStoreWait, {}, {}, {{"pending", Attribute(takesTurns ? buffersOfGroup - 1 : 0)}});
      builder.create(OpKind::BarrierOp, {}, {});
      std::vector<Value *> copy{slot, out};
      copy.insert(copy.end(), store.operands().begin() + firstIndex(store), store.operands().end());
      if (columns == 64)
        builder.create(OpKind::StMatrix, {store.operand(0), slot}, {});
      else
        copy.back() = putHalf(builder, *store.operand(0), start, *slot, copy.back());
      builder.create(OpKind::FenceAsync, {}, {});
      builder.create(OpKind::BarrierOp, {}, {});
      builder.create(OpKind::TmaStore, copy, std::vector<Type>());
    }
    store.erase();
  }

  /// Puts columns of a part from `start` on into a buffer; gives where they are in the result, whose part starts at `column`.
  Value *putHalf(Builder &builder, Value &part, int64_t start, Value &slot, Value *column) {
    std::vector<int64_t> extents = one.extents();
    Type half = context.tile(one.dtype(), extents, context.layout(wgmmaLayout(columns)));
    Value *zero = builder.constantIndex(0), *first = builder.constantIndex(start);
    builder.create(OpKind::SharedStore, {builder.create(OpKind::ExtractTile, {&part, zero, first}, {half})->result(), &slot}, {});
    return builder.scalarOp(OpKind::Add, {column, first});
  }

  void storeByThreads(Operation &store) {
    Builder builder(&store);
    builder.setLoc(store.loc());
    constexpr int64_t warpsOfGroup = 4;
    const std::array<int, 2> fastest{1, 0};
    Value *slot = nextSlot(builder);
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
  int64_t columns = 64, slotsOfPart = 0, filled = 0;
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
