// minic bench: times of a graph on a GPU, eager and fused, after their results have been checked.
#include "Difference.h"
#include "Execution.h"
#include "Measure.h"
#include "Model.h"
#include "Plot.h"

#include "minic/Artifact/RunPlan.h"
#include "minic/Artifact/TracedDevice.h"
#include "minic/CodeGen/CodeGen.h"
#include "minic/Interp/Oracle.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <chrono>
#include <cmath>

namespace minic::cli {
namespace {

struct Flags : ExecutionFlags {
  ToleranceFlags tolerance;
  MeasureOptions measure;
  std::string sweep, plot;
  bool csv = false, oracle = false;
};

/// What is measured of one way of running the graph at one shape.
struct Row {
  std::string name;
  double compileMs = 0, firstCallMs = 0;
  std::array<double, numHows> ms{};
  double error = 0;
};

struct Point {
  DimBindings dims;
  std::vector<Row> rows; ///< Eager, fused.
  std::string checkedAgainst;
  int64_t requiredBytes = 0; ///< Inputs once and outputs once.
  int64_t flops = 0;         ///< Of matmuls.
  double limitUs = 0;        ///< Of the fused kernels, as `minic cost` has it.

  std::string label() const {
    std::string text;
    for (const auto &[name, value] : dims)
      text += (text.empty() ? "" : ", ") + name + "=" + std::to_string(value);
    return text.empty() ? "fixed sizes" : text;
  }
  double gbps(const Row &row) const { return double(requiredBytes) / row.ms[size_t(How::Cold)] * 1e-6; }
  double tflops(const Row &row) const { return double(flops) / row.ms[size_t(How::Cold)] * 1e-9; }
};

/// `N=256,512`: the points of a sweep; one without values is what --dim says.
Expected<std::vector<DimBindings>> sweepPoints(const std::string &sweep, const DimBindings &dims) {
  if (sweep.empty())
    return std::vector{dims};
  auto pair = splitPair("--sweep", sweep);
  if (!pair)
    return pair.takeErrors();
  std::vector<DimBindings> points;
  const std::string &list = pair->second;
  for (size_t start = 0, end; start <= list.size(); start = end + 1) {
    end = std::min(list.find(',', start), list.size());
    int64_t value = 0;
    auto [rest, error] = std::from_chars(list.data() + start, list.data() + end, value);
    if (error != std::errc() || rest != list.data() + end || value < 0)
      return badFlag("--sweep takes sizes, not '" + list.substr(start, end - start) + "'", "write --sweep N=256,512,1024");
    points.push_back(dims);
    points.back()[pair->first] = value;
  }
  return points;
}

/// The f64 oracle takes seconds for 10^10 operations of a matmul.
constexpr int64_t maxOracleFlops = int64_t(2) << 30;

/// Fills `point.rows[...].error`; an error if results differ by more than the tolerance.
Expected<void> check(Point &point, const std::vector<std::vector<HostTensor>> &results, const Flags &flags, Function &graph,
                     const std::vector<HostTensor> &inputs) {
  const std::vector<HostTensor> *reference = &results[0];
  std::vector<HostTensor> computed;
  point.checkedAgainst = "eager";
  if (flags.oracle || point.flops <= maxOracleFlops) {
    auto oracle = evaluateGraph(graph, inputs, point.dims);
    if (!oracle)
      return oracle.takeErrors();
    computed = std::move(*oracle);
    reference = &computed;
    point.checkedAgainst = "the f64 oracle";
  }
  Diagnostics mismatches;
  for (size_t i = 0; i < results.size(); ++i) {
    Difference difference =
        differ(results[i], *reference, graph.resultNames, flags.tolerance, point.rows[i].name, point.checkedAgainst);
    point.rows[i].error = difference.largest;
    if (!difference.firstBad.empty())
      mismatches.push_back({.code = ErrorCode::Mismatch, .message = difference.firstBad});
  }
  if (!mismatches.empty())
    return mismatches;
  return {};
}

Expected<Point> benchPoint(const Flags &flags, const SourceBuffer &source, CompileOptions options, const OpenedDevice &opened,
                           const std::map<std::string, std::string> &words, Function &graph) {
  Point point;
  Signature signature = signatureOf(graph);
  DimBindings dims = options.dims;
  auto inputs = makeInputs(signature, words, true, "minic bench " + flags.file, dims);
  if (!inputs)
    return inputs.takeErrors();
  options.dims = dims; // Whatever named them: a size that is known is compiled in.
  point.dims = dims;
  auto model = modelGraph(source, options, signature.name, dims);
  if (!model)
    return model.takeErrors();
  point.flops = model->flops;
  for (const OpTraffic &launch : model->fused.ops)
    point.limitUs += limitOf(launch, *model->rates).us();

  std::vector<Subject> subjects;
  std::vector<std::vector<HostTensor>> results;
  for (bool eager : {true, false}) {
    Row row{.name = eager ? "eager" : "fused"};
    Trace::Span span(options.trace.get(), row.name);
    options.eager = eager;
    auto start = std::chrono::steady_clock::now();
    CompileOptions own = options;
    if (eager)
      own.overrides.clear(); // They are for the fused kernels.
    auto artifact = compileFor(opened, source, own);
    if (!artifact)
      return artifact.takeErrors();
    row.compileMs = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    auto executable = Executable::load(*artifact, opened.device);
    if (!executable)
      return executable.takeErrors();
    auto subject = Subject::create(row.name, *executable, *inputs);
    if (!subject)
      return subject.takeErrors();
    row.firstCallMs = subject->firstCallMs;
    // Once more into memory that is wrong everywhere.
    for (const Buffer &result : subject->results)
      if (auto done = opened.device->poison(result.memory(), result.bytes(), subject->stream->handle()); !done)
        return done.takeErrors();
    if (auto done = subject->run(); !done)
      return done.takeErrors();
    results.emplace_back();
    for (const Buffer &result : subject->results) {
      auto tensor = result.download();
      if (!tensor)
        return tensor.takeErrors();
      results.back().push_back(std::move(*tensor));
    }
    point.rows.push_back(std::move(row));
    subjects.push_back(std::move(*subject));
  }
  for (const std::vector<HostTensor> *tensors : {&*inputs, &results[0]})
    for (const HostTensor &tensor : *tensors)
      point.requiredBytes += int64_t(tensor.bytes().size());
  if (auto checked = check(point, results, flags, graph, *inputs); !checked)
    return checked.takeErrors();
  auto times = [&] {
    Trace::Span span(options.trace.get(), "measure");
    return measure(subjects, flags.measure);
  }();
  if (!times)
    return times.takeErrors();
  for (const Subject &subject : subjects) // A run apart: what is measured is not watched.
    if (options.trace)
      if (auto run = runPlan(subject.executable->artifact(), *traced(opened.device, options.trace.get()), *inputs); !run)
        return run.takeErrors();
  for (size_t i = 0; i < times->size(); ++i)
    point.rows[i].ms = (*times)[i];
  return point;
}

//===- Reports -===//

struct Report {
  std::string graph, numerics;
  const CudaDevice &gpu;
  const std::vector<Point> &points;

  std::string driver() const {
    int version = gpu.client().driverVersion();
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  std::string text() const {
    const GpuProperties &p = gpu.properties();
    std::string out = graph + " on " + p.model + " (compute capability " + std::to_string(p.computeCapability / 10) + "." +
                      std::to_string(p.computeCapability % 10) + ", at most " + std::to_string(p.clockKHz / 1000) +
                      " MHz), CUDA driver " + driver() + ", minic " MINIC_VERSION ", LLVM " + llvmVersion() + ", numerics " +
                      numerics + "\n";
    for (const Point &point : points) {
      out += "\n" + point.label() + "; results checked against " + point.checkedAgainst + "\n";
      const Row &eager = point.rows[0], &fused = point.rows[1];
      auto line = [&](const char *title, double a, double b, bool ratio) {
        char text[120];
        std::snprintf(text, sizeof text, "  %-36s %12s %12s %10s\n", title, number(a).c_str(), number(b).c_str(),
                      ratio && b > 0 ? number(a / b).c_str() : "");
        out += std::string(text, std::string_view(text).find_last_not_of(" \n") + 1) + "\n";
      };
      char header[120];
      std::snprintf(header, sizeof header, "  %-36s %12s %12s %10s\n", "", "eager", "fused", "ratio");
      out += header;
      static constexpr const char *titles[numHows] = {"device, cold L2, us", "device, warm L2, us", "device, in a CUDA graph, us",
                                                      "host, call alone, us", "host, call and wait, us"};
      for (size_t how = 0; how < numHows; ++how)
        line(titles[how], eager.ms[how] * 1e3, fused.ms[how] * 1e3, true);
      line("host, first call and wait, us", eager.firstCallMs * 1e3, fused.firstCallMs * 1e3, true);
      line("compile, ms", eager.compileMs, fused.compileMs, false);
      line("required GB/s, cold L2", point.gbps(eager), point.gbps(fused), false);
      if (point.flops)
        line("TFLOP/s, cold L2", point.tflops(eager), point.tflops(fused), false);
      line("max error", eager.error, fused.error, false);
      double graphUs = fused.ms[size_t(How::Graph)] * 1e3;
      out += "  the fused kernels take " + number(point.limitUs) +
             " us at the limits of the target (minic cost): " + number(100 * point.limitUs / graphUs) +
             " % of the limit are reached in a CUDA graph" +
             (graphUs < point.limitUs ? ", where data stays in the L2 cache\n" : "\n");
    }
    return out;
  }

  nlohmann::json json() const {
    const GpuProperties &p = gpu.properties();
    nlohmann::json list = nlohmann::json::array();
    for (const Point &point : points)
      for (const Row &row : point.rows) {
        list.push_back({{"graph", graph},
                        {"dims", point.dims},
                        {"mode", row.name},
                        {"cold_ms", row.ms[size_t(How::Cold)]},
                        {"warm_ms", row.ms[size_t(How::Warm)]},
                        {"graph_ms", row.ms[size_t(How::Graph)]},
                        {"call_ms", row.ms[size_t(How::Call)]},
                        {"wait_ms", row.ms[size_t(How::Wait)]},
                        {"first_call_ms", row.firstCallMs},
                        {"compile_ms", row.compileMs},
                        {"required_bytes", point.requiredBytes},
                        {"fused_limit_us", point.limitUs},
                        {"gbps", point.gbps(row)},
                        {"max_error", errorJson(row.error)},
                        {"checked_against", point.checkedAgainst}});
        if (point.flops)
          list.back()["tflops"] = point.tflops(row);
      }
    return {{"machine",
             {{"gpu", p.model},
              {"compute_capability", p.computeCapability},
              {"clock_khz", p.clockKHz},
              {"memory_clock_khz", p.memoryClockKHz},
              {"cuda_driver", driver()},
              {"minic", MINIC_VERSION},
              {"llvm", llvmVersion()},
              {"numerics", numerics}}},
            {"rows", list}};
  }

  /// The rows of `json`, dims as one column.
  std::string csv() const {
    static constexpr const char *columns[] = {"mode",    "cold_ms",       "warm_ms",    "graph_ms", "call_ms",
                                              "wait_ms", "first_call_ms", "compile_ms", "gbps",     "max_error"};
    std::string out = "graph,dims";
    for (const char *column : columns)
      out += std::string(",") + column;
    out += "\n";
    nlohmann::json all = json();
    size_t i = 0;
    for (const Point &point : points)
      for (size_t row = 0; row < point.rows.size(); ++row, ++i) {
        out += graph + ",\"" + point.label() + "\"";
        for (const char *column : columns) {
          const nlohmann::json &value = all["rows"][i][column];
          out += "," + (value.is_string() ? value.get<std::string>() : value.dump());
        }
        out += "\n";
      }
    return out;
  }

  std::string plot() const {
    bool flops = points[0].flops > 0;
    BarPlot bars{.title = graph + " on " + gpu.properties().model,
                 .axis = flops ? "TFLOP/s, cold L2" : "GB/s of required bytes, cold L2",
                 .series = {"eager", "fused"},
                 .values = std::vector<std::vector<double>>(2)};
    for (const Point &point : points) {
      bars.groups.push_back(point.label());
      for (size_t row = 0; row < 2; ++row)
        bars.values[row].push_back(flops ? point.tflops(point.rows[row]) : point.gbps(point.rows[row]));
    }
    return renderSvg(bars);
  }
};

int bench(const Flags &flags) {
  Messages messages(flags.json);
  if (flags.measure.rounds < 1 || flags.measure.warmupMs < 0 || flags.measure.repeatMs < 0)
    return messages.fail({badFlag("--rounds must be at least 1, --warmup and --repeat at least 0 ms")});
  GraphToRun begun;
  if (auto code = beginWithGraph(flags, messages, begun))
    return *code;
  CompileOptions &options = begun.options;
  const SourceBuffer &source = begun.source;
  auto points = sweepPoints(flags.sweep, options.dims);
  if (!points)
    return messages.fail(points.errors());
  auto opened = openDevice(begun.choice, begun.options.cache, messages);
  if (!opened)
    return messages.fail(opened.errors());
  if (!opened->gpu)
    return messages.fail({Diagnostic{.code = ErrorCode::NoDevice,
                                     .message = "bench measures a GPU, and an interpreter's times say nothing",
                                     .fix = "minic compare counts launches and bytes without a GPU"}});

  std::vector<Point> measured;
  for (const DimBindings &dims : *points) {
    options.dims = dims;
    auto point = benchPoint(flags, source, options, *opened, begun.words, *begun.graph);
    if (!point)
      return messages.fail(point.errors(), &source);
    measured.push_back(std::move(*point));
  }
  noteUnusedSchedules(options, messages);
  Report report{begun.signature.name, begun.module->numerics, *opened->gpu, measured};
  if (!flags.plot.empty())
    if (auto written = writeOutput(flags.plot, report.plot()); !written)
      return messages.fail(written.errors());
  std::string out = flags.json ? report.json().dump() + "\n" : flags.csv ? report.csv() : report.text();
  if (auto written = writeOutput({}, out); !written)
    return messages.fail(written.errors());
  return finish(Fine, flags, messages);
}

} // namespace

void addBench(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("bench", "Time a graph on a GPU, eager and fused, after checking the results");
  addExecutionFlags(*command, *flags, WithGraph | WithJson | WithSchedules | WithCache | WithLineInfo | WithOverrides | WithTrace);
  command->add_option("--sweep", flags->sweep, "NAME=256,512,1024: one point for each size");
  command->add_option("--rounds", flags->measure.rounds, "rounds in which everything runs in random order")->capture_default_str();
  command->add_option("--warmup", flags->measure.warmupMs, "milliseconds of warming up before each measurement")
      ->capture_default_str();
  command->add_option("--repeat", flags->measure.repeatMs, "milliseconds of each measurement")->capture_default_str();
  command->add_option("--seed", flags->measure.seed, "of the order in each round")->capture_default_str();
  command->add_flag("--csv", flags->csv, "print comma-separated values");
  command->add_option("--plot", flags->plot, "write a bar chart as SVG to this file");
  command->add_flag("--oracle", flags->oracle,
                    "check against f64 even where that takes long (large matmuls are checked against eager)");
  addToleranceFlags(*command, flags->tolerance);
  command->callback([flags, &chosen] { chosen = [flags] { return bench(*flags); }; });
}

} // namespace minic::cli
