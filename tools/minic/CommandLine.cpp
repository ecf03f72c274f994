#include "CommandLine.h"

#include <CLI/CLI.hpp>

namespace minic::cli {
namespace {

/// Help of a value that is a word begins with all of them, `exact|default|fast (default: ...)`; `cuda[:N]` is the word `cuda` with
/// more behind it.
std::vector<std::string> wordsOf(std::string_view help) {
  std::string_view list = help.substr(0, help.find_first_of(" ;"));
  if (list.ends_with(':'))
    list.remove_suffix(1);
  if (list.find('|') == std::string_view::npos)
    return {};
  std::vector<std::string> words;
  while (!list.empty()) {
    std::string_view word = list.substr(0, list.find('|'));
    list.remove_prefix(std::min(word.size() + 1, list.size()));
    words.emplace_back(word.substr(0, word.find('[')));
    if (words.back().find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") != std::string::npos)
      return {};
  }
  return words;
}

CommandLineOption optionOf(const CLI::Option &option) {
  CommandLineOption result;
  for (const std::string &name : option.get_snames())
    result.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    result.names.push_back("--" + name);
  if (result.names.empty())
    result.names.push_back(option.get_single_name());
  result.help = option.get_description();
  result.words = wordsOf(result.help);
  if (option.get_type_size() != 0)
    result.value = result.words.empty() ? option.get_type_name() : "WORD";
  result.standard = option.get_default_str();
  result.required = option.get_required();
  result.repeats = option.get_items_expected_max() > 1;
  return result;
}

CommandLine commandOf(const CLI::App &app, std::vector<std::string> path) {
  CommandLine result{std::move(path), app.get_description()};
  for (const CLI::Option *option : app.get_options())
    (option->get_positional() ? result.operands : result.flags).push_back(optionOf(*option));
  for (const CLI::App *command : app.get_subcommands(nullptr)) {
    std::vector<std::string> below = result.path;
    below.push_back(command->get_name());
    result.commands.push_back(commandOf(*command, std::move(below)));
  }
  return result;
}

} // namespace

std::string CommandLine::pathText(const std::string &separator) const {
  std::string text;
  for (const std::string &word : path)
    text += (text.empty() ? "" : separator) + word;
  return text;
}

CommandLine commandLineOf(const CLI::App &app) { return commandOf(app, {}); }

std::vector<const CommandLine *> allCommands(const CommandLine &command) {
  std::vector<const CommandLine *> list = {&command};
  for (const CommandLine &below : command.commands)
    for (const CommandLine *one : allCommands(below))
      list.push_back(one);
  return list;
}

} // namespace minic::cli
