#include "minic/Compiler/Compiler.h"

#include "minic/Compiler/CompileCache.h"

#include "BindDims.h"
#include "minic/Artifact/ArtifactFile.h"
#include "minic/CodeGen/CodeGen.h"
#include "minic/IR/LibraryCall.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"
#include "minic/IR/ScalarEval.h"
#include "minic/Support/HostTensor.h"
#include "minic/Transforms/Analysis/Padding.h"
#include "minic/Transforms/PassPipeline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

namespace minic {

LevelHooks levelHooks() { return {.masked = verifyMasked}; }

namespace {

/// Adds the time until its end to the timings, as a pass would have it, and to the trace.
class PhaseTimer {
public:
  PhaseTimer(const CompileOptions &options, const char *name)
      : timings(options.passes.timings), name(name), span(options.trace.get(), name) {}
  PhaseTimer(const PhaseTimer &) = delete;
  PhaseTimer &operator=(const PhaseTimer &) = delete;
  ~PhaseTimer() {
    if (timings)
      timings->push_back({name, std::chrono::duration<double, std::milli>(Clock::now() - start).count()});
  }

private:
  using Clock = std::chrono::steady_clock;
  std::vector<PassTiming> *timings;
  const char *name;
  Trace::Span span;
  Clock::time_point start = Clock::now();
};

/// Lets the hooks tell the trace of each pass, and of the verifier's look at what it made.
class PassSpans {
public:
  PassSpans(Trace *trace, PassManagerOptions &options) : trace(trace) {
    if (!trace)
      return;
    options.beforePass = [this, before = options.beforePass](const Pass &pass, Module &module) {
      span.reset();
      if (before)
        before(pass, module);
      span.emplace(this->trace, std::string(pass.name));
    };
    options.afterPass = [this, after = options.afterPass](const Pass &pass, Module &module) {
      span.reset();
      if (after)
        after(pass, module);
      span.emplace(this->trace, "(verify)");
    };
  }

private:
  Trace *trace;
  std::optional<Trace::Span> span; ///< Of what runs.
};

} // namespace

//===- Loading -===//

/// The value of a header key: the flag's, the file's, or the default; both and different is a contradiction.
static std::optional<Diagnostic> settle(std::string_view key, std::string &value, bool stated, const std::string &flag) {
  if (flag.empty())
    return std::nullopt;
  if (stated && value != flag)
    return Diagnostic{.code = ErrorCode::BadFlag,
                      .message = "the file says " + std::string(key) + " = " + value + ", the flag says " + flag,
                      .fix = "drop the flag, or change the file's module line"};
  value = flag;
  return std::nullopt;
}

Expected<std::unique_ptr<Module>> loadModule(Context &context, const SourceBuffer &source, const CompileOptions &options,
                                             Diagnostics *warnings) {
  if (isArtifact(source.text()))
    return Diagnostic{.code = ErrorCode::NothingToCompile,
                      .message = "'" + source.name() + "' is an artifact, which is compiled already",
                      .fix = "give the graph that it was compiled from; `minic run` and `minic inspect` take artifacts"};
  auto parse = [&] {
    PhaseTimer timer(options, "(parse)");
    return parseModule(context, source);
  };
  auto module = parse();
  if (!module)
    return module.takeErrors();
  Module &m = **module;
  if (auto error = settle("target", m.target, m.targetStated, options.target))
    return *error;
  if (auto error = settle("numerics", m.numerics, m.numericsStated, options.numerics))
    return *error;
  if (!options.pipeline.empty() && !m.lastPass.empty() && m.passes != options.pipeline)
    return Diagnostic{.code = ErrorCode::BadFlag,
                      .message = "the file stands after '" + m.lastPass + "' of " +
                                 (m.passes.empty() ? "the usual list of passes" : "a list of its own") +
                                 ", and --passes is another list",
                      .fix = "drop --passes to go on, or `after` from the file's module line to run the list from its start"};
  if (auto error = settle("passes", m.passes, !m.passes.empty(), options.pipeline))
    return *error;
  if (m.numerics != "exact" && m.numerics != "default" && m.numerics != "fast")
    return Diagnostic{
        .code = ErrorCode::BadFlag, .message = "unknown numerics '" + m.numerics + "'", .fix = "use exact, default or fast"};
  if (auto target = findTarget(m.target); !target)
    return target.takeErrors();
  PhaseTimer timer(options, "(verify)");
  Diagnostics findings = verify(m, levelHooks());
  if (hasErrors(findings))
    return findings;
  if (warnings)
    *warnings = std::move(findings);
  return module;
}

//===- Lowering -===//

ScheduleLookup scheduleLookup(const CompileOptions &options) {
  ScheduleLookup lookup{.device = options.tunedFor};
  if (options.schedules)
    lookup.tables.push_back(options.schedules.get());
  if (options.shippedToo && !options.tunedFor.empty())
    lookup.tables.push_back(&shippedSchedules());
  return lookup;
}

Expected<void> lowerTo(Module &module, Stage stage, const CompileOptions &options, std::string *failedInput) {
  auto target = findTarget(module.target);
  if (!target)
    return target.takeErrors();
  auto pipeline = pipelineFor(module, stage, options);
  if (!pipeline)
    return pipeline.takeErrors();
  if (auto bound = bindDimNames(module, options.dims); !bound)
    return bound.takeErrors();
  if (!options.specializations.empty()) {
    if (!module.lastPass.empty())
      return Diagnostic{.code = ErrorCode::BadFlag,
                        .message =
                            "the file stands after '" + module.lastPass + "', and special sizes are for a graph before any pass",
                        .fix = "give --specialize where it is compiled from the graph"};
    auto graph = chooseFunction(module, options.graph);
    if (!graph)
      return graph.takeErrors();
    if ((*graph)->kind != FunctionKind::Graph)
      return Diagnostic{.code = ErrorCode::NothingToCompile,
                        .message = "@" + (*graph)->name + " is a plan, and a graph is compiled for special sizes"};
    if (auto done = specialize(**graph, options.specializations); !done)
      return done.takeErrors();
  }
  for (Function *function : module.functions())
    if (function->kind == FunctionKind::Graph)
      if (auto done = applyFacts(*function); !done)
        return done.takeErrors();
  if (options.matmul == MatmulProvider::CublasLt && module.numerics == "exact")
    return Diagnostic{.code = ErrorCode::BadFlag,
                      .message = "cuBLASLt adds in an order of its own, and exact numerics fix the order",
                      .fix = "drop --matmul=cublaslt, or take default numerics"};
  PassContext context{module,
                      **target,
                      options.eager,
                      scheduleLookup(options),
                      options.matmul,
                      options.scheduleReport.get(),
                      options.fusionReport.get()};
  PassManagerOptions managerOptions = options.passes;
  managerOptions.hooks = levelHooks();
  Trace::Span all(options.trace.get(), "lower to " + std::string(stageName(stage)));
  PassSpans spans(options.trace.get(), managerOptions);
  if (auto done = runPasses(module, pipeline->left(), context, managerOptions, failedInput); !done)
    return done.takeErrors();
  bool saysWhere = !module.passes.empty() || !module.lastPass.empty() || !options.stopAfter.empty();
  if (saysWhere && pipeline->end > 0)
    module.lastPass = nameOfStep(pipeline->all, pipeline->end - 1);
  return {};
}

/// The level at which kernels stand once a stage is reached.
static std::optional<Level> levelOf(Stage stage) {
  switch (stage) {
  case Stage::Graph:
    return Level::Graph;
  case Stage::Fused:
    return Level::Fused;
  case Stage::Tile:
    return Level::Tile;
  case Stage::Masked:
    return Level::Masked;
  default:
    return Level::Machine;
  }
}

/// What a list of the user's own, or a text that was changed, leaves above a stage.
static std::optional<Diagnostic> notReached(const Module &module, Stage stage) {
  for (const Function *function : module.functions())
    if (function->kind != FunctionKind::Custom && function->level < *levelOf(stage))
      return Diagnostic{.code = ErrorCode::NothingToCompile,
                        .message = "the list of passes leaves @" + function->name + " at the " +
                                   std::string(levelName(function->level)) + " level, and the " + std::string(stageName(stage)) +
                                   " level is asked for",
                        .fix = "add the passes that lead there: minic doc passes"};
  return std::nullopt;
}

Expected<std::string> emitStage(Module &module, Stage stage, const CompileOptions &options) {
  if (module.functions().empty())
    return Diagnostic{
        .code = ErrorCode::NothingToCompile, .message = "the file has no functions", .fix = "write a `graph @name(...)`"};
  bool any = false;
  for (Function *function : module.functions())
    any |= function->level == Level::Plan ? stage == Stage::Plan : function->level <= *levelOf(stage);
  if (!any)
    return Diagnostic{.code = ErrorCode::NothingToCompile,
                      .message = "everything in the file stands below the " + std::string(stageName(stage)) + " level already"};
  if (auto lowered = lowerTo(module, std::min(stage, Stage::Plan), options); !lowered)
    return lowered.takeErrors();
  if (auto error = options.stopAfter.empty() ? notReached(module, stage) : std::nullopt)
    return *error;
  PhaseTimer timer(options, stage <= Stage::Plan ? "(print)" : "(generate code)");
  if (stage <= Stage::Plan)
    return printModule(module);
  auto target = findTarget(module.target);
  if (stage == Stage::Llvm)
    return emitLLVM(module, **target, true, options.lineSource());
  return emitPtx(module, **target, options.lineSource());
}

//===- Artifacts -===//

namespace {

/// Flattens a plan function into data.
class PlanFlattener {
public:
  PlanFlattener(const Function &function, const std::map<std::string, int> &kernels, std::vector<std::vector<std::byte>> &constants)
      : function(function), kernels(kernels), constants(constants) {}

  Expected<Plan> run() {
    plan.facts = function.facts;
    for (Value *param : function.params())
      plan.inputs.push_back(plan.buffers[size_t(addBuffer(param))].spec);
    for (Operation &op : function.body())
      if (auto error = flatten(op))
        return *error;
    return std::move(plan);
  }

private:
  int addBuffer(Value *value) {
    int slot = int(plan.buffers.size());
    plan.buffers.push_back({{value->name(), value->type().dtype(), value->type().shape(), value->type().isStrided()}});
    slotOf[value] = slot;
    return slot;
  }

  std::optional<Diagnostic> flatten(Operation &op) {
    PlanStep step;
    for (Value *operand : op.operands())
      step.operands.push_back(slotOf.at(operand));
    switch (op.kind()) {
    case OpKind::Alloc:
      step.kind = PlanStep::Kind::Alloc;
      break;
    case OpKind::View:
    case OpKind::TensorMap: // The kernel's parameter says how it sees the memory.
      step.kind = PlanStep::Kind::View;
      break;
    case OpKind::Copy:
      step.kind = PlanStep::Kind::Copy;
      break;
    case OpKind::Constant:
      step.kind = PlanStep::Kind::Constant;
      if (auto error = addConstant(op, step.constant))
        return error;
      break;
    case OpKind::Launch:
      step.kind = PlanStep::Kind::Launch;
      step.kernel = kernels.at(op.attr("kernel")->asSymbol()->name);
      step.grid = op.dimsAttr("grid");
      break;
    case OpKind::LibraryCall:
      step.kind = PlanStep::Kind::LibraryCall;
      step.matmul = matmulCallOf(op);
      break;
    default: // return
      for (unsigned i = 0; i < op.numOperands(); ++i) {
        plan.resultBuffers.push_back(slotOf.at(op.operand(i)));
        TensorSpec spec = plan.buffers[size_t(plan.resultBuffers.back())].spec;
        spec.name = function.resultNames[i];
        plan.results.push_back(std::move(spec));
      }
      return std::nullopt;
    }
    if (op.numResults())
      step.result = addBuffer(op.result());
    plan.steps.push_back(std::move(step));
    return std::nullopt;
  }

  static void flattenNumbers(const Attribute &attribute, DType dtype, std::vector<Scalar> &numbers) {
    if (const AttributeList *list = attribute.asList())
      for (const Attribute &element : *list)
        flattenNumbers(element, dtype, numbers);
    else
      numbers.push_back(Scalar::of(attribute, dtype));
  }

  /// Plans that stand behind others have the same constants.
  std::optional<Diagnostic> addConstant(Operation &op, int &number) {
    std::vector<std::byte> data;
    if (auto error = constantData(op, data))
      return error;
    auto known = std::ranges::find(constants, data);
    number = int(known - constants.begin());
    if (known == constants.end())
      constants.push_back(std::move(data));
    return std::nullopt;
  }

  static std::optional<Diagnostic> constantData(Operation &op, std::vector<std::byte> &data) {
    Type type = op.result()->type();
    std::vector<int64_t> shape;
    for (const DimExpr &dim : type.shape()) {
      if (!dim.isConstant())
        return Diagnostic{
            .code = ErrorCode::UnboundDim, .message = "a constant buffer needs sizes that are numbers", .loc = op.loc()};
      shape.push_back(*dim.constant());
    }
    std::vector<Scalar> numbers;
    flattenNumbers(*op.attr("value"), type.dtype(), numbers);
    HostTensor tensor(type.dtype(), shape);
    if (numbers.size() == 1)
      numbers.assign(size_t(tensor.numElements()), numbers[0]);
    size_t bytes = size_t(dtypeBytes(type.dtype()));
    for (size_t i = 0; i < size_t(tensor.numElements()); ++i)
      std::memcpy(tensor.bytes().data() + i * bytes, &numbers[i].bits, bytes); // Little-endian: the low bytes.
    data.assign(tensor.bytes().begin(), tensor.bytes().end());
    return std::nullopt;
  }

  const Function &function;
  const std::map<std::string, int> &kernels;
  std::vector<std::vector<std::byte>> &constants;
  Plan plan;
  std::map<Value *, int> slotOf; // Looked up only.
};

} // namespace

Expected<Artifact> makeArtifact(Module &module, const CompileOptions &options, bool withCode) {
  auto first = chooseFunction(module, options.graph);
  if (!first)
    return first.takeErrors();
  if ((*first)->kind != FunctionKind::Plan)
    return Diagnostic{.code = ErrorCode::UnknownFunction, .message = "there is no plan to run"};

  Artifact artifact;
  artifact.target = module.target;
  artifact.numerics = module.numerics;
  if (withCode) {
    PhaseTimer timer(options, "(generate code)");
    auto target = findTarget(module.target);
    auto kernels = emitKernels(module, **target, {options.lineSource(), options.overrides, options.trace.get()});
    if (!kernels)
      return kernels.takeErrors();
    artifact.kernels = std::move(*kernels);
  } else {
    artifact.kernels = describeKernels(module);
  }
  std::map<std::string, int> kernelIndex;
  for (size_t i = 0; i < artifact.kernels.size(); ++i)
    kernelIndex[artifact.kernels[i].name] = int(i);
  for (Function *function : withThoseBehind(**first)) {
    auto plan = PlanFlattener(*function, kernelIndex, artifact.constants).run();
    if (!plan)
      return plan.takeErrors();
    plan->name = (*first)->name;
    artifact.plans.push_back(std::move(*plan));
  }
  return artifact;
}

//===- One graph, all the way -===//

namespace {

/// The graph ops by their places, to name what a kernel came from.
std::map<std::pair<uint32_t, uint32_t>, std::string> placesOf(const Module &module) {
  std::map<std::pair<uint32_t, uint32_t>, std::string> places;
  for (Function *function : module.functions())
    if (function->isGraphLike())
      walk(function->body(), [&](Operation &op) {
        bool computes = !op.is(OpKind::Constant) && !op.is(OpKind::Broadcast) && !op.info().terminator;
        if (computes && op.loc().isValid())
          places[{op.loc().line, op.loc().column}] =
              std::string(op.info().name) + " at " + std::to_string(op.loc().line) + ":" + std::to_string(op.loc().column);
      });
  return places;
}

} // namespace

/// The same of a module that holds what was chosen.
static Expected<Artifact> compileChosen(Module &module, const Function &chosen, const CompileOptions &options,
                                        std::string *failedInput) {
  auto places = placesOf(module);
  Stage stage = !options.withCode && chosen.kind == FunctionKind::Plan ? Stage::Graph : Stage::Plan;
  CompileOptions all = options;
  all.anyStrides = options.anyStrides.value_or(true);
  auto pipeline = pipelineFor(module, stage, all);
  if (!pipeline)
    return pipeline.takeErrors();
  if (auto lowered = lowerTo(module, stage, all, failedInput); !lowered)
    return lowered.takeErrors();
  if (auto error = options.withCode ? notReached(module, stage) : std::nullopt)
    return *error;
  auto artifact = makeArtifact(module, options, options.withCode);
  if (!artifact)
    return artifact.takeErrors();
  artifact->passes = pipelineText(pipeline->left());
  artifact->text = printModule(module);
  std::map<std::string, std::vector<Operation *>> launches;
  for (Function *function : module.functions())
    if (function->kind == FunctionKind::Plan)
      walk(function->body(), [&](Operation &op) {
        if (op.is(OpKind::Launch))
          launches[op.attr("kernel")->asSymbol()->name].push_back(&op);
      });
  for (KernelCode &kernel : artifact->kernels) {
    std::set<std::pair<uint32_t, uint32_t>> found;
    auto find = [&](Operation &op) { found.insert({op.loc().line, op.loc().column}); };
    walk(module.find(kernel.name)->body(), find);
    for (Operation *launch : launches[kernel.name]) // Of a custom op's kernel it is the use.
      find(*launch);
    for (const auto &place : found)
      if (auto op = places.find(place); op != places.end())
        kernel.ops.push_back(op->second);
  }
  return artifact;
}

/// Whether an artifact is all that somebody wants, not what passes do on the way.
static bool canBeKept(const CompileOptions &options) {
  const PassManagerOptions &passes = options.passes;
  return options.cache.store && !passes.beforePass && !passes.afterPass && !passes.timings && options.overrides.empty();
}

Expected<Artifact> compile(Module &module, const CompileOptions &options, std::string *failedInput) {
  if (!options.withCode && !options.overrides.empty())
    return Diagnostic{.code = ErrorCode::BadFlag,
                      .message = "--override gives code for a GPU, and the interpreter (CPU) does not run such code",
                      .fix = "run it on a GPU, or put it into an artifact: minic compile ... -o FILE.mnc --override=..."};
  Trace::Span span(options.trace.get(), "compile");
  if (auto kept = keepOnly(module, options.graph); !kept)
    return kept.takeErrors();
  auto chosen = chooseFunction(module, options.graph);
  if (!chosen)
    return chosen.takeErrors();
  bool mustHit = options.cache.policy == CachePolicy::MustHit;
  if (!canBeKept(options) && !mustHit)
    return compileChosen(module, **chosen, options, failedInput);
  if (!canBeKept(options))
    return Diagnostic{.code = ErrorCode::NotCached,
                      .message = "nothing may be compiled, and what is compiled like this is not kept",
                      .fix = "drop flags that watch passes or override kernels, or let it be compiled"};
  ArtifactEntry entry(module, options);
  if (options.cache.policy != CachePolicy::Refresh)
    if (auto known = [&] {
          Trace::Span span(options.trace.get(), "look in the cache");
          return entry.find(*options.cache.store);
        }()) {
      if (options.scheduleReport) // It was made of the same schedules, and how they are found costs little.
        if (auto lowered = lowerTo(module, Stage::Fused, options); !lowered)
          return lowered.takeErrors();
      return std::move(*known);
    }
  if (mustHit)
    return Diagnostic{.code = ErrorCode::NotCached,
                      .message = "no artifact of '" + (*chosen)->name + "' is kept in '" + options.cache.store->directory() +
                                 "' under the key " + entry.key().name() + ", and nothing may be compiled",
                      .fix = "compile it once with the cache on; `minic cache why` tells what differs from an entry"};
  auto artifact = compileChosen(module, **chosen, options, failedInput);
  if (artifact)
    entry.keep(*options.cache.store, *artifact);
  return artifact;
}

} // namespace minic
