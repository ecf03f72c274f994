// Text or graph to artifact: stages, options, the pipeline.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/Cache/CacheUse.h"
#include "minic/CodeGen/KernelOverride.h"
#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"
#include "minic/Support/LineSource.h"
#include "minic/Support/Trace.h"
#include "minic/Transforms/Passes.h"

#include <memory>
#include <optional>
#include <string>

namespace minic {

enum class Stage : uint8_t { Graph, Fused, Tile, Masked, Machine, Plan, Llvm, Ptx, Cubin };
std::optional<Stage> parseStage(std::string_view name);
std::string_view stageName(Stage stage);

struct CompileOptions {
  std::string target;   ///< Empty: the module's own, else the default.
  std::string numerics; ///< Empty: the module's own, else "default".
  DimBindings dims;     ///< Names bound at compile time.
  /// Plans for some sizes in front of the one for all, each with facts of names: "N % 8 == 0, M == 1".
  std::vector<std::string> specializations;
  bool eager = false;
  /// Whether there is a plan for tensors of any strides and alignment as well. Unstated: in artifacts, not in texts.
  std::optional<bool> anyStrides;
  /// Tuned schedules of the user's, which go before those that minic brings; may be null.
  std::shared_ptr<const ScheduleTable> schedules;
  bool shippedToo = true; ///< What minic brings for GPUs it knows is taken too.
  /// The GPU's model that schedules are taken for, "NVIDIA H200"; empty: that of the device that is compiled for. Without one
  /// what minic brings is not taken, and the user's whatever its device.
  std::string tunedFor;
  std::shared_ptr<ScheduleReport> scheduleReport; ///< Is told what became of each region that is compiled; may be null.
  MatmulProvider matmul = MatmulProvider::Auto;   ///< Auto: kernels, but where `schedules` says that cuBLASLt is quicker.
  std::string graph;                              ///< Which graph or plan; empty: the only one (a plan before a graph).
  /// Code says which lines of the graph it is from: LLVM IR debug locations, PTX `.loc`. The same instructions as without.
  bool lineInfo = false;
  LineSource lines;     ///< Whose lines those are.
  bool withCode = true; ///< PTX for a GPU. Without, a plan stays at its level: the interpreter runs kernels of any level.
  PassManagerOptions passes;
  std::string pipeline;  ///< A list of passes in the place of the usual one, as text (PassPipeline.h); empty: the module's.
  std::string stopAfter; ///< The last pass that runs, "mask" or "cse#2"; the module says that it stands there. Empty: all.
  std::vector<KernelOverride> overrides;      ///< Code of kernels, in the place of what would be made. Nothing is cached then.
  std::shared_ptr<FusionReport> fusionReport; ///< Is told of each edge of the graph; may be null.
  std::shared_ptr<Trace> trace;               ///< Is told what takes time; may be null.
  /// Keeps artifacts for later processes. Not asked where passes are watched.
  CacheUse cache;

  /// What code generation takes: null without line info.
  const LineSource *lineSource() const { return lineInfo ? &lines : nullptr; }
};

/// The tables that a compilation looks schedules up in.
ScheduleLookup scheduleLookup(const CompileOptions &options);
/// All level hooks of the verifier (the padding proof of the masked level).
LevelHooks levelHooks();
/// Parse, apply the options to the module header (a contradiction with the file is BadFlag), verify.
Expected<std::unique_ptr<Module>> loadModule(Context &context, const SourceBuffer &source, const CompileOptions &options,
                                             Diagnostics *warnings = nullptr);
/// The passes that take a module from where it stands to `stage` (at most Plan), as one visible list.
std::vector<PassStep> buildPipeline(Stage stage, bool anyStrides = false);
/// The whole list of passes for a module (to `stage`), where it begins, and which of them are left: its own list or the usual one,
/// behind the pass that it stands after, to `stopAfter`. Of a list of its own, no pass runs from the first one on that the usual
/// list has for later stages alone.
struct Pipeline {
  std::vector<PassStep> all;
  size_t begin = 0, end = 0;
  std::span<const PassStep> left() const { return std::span(all).subspan(begin, end - begin); }
};
Expected<Pipeline> pipelineFor(const Module &module, Stage stage, const CompileOptions &options);
/// Runs the pipeline on a module: binds dims, then lowers every function that stands above `stage`. Functions already below stay.
Expected<void> lowerTo(Module &module, Stage stage, const CompileOptions &options, std::string *failedInput = nullptr);
/// Text of a stage: IR for graph to plan, then LLVM IR and PTX.
Expected<std::string> emitStage(Module &module, Stage stage, const CompileOptions &options);
/// The function called `name`, else the only plan (those that stand behind another one do not count), else the only graph.
Expected<Function *> chooseFunction(Module &module, const std::string &name);
/// The graph called `name`, else the only one.
Expected<Function *> chooseGraph(Module &module, const std::string &name);
/// The function and those that stand behind it, in order.
std::vector<Function *> withThoseBehind(Function &first);
/// Erases the graphs and plans that were not chosen (as `chooseFunction`), and the kernels and custom ops that nothing uses any
/// more.
Expected<void> keepOnly(Module &module, const std::string &name);

/// One graph or plan to what a device runs: lowers the module, emits code, and keeps the text that the interpreter runs; or takes
/// all that from the cache. The module is what was compiled afterwards, or above that. `failedInput` as for `lowerTo`. Errors:
/// also NotCached, where nothing may be compiled.
Expected<Artifact> compile(Module &module, const CompileOptions &options, std::string *failedInput = nullptr);
/// The plan and kernels as data. The module must be at the machine level for code; without `withCode` kernels of any level are
/// described for the interpreter.
Expected<Artifact> makeArtifact(Module &module, const CompileOptions &options, bool withCode);

} // namespace minic
