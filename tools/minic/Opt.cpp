// minic opt: a list of passes over a module; none: parse, verify, print.
#include "Common.h"

#include "minic/IR/Printer.h"

#include <CLI/CLI.hpp>

namespace minic::cli {
namespace {

struct Flags : ModuleFlags {
  std::string list, output;
  PassFlags passes;
};

/// Reads `a,b{k=v}`. A pass runs on the functions of every level that it takes, highest level first.
Expected<std::vector<PassStep>> parsePasses(std::string_view text) {
  std::vector<std::string> known;
  for (const Pass &pass : allPasses())
    known.emplace_back(pass.name);
  std::vector<PassStep> steps;
  while (!text.empty()) {
    size_t end = text.find_first_of(",{");
    std::string name(text.substr(0, end));
    const Pass *pass = findPass(name);
    if (!pass) {
      std::string near = didYouMean(name, known);
      return Diagnostic{.code = ErrorCode::UnknownPass,
                        .message = "unknown pass '" + name + "' in --passes",
                        .fix = near.empty() ? "see minic doc passes" : "did you mean " + near + "?"};
    }
    if (end != std::string_view::npos && text[end] == '{')
      return badFlag("pass " + name + " takes no options", "write --passes=" + name);
    for (unsigned level = 0; level <= unsigned(Level::Plan); ++level)
      if (pass->levels & levelBit(level))
        steps.push_back({pass, Level(level)});
    if (end == std::string_view::npos)
      break;
    text.remove_prefix(end + 1);
    if (text.empty())
      return badFlag("--passes ends with a comma");
  }
  return steps;
}

int opt(const Flags &flags) {
  Messages messages(flags.json);
  std::vector<PassStep> steps;
  std::vector<PassTiming> timings;
  BegunModule begun;
  auto failed = beginWithModule(flags, messages, begun, [&](CompileOptions &options) -> Expected<void> {
    auto parsed = parsePasses(flags.list);
    if (!parsed)
      return parsed.takeErrors();
    steps = std::move(*parsed);
    return watchPasses(flags.passes, options.passes, timings);
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
  if (flags.passes.time)
    printTimings(timings);
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
  command->add_option("--passes", flags->list, "passes in order, e.g. canonicalize,cse,fuse (see minic doc passes)");
  command->add_option("-o", flags->output, "write to this file instead of standard output");
  addPassFlags(*command, flags->passes);
  command->callback([flags, &chosen] { chosen = [flags] { return opt(*flags); }; });
}

} // namespace minic::cli
