// pipeline: lets copies and products of several blocks be under way, as `stages` of #matmul<unit = wgmma> says.
//
//   alloc_shared : smem<128x64xbf16>                   ->  alloc_shared : smem<128x64xbf16, stages = 4>
//   mbarrier_init : mbarrier<1>                        ->  mbarrier_init : mbarrier<4>
//   for ... {                                              for ... {
//     wgmma; wgmma_wait pending = 0                          wgmma; wgmma_wait pending = 1
//     mbarrier_arrive %empty, %i                             mbarrier_arrive %empty, %i - 1, where there is one
//   }                                                      }
//   wgmma_wait pending = 0                                 wgmma_wait pending = 0; mbarrier_arrive %empty, the last
//
// The producer runs ahead until the ring is full. The tensor cores always have a group in flight while warps wait for the next
// block, so a consumer gives back the block of the group before: its own is still being read.
#include "minic/IR/Builder.h"
#include "minic/IR/Schedule.h"
#include "minic/Transforms/Passes.h"

namespace minic {
namespace {

void deepen(Function &kernel, int64_t stages) {
  Context &context = kernel.module().context();
  for (Operation &op : kernel.body()) {
    Value *value = op.numResults() ? op.result() : nullptr;
    if (op.is(OpKind::MbarrierInit))
      value->setType(context.mbarrier(stages));
    if (op.is(OpKind::AllocShared) && !value->uses().empty() && value->uses()[0].user->is(OpKind::Stage)) {
      TypeStorage ring = value->type().get();
      ring.stages = stages;
      value->setType(context.type(ring));
    }
    if (op.is(OpKind::For)) // What is done for each stage.
      op.setOperand(1, Builder(&op).constantIndex(stages));
  }
}

/// The sweep whose products are waited for on each trip: one, or a chain of which the first says whether a block is before.
struct Sweep {
  Operation *loop, *first, *last, *wait, *release;
};

std::optional<Sweep> sweepOf(Operation &role) {
  Sweep sweep{};
  for (Operation &loop : role.region())
    for (Operation *op = loop.is(OpKind::For) ? loop.region().front() : nullptr; op; op = op->next()) {
      if (op->is(OpKind::Wgmma))
        sweep = {&loop, sweep.loop == &loop ? sweep.first : op, op, nullptr, nullptr};
      else if (op->is(OpKind::WgmmaWait) && sweep.last && op->operand(0) == sweep.last->result())
        sweep.wait = op;
      else if (op->is(OpKind::MbarrierArrive) && sweep.wait)
        sweep.release = op;
    }
  // Where sums are added to others in registers, each trip waits for its own.
  bool isCarried = sweep.release && sweep.loop->result(1)->type().isInflight() && sweep.first->numOperands() > 3;
  return isCarried ? std::optional(sweep) : std::nullopt;
}

/// The ring position before `position`.
Value *before(Builder &builder, Value *position) { return builder.scalarOp(OpKind::Sub, {position, builder.constantIndex(1)}); }

void keepOneInFlight(const Sweep &sweep) {
  sweep.wait->setAttr("pending", Attribute(1));
  Builder inner(sweep.release);
  inner.setLoc(sweep.release->loc());
  Value *empty = sweep.release->operand(0), *isLater = sweep.first->operand(3);
  inner.create(OpKind::MbarrierArrive, {empty, before(inner, sweep.release->operand(1)), isLater}, {});
  sweep.release->erase();

  // The loop's first value is the ring position.
  Operation *last = sweep.loop->result(1)->uses()[0].user;
  Builder behind(*last->parent(), last->next());
  behind.setLoc(last->loc());
  behind.create(OpKind::MbarrierArrive, {empty, before(behind, sweep.loop->result(0))}, {});
}

} // namespace

Expected<void> passes::pipeline(Function &kernel, PassContext &) {
  if (!isWarpSpecialized(kernel))
    return {};
  auto schedule = stagedSchedule(kernel);
  if (!schedule)
    return schedule.takeErrors();
  bool isDone = false; // Text of an earlier run.
  for (const Operation &op : kernel.body())
    isDone |= op.is(OpKind::MbarrierInit) && !op.result()->type().shape()[0].isConstant(1);
  if (schedule->stages == 1 || isDone)
    return {};
  deepen(kernel, schedule->stages);
  for (Operation &op : kernel.body())
    if (op.is(OpKind::Role))
      if (auto sweep = sweepOf(op))
        keepOneInFlight(*sweep);
  return {};
}

} // namespace minic
