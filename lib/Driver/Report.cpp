#include "minic/Driver/Report.h"

#include "GraphDrawing.h"

#include "minic/CodeGen/CodeGen.h"
#include "minic/Compiler/Ptxas.h"
#include "minic/Driver/Explanation.h"
#include "minic/Driver/LineMap.h"
#include "minic/IR/Printer.h"
#include "minic/Support/LineDiff.h"
#include "minic/Support/Text.h"
#include "minic/Transforms/Analysis/LaunchLimit.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <unordered_map>

namespace minic {
namespace {

using Json = nlohmann::json;

/// Names and texts are untrusted, JSON is UTF-8.
std::string dump(const Json &json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json placeJson(SourceLoc loc) { return loc.isValid() ? Json{loc.line, loc.column} : Json(nullptr); }

template <typename Items, typename ToJson> Json list(const Items &items, ToJson toJson) {
  Json result = Json::array();
  for (const auto &item : items)
    result.push_back(toJson(item));
  return result;
}

//===- Texts -===//

/// Places of lines as runs: [lines, line, column], or [lines] without a place.
Json runsOf(const std::vector<SourceLoc> &places) {
  Json runs = Json::array();
  for (size_t i = 0, end; i < places.size(); i = end) {
    for (end = i; end < places.size() && places[end] == places[i];)
      ++end;
    runs.push_back(places[i].isValid() ? Json{end - i, places[i].line, places[i].column} : Json{end - i});
  }
  return runs;
}

/// The line without the numbers of values and layouts that have no names, which one more value before them changes.
std::string withoutNumbers(std::string_view line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    out += line[i];
    bool counts = line[i] == '%' || (line[i] == '#' && i + 1 < line.size() && line[i + 1] == 'l');
    if (!counts)
      continue;
    size_t digits = line[i] == '#' ? i + 2 : i + 1, end = digits;
    while (end < line.size() && line[end] >= '0' && line[end] <= '9')
      ++end;
    if (end > digits)
      i = end - 1;
  }
  return out;
}

/// Gives equal lines one number. A page has each line once.
class LineTable {
public:
  int add(std::string_view line) {
    auto [entry, isNew] = numbers.try_emplace(std::string(line), int(numbers.size()));
    if (isNew)
      fresh.emplace_back(line);
    return entry->second;
  }
  std::vector<int> addAll(std::string_view text) {
    std::vector<int> ids;
    for (std::string_view line : linesOf(text))
      ids.push_back(add(line));
    return ids;
  }
  /// Those that the page does not have yet.
  std::vector<std::string> takeNew() { return std::exchange(fresh, {}); }

private:
  std::unordered_map<std::string, int> numbers;
  std::vector<std::string> fresh;
};

/// The module's text as lines, and as lines without numbers.
struct ModuleText {
  std::vector<int> lines, shapes;
};

//===- Drawings -===//

Json drawingJson(const GraphDrawing &drawing, const FusionReport *report) {
  return {{"regions", drawing.regions},
          {"ops", list(drawing.ops,
                       [](const DrawnOp &op) -> Json {
                         return {{"label", op.label},        {"name", op.name},     {"type", op.type},
                                 {"loc", placeJson(op.loc)}, {"region", op.region}, {"free", op.isFree}};
                       })},
          {"edges", list(drawing.edges, [&](const DrawnEdge &edge) -> Json {
             return {{"from", edge.from},         {"to", edge.to},
                     {"value", edge.value},       {"type", edge.type},
                     {"bytes", edge.bytes.str()}, {"decision", edge.decision ? edge.decision - report->edges.data() : -1}};
           })}};
}

Json decisionJson(const FusionEdge &edge) {
  Json json = {{"from", edge.from}, {"to", edge.to}, {"stored", edge.isStored}};
  if (edge.resources)
    json["resources"] = {{"registers", edge.resources->registers}, {"shared", edge.resources->sharedBytes}};
  if (edge.reason) {
    const FusionReasonInfo &info = fusionReasonInfo(*edge.reason);
    json["reason"] = {{"code", info.code}, {"why", info.why}, {"detail", edge.detail}, {"change", info.change}};
  }
  return json;
}

//===- Kernels -===//

Json workJson(const OpTraffic &launch, const PeakRates &rates) {
  return {{"name", launch.name},
          {"loc", placeJson(launch.loc)},
          {"bytes", launch.byteFormula.str()},
          {"work", list(launch.work, [&](const Work &work) -> Json {
             return {{"flops", work.formula.str()},
                     {"dtype", dtypeName(work.dtype)},
                     {"tensor", work.onTensorCores},
                     {"tflops", peakTflops(work, rates)}};
           })}};
}

Json choiceJson(const RegionChoice &choice) {
  return {{"name", choice.name},
          {"schedule", choice.schedule},
          {"origin", choice.origin},
          {"product", choice.product ? Json(choice.product->why) : Json(nullptr)},
          {"library", choice.product && choice.product->isLibrary},
          {"registers", choice.resources.registers},
          {"shared", choice.resources.sharedBytes},
          {"considered", list(choice.considered, [](const ConsideredTile &tile) -> Json {
             return {{"tile", tile.text}, {"cycles", tile.cycles ? Json(*tile.cycles) : Json(nullptr)}, {"why", tile.why}};
           })}};
}

Json accessJson(const AccessFact &access) {
  return {{"kernel", access.kernel},   {"what", access.what}, {"loc", placeJson(access.loc)}, {"axis", access.axis},
          {"masked", access.isMasked}, {"why", access.why},   {"fill", access.fill}};
}

Json paddingJson(const PaddingProof &padding) {
  return {{"kernel", padding.kernel},   {"what", padding.what},         {"loc", placeJson(padding.loc)}, {"axis", padding.axis},
          {"padding", padding.padding}, {"identity", padding.identity}, {"proof", padding.proof}};
}

/// Where the results of each kernel were made: of what it stores, and of what it is launched for, as equal regions share a kernel.
std::map<std::string, std::set<std::pair<uint32_t, uint32_t>>> resultPlaces(const Module &module) {
  std::map<std::string, std::set<std::pair<uint32_t, uint32_t>>> places;
  for (const Function *function : module.functions())
    walk(function->body(), [&](Operation &op) {
      if (op.is(OpKind::Launch))
        places[op.attr("kernel")->asSymbol()->name].insert({op.loc().line, op.loc().column});
      else if (function->kind == FunctionKind::Kernel && op.info().effects & Writes && op.loc().isValid())
        places[function->name].insert({op.loc().line, op.loc().column});
    });
  return places;
}

//===- The report -===//

/// How far the functions are that passes lower; those that were kernels from the beginning do not count.
class Progress {
public:
  explicit Progress(const Module &module) {
    for (const Function *function : module.functions())
      if (function->kind == FunctionKind::Kernel)
        written.insert(function);
  }
  Level of(const Module &module) const {
    Level furthest = Level::Graph;
    for (const Function *function : module.functions())
      if (!written.contains(function) && (function->kind == FunctionKind::Graph || function->kind == FunctionKind::Kernel))
        furthest = std::max(furthest, function->level);
    return furthest;
  }

private:
  std::set<const Function *> written; // Membership only.
};

class Reporter {
public:
  Reporter(Module &module, const SourceBuffer &source, const CompileOptions &options, ReportPage &page)
      : module(module), source(source), options(options), page(page), progress(module) {}

  Expected<void> run() {
    if (auto kept = keepOnly(module, options.graph); !kept)
      return kept.takeErrors();
    auto graph = chooseGraph(module, options.graph);
    if (!graph)
      return graph.takeErrors();
    auto found = findTarget(module.target);
    if (!found)
      return found.takeErrors();
    target = *found;
    name = (*graph)->name;
    begin(**graph);
    CompileOptions watched = options;
    watched.fusionReport = std::make_shared<FusionReport>();
    watched.scheduleReport = options.scheduleReport ? options.scheduleReport : std::make_shared<ScheduleReport>();
    watched.passes.timings = &timings;
    watched.passes.beforePass = [&](const Pass &pass, Module &) {
      if (passes == 0) { // Sizes are bound by now.
        text = print();
        add("text", {{"text", text.lines}});
      }
      if (options.passes.beforePass)
        options.passes.beforePass(pass, module);
    };
    watched.passes.afterPass = [&](const Pass &pass, Module &) { passed(pass, watched); };
    auto lowered = lowerTo(module, Stage::Plan, watched);
    leave(level); // Also where a pass failed: the page shows how far it came.
    if (!lowered)
      return lowered.takeErrors();
    if (auto done = addCode(); !done)
      return done.takeErrors();
    return std::exchange(failure, {});
  }

private:
  void add(std::string_view part, Json json) {
    if (!failure)
      return;
    json["lines"] = table.takeNew();
    if (auto added = page.add(part, dump(json)); !added)
      failure = added.takeErrors();
  }

  void begin(const Function &graph) {
    bound = options.dims;
    std::vector<std::string> free;
    for (const std::string &dim : graph.dimNames())
      if (!bound.contains(dim))
        free.push_back(dim);
    auto eager = eagerTraffic(graph, bound);
    add("begin", {{"file", source.name()},
                  {"graph", name},
                  {"numerics", module.numerics},
                  {"mode", options.eager ? "eager" : "fused"},
                  {"dims", bound},
                  {"free", free},
                  {"version", MINIC_VERSION},
                  {"target",
                   {{"name", target->name},
                    {"product", peakRates(*target).product},
                    {"gbps", peakRates(*target).memoryGBps},
                    {"tflops", peakRates(*target).fmaTflopsOfF32},
                    {"launch_us", launchUs}}},
                  {"eager", eager ? Json{{"bytes", eager->bytes}, {"launches", eager->launches}} : Json(nullptr)},
                  {"source", table.addAll(source.text())},
                  {"places", placesOf(graph)}});
    add("before", drawingJson(drawGraph(graph, nullptr), nullptr));
  }

  /// The ops of the graph by place, for titles.
  static Json placesOf(const Function &graph) {
    Json places = Json::array();
    walk(graph.body(), [&](Operation &op) {
      if (op.loc().isValid() && !op.info().terminator)
        places.push_back({{"loc", placeJson(op.loc())},
                          {"op", std::string(op.info().name) + (op.numResults() ? " %" + op.result()->name() : "")}});
    });
    return places;
  }

  ModuleText print() {
    ModuleText result;
    printed = printModule(module);
    for (std::string_view line : linesOf(printed)) {
      result.lines.push_back(table.add(line));
      result.shapes.push_back(shapes.add(withoutNumbers(line)));
    }
    shapes.takeNew();
    return result;
  }

  void passed(const Pass &pass, const CompileOptions &watched) {
    Level now = progress.of(module);
    if (now != level)
      leave(level);
    level = now;
    ModuleText next = print();
    // Stretches as [kind, lines, ...]: 0 equal; 1 equal but for numbers, with the new lines; 2 replaced, with the new lines.
    Json stretches = Json::array();
    size_t i = 0, j = 0;
    auto addStretch = [&](int kind, size_t before, size_t after) {
      Json stretch = {kind, before};
      for (size_t k = 0; kind && k < after; ++k)
        stretch.push_back(next.lines[j + k]);
      stretches.push_back(std::move(stretch));
      i += before;
      j += after;
    };
    for (const DiffStretch &stretch : diffLines(text.shapes, next.shapes)) {
      if (!stretch.equal) {
        addStretch(2, stretch.before, stretch.after);
        continue;
      }
      for (size_t left = stretch.before, count = 0; left; left -= count) {
        bool same = text.lines[i] == next.lines[j];
        for (count = 0; count < left && (text.lines[i + count] == next.lines[j + count]) == same;)
          ++count;
        addStretch(same ? 0 : 1, count, count);
      }
    }
    text = std::move(next);
    ++passes;
    add("pass", {{"name", pass.name},
                 {"summary", pass.summary},
                 {"level", levelName(now)},
                 {"ms", timings.back().milliseconds},
                 {"delta", std::move(stretches)}});
    decide(watched);
    if (options.passes.afterPass)
      options.passes.afterPass(pass, module);
  }

  /// What is decided at a level is known when the next one begins; it is read off as long as the IR is there.
  void decide(const CompileOptions &watched) {
    if (level == Level::Fused) {
      const Function &fused = *module.find(name);
      for (const Operation &op : fused.body())
        if (op.is(OpKind::Fusion) && !op.attr("schedule"))
          return;
      auto choices = choicesOf(fused, watched);
      Json launches = Json::array();
      for (const OpTraffic &launch : fusedFormulas(fused).ops)
        launches.push_back(workJson(launch, peakRates(*target)));
      size_t next = 0;
      for (const Operation &op : fused.body())
        if (op.is(OpKind::Fusion) || op.is(OpKind::Custom))
          launches[next++]["custom"] = op.is(OpKind::Custom);
      decided = {{"drawing", drawingJson(drawGraph(fused, watched.fusionReport.get()), watched.fusionReport.get())},
                 {"decisions", list(watched.fusionReport->edges, decisionJson)},
                 {"launches", std::move(launches)},
                 {"regions", choices ? list(*choices, choiceJson) : Json::array()}};
    } else if (level == Level::Masked) {
      Explanation explanation;
      explainMasks(module, explanation);
      decided = {{"accesses", list(explanation.accesses, accessJson)}, {"padding", list(explanation.paddings, paddingJson)}};
    }
  }

  void leave(Level left) {
    add("level", {{"name", levelName(left)}, {"passes", passes}, {"places", runsOf(linePlaces(Stage(left), printed))}});
    if (left == Level::Fused && !decided.is_null())
      add("fusion", decided);
    if (left == Level::Masked && !decided.is_null())
      add("masks", decided);
    decided = nullptr;
  }

  /// Runs a step behind the passes and takes its time, as a pass would have it.
  template <typename Step> auto timed(const char *name, Step &&step) {
    auto start = std::chrono::steady_clock::now();
    auto result = step();
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    timings.push_back({name, took.count()});
    return result;
  }

  Expected<void> addCode() {
    auto kernels = timed("(generate code)", [&] { return emitKernels(module, *target); });
    if (!kernels)
      return kernels.takeErrors();
    auto places = resultPlaces(module);
    add("kernels",
        {{"kernels", list(*kernels, [&](const KernelCode &kernel) -> Json {
            return {{"name", kernel.name},
                    {"places", list(places[kernel.name], [](const auto &place) -> Json { return {place.first, place.second}; })},
                    {"threads", kernel.threads},
                    {"shared", kernel.sharedBytes + kernel.dynamicSharedBytes},
                    {"cluster", kernel.clusterCtas}};
          })}});
    LineSource lines{.file = source.name()};
    auto emit = [&](Stage stage, const LineSource *lines) {
      return stage == Stage::Llvm ? emitLLVM(module, *target, true, lines) : emitPtx(module, *target, lines);
    };
    std::string ptx;
    for (Stage stage : {Stage::Llvm, Stage::Ptx}) {
      auto plain = emit(stage, nullptr), lined = emit(stage, &lines);
      if (!plain || !lined)
        return plain ? lined.takeErrors() : plain.takeErrors();
      LevelText level{stage, *lined, linePlaces(stage, *lined)};
      std::vector<int> ids = table.addAll(*plain);
      add("code", {{"name", stageName(stage)}, {"places", runsOf(placesWithout(level, ids.size()))}, {"text", std::move(ids)}});
      ptx = std::move(*plain);
    }
    // What the assembler says; the page does without where there is none, or none for the target.
    if (auto usage = timed("(ptxas)", [&] { return usageOfPtx(ptx, module.target); }))
      add("ptxas", {{"kernels", list(*usage, [](const PtxasUsage &kernel) -> Json {
                       return {{"name", kernel.kernel},
                               {"registers", kernel.registers},
                               {"spill_stores", kernel.spillStores},
                               {"spill_loads", kernel.spillLoads}};
                     })}});
    add("timings", {{"timings", list(timings, [](const PassTiming &timing) -> Json {
                       return {{"name", timing.name}, {"ms", timing.milliseconds}};
                     })}});
    return {};
  }

  Module &module;
  const SourceBuffer &source;
  const CompileOptions &options;
  ReportPage &page;
  Progress progress;
  const TargetInfo *target = nullptr;
  std::string name;
  DimBindings bound;
  LineTable table, shapes;
  ModuleText text;
  std::string printed; ///< The same as text.
  Level level = Level::Graph;
  int passes = 0;
  Json decided;
  std::vector<PassTiming> timings;
  Expected<void> failure; ///< Of the file.
};

} // namespace

Expected<void> writeReport(Module &module, const SourceBuffer &source, const CompileOptions &options, ReportPage &page) {
  return Reporter(module, source, options, page).run();
}

Expected<void> addMeasuredTimes(const MeasuredTimes &times, ReportPage &page) {
  return page.add(
      "measured",
      dump({{"device", times.device}, {"cold_us", times.coldUs}, {"warm_us", times.warmUs}, {"graph_us", times.graphUs}}));
}

Expected<void> endReport(const Diagnostics &errors, const SourceBuffer &source, ReportPage &page) {
  return page.add("end", dump({{"errors", errors.empty() ? "" : renderDiagnostics(errors, &source)}}));
}

} // namespace minic
