// choose-schedule: gives every fusion region without a schedule the one that was found by tuning, else the cost model's choice. A
// schedule written by hand stays. With `--matmul=cublaslt` every product is the library's; with `auto`, where tuning found that.
//
//   %y = fusion %x { ... }  ->  %y = fusion %x, schedule = #rows<block = [4, 1024], warps = [4, 1], lanes = [1, 32], vec = 4> { ...
//   }
#include "minic/Transforms/Analysis/LibraryMatmul.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"
#include "minic/Transforms/Analysis/ScheduleLookup.h"
#include "minic/Transforms/Analysis/ScheduleSpace.h"
#include "minic/Transforms/Passes.h"

namespace minic {

/// The user asks for a library's product.
static bool isLibrarys(const RegionLoops &region, const PassContext &context) {
  return context.matmul == MatmulProvider::CublasLt && hasMatmul(region.ops);
}

/// Where the region's schedule is to come from: the text, the tuned one that fits best, or the cost model.
static ScheduleOrigin originOf(const Operation &fusion, const RegionLoops &region, const Function &function,
                               const PassContext &context) {
  auto whyUnfit = [&](const RecordAttr &record) -> std::string {
    if (fusion.attr("schedule"))
      return "the region has a schedule of its own";
    auto schedule = Schedule::parse(record, region.space.rank());
    if (!schedule)
      return schedule.errors().front().message;
    if (context.matmul == MatmulProvider::Generated && schedule->isLibrary())
      return "products are generated, by --matmul=generated";
    if (isLibrarys(region, context) && !schedule->isLibrary())
      return "products are cuBLASLt's, by --matmul=cublaslt";
    return minic::whyUnfit(*schedule, region, context.target, context.exact()).value_or("");
  };
  ScheduleOrigin origin;
  if (!context.eager)
    origin =
        context.schedules.take(RegionKey::of(fusion), function.facts, context.module.target, context.module.numerics, whyUnfit);
  if (fusion.attr("schedule"))
    origin.kind = ScheduleOrigin::Written;
  else if (isLibrarys(region, context))
    origin.kind = ScheduleOrigin::Asked;
  return origin;
}

Expected<void> passes::chooseSchedule(Function &function, PassContext &context) {
  Diagnostics errors;
  for (Operation &op : function.body()) {
    if (!op.is(OpKind::Fusion))
      continue;
    auto region = RegionLoops::of(op);
    if (!region) {
      errors.push_back(region.errors().front());
      continue;
    }
    ScheduleOrigin origin = originOf(op, *region, function, context);
    if (context.report)
      context.report->push_back(origin);
    if (const Attribute *given = op.attr("schedule")) {
      auto schedule = Schedule::parse(*given->asRecord(), region->space.rank());
      if (!schedule) {
        errors.push_back(schedule.errors().front());
        errors.back().loc = op.loc();
      }
      continue;
    }
    if (origin.kind == ScheduleOrigin::Asked) {
      Schedule library = Schedule::library(region->space.rank());
      if (auto why = whyUnfit(library, *region, context.target, context.exact()))
        errors.push_back({.code = ErrorCode::NoSchedule,
                          .message = *why,
                          .loc = op.loc(),
                          .fix = "compile with --matmul=generated, or with auto, which is cuBLASLt's where tuning found that"});
      op.setAttr("schedule", library.toAttr());
      continue;
    }
    if (origin.kind == ScheduleOrigin::Tuned) {
      op.setAttr("schedule", origin.entry->best);
      continue;
    }
    auto schedule = minic::chooseSchedule(region->space, region->ops, context.target, context.exact());
    if (!schedule)
      errors.push_back(
          {.code = ErrorCode::NoSchedule,
           .message = "no schedule of " + std::string(context.target.name) + " runs this region",
           .loc = op.loc(),
           .fix =
               "split the region: reductions along different axes need one each, but for short rows of a product on tensor cores"});
    else
      op.setAttr("schedule", schedule->toAttr());
  }
  if (!errors.empty())
    return errors;
  return {};
}

} // namespace minic
