// choose-schedule: gives every fusion region without a schedule the cost model's choice. A schedule written by hand stays.
//
//   %y = fusion %x { ... }  ->  %y = fusion %x, schedule = #rows<block = [4, 1024], warps = [4, 1], lanes = [1, 32], vec = 4> { ...
//   }
#include "minic/Transforms/Analysis/ScheduleChoice.h"
#include "minic/Transforms/Passes.h"

namespace minic {

Expected<void> passes::chooseSchedule(Function &function, PassContext &context) {
  Diagnostics errors;
  for (Operation &op : function.body()) {
    if (!op.is(OpKind::Fusion))
      continue;
    std::vector<Operation *> ops;
    for (Operation &inner : op.region())
      if (!inner.info().terminator)
        ops.push_back(&inner);
    std::string why;
    auto space = IterationSpace::compute(ops, &why);
    if (!space) {
      errors.push_back({.code = ErrorCode::NoSchedule, .message = "this region has no common loops: " + why, .loc = op.loc()});
      continue;
    }
    if (const Attribute *given = op.attr("schedule")) {
      auto schedule = Schedule::parse(*given->asRecord(), space->rank());
      if (!schedule) {
        errors.push_back(schedule.errors().front());
        errors.back().loc = op.loc();
      }
      continue;
    }
    auto schedule = minic::chooseSchedule(*space, ops, context.target, context.exact());
    if (!schedule)
      errors.push_back({.code = ErrorCode::NoSchedule,
                        .message = "no schedule of " + std::string(context.target.name) + " runs this region",
                        .loc = op.loc(),
                        .fix = "split the region: a matmul and a reduction of its result need two"});
    else
      op.setAttr("schedule", schedule->toAttr());
  }
  if (!errors.empty())
    return errors;
  return {};
}

} // namespace minic
