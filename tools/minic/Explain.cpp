// minic explain: what computes each matrix product of a graph, and why.
#include "Common.h"

#include "minic/Driver/ProductChoices.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace minic::cli {
namespace {

std::string text(const std::vector<ProductChoice> &choices) {
  if (choices.empty())
    return "no matrix products\n";
  std::string out;
  for (const ProductChoice &choice : choices)
    out += choice.name + ", matmul at " + std::to_string(choice.loc.line) + ":" + std::to_string(choice.loc.column) + ": " +
           (choice.isLibrary ? "cuBLASLt" : "generated, " + choice.schedule) + "\n  " + choice.why + "\n";
  return out;
}

nlohmann::json json(const std::vector<ProductChoice> &choices) {
  nlohmann::json list = nlohmann::json::array();
  for (const ProductChoice &choice : choices)
    list.push_back({{"name", choice.name},
                    {"location", {{"line", choice.loc.line}, {"column", choice.loc.column}}},
                    {"matmul", choice.isLibrary ? "cublaslt" : "generated"},
                    {"schedule", choice.schedule},
                    {"why", choice.why}});
  return {{"products", std::move(list)}};
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
  if (auto written = writeOutput({}, flags.json ? json(*choices).dump() + "\n" : text(*choices)); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addExplain(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<ModuleFlags>();
  CLI::App *command = app.add_subcommand("explain", "Say what computes each matrix product of a graph, and why");
  addModuleFlags(*command, *flags, WithGraph | WithMode | WithJson | WithSchedules);
  command->callback([flags, &chosen] { chosen = [flags] { return explain(*flags); }; });
}

} // namespace minic::cli
