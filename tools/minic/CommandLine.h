// The command line as data, read from CLI11's own, so that pages about it say what it takes.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace minic::cli {

struct CommandLineOption {
  std::vector<std::string> names; ///< `-o`, `--emit`; of an operand its one name, `file`.
  std::string help, value;        ///< `value`: what stands for the value, e.g. `TEXT`; empty for a flag that takes none.
  std::string standard;           ///< The default, where help does not say it.
  std::vector<std::string> words; ///< All that the value can be, where it is a word.
  bool required = false, repeats = false;
};

struct CommandLine {
  std::vector<std::string> path; ///< `cache`, `why`; of the program itself nothing.
  std::string help;
  std::vector<CommandLineOption> flags, operands;
  std::vector<CommandLine> commands;

  std::string name() const { return path.empty() ? std::string() : path.back(); }
  /// `cache why`
  std::string pathText(const std::string &separator = " ") const;
};

CommandLine commandLineOf(const CLI::App &app);
/// The command and all that are below it, it first.
std::vector<const CommandLine *> allCommands(const CommandLine &command);

//===- Pages -===//

/// A manual page in roff (groff_man(7)).
std::string manPage(const CommandLine &program);
std::string bashCompletion(const CommandLine &program);
std::string zshCompletion(const CommandLine &program);
std::string fishCompletion(const CommandLine &program);

/// How editors colour `.ir`, from the op tables: a TextMate grammar, and a syntax file of Vim.
std::string textMateGrammar();
std::string vimSyntax();

} // namespace minic::cli
