#include "minic/Driver/RegionChoices.h"

#include "minic/Transforms/Analysis/LibraryMatmul.h"
#include "minic/Transforms/Analysis/ScheduleSpace.h"

#include <algorithm>
#include <cstdio>
#include <set>

namespace minic {
namespace {

/// "2.950 us (default 3.120 us)"
std::string timesOf(const TunedSchedule &entry) {
  char text[96];
  std::snprintf(text, sizeof text, "%.3f us (default %.3f us)", entry.bestUs, entry.ownUs);
  return text;
}

std::string whose(const ScheduleOrigin &origin, const RegionLoops &region, const Schedule &schedule, const CompileOptions &options,
                  const TargetInfo &target, bool exact) {
  std::string measured = origin.kind == ScheduleOrigin::Tuned ? "tuning measured " + timesOf(*origin.entry) : "";
  if (schedule.isLibrary())
    return origin.kind == ScheduleOrigin::Asked ? "by --matmul=cublaslt" : !measured.empty() ? measured : "its schedule says so";
  if (options.matmul == MatmulProvider::Generated)
    return "by --matmul=generated";
  if (auto why = whyUnfit(Schedule::library(region.space.rank()), region, target, exact))
    return *why;
  return !measured.empty() ? measured : "cuBLASLt could, but no tuning says that it is quicker: see minic tune";
}

/// Why no tuned schedule is taken.
std::string whyModel(const ScheduleOrigin &origin, const CompileOptions &options) {
  if (options.eager)
    return "single ops are not tuned";
  ScheduleLookup lookup = scheduleLookup(options);
  if (lookup.tables.empty())
    return options.shippedToo ? "no GPU is named whose tuned schedules to take, as --tuned-for does"
                              : "no tuned ones, by --schedules=none";
  if (!origin.others.empty()) {
    const auto &[entry, why] = origin.others.front();
    return "that of " + entry->where() + " is not taken: " + why;
  }
  std::set<std::string> devices;
  for (const ScheduleTable *table : lookup.tables)
    for (const TunedSchedule &entry : table->entries())
      devices.insert(entry.device);
  if (lookup.device.empty() || devices.contains(lookup.device))
    return "no region like it is tuned";
  std::string list;
  for (const std::string &device : devices)
    list += (list.empty() ? "; there are some for " : ", ") + device;
  return "nothing is tuned for " + lookup.device + list;
}

std::string originText(const ScheduleOrigin &origin, const CompileOptions &options) {
  switch (origin.kind) {
  case ScheduleOrigin::Written:
    return "written in the text";
  case ScheduleOrigin::Asked:
    return "by --matmul=cublaslt";
  case ScheduleOrigin::Tuned:
    return "tuned on " + origin.entry->device + ", " + origin.entry->where() +
           (origin.isExact ? "" : ", for sizes " + origin.entry->sizesText()) + ": " + timesOf(*origin.entry);
  case ScheduleOrigin::Model:
    return "of the cost model; " + whyModel(origin, options);
  }
  return {};
}

} // namespace

Expected<std::vector<RegionChoice>> choicesOf(const Function &fused, const CompileOptions &options) {
  const Module &module = fused.module();
  auto target = findTarget(module.target);
  if (!target)
    return target.takeErrors();
  std::vector<RegionChoice> choices;
  bool exact = module.numerics == "exact";
  for (Operation &fusion : fused.body()) {
    if (!fusion.is(OpKind::Fusion))
      continue;
    const ScheduleOrigin &origin = options.scheduleReport->at(choices.size());
    auto region = RegionLoops::of(fusion);
    if (!region)
      return region.takeErrors();
    auto schedule = Schedule::parse(*fusion.attr("schedule")->asRecord(), region->space.rank());
    if (!schedule)
      return schedule.takeErrors();
    choices.push_back({.name = fused.name + "." + fusion.result()->name(),
                       .schedule = fusion.attr("schedule")->str(),
                       .origin = originText(origin, options)});
    RegionChoice &choice = choices.back();
    choice.resources = estimateResources(region->space, *schedule, region->ops, region->outputs);
    chooseSchedule(region->space, region->ops, **target, exact, &choice.considered);
    auto product = std::ranges::find_if(region->ops, [](const Operation *op) { return op->is(OpKind::Matmul); });
    if (product != region->ops.end())
      choice.product = {.loc = (*product)->loc(),
                        .isLibrary = schedule->isLibrary(),
                        .why = whose(origin, *region, *schedule, options, **target, exact)};
  }
  return choices;
}

Expected<std::vector<RegionChoice>> regionChoices(Module &module, const CompileOptions &options) {
  auto graph = chooseGraph(module, options.graph);
  if (!graph)
    return graph.takeErrors();
  std::string name = (*graph)->name;
  if (auto kept = keepOnly(module, name); !kept)
    return kept.takeErrors();
  CompileOptions reported = options;
  reported.scheduleReport = std::make_shared<ScheduleReport>();
  if (auto lowered = lowerTo(module, Stage::Fused, reported); !lowered)
    return lowered.takeErrors();
  auto choices = choicesOf(*module.find(name), reported);
  if (options.scheduleReport)
    *options.scheduleReport = std::move(*reported.scheduleReport);
  return choices;
}

} // namespace minic
