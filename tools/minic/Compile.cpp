// minic compile: a module lowered to a stage, as text (or as a cubin), or compiled for some targets, as an artifact.
#include "Common.h"

#include "minic/Artifact/ArtifactFile.h"
#include "minic/Compiler/Ptxas.h"
#include "minic/Support/PtxLines.h"
#include "minic/Transforms/PassPipeline.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <optional>
#include <unistd.h>

namespace minic::cli {
namespace {

struct Flags : ModuleFlags {
  std::string emit, stopAfter, output;
  PassFlags watch;
};

/// Says which passes of --passes found nothing to run on.
void noteSkipped(const Flags &flags, CompileOptions &options, const Messages &messages) {
  if (!flags.passes.empty())
    options.passes.skippedPass = [messages](const PassStep &step) {
      messages.note("nothing stands at a level of '" + pipelineText({&step, 1}) + "' when --passes comes to it");
    };
}

//===- Artifacts -===//

/// PTX that the file holds, as that of a custom op's kernel: the place of its line that ptxas refuses.
SourceLoc placeInFile(const SourceBuffer &source, const KernelCode &kernel, const Diagnostics &errors) {
  size_t start = source.text().find(kernel.ptx);
  std::optional<PtxErrorPlace> place;
  for (const DiagnosticNote &note : errors.front().notes)
    if (!place)
      place = ptxErrorPlace(kernel.ptx, note.message);
  if (kernel.entry.empty() || start == std::string_view::npos || !place)
    return {};
  std::string_view before = source.text().substr(0, start);
  return {uint32_t(std::ranges::count(before, '\n')) + place->line, 1};
}

/// Adds cubins; a toolkit that is not there is no error.
Expected<void> assemble(Artifact &artifact, const SourceBuffer &source, Trace *trace, bool &missing, const Messages &messages) {
  for (KernelCode &kernel : artifact.kernels) {
    if (missing)
      return {};
    auto cubin = [&] {
      Trace::Span span(trace, "ptxas " + kernel.name);
      return assemblePtx(kernel.ptx, artifact.target);
    }();
    if (cubin) {
      kernel.cubin = std::move(*cubin);
      continue;
    }
    Diagnostic &error = cubin.errors().front();
    if (error.code != ErrorCode::MissingTool) {
      error.message += ", which is kernel @" + kernel.name;
      if (!error.loc.isValid())
        error.loc = placeInFile(source, kernel, cubin.errors());
      return cubin.takeErrors();
    }
    missing = true;
    messages.note("the artifact holds PTX alone, which the driver assembles when it is loaded: " + cubin.errors().front().message);
  }
  return {};
}

Expected<Artifact> compileForTarget(const std::string &target, const Flags &flags, const SourceBuffer &source, bool first,
                                    const Messages &messages) {
  ModuleFlags single = flags;
  single.target = target;
  auto options = compileOptions(single);
  if (!options)
    return options.takeErrors();
  PassRecord record;
  noteSkipped(flags, *options, messages);
  if (auto watched = watchPasses(flags.watch, options->passes, record); !watched)
    return watched.takeErrors();
  Context context;
  Diagnostics warnings;
  auto module = loadModule(context, source, *options, &warnings);
  if (!module)
    return module.takeErrors();
  if (first) // They are the same for every target.
    messages.print(warnings, &source);
  auto artifact = minic::compile(**module, *options);
  noteUnusedSchedules(*options, messages);
  finishPasses(flags.watch, record);
  if (!artifact)
    addReproducer(artifact.errors(), source, *options, Stage::Plan);
  return artifact;
}

/// For one target, with cubins.
Expected<Artifact> compileAndAssemble(const std::string &target, const Flags &flags, const SourceBuffer &source, bool first,
                                      bool &missing, const Messages &messages) {
  auto artifact = compileForTarget(target, flags, source, first, messages);
  if (!artifact)
    return artifact;
  auto assembled = assemble(*artifact, source, flags.trace.get(), missing, messages);
  if (assembled)
    return artifact;
  if (flags.lineInfo || assembled.errors().front().loc.isValid())
    return assembled.takeErrors();
  // Once more, so that the PTX says which line of the graph ptxas refuses.
  Flags lined = flags;
  lined.lineInfo = true;
  lined.cache = "off";
  lined.passes = {};
  return compileAndAssemble(target, lined, source, false, missing, messages);
}

int compileArtifact(const Flags &flags, const std::vector<std::string> &targets, const Messages &messages) {
  auto source = readSource(flags.file);
  if (!source)
    return messages.fail(source.errors());
  std::vector<Artifact> artifacts;
  bool missing = false;
  for (const std::string &target : targets) {
    auto artifact = compileAndAssemble(target, flags, *source, artifacts.empty(), missing, messages);
    if (!artifact) {
      if (targets.size() > 1)
        artifact.errors().front().note("while compiling for " + target);
      return messages.fail(artifact.errors(), &*source);
    }
    artifacts.push_back(std::move(*artifact));
  }
  if (auto written = writeArtifacts(flags.output, artifacts); !written)
    return messages.fail(written.errors());
  return finish(Fine, flags, messages);
}

//===- Stages -===//

Expected<std::string> emit(Module &module, Stage stage, const CompileOptions &options) {
  auto text = emitStage(module, std::min(stage, Stage::Ptx), options);
  if (!text || stage != Stage::Cubin)
    return text;
  auto cubin = [&] {
    Trace::Span span(options.trace.get(), "ptxas");
    return assemblePtx(*text, module.target);
  }();
  if (cubin || options.lineInfo || cubin.errors().front().code == ErrorCode::MissingTool)
    return cubin;
  // Once more, so that the PTX says which line of the graph ptxas refuses.
  CompileOptions lined = options;
  lined.lineInfo = true;
  lined.dims.clear(); // The module is lowered.
  lined.specializations.clear();
  text = emitStage(module, Stage::Ptx, lined);
  return text ? assemblePtx(*text, module.target) : std::move(text);
}

int compileStage(const Flags &flags, const Messages &messages) {
  auto stage = flags.stopAfter.empty() ? parseStage(flags.emit) : Stage::Plan;
  if (!stage) {
    std::vector<std::string> names;
    std::string list;
    for (int i = 0; i <= int(Stage::Cubin); ++i) {
      names.emplace_back(stageName(Stage(i)));
      list += (i ? ", " : "") + names.back();
    }
    std::string near = didYouMean(flags.emit, names);
    return messages.fail({badFlag("unknown level '" + flags.emit + "' in --emit",
                                  (near.empty() ? "" : "did you mean " + near + "? ") + ("It is one of " + list))});
  }
  if (*stage == Stage::Cubin && flags.output.empty() && isatty(STDOUT_FILENO))
    return messages.fail({badFlag("a cubin is not text for a terminal", "add -o FILE")});
  PassRecord record;
  BegunModule begun;
  auto watch = [&](CompileOptions &options) {
    options.stopAfter = flags.stopAfter;
    noteSkipped(flags, options, messages);
    return watchPasses(flags.watch, options.passes, record);
  };
  if (auto failed = beginWithModule(flags, messages, begun, watch))
    return *failed;
  if (!flags.graph.empty())
    if (auto kept = keepOnly(*begun.module, flags.graph); !kept)
      return messages.fail(kept.errors());

  auto text = emit(*begun.module, *stage, begun.options);
  noteUnusedSchedules(begun.options, messages);
  finishPasses(flags.watch, record);
  if (!text) {
    addReproducer(text.errors(), begun.source, begun.options, *stage);
    return messages.fail(text.errors(), &begun.source);
  }
  if (auto written = writeOutput(flags.output, *text); !written)
    return messages.fail(written.errors());
  return finish(Fine, flags, messages);
}

/// The words of `--target`, which may stand several times and hold several, without repetitions; one empty word if there are none.
std::vector<std::string> splitTargets(std::string_view text) {
  std::vector<std::string> targets;
  for (size_t start = 0, end; start <= text.size(); start = end + 1) {
    end = std::min(text.find(',', start), text.size());
    std::string target(text.substr(start, end - start));
    if (!target.empty() && std::find(targets.begin(), targets.end(), target) == targets.end())
      targets.push_back(std::move(target));
  }
  if (targets.empty())
    targets.emplace_back();
  return targets;
}

int compile(const Flags &flags) {
  Messages messages(flags.json);
  std::vector<std::string> targets = splitTargets(flags.target);
  bool toArtifact = flags.output.ends_with(".mnc");
  if (toArtifact && !flags.emit.empty())
    return messages.fail(
        {badFlag("--emit=" + flags.emit + " asks for one stage, -o " + flags.output + " for an artifact, which has them",
                 "drop --emit, or choose a name that does not end in .mnc")});
  if (!flags.stopAfter.empty() && (toArtifact || !flags.emit.empty()))
    return messages.fail(
        {badFlag("--stop-after=" + flags.stopAfter + " asks for the text in between, " +
                     (toArtifact ? "-o " + flags.output + " for an artifact" : "--emit=" + flags.emit + " for a stage"),
                 "give one of them; minic compile goes on from such a text")});
  if (!flags.overrides.empty() && !toArtifact)
    return messages.fail({badFlag("--override is for the code in an artifact", "write -o FILE.mnc")});
  if (toArtifact)
    return compileArtifact(flags, targets, messages);
  if (flags.emit.empty() && flags.stopAfter.empty())
    return messages.fail(
        {badFlag("--emit or --stop-after is required, unless -o names an artifact: FILE.mnc", "see minic compile --help")});
  if (targets.size() > 1)
    return messages.fail({badFlag("a text is for one target, not " + std::to_string(targets.size()),
                                  "an artifact holds several: write -o FILE.mnc")});
  return compileStage(flags, messages);
}

} // namespace

void addCompile(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("compile", "Lower a module to a level and print it, or make an artifact");
  addModuleFlags(*command, *flags,
                 WithGraph | WithMode | WithJson | WithStrides | WithSchedules | WithCache | WithLineInfo | WithPasses |
                     WithOverrides | WithTrace);
  command->add_option("--emit", flags->emit, "graph|fused|tile|masked|machine|plan|llvm|ptx|cubin");
  command->add_option(
      "--stop-after", flags->stopAfter,
      "run the passes up to this one and print the module, which minic compile goes on from: mask, or cse#2 for the "
      "second cse; without a number the last");
  command->add_option(
      "-o", flags->output,
      "write to this file instead of standard output; FILE.mnc without --emit is an artifact, ready to run, and may be "
      "for several targets: --target=sm_80,sm_90a");
  command->get_option("--target")->join(',');
  addPassFlags(*command, flags->watch);
  command->callback([flags, &chosen] { chosen = [flags] { return compile(*flags); }; });
}

} // namespace minic::cli
