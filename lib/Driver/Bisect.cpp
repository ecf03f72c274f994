#include "minic/Driver/Bisect.h"

#include "minic/Artifact/RunPlan.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"
#include "minic/Interp/CpuDevice.h"
#include "minic/Interp/Oracle.h"
#include "minic/Transforms/PassPipeline.h"

#include <algorithm>
#include <map>

namespace minic {
namespace {

/// The module after a pass that changed it.
struct Snapshot {
  static constexpr size_t graph = SIZE_MAX;
  size_t step = graph;
  std::string text;
  bool isInterpreted = false; ///< A plan, which the interpreter runs; else a graph, which the oracle does.
  bool keepsBits = false;     ///< Those of the stage before.
};

/// What a stage gives, or why it gives nothing.
struct Outcome {
  std::vector<HostTensor> results;
  std::string fault;
};

class Bisection {
public:
  Bisection(const SourceBuffer &source, std::span<const PassStep> steps, const BisectOptions &options)
      : source(source), steps(steps), options(options) {}

  Expected<std::optional<WrongPass>> run() {
    if (auto done = lower(); !done)
      return done.takeErrors();
    if (auto done = evaluate(0); !done)
      return done.takeErrors();
    // A stretch begins where bits may change.
    for (size_t begin = 0, end; begin < stages.size(); begin = end) {
      for (end = begin + 1; end < stages.size() && (stages[end].keepsBits || !stages[end].isInterpreted);)
        ++end;
      stretch = begin;
      size_t good = begin, bad = end - 1;
      if (begin > 0) {
        auto wrong = isWrong(begin);
        if (!wrong)
          return wrong.takeErrors();
        if (*wrong)
          return judge(begin);
      }
      auto wrong = bad > good ? isWrong(bad) : Expected<bool>(false);
      if (!wrong)
        return wrong.takeErrors();
      if (!*wrong)
        continue;
      while (bad - good > 1) {
        size_t middle = good + (bad - good) / 2;
        auto wrong = isWrong(middle);
        if (!wrong)
          return wrong.takeErrors();
        (*wrong ? bad : good) = middle;
      }
      return judge(bad);
    }
    if (failed)
      return std::optional(*failed);
    return std::optional<WrongPass>();
  }

private:
  //===- Stages -===//

  /// Makes the inputs and the texts of all stages.
  Expected<void> lower() {
    Context context;
    CompileOptions compile = options.compile;
    compile.passes = {};
    auto loaded = loadModule(context, source, compile);
    if (!loaded)
      return loaded.takeErrors();
    Module &module = **loaded;
    auto graph = chooseGraph(module, compile.graph);
    if (!graph)
      return graph.takeErrors();
    name = (*graph)->name;
    results = (*graph)->resultNames;
    if (auto kept = keepOnly(module, name); !kept)
      return kept.takeErrors();
    dims = compile.dims;
    auto made = options.makeInputs(**graph, dims);
    if (!made)
      return made.takeErrors();
    inputs = std::move(*made);
    if (auto bound = lowerTo(module, Stage::Graph, compile); !bound)
      return bound.takeErrors();
    stages.push_back({.text = printModule(module)});

    auto target = findTarget(module.target);
    if (!target)
      return target.takeErrors();
    PassContext pass{.module = module,
                     .target = **target,
                     .eager = compile.eager,
                     .schedules = scheduleLookup(compile),
                     .matmul = compile.matmul};
    PassManagerOptions watch{.hooks = levelHooks()};
    watch.afterPass = [&](const Pass &, Module &) { keep(module, *pass.step); };
    auto done = runPasses(module, steps, pass, watch);
    if (done)
      return {};
    if (done.errors().front().code != ErrorCode::PassFailed)
      return done.takeErrors();
    const Diagnostic &error = done.errors().front();
    size_t step = size_t(pass.step - steps.data());
    if (stages.back().step == step) // What does not verify is not run.
      stages.pop_back();
    failed = describe(step, stages.size() - 1);
    failed->how = error.message + (error.notes.empty() ? "" : ": " + error.notes.front().message);
    return {};
  }

  void keep(const Module &module, const PassStep &step) {
    std::string text = printModule(module);
    if (text == stages.back().text)
      return;
    bool interpreted = std::ranges::any_of(module.functions(), [&](const Function *function) {
      return function->name == name && function->kind == FunctionKind::Plan;
    });
    bool keepsBits = stages.back().isInterpreted && (step.pass->keepsBits || module.numerics == "exact");
    stages.push_back({size_t(&step - steps.data()), std::move(text), interpreted, keepsBits});
  }

  /// Runs a stage, if it was not run before.
  Expected<void> evaluate(size_t stage) {
    if (outcomes.contains(stage))
      return {};
    options.onProgress("running " + stageName(stage));
    Context context;
    auto module = parseModule(context, SourceBuffer(stageName(stage), stages[stage].text));
    if (!module)
      return module.takeErrors();
    auto results = stages[stage].isInterpreted ? interpret(**module) : evaluateGraph(*(*module)->find(name), inputs, dims);
    if (!results && stage == 0)
      return results.takeErrors();
    Outcome &outcome = outcomes[stage];
    if (results)
      outcome.results = std::move(*results);
    else
      outcome.fault = results.errors().front().message + " [" + std::string(errorCodeName(results.errors().front().code)) + "]";
    return {};
  }

  Expected<std::vector<HostTensor>> interpret(Module &module) {
    auto artifact = makeArtifact(module, {.graph = name}, false);
    if (!artifact)
      return artifact.takeErrors();
    CpuDevice device(module);
    return runPlan(*artifact, device, inputs, options.compile.dims, {.poison = true});
  }

  //===- What is wrong -===//

  Expected<bool> isWrong(size_t stage) {
    if (auto done = evaluate(stage); !done)
      return done.takeErrors();
    return judge(stage).has_value();
  }

  /// What is wrong with the stage; nothing if it gives what it should.
  std::optional<WrongPass> judge(size_t stage) {
    WrongPass wrong = describe(stages[stage].step, stage - 1);
    const Outcome &outcome = outcomes.at(stage);
    wrong.how = outcome.fault;
    if (!wrong.how.empty())
      return wrong;
    auto take = [&](const Difference &difference) {
      wrong.how = difference.firstBad;
      wrong.elements = difference.beyond;
      wrong.largest = difference.largest;
    };
    take(differ(outcome.results, outcomes.at(0).results, results, options.tolerance, stageName(stage), "the f64 oracle"));
    if (wrong.how.empty() && stage > stretch && stages[stage].isInterpreted)
      take(differ(outcome.results, outcomes.at(stretch).results, results, {0, 0}, stageName(stage),
                  stageName(stretch) + ", whose bits it keeps,"));
    return wrong.how.empty() ? std::nullopt : std::optional(wrong);
  }

  WrongPass describe(size_t step, size_t before) const {
    return {.step = step, .name = nameOfStep(steps, step), .before = stageName(before)};
  }
  std::string stageName(size_t stage) const {
    return stages[stage].step == Snapshot::graph ? "the graph" : nameOfStep(steps, stages[stage].step);
  }

  const SourceBuffer &source;
  std::span<const PassStep> steps;
  const BisectOptions &options;
  std::string name; ///< Of the graph.
  std::vector<std::string> results;
  DimBindings dims;
  std::vector<HostTensor> inputs;
  std::vector<Snapshot> stages;
  size_t stretch = 0;                 ///< The stage that the one at hand shall have the bits of.
  std::map<size_t, Outcome> outcomes; ///< Of stages that were run.
  std::optional<WrongPass> failed;    ///< A pass that fails the verifier.
};

} // namespace

Expected<std::optional<WrongPass>> findWrongPass(const SourceBuffer &source, std::span<const PassStep> steps,
                                                 const BisectOptions &options) {
  return Bisection(source, steps, options).run();
}

Expected<std::string> reduceToWrongPass(const SourceBuffer &source, std::span<const PassStep> steps, const WrongPass &wrong,
                                        const BisectOptions &options, const ReduceOptions &reduce) {
  BisectOptions quiet = options;
  quiet.onProgress = [](const std::string &) {};
  auto isInteresting = [&](const std::string &text) {
    auto found = findWrongPass(SourceBuffer("candidate", text), steps, quiet);
    return found && *found && (*found)->step == wrong.step;
  };
  return reduceModule(source, isInteresting, reduce);
}

} // namespace minic
