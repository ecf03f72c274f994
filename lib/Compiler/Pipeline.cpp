#include "minic/Compiler/Compiler.h"

#include "minic/Transforms/PassPipeline.h"

#include <algorithm>
#include <array>

namespace minic {

static constexpr std::array<std::string_view, 9> stageNames = {"graph", "fused", "tile", "masked", "machine",
                                                               "plan",  "llvm",  "ptx",  "cubin"};

std::optional<Stage> parseStage(std::string_view name) {
  for (size_t i = 0; i < stageNames.size(); ++i)
    if (stageNames[i] == name)
      return Stage(i);
  return std::nullopt;
}

std::string_view stageName(Stage stage) { return stageNames[size_t(stage)]; }

std::vector<PassStep> buildPipeline(Stage stage, bool anyStrides) {
  std::vector<PassStep> steps;
  auto add = [&](std::string_view name, Level level) { steps.push_back({findPass(name), level}); };

  if (stage >= Stage::Fused) {
    add("inline-customs", Level::Graph);    // First: what their bodies hold fuses with what is around them.
    add("expand-composites", Level::Graph); // No other pass knows them.
    add("canonicalize", Level::Graph);
    add("cse", Level::Graph);
    add("dce", Level::Graph);              // Before fuse: a dead op would become a region with an output.
    add("split-reductions", Level::Graph); // Before fuse: its two halves are two kernels.
    add("split-products", Level::Graph);
    add("fuse", Level::Graph);
    add("infer-ranges", Level::Fused); // In regions, which have neither loops nor masks yet.
    add("choose-schedule", Level::Fused);
  }
  if (stage >= Stage::Tile) {
    add("tile", Level::Fused);
    add("canonicalize", Level::Tile); // One-trip sweeps lose their loops ...
    add("cse", Level::Tile);          // ... and what they have in common is computed once.
    add("dce", Level::Tile);
    add("prepare-operands", Level::Plan);
    if (anyStrides)
      add("admit-strides", Level::Plan); // After cse: it counts what kernels load.
    add("share-reciprocals", Level::Tile);
    add("relax-math", Level::Tile);
    add("widen", Level::Tile); // After cse: it rewrites every use.
    add("canonicalize", Level::Tile);
    add("cse", Level::Tile);
    add("dce", Level::Tile);
  }
  if (stage >= Stage::Masked) {
    add("mask", Level::Tile); // After cse: a proof about one load serves all its uses.
    add("cse", Level::Masked);
    add("dce", Level::Masked);
  }
  if (stage >= Stage::Machine) {
    add("specialize-warps", Level::Masked);
    add("fragment-products", Level::Masked); // As specialize-warps, for other units: a kernel goes one of the two ways.
    add("pipeline", Level::Machine);
    add("multistage", Level::Machine);
    add("stage-stores", Level::Machine);
    add("persist", Level::Machine); // After stage-stores, which ends what a role does: it wraps all of that.
    add("rasterize", Level::Machine);
    add("layout", Level::Masked);
    add("dce", Level::Machine); // Dot operands were copied; the originals are dead.
    add("sink-reductions", Level::Machine);
    add("online", Level::Machine);
    add("dce", Level::Machine);
    add("lower-exchanges", Level::Machine);
    add("expand-math", Level::Machine); // Last: its bodies are long, and only CodeGen and the interpreter need them.
    add("cse", Level::Machine);
    add("dce", Level::Machine);
    add("merge-launches", Level::Plan);
    add("cse", Level::Machine);
    add("overlap-launches", Level::Machine);
  }
  if (stage >= Stage::Plan)
    add("plan-buffers", Level::Plan);
  return steps;
}

/// Where a list of the user's own reaches beyond a stage: at the first pass that the usual list has for later ones alone.
static size_t endOfStage(std::span<const PassStep> steps, Stage stage) {
  if (stage >= Stage::Plan)
    return steps.size();
  std::vector<PassStep> usual = buildPipeline(stage, true), whole = buildPipeline(Stage::Plan, true);
  auto isLater = [&](const PassStep &step) {
    return std::ranges::find(usual, step.pass, &PassStep::pass) == usual.end() &&
           std::ranges::find(whole, step.pass, &PassStep::pass) != whole.end();
  };
  return size_t(std::ranges::find_if(steps, isLater) - steps.begin());
}

Expected<Pipeline> pipelineFor(const Module &module, Stage stage, const CompileOptions &options) {
  Pipeline pipeline;
  if (!options.stopAfter.empty())
    stage = Stage::Plan;
  if (module.passes.empty()) {
    pipeline.all = buildPipeline(Stage::Plan, options.anyStrides.value_or(false));
    pipeline.end = buildPipeline(stage, options.anyStrides.value_or(false)).size(); // A stage's list begins every later one's.
  } else {
    auto steps = parsePipeline(module.passes, options.pipeline.empty() ? "`passes` of the module" : "--passes");
    if (!steps)
      return steps.takeErrors();
    pipeline.all = std::move(*steps);
    pipeline.end = stage == Stage::Graph ? 0 : endOfStage(pipeline.all, stage);
  }
  if (!module.lastPass.empty()) {
    auto last = findStep(pipeline.all, module.lastPass, "`after` of the module");
    if (!last)
      return last.takeErrors();
    pipeline.begin = *last + 1;
  }
  if (!options.stopAfter.empty()) {
    auto last = findStep(pipeline.all, options.stopAfter, "--stop-after");
    if (!last)
      return last.takeErrors();
    pipeline.end = *last + 1;
    if (pipeline.end < pipeline.begin)
      return Diagnostic{.code = ErrorCode::BadFlag,
                        .message = "the module stands after '" + module.lastPass + "' already, which is behind '" +
                                   nameOfStep(pipeline.all, *last) + "'",
                        .fix = "stop after a later pass"};
  }
  pipeline.end = std::max(pipeline.begin, pipeline.end);
  return pipeline;
}

} // namespace minic
