// minic doc man: the manual page.
#include "CommandLine.h"
#include "Common.h"

namespace minic::cli {
namespace {

/// What minic reads of its environment. test/tools/manual.test looks for what is read and missing here.
constexpr std::pair<std::string_view, std::string_view> variables[] = {
    {"MINIC_CACHE_DIR", "the folder of the cache of compiled graphs (default: minic in XDG_CACHE_HOME, else .cache/minic in HOME)"},
    {"MINIC_CACHE_SIZE", "bytes that the cache may hold, with K, M or G behind the number for powers of 1024 (default: 1G)"},
    {"XDG_CACHE_HOME", "where caches are, if it is an absolute path"},
    {"HOME", "where the cache is, if nothing else says"},
    {"TMPDIR", "the folder for temporary files (default: /tmp)"},
    {"PATH", "where ptxas is looked for"},
    {"NO_COLOR", "set: messages have no colours"},
    {"CUDA_VISIBLE_DEVICES", "read by the CUDA driver: the GPUs that there are"},
};

constexpr std::pair<std::string_view, std::string_view> files[] = {
    {"FILE.ir", "a module as text: graphs, kernels, plans, custom ops"},
    {"FILE.mnc", "an artifact, which `minic compile -o` writes and `minic run` takes"},
    {"FILE.npy, FILE.safetensors", "tensors that `minic run` reads and writes"},
    {"~/.cache/minic", "the cache of compiled graphs; `minic cache info` says where it is"},
};

/// Text in which roff sees no command of its own, and where it may break long lists of words.
std::string plain(std::string_view text) {
  std::string out = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (char c : text)
    out += c == '|'    ? "|\\:"
           : c == '\\' ? "\\e"
           : c == '-'  ? "\\-"
           : c == '\'' ? "\\(aq"
           : c == '`'  ? "\\(ga"
           : c == '^'  ? "\\(ha"
           : c == '~'  ? "\\(ti"
                       : std::string(1, c);
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + plain(text) + "\\fR"; }
std::string section(std::string_view title) { return ".SH " + std::string(title) + "\n"; }
std::string item(const std::string &term, std::string_view text) { return ".TP\n" + term + "\n" + plain(text) + "\n"; }

std::string optionText(const CommandLineOption &option, bool isFlag) {
  std::string term;
  for (const std::string &name : option.names)
    term += (term.empty() ? "" : ", ") + (isFlag ? bold(name) : italic(name));
  if (isFlag && !option.value.empty())
    term += " " + italic(option.value);
  std::string help = option.help;
  if (!option.standard.empty())
    help += " (default: " + option.standard + ")";
  return item(term, help);
}

std::string synopsis(const CommandLine &command) {
  std::string text = bold("minic" + (command.path.empty() ? "" : " " + command.pathText()));
  if (!command.flags.empty())
    text += " [" + italic("flags") + "]";
  for (const CommandLineOption &operand : command.operands) {
    std::string name = italic(operand.names.front()) + (operand.repeats ? " ..." : "");
    text += operand.required ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string commandText(const CommandLine &command) {
  std::string out =
      ".SS " + plain("minic " + command.pathText()) + "\n" + synopsis(command) + "\n.PP\n" + plain(command.help) + ".\n";
  for (const CommandLineOption &operand : command.operands)
    out += optionText(operand, false);
  for (const CommandLineOption &flag : command.flags)
    out += optionText(flag, true);
  return out;
}

} // namespace

std::string manPage(const CommandLine &program) {
  std::string out = ".\\\" Written by `minic doc man` from the program's own command line; do not edit.\n"
                    ".TH MINIC 1 \"\" \"minic " MINIC_VERSION "\" \"User Commands\"\n.ad l\n";
  out += section("NAME") + "minic \\- a small tensor compiler\n";
  out +=
      section("SYNOPSIS") + bold("minic") + " " + italic("command") + " [" + italic("flags") + "] [" + italic("file") + " ...]\n";
  out += section("DESCRIPTION") + plain(program.help.substr(program.help.find(": ") + 2)) + "\n";
  out += section("OPTIONS");
  for (const CommandLineOption &flag : program.flags)
    out += optionText(flag, true);
  out += section("COMMANDS");
  for (const CommandLine *command : allCommands(program))
    if (command->commands.empty())
      out += commandText(*command);
  out += section("EXIT STATUS");
  for (auto [code, meaning] : exitCodes)
    out += item(bold(std::to_string(code)), meaning);
  out += section("ENVIRONMENT");
  for (auto [name, meaning] : variables)
    out += item(bold(name), meaning);
  out += section("FILES");
  for (auto [name, meaning] : files)
    out += item(italic(name), meaning);
  return out;
}

} // namespace minic::cli
