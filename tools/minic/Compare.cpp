// minic compare: a graph run eagerly (one kernel per op) against fused, and both against the f64 oracle.
#include "Execution.h"
#include "Model.h"

#include "minic/Artifact/RunPlan.h"
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
  double rtol = -1, atol = -1;
};

/// `|value - reference| <= rtol * |reference| + atol * largest |reference|`. Equal infinities and two NaNs agree.
struct Tolerance {
  double rtol, atol;
};

Tolerance defaultTolerance(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return {1e-10, 1e-12};
  case DType::F32:
    return {1e-5, 2e-6};
  case DType::F16:
    return {1e-2, 1e-3};
  case DType::BF16:
    return {5e-2, 1e-2};
  default:
    return {0, 0};
  }
}

/// How two lists of results differ.
struct Difference {
  double largest = 0; ///< Absolute; infinite where a NaN or infinity has no equal.
  std::string firstBad;
  bool sameBits = true;
};

std::string elementName(const HostTensor &tensor, int64_t position) {
  std::string text;
  for (size_t axis = tensor.shape().size(); axis-- > 0;) {
    text = std::to_string(position % tensor.shape()[axis]) + (text.empty() ? "" : ", ") + text;
    position /= tensor.shape()[axis];
  }
  return "[" + text + "]";
}

Difference differ(const std::vector<HostTensor> &values, const std::vector<HostTensor> &references, const Signature &signature,
                  const Flags &flags, std::string_view what, std::string_view yardstick) {
  Difference difference;
  for (size_t r = 0; r < values.size(); ++r) {
    const HostTensor &value = values[r], &reference = references[r];
    Tolerance tolerance = defaultTolerance(value.dtype());
    double scale = 0;
    for (int64_t i = 0; i < reference.numElements(); ++i)
      if (double magnitude = std::fabs(reference.get(i)); std::isfinite(magnitude))
        scale = std::max(scale, magnitude);
    double rtol = flags.rtol >= 0 ? flags.rtol : tolerance.rtol, atol = flags.atol >= 0 ? flags.atol : tolerance.atol * scale;
    difference.sameBits &= value.bytes().size() == reference.bytes().size() &&
                           std::equal(value.bytes().begin(), value.bytes().end(), reference.bytes().begin());
    for (int64_t i = 0; i < reference.numElements(); ++i) {
      double a = value.get(i), b = reference.get(i);
      if (a == b || (std::isnan(a) && std::isnan(b)))
        continue;
      double error = std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) : INFINITY;
      difference.largest = std::max(difference.largest, error);
      if (difference.firstBad.empty() && !(error <= rtol * std::fabs(b) + atol))
        difference.firstBad = "output '" + signature.results[r] + "' " + elementName(value, i) + ": " + std::string(what) +
                              " gives " + floatText(a, value.dtype()) + ", " + std::string(yardstick) + " " +
                              floatText(b, value.dtype());
    }
  }
  return difference;
}

/// One way of running the graph.
struct Side {
  std::vector<HostTensor> results;
  int64_t launches = 0, modelled = 0, peak = 0;
  int64_t distinct = 0, issued = 0; ///< Counted by the interpreter.
  double milliseconds = 0;
  Difference error; ///< Against the oracle.
};

/// The median of 50 runs, one after the other without waiting, each between two events.
Expected<double> timeOnGpu(const Executable &executable, std::span<const HostTensor> inputs) {
  constexpr int repeats = 50;
  auto stream = Stream::create(executable.device());
  if (!stream)
    return stream.takeErrors();
  std::vector<Buffer> buffers;
  std::vector<TensorView> views, results;
  for (const HostTensor &input : inputs) {
    auto buffer = Buffer::upload(*stream, input);
    if (!buffer)
      return buffer.takeErrors();
    buffers.push_back(std::move(*buffer));
  }
  for (const Buffer &buffer : buffers)
    views.push_back(buffer.view());
  auto first = executable.run(*stream, views); // Warm, and its results are where the others write.
  if (!first)
    return first.takeErrors();
  for (const Buffer &buffer : *first)
    results.push_back(buffer.view());
  std::vector<std::shared_ptr<Event>> events;
  for (int i = 0; i <= repeats; ++i) {
    auto event = Event::create(executable.device());
    if (!event)
      return event.takeErrors();
    events.push_back(std::move(*event));
  }
  for (int i = 0; i <= repeats; ++i) {
    if (i > 0)
      if (auto done = executable.run(**stream, views, results); !done)
        return done.takeErrors();
    if (auto done = events[size_t(i)]->record(**stream); !done)
      return done.takeErrors();
  }
  if (auto done = (*stream)->synchronize(); !done)
    return done.takeErrors();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    auto time = events[size_t(i) + 1]->msSince(*events[size_t(i)]);
    if (!time)
      return time.takeErrors();
    times.push_back(*time);
  }
  std::ranges::nth_element(times, times.begin() + repeats / 2);
  return times[repeats / 2];
}

Expected<Side> runSide(const SourceBuffer &source, const CompileOptions &options, const OpenedDevice &opened,
                       const std::vector<HostTensor> &inputs, bool poison) {
  Side side;
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
  auto results = runPlan(**artifact, *opened.device, inputs, options.dims, walk);
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
  for (const PlanStep &step : (*artifact)->plan.steps)
    side.launches += step.kind == PlanStep::Kind::Launch;
  if (opened.gpu) {
    auto milliseconds = timeOnGpu(**executable, inputs);
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

//===- The table -===//

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

struct Report {
  std::string graph, device;
  bool onGpu;
  DimBindings dims;
  Side eager, fused;
  Difference between;
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
    return out;
  }

  nlohmann::json sideJson(const Side &side) const {
    nlohmann::json json = {{"launches", side.launches},
                           {"modelled_bytes", side.modelled},
                           {"milliseconds", side.milliseconds},
                           {"max_error", finite(side.error.largest)},
                           {"peak_bytes", side.peak}};
    json[flops ? "tflops" : "gbps"] = rate(side);
    if (!onGpu) {
      json["distinct_bytes"] = side.distinct;
      json["issued_bytes"] = side.issued;
    }
    return json;
  }
  static nlohmann::json finite(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json("inf"); }
  std::string json() const {
    return nlohmann::json{{"graph", graph},
                          {"device", device},
                          {"dims", dims},
                          {"useful_bytes", usefulBytes},
                          {"flops", flops},
                          {"eager", sideJson(eager)},
                          {"fused", sideJson(fused)},
                          {"same_bits", between.sameBits},
                          {"max_difference", finite(between.largest)}}
               .dump() +
           "\n";
  }
};

int compare(const Flags &flags) {
  Messages messages(flags.json);
  auto options = compileOptions(flags);
  if (!options)
    return messages.fail(options.errors());
  auto choice = deviceChoice(flags);
  if (!choice)
    return messages.fail(choice.errors());
  auto source = readSource(flags.file);
  if (!source)
    return messages.fail(source.errors());
  LoadedModule loaded(*source);
  if (auto done = load(loaded, *options, messages); !done)
    return messages.fail(done.errors(), &*source);
  auto graph = chooseGraph(*loaded.module, flags.graph);
  if (!graph)
    return messages.fail(graph.errors(), &*source);

  Signature signature = signatureOf(**graph);
  options->graph = signature.name;
  std::vector<std::string> inputNames;
  for (const TensorSpec &spec : signature.inputs)
    inputNames.push_back(spec.name);
  auto words = namedValues("--input", flags.inputs, "input", inputNames);
  if (!words)
    return messages.fail(words.errors());
  DimBindings dims = options->dims;
  auto inputs = makeInputs(signature, *words, true, "minic compare " + flags.file, dims);
  if (!inputs)
    return messages.fail(inputs.errors());
  auto opened = openDevice(*choice, messages, /*countTraffic=*/true);
  if (!opened)
    return messages.fail(opened.errors());

  Report report{.graph = signature.name, .device = opened->model(), .onGpu = opened->gpu != nullptr, .dims = dims};
  for (bool eager : {true, false}) {
    options->eager = eager;
    auto side = runSide(*source, *options, *opened, *inputs, flags.poison);
    if (!side)
      return messages.fail(side.errors(), &*source);
    (eager ? report.eager : report.fused) = std::move(*side);
  }
  auto oracle = evaluateGraph(**graph, *inputs, dims);
  if (!oracle)
    return messages.fail(oracle.errors(), &*source);
  auto model = modelGraph(*source, *options, signature.name, dims);
  if (!model)
    return messages.fail(model.errors(), &*source);
  report.flops = model->flops;
  report.eager.modelled = model->eager.bytes;
  report.fused.modelled = model->fused.bytes;
  for (const std::vector<HostTensor> *tensors : {&*inputs, &report.fused.results})
    for (const HostTensor &tensor : *tensors)
      report.usefulBytes += int64_t(tensor.bytes().size());
  report.eager.error = differ(report.eager.results, *oracle, signature, flags, "eager", "the f64 oracle");
  report.fused.error = differ(report.fused.results, *oracle, signature, flags, "fused", "the f64 oracle");
  report.between = differ(report.fused.results, report.eager.results, signature, flags, "fused", "eager");

  if (auto written = writeOutput({}, flags.json ? report.json() : report.text()); !written)
    return messages.fail(written.errors());
  Diagnostics mismatches;
  for (const Difference *difference : {&report.eager.error, &report.fused.error, &report.between})
    if (!difference->firstBad.empty())
      mismatches.push_back({.code = ErrorCode::Mismatch, .message = difference->firstBad});
  return messages.fail(mismatches);
}

} // namespace

void addCompare(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("compare", "Run a graph eager and fused, and compare results, bytes and time");
  addExecutionFlags(*command, *flags, WithGraph | WithJson);
  command->add_option("--rtol", flags->rtol,
                      "tolerance relative to each element (default by type: f64 1e-10, f32 1e-5, f16 1e-2, bf16 5e-2)");
  command->add_option("--atol", flags->atol,
                      "absolute tolerance (default: f64 1e-12, f32 2e-6, f16 1e-3, bf16 1e-2, times the largest element)");
  command->callback([flags, &chosen] { chosen = [flags] { return compare(*flags); }; });
}

} // namespace minic::cli
