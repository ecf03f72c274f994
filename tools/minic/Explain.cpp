// minic explain: what computes each matrix product and each custom op of a graph, and why.
#include "Common.h"

#include "minic/Driver/CustomUses.h"
#include "minic/Driver/ProductChoices.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace minic::cli {
namespace {

std::string placeText(SourceLoc loc) { return std::to_string(loc.line) + ":" + std::to_string(loc.column); }

std::string text(const std::vector<ProductChoice> &choices, const std::vector<CustomUse> &customs) {
  std::string out = choices.empty() ? "no matrix products\n" : "";
  for (const ProductChoice &choice : choices)
    out += choice.name + ", matmul at " + placeText(choice.loc) + ": " +
           (choice.isLibrary ? "cuBLASLt" : "generated, " + choice.schedule) + "\n  " + choice.why + "\n";
  for (const CustomUse &use : customs)
    out += "@" + use.op + " at " + placeText(use.loc) + ": kernel @" + use.kernel +
           (use.ptxTarget.empty() ? "\n"
                                  : ", PTX for " + use.ptxTarget +
                                        "\n  the interpreter (CPU) does not run PTX, and evaluates the op's body instead\n");
  return out;
}

nlohmann::json json(const std::vector<ProductChoice> &choices, const std::vector<CustomUse> &customs) {
  nlohmann::json list = nlohmann::json::array();
  for (const ProductChoice &choice : choices)
    list.push_back({{"name", choice.name},
                    {"location", {{"line", choice.loc.line}, {"column", choice.loc.column}}},
                    {"matmul", choice.isLibrary ? "cublaslt" : "generated"},
                    {"schedule", choice.schedule},
                    {"why", choice.why}});
  nlohmann::json kernels = nlohmann::json::array();
  for (const CustomUse &use : customs)
    kernels.push_back({{"name", use.op},
                       {"location", {{"line", use.loc.line}, {"column", use.loc.column}}},
                       {"kernel", use.kernel},
                       {"ptx", use.ptxTarget}});
  return {{"products", std::move(list)}, {"customs", std::move(kernels)}};
}

int explain(const ModuleFlags &flags) {
  Messages messages(flags.json);
  BegunModule begun;
  if (auto failed = beginWithModule(flags, messages, begun))
    return *failed;
  auto choices = productChoices(*begun.module, begun.options);
  if (!choices)
    return messages.fail(choices.errors(), &begun.source);
  noteUnusedSchedules(flags, begun.options, messages);
  auto graph = chooseGraph(*begun.module, begun.options.graph); // At the fused level by now.
  if (!graph)
    return messages.fail(graph.errors(), &begun.source);
  std::vector<CustomUse> customs = customUses(**graph);
  if (auto written = writeOutput({}, flags.json ? json(*choices, customs).dump() + "\n" : text(*choices, customs)); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addExplain(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<ModuleFlags>();
  CLI::App *command = app.add_subcommand("explain", "Say what computes each matrix product and custom op of a graph, and why");
  addModuleFlags(*command, *flags, WithGraph | WithMode | WithJson | WithSchedules);
  command->callback([flags, &chosen] { chosen = [flags] { return explain(*flags); }; });
}

} // namespace minic::cli
