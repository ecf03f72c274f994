// minic explain: where the schedules of a graph's regions are from, what computes its matrix products, and why.
#include "Common.h"

#include "minic/Driver/RegionChoices.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace minic::cli {
namespace {

std::string text(const std::vector<RegionChoice> &choices) {
  if (choices.empty())
    return "no fusion regions\n";
  std::string out;
  for (const RegionChoice &choice : choices) {
    out += choice.name;
    if (choice.product)
      out += ", matmul at " + std::to_string(choice.product->loc.line) + ":" + std::to_string(choice.product->loc.column);
    out +=
        (choice.product ? choice.product->isLibrary ? ": cuBLASLt" : ": generated, " + choice.schedule : ": " + choice.schedule) +
        "\n";
    if (choice.product)
      out += "  " + choice.product->why + "\n";
    out += "  schedule " + choice.origin + "\n";
  }
  return out;
}

nlohmann::json json(const std::vector<RegionChoice> &choices) {
  nlohmann::json regions = nlohmann::json::array(), products = nlohmann::json::array();
  for (const RegionChoice &choice : choices) {
    regions.push_back({{"name", choice.name}, {"schedule", choice.schedule}, {"origin", choice.origin}});
    if (choice.product)
      products.push_back({{"name", choice.name},
                          {"location", {{"line", choice.product->loc.line}, {"column", choice.product->loc.column}}},
                          {"matmul", choice.product->isLibrary ? "cublaslt" : "generated"},
                          {"schedule", choice.schedule},
                          {"why", choice.product->why}});
  }
  return {{"regions", std::move(regions)}, {"products", std::move(products)}};
}

int explain(const ModuleFlags &flags) {
  Messages messages(flags.json);
  BegunModule begun;
  if (auto failed = beginWithModule(flags, messages, begun))
    return *failed;
  auto choices = regionChoices(*begun.module, begun.options);
  if (!choices)
    return messages.fail(choices.errors(), &begun.source);
  noteUnusedSchedules(begun.options, messages);
  if (auto written = writeOutput({}, flags.json ? json(*choices).dump() + "\n" : text(*choices)); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addExplain(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<ModuleFlags>();
  CLI::App *command = app.add_subcommand(
      "explain", "Say where the schedules of a graph's regions are from, what computes its matrix products, and why");
  addModuleFlags(*command, *flags, WithGraph | WithMode | WithJson | WithSchedules);
  command->callback([flags, &chosen] { chosen = [flags] { return explain(*flags); }; });
}

} // namespace minic::cli
