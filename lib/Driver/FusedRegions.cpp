#include "minic/Driver/FusedRegions.h"

#include "minic/Driver/CustomUses.h"
#include "minic/Driver/Driver.h"
#include "minic/IR/Builder.h"
#include "minic/IR/Printer.h"
#include "minic/Transforms/Analysis/ScheduleSpace.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace minic {
namespace {

/// A module of one graph, which is filled by `fill` and returns what that gives.
template <typename Fill>
std::string moduleText(const Function &origin, Level level, std::span<const Type> params, std::span<const std::string> results,
                       Fill &&fill) {
  const Module &from = origin.module();
  Module module(from.context());
  module.target = from.target;
  module.numerics = from.numerics;
  Function &graph = *module.addFunction(FunctionKind::Graph, level, origin.name);
  copyCustoms(from, module);
  for (size_t i = 0; i < params.size(); ++i)
    graph.body().addArgument(params[i], "x" + std::to_string(i));
  Builder builder(graph.body());
  std::vector<Value *> returned = fill(builder, graph);
  for (const Value *value : returned)
    graph.resultTypes.push_back(value->type());
  graph.resultNames.assign(results.begin(), results.end());
  builder.create(OpKind::Return, returned, {});
  return printModule(module);
}

std::vector<Type> typesOf(std::span<Value *const> values) {
  std::vector<Type> types;
  for (const Value *value : values)
    types.push_back(value->type());
  return types;
}

std::string listOf(std::span<const Type> types) {
  std::string text;
  for (Type type : types)
    text += (text.empty() ? "" : ", ") + type.str();
  return text;
}

std::vector<std::string> numbered(size_t count, const std::string &prefix) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back(prefix + std::to_string(i));
  return names;
}

/// The ops of the graph before `end` that `values` are computed by, and the values returned.
std::string operandsText(const Function &graph, const std::vector<Value *> &values) {
  return moduleText(graph, Level::Fused, typesOf(graph.params()), numbered(values.size(), "o"),
                    [&](Builder &builder, Function &copy) {
                      ValueMap map;
                      for (size_t i = 0; i < graph.params().size(); ++i)
                        map.map(graph.params()[i], copy.params()[i]);
                      std::set<const Operation *> needed;
                      std::vector<const Value *> waiting(values.begin(), values.end());
                      while (!waiting.empty()) {
                        const Operation *definition = waiting.back()->definition();
                        waiting.pop_back();
                        if (definition && needed.insert(definition).second)
                          waiting.insert(waiting.end(), definition->operands().begin(), definition->operands().end());
                      }
                      for (Operation &op : graph.body())
                        if (needed.contains(&op))
                          cloneOperation(builder, op, map);
                      std::vector<Value *> returned;
                      for (Value *value : values)
                        returned.push_back(map(value));
                      return returned;
                    });
}

FusedRegion describe(const Function &graph, Operation &fusion) {
  FusedRegion region{.name = fusion.result()->name(), .key = RegionKey::of(fusion)};
  region.target = graph.module().target;
  region.numerics = graph.module().numerics;
  std::vector<Type> params = typesOf(fusion.operands()), types = typesOf(fusion.results());
  region.title = graph.name + "." + region.name + ": " + listOf(params) + " -> " + listOf(types);
  region.results = numbered(fusion.numResults(), "r");
  for (size_t i = 0; i < region.results.size(); ++i)
    if (!fusion.result(unsigned(i))->name().empty())
      region.results[i] = fusion.result(unsigned(i))->name();
  region.fused = moduleText(graph, Level::Fused, params, region.results, [&](Builder &builder, Function &alone) {
    ValueMap map;
    for (unsigned i = 0; i < fusion.numOperands(); ++i)
      map.map(fusion.operand(i), alone.params()[i]);
    Operation *copy = cloneOperation(builder, fusion, map);
    copy->removeAttr("schedule");
    return std::vector<Value *>(copy->results().begin(), copy->results().end());
  });
  region.ops = moduleText(graph, Level::Graph, params, region.results, [&](Builder &builder, Function &alone) {
    ValueMap map;
    std::vector<Value *> results = inlineBlock(builder, fusion.region(), alone.params(), map);
    for (Operation &op : alone.body())
      op.removeAttr("ranges"); // What was proved of a region is no part of what it means.
    return results;
  });
  std::vector<Value *> computed;
  for (Value *operand : fusion.operands()) {
    region.inputOf.push_back(operand->definition() ? std::nullopt : std::optional<size_t>(operand->index()));
    if (operand->definition())
      computed.push_back(operand);
  }
  if (!computed.empty())
    region.operands = operandsText(graph, computed);
  return region;
}

} // namespace

Expected<std::vector<FusedRegion>> fusedRegions(const SourceBuffer &source, const CompileOptions &options, const Device &device) {
  Context context;
  CompileOptions suited = options;
  auto module = loadFor(&device, context, source, suited);
  if (!module)
    return module.takeErrors();
  if (auto kept = keepOnly(**module, suited.graph); !kept)
    return kept.takeErrors();
  if (auto lowered = lowerTo(**module, Stage::Fused, suited); !lowered)
    return lowered.takeErrors();
  auto graph = chooseGraph(**module, suited.graph);
  if (!graph)
    return graph.takeErrors();
  std::vector<FusedRegion> regions;
  for (Operation &op : (*graph)->body()) {
    if (!op.is(OpKind::Fusion))
      continue;
    FusedRegion region = describe(**graph, op);
    if (std::ranges::none_of(regions, [&](const FusedRegion &other) {
          return other.key.text == region.key.text && other.key.sizes == region.key.sizes;
        }))
      regions.push_back(std::move(region));
  }
  return regions;
}

Expected<std::vector<Schedule>> schedulesOf(const FusedRegion &region, size_t limit, bool withLibrary) {
  Context context;
  auto module = loadModule(context, SourceBuffer(region.name, region.fused), {});
  if (!module)
    return module.takeErrors();
  auto target = findTarget(region.target);
  if (!target)
    return target.takeErrors();
  auto loops = RegionLoops::of(onlyFusion(**module));
  if (!loops)
    return loops.takeErrors();
  bool exact = region.numerics == "exact";
  std::vector<Schedule> schedules = scheduleSpace(*loops, **target, exact, limit);
  if (schedules.empty())
    return Diagnostic{.code = ErrorCode::NoSchedule,
                      .message = "no schedule of " + region.target + " runs the region '" + region.name + "'"};
  Schedule library = Schedule::library(loops->space.rank());
  if (withLibrary && !whyUnfit(library, *loops, **target, exact))
    schedules.insert(schedules.begin() + 1, std::move(library));
  return schedules;
}

Operation &onlyFusion(Module &module) {
  for (Operation &op : module.functions().front()->body())
    if (op.is(OpKind::Fusion))
      return op;
  assert(false && "a region's module has a fusion");
  return *module.functions().front()->terminator();
}

} // namespace minic
