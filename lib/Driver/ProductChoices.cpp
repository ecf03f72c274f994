#include "minic/Driver/ProductChoices.h"

#include "minic/Transforms/Analysis/LibraryMatmul.h"
#include "minic/Transforms/Analysis/ScheduleSpace.h"
#include "minic/Transforms/Analysis/ScheduleTable.h"

#include <algorithm>
#include <cstdio>

namespace minic {
namespace {

std::string microseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f us", us);
  return text;
}

/// What tuning found for a region, if the schedule is from there.
const TunedSchedule *tunedFor(const Operation &fusion, const RecordAttr &schedule, const CompileOptions &options) {
  if (!options.schedules || options.eager)
    return nullptr;
  std::string key = regionKey(fusion);
  const std::vector<TunedSchedule> &entries = options.schedules->entries();
  auto it = std::ranges::find_if(entries, [&](const TunedSchedule &entry) {
    return entry.region == key && entry.target == fusion.module().target && entry.numerics == fusion.module().numerics &&
           (options.schedules->device.empty() || entry.device == options.schedules->device) && entry.best == schedule;
  });
  return it == entries.end() ? nullptr : &*it;
}

std::string reason(const Operation &fusion, const RegionLoops &region, const Schedule &schedule, const CompileOptions &options,
                   const TargetInfo &target) {
  const TunedSchedule *tuned = tunedFor(fusion, *fusion.attr("schedule")->asRecord(), options);
  std::string measured =
      tuned ? "tuning measured " + microseconds(tuned->bestUs) + " (default " + microseconds(tuned->ownUs) + ")" : "";
  if (schedule.isLibrary())
    return options.matmul == MatmulProvider::CublasLt ? "by --matmul=cublaslt" : tuned ? measured : "its schedule says so";
  if (options.matmul == MatmulProvider::Generated)
    return "by --matmul=generated";
  if (auto why = whyUnfit(Schedule::library(region.space.rank()), region, target, fusion.module().numerics == "exact"))
    return *why;
  return tuned ? measured : "cuBLASLt could, but no tuning says that it is quicker: see minic tune";
}

} // namespace

Expected<std::vector<ProductChoice>> productChoices(Module &module, const CompileOptions &options) {
  auto graph = chooseGraph(module, options.graph);
  if (!graph)
    return graph.takeErrors();
  std::string name = (*graph)->name;
  if (auto kept = keepOnly(module, name); !kept)
    return kept.takeErrors();
  if (auto lowered = lowerTo(module, Stage::Fused, options); !lowered)
    return lowered.takeErrors();
  auto target = findTarget(module.target);
  if (!target)
    return target.takeErrors();
  std::vector<ProductChoice> choices;
  for (Operation &fusion : module.find(name)->body()) {
    if (!fusion.is(OpKind::Fusion))
      continue;
    auto region = RegionLoops::of(fusion);
    if (!region)
      return region.takeErrors();
    auto product = std::ranges::find_if(region->ops, [](const Operation *op) { return op->is(OpKind::Matmul); });
    if (product == region->ops.end())
      continue;
    auto schedule = Schedule::parse(*fusion.attr("schedule")->asRecord(), region->space.rank());
    if (!schedule)
      return schedule.takeErrors();
    choices.push_back({.name = name + "." + fusion.result()->name(),
                       .loc = (*product)->loc(),
                       .isLibrary = schedule->isLibrary(),
                       .schedule = fusion.attr("schedule")->str(),
                       .why = reason(fusion, *region, *schedule, options, **target)});
  }
  return choices;
}

} // namespace minic
