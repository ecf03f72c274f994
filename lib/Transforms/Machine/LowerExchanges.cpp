// lower-exchanges: moves tiles from warps to warps through shared memory; between the CTAs of a cluster, through that of all of
// them.
//
//   %b = convert_layout %a  ->  shared_store %a, %m; barrier; %b = shared_load %m
//   in a cluster            ->  at the top: %met = mbarrier_init; mbarrier_expect; cluster_arrive
//                               cluster_wait; cluster_store %a, %m, %met; mbarrier_wait %met; %b = shared_load %m
//
// Each exchange has memory of its own, so only a loop brings the same slots round again.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

namespace minic {
namespace {

class ExchangeLowering {
public:
  explicit ExchangeLowering(Function &kernel) : kernel(kernel), context(kernel.module().context()) {}

  void run(Block &block) {
    for (Operation &op : block) {
      for (unsigned r = 0; r < op.numRegions(); ++r)
        run(op.region(r));
      if (op.is(OpKind::ConvertLayout))
        lower(op);
    }
  }

private:
  void lower(Operation &op) {
    Builder builder(&op);
    builder.setLoc(op.loc());
    std::vector<Value *> memories;
    for (unsigned i = 0; i < op.numOperands(); ++i)
      memories.push_back(allocShared(memoryFor(op.operand(i)->type(), op.result(i)->type()), op.loc()));
    if (clusterCtas(kernel) > 1)
      sendToCtas(builder, op.operands(), memories);
    else
      storeForWarps(builder, op.operands(), memories, op.parentOp() != nullptr);
    for (unsigned i = 0; i < op.numResults(); ++i) {
      Operation *load = builder.create(OpKind::SharedLoad, {memories[i]}, {op.result(i)->type()});
      load->result()->setName(op.result(i)->name());
      op.result(i)->replaceAllUsesWith(load->result());
    }
    op.erase();
  }

  /// A tile that is turned is written along one axis and read along another: four bytes between its rows spread both over the
  /// banks.
  Type memoryFor(Type from, Type to) {
    std::vector<int64_t> extents = from.extents();
    auto fastest = [](Type type) { return type.layout()->reg.empty() ? -1 : type.layout()->reg.front().axis; };
    if (fastest(from) < 0 || fastest(to) < 0 || fastest(from) == fastest(to) || clusterCtas(kernel) > 1)
      return context.smem(from.dtype(), extents);
    std::vector<int64_t> strides(extents.size());
    int64_t stride = 1;
    for (size_t axis = extents.size(); axis-- > 0;) {
      strides[axis] = stride;
      stride = stride * extents[axis] + (stride == 1 ? std::max<int64_t>(4 / dtypeBytes(from.dtype()), 1) : 0);
    }
    return context.smem(from.dtype(), extents, strides);
  }

  void storeForWarps(Builder &builder, std::span<Value *const> values, std::span<Value *const> memories, bool insideLoop) {
    if (insideLoop)
      builder.create(OpKind::BarrierOp, {}, {}); // Everyone has read what the last trip left.
    for (size_t i = 0; i < values.size(); ++i)
      builder.create(OpKind::SharedStore, {values[i], memories[i]}, {});
    builder.create(OpKind::BarrierOp, {}, {});
  }

  /// The mbarrier is made, and the CTAs meet, before the kernel does anything else; they wait for each other where the first values
  /// are sent. No CTA ends before all of its values have come, so none is sent to one that has ended.
  void sendToCtas(Builder &builder, std::span<Value *const> values, std::span<Value *const> memories) {
    if (!meeting) {
      Builder top(kernel.body(), kernel.body().front());
      top.setLoc(builder.loc());
      phase = top.constantIndex(0);
      meeting = top.create(OpKind::ClusterArrive, {}, {});
      builder.create(OpKind::ClusterWait, {}, {});
    }
    Builder before(meeting);
    before.setLoc(builder.loc());
    Value *mbarrier = before.create(OpKind::MbarrierInit, {}, {context.mbarrier(1)}, {{"count", Attribute(1)}})->result();
    mbarrier->setName("met");
    int64_t bytes = 0;
    for (Value *value : values)
      bytes += *value->type().numElements().constant() * dtypeBytes(value->type().dtype());
    before.create(OpKind::MbarrierExpect, {mbarrier, phase}, {}, {{"bytes", Attribute(bytes)}});
    for (size_t i = 0; i < values.size(); ++i)
      builder.create(OpKind::ClusterStore, {values[i], memories[i], mbarrier, phase}, {});
    builder.create(OpKind::MbarrierWait, {mbarrier, phase}, {});
  }

  Value *allocShared(Type type, SourceLoc loc) {
    Builder top(kernel.body(), kernel.body().front());
    top.setLoc(loc);
    Value *memory = top.create(OpKind::AllocShared, {}, {type})->result();
    memory->setName("partial");
    return memory;
  }

  Function &kernel;
  Context &context;
  Operation *meeting = nullptr; ///< Where the CTAs of the cluster come first.
  Value *phase = nullptr;       ///< The first: each mbarrier is used once.
};

} // namespace

Expected<void> passes::lowerExchanges(Function &function, PassContext &) {
  if (function.kind == FunctionKind::Kernel)
    ExchangeLowering(function).run(function.body());
  return {};
}

} // namespace minic
