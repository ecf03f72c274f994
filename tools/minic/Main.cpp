// The program `minic`: picks the sub-command and turns whatever goes wrong into a message and an exit code.
#include "Common.h"

#include "minic/CodeGen/CodeGen.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <new>

using namespace minic;
using namespace minic::cli;

/// The long names of a command's flags.
static std::vector<std::string> flagNames(const CLI::App &command) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  return names;
}

static std::vector<std::string> commandNames(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands(nullptr))
    names.push_back(command->get_name());
  return names;
}

/// What is wrong with a command line that CLI11 refuses.
static Diagnostic commandLineError(CLI::App &app, const CLI::ParseError &error, const std::vector<std::string> &arguments) {
  CLI::App *command = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  std::string help = command == &app ? "minic --help" : "minic " + command->get_name() + " --help";
  std::vector<std::string> extras = app.remaining(true);
  for (const std::string &extra : extras) {
    bool flag = extra.size() > 1 && extra[0] == '-';
    std::string word = flag ? extra.substr(0, extra.find('=')) : extra;
    bool unknownCommand = !flag && command == &app;
    std::string near = didYouMean(word, flag             ? flagNames(*command)
                                        : unknownCommand ? commandNames(app)
                                                         : std::vector<std::string>());
    std::string what = flag             ? "unknown flag '" + word + "'"
                       : unknownCommand ? "unknown command '" + word + "'"
                                        : "one file too many: '" + word + "'";
    return badFlag(what, near.empty() ? "see " + help : "did you mean " + near + "?");
  }
  if (command == &app && arguments.empty())
    return badFlag("no command is given", "see " + help);
  return badFlag(error.what(), "see " + help);
}

static int run(int argc, char **argv) {
  CLI::App app(
      "minic: a small tensor compiler. A graph as text goes in, few fast GPU kernels come out; every level can be printed, "
      "changed and run.",
      "minic");
  Action chosen;
  app.require_subcommand(1);
  app.set_version_flag("--version", "minic " MINIC_VERSION " (LLVM " + llvmVersion() + ")");
  addCompile(app, chosen);
  addRun(app, chosen);
  addCompare(app, chosen);
  addBench(app, chosen);
  addTune(app, chosen);
  addCost(app, chosen);
  addExplain(app, chosen);
  addReport(app, chosen);
  addOpt(app, chosen);
  addBisect(app, chosen);
  addReduce(app, chosen);
  addFmt(app, chosen);
  addInspect(app, chosen);
  addCache(app, chosen);
  addDoctor(app, chosen);
  addDoc(app, chosen);
  std::string codes;
  for (auto [code, meaning] : exitCodes)
    codes += (codes.empty() ? "" : "; ") + std::to_string(code) + " " + std::string(meaning);
  app.footer("Exit codes: " + codes + ".");

  std::vector<std::string> arguments(argv + 1, argv + argc);
  Messages messages(std::find(arguments.begin(), arguments.end(), "--json") != arguments.end());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &asked) { // --help or --version: app.exit prints on stdout.
    app.exit(asked);
    return std::fflush(stdout) == 0 ? Fine : BadData;
  } catch (const CLI::ParseError &error) {
    return messages.fail({commandLineError(app, error, arguments)});
  }
  return chosen();
}

int main(int argc, char **argv) {
  // A closed pipe is a write that fails, and is reported as one.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc &) {
    std::fprintf(stderr, "error: not enough memory [E0905]\n");
  } catch (const std::exception &error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return BadEnvironment;
}
