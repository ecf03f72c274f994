// minic explain: where the schedules of a graph's regions are from, what computes its matrix products and custom ops, and why.
#include "Common.h"
#include "ExplainError.h"

#include "minic/Driver/CustomUses.h"
#include "minic/Driver/RegionChoices.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace minic::cli {
namespace {

std::string placeText(SourceLoc loc) { return std::to_string(loc.line) + ":" + std::to_string(loc.column); }

std::string text(const std::vector<RegionChoice> &choices, const std::vector<CustomUse> &customs) {
  std::string out = choices.empty() ? "no fusion regions\n" : "";
  for (const RegionChoice &choice : choices) {
    out += choice.name;
    if (choice.product)
      out += ", matmul at " + placeText(choice.product->loc);
    out +=
        (choice.product ? choice.product->isLibrary ? ": cuBLASLt" : ": generated, " + choice.schedule : ": " + choice.schedule) +
        "\n";
    if (choice.product)
      out += "  " + choice.product->why + "\n";
    out += "  schedule " + choice.origin + "\n";
  }
  for (const CustomUse &use : customs)
    out += "@" + use.op + " at " + placeText(use.loc) + ": kernel @" + use.kernel +
           (use.ptxTarget.empty() ? "\n"
                                  : ", PTX for " + use.ptxTarget +
                                        "\n  the interpreter (CPU) does not run PTX, and evaluates the op's body instead\n");
  return out;
}

nlohmann::json json(const std::vector<RegionChoice> &choices, const std::vector<CustomUse> &customs) {
  nlohmann::json regions = nlohmann::json::array(), products = nlohmann::json::array(), kernels = nlohmann::json::array();
  for (const RegionChoice &choice : choices) {
    regions.push_back({{"name", choice.name}, {"schedule", choice.schedule}, {"origin", choice.origin}});
    if (choice.product)
      products.push_back({{"name", choice.name},
                          {"location", {{"line", choice.product->loc.line}, {"column", choice.product->loc.column}}},
                          {"matmul", choice.product->isLibrary ? "cublaslt" : "generated"},
                          {"schedule", choice.schedule},
                          {"why", choice.product->why}});
  }
  for (const CustomUse &use : customs)
    kernels.push_back({{"name", use.op},
                       {"location", {{"line", use.loc.line}, {"column", use.loc.column}}},
                       {"kernel", use.kernel},
                       {"ptx", use.ptxTarget}});
  return {{"regions", std::move(regions)}, {"products", std::move(products)}, {"customs", std::move(kernels)}};
}

int explain(const ModuleFlags &flags) {
  if (auto done = explainError(flags.file, flags.json))
    return *done;
  Messages messages(flags.json);
  BegunModule begun;
  if (auto failed = beginWithModule(flags, messages, begun))
    return *failed;
  auto choices = regionChoices(*begun.module, begun.options);
  if (!choices)
    return messages.fail(choices.errors(), &begun.source);
  noteUnusedSchedules(begun.options, messages);
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
  CLI::App *command = app.add_subcommand(
      "explain",
      "Say where the schedules of a graph's regions are from, what computes its matrix products and custom ops, and why");
  addModuleFlags(*command, *flags, WithGraph | WithMode | WithJson | WithSchedules);
  command->callback([flags, &chosen] { chosen = [flags] { return explain(*flags); }; });
}

} // namespace minic::cli
