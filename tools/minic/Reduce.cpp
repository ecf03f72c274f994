// minic reduce: a smaller module for which a command still succeeds.
#include "Common.h"

#include "minic/Driver/Reduce.h"
#include "minic/Support/File.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char **environ;

namespace minic::cli {
namespace {

struct Flags {
  std::string file, test, output;
  int timeout = 60;
  bool json = false;
};

/// Runs the user's command on candidates, each in a file of a folder that nobody else reads.
class ShellTest {
public:
  ShellTest(const std::string &command, std::chrono::seconds timeout, PrivateFolder folder)
      : timeout(timeout), folder(std::move(folder)) {
    std::string path = shellWord(candidate()), filled;
    size_t from = 0;
    for (size_t at; (at = command.find("{}", from)) != std::string::npos; from = at + 2)
      filled += command.substr(from, at - from) + path;
    script = from ? filled + command.substr(from) : command + " " + path;
  }
  /// The exit status of the command, or -1 where it was stopped by a signal or took too long.
  int run(const std::string &text) {
    if (!writeOutput(candidate(), text))
      return -1;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP); // A group of its own, which can be ended as a whole.
    posix_spawnattr_setpgroup(&attributes, 0);
    char shell[] = "sh", flag[] = "-c";
    char *arguments[] = {shell, flag, script.data(), nullptr};
    pid_t child = 0;
    int error = posix_spawn(&child, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error ? -1 : wait(child);
  }

private:
  std::string candidate() const { return folder.file("candidate.ir"); }

  int wait(pid_t child) const {
    using Clock = std::chrono::steady_clock;
    auto end = Clock::now() + timeout;
    int status = 0;
    for (auto pause = std::chrono::milliseconds(1); waitpid(child, &status, WNOHANG) == 0;) {
      if (Clock::now() >= end) {
        kill(-child, SIGKILL);
        waitpid(child, &status, 0);
        return -1;
      }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(20));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::chrono::seconds timeout;
  PrivateFolder folder;
  std::string script;
};

int reduce(const Flags &flags) {
  Messages messages(flags.json);
  if (flags.timeout < 1)
    return messages.fail({badFlag("--timeout is at least 1 second")});
  auto source = readSource(flags.file);
  if (!source)
    return messages.fail(source.errors());
  auto folder = PrivateFolder::create();
  if (!folder)
    return messages.fail(folder.errors());
  ShellTest test(flags.test, std::chrono::seconds(flags.timeout), std::move(*folder));
  int first = 0, runs = 0;
  auto isInteresting = [&](const std::string &text) {
    int status = test.run(text);
    if (runs++ == 0)
      first = status;
    return status == 0;
  };
  ReduceOptions options{.onProgress = [&](const std::string &change, const Module &module) {
    messages.note(plural(int64_t(countOps(module)), "op") + " after " + plural(runs, "run") + ": " + change);
  }};
  auto reduced = reduceModule(*source, isInteresting, options);
  if (!reduced && reduced.errors().front().code == ErrorCode::BadArgument)
    return messages.fail(
        {badFlag("the command of --test does not succeed for '" + flags.file + "' itself: " +
                     (first < 0 ? "it was stopped, or took longer than --timeout" : "its exit code is " + std::to_string(first)),
                 "exit code 0 says that a candidate is still interesting; {} stands for its file")});
  if (!reduced)
    return messages.fail(reduced.errors(), &*source);
  if (auto written = writeOutput(flags.output, *reduced); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addReduce(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("reduce", "Make a module smaller as long as a command succeeds for it");
  command->add_option("file", flags->file, "the module; - reads standard input")->required();
  command
      ->add_option("--test", flags->test,
                   "a command for /bin/sh that says with exit code 0 that a candidate is still interesting; {} stands for the "
                   "candidate's file, which comes last without it")
      ->required();
  command->add_option("--timeout", flags->timeout, "seconds of one run, after which a candidate is not interesting")
      ->capture_default_str();
  command->add_option("-o", flags->output, "write to this file instead of standard output");
  command->add_flag("--json", flags->json, "messages as JSON");
  command->callback([flags, &chosen] { chosen = [flags] { return reduce(*flags); }; });
}

} // namespace minic::cli
