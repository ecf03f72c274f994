// minic opt: a list of passes over a module; none: parse, verify, print.
#include "Common.h"

#include "minic/IR/Printer.h"
#include "minic/Transforms/PassPipeline.h"

#include <CLI/CLI.hpp>

namespace minic::cli {
namespace {

struct Flags : ModuleFlags {
  std::string list, output;
  PassFlags watch;
};

int opt(const Flags &flags) {
  Messages messages(flags.json);
  std::vector<PassStep> steps;
  PassRecord record;
  BegunModule begun;
  auto failed = beginWithModule(flags, messages, begun, [&](CompileOptions &options) -> Expected<void> {
    if (!flags.list.empty()) {
      auto parsed = parsePipeline(flags.list, "--passes");
      if (!parsed)
        return parsed.takeErrors();
      steps = std::move(*parsed);
    }
    return watchPasses(flags.watch, options.passes, record);
  });
  if (failed)
    return *failed;
  // Binds dims and lowers nothing.
  if (auto bound = lowerTo(*begun.module, Stage::Graph, begun.options); !bound)
    return messages.fail(bound.errors(), &begun.source);
  auto target = findTarget(begun.module->target);
  if (!target)
    return messages.fail(target.errors(), &begun.source);
  PassContext context{.module = *begun.module, .target = **target, .eager = begun.options.eager, .matmul = begun.options.matmul};
  begun.options.passes.hooks = levelHooks();
  auto done = runPasses(*begun.module, steps, context, begun.options.passes);
  finishPasses(flags.watch, record);
  if (!done)
    return messages.fail(done.errors(), &begun.source);
  if (auto written = writeOutput(flags.output, printModule(*begun.module)); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addOpt(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("opt", "Run single passes; without any: parse, verify, print");
  addModuleFlags(*command, *flags, WithMode | WithJson);
  command->add_option("--passes", flags->list,
                      "passes in order, e.g. \"canonicalize,fuse{max=8},cse{level=fused}\" (see minic doc passes)");
  command->add_option("-o", flags->output, "write to this file instead of standard output");
  addPassFlags(*command, flags->watch);
  command->callback([flags, &chosen] { chosen = [flags] { return opt(*flags); }; });
}

} // namespace minic::cli
