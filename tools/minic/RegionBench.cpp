#include "RegionBench.h"

#include "minic/Artifact/RunPlan.h"
#include "minic/Driver/Driver.h"
#include "minic/Interp/Oracle.h"
#include "minic/Transforms/Analysis/Traffic.h"

#include <algorithm>
#include <cmath>
#include <new>

namespace minic::cli {

//===- Tensors -===//

Expected<std::unique_ptr<RegionBench>> RegionBench::create(const OpenedDevice &opened, const FusedRegion &region,
                                                           std::span<const HostTensor> graphInputs,
                                                           const RegionBenchOptions &options) {
  std::unique_ptr<RegionBench> bench(new RegionBench(opened, region, options));
  CompileOptions &compile = bench->options.compile; // A region's module states target and numerics, and its sizes are bound.
  compile = {.anyStrides = false};
  if (auto done = bench->makeTensors(graphInputs); !done)
    return done.takeErrors();
  return bench;
}

Expected<std::vector<HostTensor>> RegionBench::runOnce(const std::string &text, std::span<const HostTensor> tensors,
                                                       bool eager) const {
  CompileOptions once = options.compile;
  once.eager = eager;
  auto artifact = compileFor(opened, SourceBuffer(region.name, text), once);
  if (!artifact)
    return artifact.takeErrors();
  return runPlan(**artifact, *opened.device, tensors);
}

Expected<void> RegionBench::makeTensors(std::span<const HostTensor> graphInputs) {
  std::vector<HostTensor> computed, operands;
  if (!region.operands.empty()) {
    auto values = runOnce(region.operands, graphInputs, false);
    if (!values)
      return values.takeErrors();
    computed = std::move(*values);
  }
  size_t used = 0;
  for (const std::optional<size_t> &input : region.inputOf)
    operands.push_back(input ? graphInputs[*input] : computed[used++]);
  if (auto done = makeReference(operands); !done)
    return done.takeErrors();

  auto made = Stream::create(opened.device);
  if (!made)
    return made.takeErrors();
  stream = std::move(*made);
  for (const HostTensor &operand : operands) {
    auto buffer = Buffer::upload(stream, operand);
    if (!buffer)
      return buffer.takeErrors();
    inputs.push_back(std::move(*buffer));
  }
  for (const HostTensor &result : reference) {
    auto buffer = Buffer::allocate(stream, result.dtype(), result.shape());
    if (!buffer)
      return buffer.takeErrors();
    results.push_back(std::move(*buffer));
  }
  for (const Buffer &input : inputs)
    inputViews.push_back(input.view());
  for (const Buffer &result : results)
    resultViews.push_back(result.view());
  return stream->synchronize();
}

/// What the oracle does in seconds: it keeps all values of a graph in f64.
static constexpr int64_t maxOracleFlops = int64_t(2) << 30, maxOracleElements = int64_t(1) << 24;

Expected<void> RegionBench::makeReference(const std::vector<HostTensor> &operands) {
  bool exact = region.numerics == "exact";
  if (exact) { // Eager runs give the same bits.
    for (double *tolerance : {&options.tolerance.rtol, &options.tolerance.atol})
      *tolerance = std::max(*tolerance, 0.0);
  }
  Context context;
  auto module = loadModule(context, SourceBuffer(region.name, region.ops), {});
  if (!module)
    return module.takeErrors();
  const Function &graph = *(*module)->functions().front();
  auto flops = matmulFlops(graph, {});
  if (!flops)
    return flops.takeErrors();
  int64_t elements = 0;
  for (const HostTensor &operand : operands)
    elements += operand.numElements();
  bool quick = *flops <= maxOracleFlops && elements <= maxOracleElements && !exact;
  auto values = options.oracle || quick ? evaluateGraph(graph, operands, {}) : runOnce(region.ops, operands, true);
  if (!values)
    return values.takeErrors();
  reference = std::move(*values);
  yardstick = options.oracle || quick ? "the f64 oracle" : "eager";
  return {};
}

//===- Making ready -===//

void RegionBench::start(std::vector<Schedule> list) {
  schedules = std::move(list);
  executables.resize(schedules.size());
  verdicts.resize(schedules.size());
  for (size_t i = 0; i < std::min<size_t>(options.jobs, schedules.size()); ++i)
    workers.emplace_back([this] { work(); });
}

void RegionBench::stop() {
  stopping = true;
  for (std::thread &worker : workers)
    worker.join();
  workers.clear();
}

void RegionBench::work() {
  for (size_t i = next++; i < schedules.size() && !stopping; i = next++) {
    Verdict verdict;
    try {
      verdict = makeReady(i);
    } catch (const std::bad_alloc &) {
      verdict = {Verdict::Refused, "not enough memory"};
    }
    std::lock_guard lock(mutex);
    verdicts[i] = std::move(verdict);
    ready.notify_all();
  }
}

Verdict RegionBench::check(size_t schedule) {
  std::unique_lock lock(mutex);
  ready.wait(lock, [&] { return verdicts[schedule].has_value(); });
  return *verdicts[schedule];
}

/// Errors that no input may cause, and those that a run alone can show, are faults of the compiler.
static Verdict verdictOf(const Diagnostics &errors, bool ran) {
  const Diagnostic &first = errors.front();
  bool limits = first.code == ErrorCode::ResourceLimit || first.code == ErrorCode::OutOfMemory;
  bool fault = first.code == ErrorCode::PassFailed || first.code == ErrorCode::BackendFailed || (ran && !limits);
  std::string why = first.message + " [" + std::string(errorCodeName(first.code)) + "]";
  for (const DiagnosticNote &note : first.notes)
    why += "; " + note.message;
  return {fault ? Verdict::Wrong : Verdict::Refused, why};
}

Expected<std::shared_ptr<Executable>> RegionBench::compile(const Schedule &schedule) const {
  Context context;
  CompileOptions suited = options.compile;
  auto module = loadFor(opened.device.get(), context, SourceBuffer(region.name, region.fused), suited);
  if (!module)
    return module.takeErrors();
  onlyFusion(**module).setAttr("schedule", schedule.toAttr());
  auto artifact = minic::compile(**module, suited);
  if (!artifact)
    return artifact.takeErrors();
  auto executable = Executable::load(std::make_shared<const Artifact>(std::move(*artifact)), opened.device);
  if (!executable)
    return executable.takeErrors();
  if (auto plan = (*executable)->prepare(inputViews, resultViews); !plan) // Assembles the code.
    return plan.takeErrors();
  return executable;
}

Verdict RegionBench::makeReady(size_t schedule) {
  auto executable = compile(schedules[schedule]);
  if (!executable)
    return verdictOf(executable.errors(), false);
  auto values = runPoisoned(**executable);
  if (!values)
    return verdictOf(values.errors(), true);
  Difference difference = differ(*values, reference, region.results, options.tolerance, "this schedule", yardstick);
  if (!difference.firstBad.empty())
    return {Verdict::Wrong, difference.firstBad};
  std::lock_guard lock(mutex);
  executables[schedule] = std::move(*executable);
  return {};
}

Expected<std::vector<HostTensor>> RegionBench::runPoisoned(const Executable &executable) {
  std::lock_guard lock(running);
  for (const Buffer &result : results)
    if (auto done = opened.device->poison(result.memory(), result.bytes(), stream->handle()); !done)
      return done.takeErrors();
  if (auto done = executable.run(*stream, inputViews, resultViews); !done)
    return done.takeErrors();
  std::vector<HostTensor> values;
  for (const Buffer &result : results) {
    auto value = result.download();
    if (!value)
      return value.takeErrors();
    values.push_back(std::move(*value));
  }
  return values;
}

//===- Times -===//

Expected<double> RegionBench::time(size_t schedule) const {
  Subject subject;
  subject.executable = executables[schedule];
  subject.stream = stream;
  subject.inputViews = inputViews;
  subject.resultViews = resultViews;
  if (opened.gpu) {
    auto ms = measureOnce(subject, options.how, {.warmupMs = 0, .repeatMs = 0.1});
    if (!ms)
      return ms.takeErrors();
    return *ms * 1e3;
  }
  auto before = Event::create(opened.device), after = Event::create(opened.device);
  if (!before || !after)
    return before ? after.takeErrors() : before.takeErrors();
  if (auto done = (*before)->record(*stream); !done)
    return done.takeErrors();
  if (auto done = subject.run(); !done)
    return done.takeErrors();
  if (auto done = (*after)->record(*stream); !done)
    return done.takeErrors();
  auto ms = (*after)->msSince(**before);
  if (!ms)
    return ms.takeErrors();
  return *ms * 1e3;
}

} // namespace minic::cli
