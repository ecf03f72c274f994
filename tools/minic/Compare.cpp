// minic compare: a graph run eagerly (one kernel per op) against fused, and both against the f64 oracle.
#include "Difference.h"
#include "Execution.h"
#include "Measure.h"
#include "Model.h"

#include "minic/Artifact/RunPlan.h"
#include "minic/Artifact/TracedDevice.h"
#include "minic/Driver/CustomUses.h"
#include "minic/Interp/Oracle.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace minic::cli {
namespace {

struct Flags : ExecutionFlags {
  ToleranceFlags tolerance;
};

/// One way of running the graph.
struct Side {
  std::vector<HostTensor> results;
  int64_t launches = 0, modelled = 0, peak = 0;
  int64_t distinct = 0, issued = 0; ///< Counted by the interpreter.
  double milliseconds = 0;
  Difference error; ///< Against the oracle.
};

Expected<Side> runSide(const SourceBuffer &source, const CompileOptions &options, const OpenedDevice &opened,
                       const std::vector<HostTensor> &inputs, bool poison) {
  Side side;
  Trace::Span span(options.trace.get(), options.eager ? "eager" : "fused");
  auto artifact = compileFor(opened, source, options);
  if (!artifact)
    return artifact.takeErrors();

  using Clock = std::chrono::steady_clock;
  Clock::time_point start;
  WalkOptions walk{.poison = poison, .onLaunch = [&](const PlanStep &, bool before) {
                     if (before)
                       start = Clock::now();
                     else
                       side.milliseconds += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
                   }};
  auto results = runPlan(**artifact, *traced(opened.device, options.trace.get()), inputs, options.dims, walk);
  if (!results)
    return results.takeErrors();
  side.results = std::move(*results);
  auto executable = Executable::load(*artifact, opened.device);
  if (!executable)
    return executable.takeErrors();
  auto plan = (*executable)->prepare(viewsOf(inputs));
  if (!plan)
    return plan.takeErrors();
  side.peak = (*plan)->peakBytes();
  for (const PlanStep &step : (*artifact)->plans.front().steps)
    side.launches += !step.definesBuffer();
  if (opened.gpu) {
    auto subject = Subject::create("", *executable, inputs);
    if (!subject)
      return subject.takeErrors();
    auto milliseconds = measureOnce(*subject, How::Warm);
    if (!milliseconds)
      return milliseconds.takeErrors();
    side.milliseconds = *milliseconds;
  } else {
    for (const LaunchTraffic &launch : opened.interpreter->takeTraffic()) {
      BufferTraffic total = launch.total();
      side.distinct += total.distinctRead + total.distinctWritten;
      side.issued += total.issuedRead + total.issuedWritten;
    }
  }
  return side;
}

//===- Custom ops -===//

/// A kernel of a custom op alone, on random operands, against what the op means.
struct CustomCheck {
  CustomUse use;
  Difference error;
  std::string place() const { return std::to_string(use.loc.line) + ":" + std::to_string(use.loc.column); }
};

Expected<CustomCheck> checkCustom(const CustomUse &use, const OpenedDevice &opened, const ToleranceFlags &tolerance) {
  SourceBuffer source("@" + use.op, use.text);
  Context context;
  auto module = loadModule(context, source, {});
  if (!module)
    return module.takeErrors();
  auto graph = chooseGraph(**module, {});
  if (!graph)
    return graph.takeErrors();
  Signature signature = signatureOf(**graph);
  DimBindings dims; // The sizes are numbers.
  auto inputs = makeInputs(signature, {}, true, "minic compare", dims);
  if (!inputs)
    return inputs.takeErrors();
  auto artifact = compileFor(opened, source, {.anyStrides = false});
  if (!artifact)
    return artifact.takeErrors();
  auto results = runPlan(**artifact, *opened.device, *inputs, {}, {.poison = true});
  if (!results)
    return results.takeErrors();
  auto oracle = evaluateGraph(**graph, *inputs, {});
  if (!oracle)
    return oracle.takeErrors();
  CustomCheck check{.use = use};
  check.error = differ(*results, *oracle, signature.results, tolerance, "the kernel @" + use.kernel, "what the op means");
  return check;
}

//===- The table -===//

struct Report {
  std::string graph, device;
  bool onGpu;
  DimBindings dims;
  Side eager, fused;
  Difference between;
  std::vector<CustomCheck> customs;
  int64_t usefulBytes = 0; ///< Inputs once and outputs once.
  int64_t flops = 0;

  /// TFLOP/s where there are matmuls, else GB/s of useful bytes.
  std::string rateName() const { return flops ? "useful TFLOP/s" : "useful GB/s"; }
  double rate(const Side &side) const {
    if (side.milliseconds == 0)
      return 0;
    return flops ? double(flops) / side.milliseconds * 1e-9 : double(usefulBytes) / side.milliseconds * 1e-6;
  }
  std::string timeName() const { return onGpu ? "time, ms (median)" : "time, ms (interpreter)"; }

  std::string text() const {
    std::string out = graph + " on " + (onGpu ? device : "the interpreter (CPU)");
    const char *separator = ": ";
    for (const auto &[name, value] : dims) {
      out += separator + name + "=" + std::to_string(value);
      separator = ", ";
    }
    out += "\n";
    auto row = [&](const std::string &title, const std::string &a, const std::string &b, const std::string &ratio) {
      char line[160];
      std::snprintf(line, sizeof line, "%-26s %14s %14s %10s\n", title.c_str(), a.c_str(), b.c_str(), ratio.c_str());
      out += std::string(line, std::string_view(line).find_last_not_of(" \n") + 1) + "\n";
    };
    auto counted = [&](const std::string &title, int64_t a, int64_t b) {
      row(title, std::to_string(a), std::to_string(b), b ? number(double(a) / double(b)) : "");
    };
    row("", "eager", "fused", "ratio");
    counted("launches", eager.launches, fused.launches);
    counted("modelled bytes", eager.modelled, fused.modelled);
    if (!onGpu) {
      counted("distinct bytes touched", eager.distinct, fused.distinct);
      counted("issued bytes", eager.issued, fused.issued);
    }
    row(timeName(), number(eager.milliseconds), number(fused.milliseconds),
        fused.milliseconds > 0 ? number(eager.milliseconds / fused.milliseconds) : "");
    row(rateName(), number(rate(eager)), number(rate(fused)), "");
    row("max error against f64", number(eager.error.largest), number(fused.error.largest), "");
    counted("peak memory, bytes", eager.peak, fused.peak);
    out += "eager and fused: " + (between.sameBits ? "the same bits" : "differ by at most " + number(between.largest)) + "\n";
    for (const CustomCheck &check : customs)
      out += "@" + check.use.op + " at " + check.place() + ": " +
             (onGpu || check.use.ptxTarget.empty()
                  ? "its kernel differs from what it means by at most " + number(check.error.largest) + "\n"
                  : "its kernel is PTX, which the interpreter (CPU) does not run: what it means was evaluated instead\n");
    return out;
  }

  nlohmann::json sideJson(const Side &side) const {
    nlohmann::json json = {{"launches", side.launches},
                           {"modelled_bytes", side.modelled},
                           {"milliseconds", side.milliseconds},
                           {"max_error", errorJson(side.error.largest)},
                           {"peak_bytes", side.peak}};
    json[flops ? "tflops" : "gbps"] = rate(side);
    if (!onGpu) {
      json["distinct_bytes"] = side.distinct;
      json["issued_bytes"] = side.issued;
    }
    return json;
  }
  std::string json() const {
    nlohmann::json checks = nlohmann::json::array();
    for (const CustomCheck &check : customs)
      checks.push_back({{"name", check.use.op},
                        {"location", {{"line", check.use.loc.line}, {"column", check.use.loc.column}}},
                        {"kernel", check.use.kernel},
                        {"ran", onGpu || check.use.ptxTarget.empty()},
                        {"max_error", errorJson(check.error.largest)}});
    return nlohmann::json{{"graph", graph},
                          {"device", device},
                          {"dims", dims},
                          {"useful_bytes", usefulBytes},
                          {"flops", flops},
                          {"eager", sideJson(eager)},
                          {"fused", sideJson(fused)},
                          {"customs", std::move(checks)},
                          {"same_bits", between.sameBits},
                          {"max_difference", errorJson(between.largest)}}
               .dump() +
           "\n";
  }
};

int compare(const Flags &flags) {
  Messages messages(flags.json);
  GraphToRun begun;
  if (auto code = beginWithGraph(flags, messages, begun))
    return *code;
  CompileOptions &options = begun.options;
  const Signature &signature = begun.signature;
  const SourceBuffer &source = begun.source;
  DimBindings dims = options.dims;
  auto inputs = makeInputs(signature, begun.words, true, "minic compare " + flags.file, dims);
  if (!inputs)
    return messages.fail(inputs.errors());
  auto opened = openDevice(begun.choice, begun.options.cache, messages, /*countTraffic=*/true);
  if (!opened)
    return messages.fail(opened.errors());

  Report report{.graph = signature.name, .device = opened->model(), .onGpu = opened->gpu != nullptr, .dims = dims};
  for (bool eager : {true, false}) {
    options.eager = eager;
    auto side = runSide(source, options, *opened, *inputs, flags.poison);
    if (!side)
      return messages.fail(side.errors(), &source);
    (eager ? report.eager : report.fused) = std::move(*side);
  }
  noteUnusedSchedules(options, messages);
  auto oracle = evaluateGraph(*begun.graph, *inputs, dims);
  if (!oracle)
    return messages.fail(oracle.errors(), &source);
  auto model = modelGraph(source, options, signature.name, dims);
  if (!model)
    return messages.fail(model.errors(), &source);
  report.flops = model->flops;
  report.eager.modelled = model->eager.bytes;
  report.fused.modelled = model->fused.bytes;
  for (const std::vector<HostTensor> *tensors : {&*inputs, &report.fused.results})
    for (const HostTensor &tensor : *tensors)
      report.usefulBytes += int64_t(tensor.bytes().size());
  report.eager.error = differ(report.eager.results, *oracle, signature.results, flags.tolerance, "eager", "the f64 oracle");
  report.fused.error = differ(report.fused.results, *oracle, signature.results, flags.tolerance, "fused", "the f64 oracle");
  report.between = differ(report.fused.results, report.eager.results, signature.results, flags.tolerance, "fused", "eager");

  options.eager = false;
  options.dims = dims;
  auto uses = customUses(source, options);
  if (!uses)
    return messages.fail(uses.errors(), &source);
  Diagnostics mismatches;
  for (const CustomUse &use : *uses) {
    auto check = checkCustom(use, *opened, flags.tolerance);
    if (!check)
      return messages.fail(check.errors());
    if (!check->error.firstBad.empty())
      mismatches.push_back(
          {.code = ErrorCode::Mismatch, .message = "custom op @" + use.op + ": " + check->error.firstBad, .loc = use.loc});
    report.customs.push_back(std::move(*check));
  }

  if (auto written = writeOutput({}, flags.json ? report.json() : report.text()); !written)
    return messages.fail(written.errors());
  for (const Difference *difference : {&report.eager.error, &report.fused.error, &report.between})
    if (!difference->firstBad.empty())
      mismatches.push_back({.code = ErrorCode::Mismatch, .message = difference->firstBad});
  return finish(messages.fail(mismatches, &source), flags, messages);
}

} // namespace

void addCompare(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("compare", "Run a graph eager and fused, and compare results, bytes and time");
  addExecutionFlags(*command, *flags, WithGraph | WithJson | WithSchedules | WithCache | WithLineInfo | WithTrace);
  addToleranceFlags(*command, flags->tolerance);
  command->callback([flags, &chosen] { chosen = [flags] { return compare(*flags); }; });
}

} // namespace minic::cli
