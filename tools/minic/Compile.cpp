// minic compile: a module, lowered to a stage, as text (or as a cubin).
#include "Common.h"
#include "Ptxas.h"

#include <CLI/CLI.hpp>

#include <unistd.h>

namespace minic::cli {
namespace {

struct Flags : ModuleFlags {
  std::string emit, output;
  PassFlags passes;
};

Expected<std::string> emit(Module &module, Stage stage, const CompileOptions &options) {
  auto text = emitStage(module, std::min(stage, Stage::Ptx), options);
  if (!text || stage != Stage::Cubin)
    return text;
  return assemblePtx(*text, module.target);
}

int compile(const Flags &flags) {
  Messages messages(flags.json);
  auto stage = parseStage(flags.emit);
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
  auto options = compileOptions(flags);
  if (!options)
    return messages.fail(options.errors());
  std::vector<PassTiming> timings;
  if (auto watched = watchPasses(flags.passes, options->passes, timings); !watched)
    return messages.fail(watched.errors());
  auto source = readSource(flags.file);
  if (!source)
    return messages.fail(source.errors());
  LoadedModule loaded(std::move(*source));
  if (auto done = load(loaded, *options, messages); !done)
    return messages.fail(done.errors(), &loaded.source);
  if (!flags.graph.empty())
    if (auto kept = keepOnly(*loaded.module, flags.graph); !kept)
      return messages.fail(kept.errors());

  auto text = emit(*loaded.module, *stage, *options);
  if (flags.passes.time)
    printTimings(timings);
  if (!text) {
    addReproducer(text.errors(), loaded.source, *options, *stage);
    return messages.fail(text.errors(), &loaded.source);
  }
  if (auto written = writeOutput(flags.output, *text); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addCompile(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("compile", "Lower a module to a level and print it");
  addModuleFlags(*command, *flags, WithGraph | WithMode | WithJson);
  command->add_option("--emit", flags->emit, "graph|fused|tile|masked|machine|plan|llvm|ptx|cubin")->required();
  command->add_option("-o", flags->output, "write to this file instead of standard output");
  addPassFlags(*command, flags->passes);
  command->callback([flags, &chosen] { chosen = [flags] { return compile(*flags); }; });
}

} // namespace minic::cli
