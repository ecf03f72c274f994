#include "minic/Compiler/Ptxas.h"

#include "minic/Support/File.h"
#include "minic/Support/PtxLines.h"
#include "minic/Target/TargetInfo.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace minic {
namespace {

constexpr const char *toolkitFolder = "/usr/local/cuda/bin";

/// Runs a program with its words in `log`; its exit status, or -1 if it could not be run or was killed.
int runProgram(std::vector<std::string> words, const std::string &log) {
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

} // namespace

Expected<std::string> findPtxas() {
  const char *variable = std::getenv("PATH");
  std::string folders = std::string(variable ? variable : "") + ":" + toolkitFolder;
  for (size_t start = 0, end; start <= folders.size(); start = end + 1) {
    end = std::min(folders.find(':', start), folders.size());
    std::string candidate = folders.substr(start, end - start) + "/ptxas";
    if (end > start && access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return Diagnostic{.code = ErrorCode::MissingTool,
                    .message = "ptxas is not installed; looked in the folders of PATH and in " + std::string(toolkitFolder),
                    .fix = "install the CUDA toolkit, or use --emit=ptx"};
}

Expected<PtxasInfo> describePtxas() {
  auto ptxas = findPtxas();
  if (!ptxas)
    return ptxas.takeErrors();
  PtxasInfo info{.path = *ptxas};
  auto folder = PrivateFolder::create();
  if (!folder)
    return folder.takeErrors();
  auto answer = [&](const char *flag) {
    std::string log = folder->file("log");
    runProgram({*ptxas, flag}, log);
    auto words = readFile(log);
    return words ? *words : std::string();
  };
  std::string version = answer("--version"), help = answer("--help");
  int major = 0, minor = 0;
  if (size_t at = version.find(", release "); at != std::string::npos)
    if (std::sscanf(version.c_str() + at, ", release %3d.%2d", &major, &minor) == 2)
      info.cuda = major * 1000 + minor * 10;
  for (const TargetInfo &target : allTargets())
    if (help.find("'" + std::string(target.name) + "'") != std::string::npos)
      info.targets.emplace_back(target.name);
  return info;
}

namespace {

struct Assembled {
  std::string cubin, log;
};

Expected<Assembled> assemble(const std::string &ptx, const std::string &target, bool verbose) {
  auto ptxas = findPtxas();
  if (!ptxas)
    return ptxas.takeErrors();
  auto folder = PrivateFolder::create();
  if (!folder)
    return folder.takeErrors();
  std::string input = folder->file("module.ptx"), output = folder->file("module.cubin"), log = folder->file("log");
  if (auto written = replaceFile(input, ptx); !written)
    return written.takeErrors();
  std::vector<std::string> words = {*ptxas, "-arch=" + target, "-o", output, input};
  if (verbose)
    words.push_back("-v");
  if (hasLineInfo(ptx))
    words.emplace_back("-lineinfo");
  int status = runProgram(words, log);
  auto said = readFile(log);
  if (status != 0) {
    Diagnostic error{.code = ErrorCode::BackendFailed, .message = *ptxas + " refused the PTX for " + target};
    if (said) {
      error.note(*said);
      if (auto place = ptxErrorPlace(ptx, *said))
        error.note("line " + std::to_string(place->line) + " of the PTX: " + place->text).loc = place->from.loc;
    }
    return error;
  }
  auto cubin = readFile(output);
  if (!cubin)
    return cubin.takeErrors();
  return Assembled{std::move(*cubin), said ? std::move(*said) : std::string()};
}

} // namespace

Expected<std::string> assemblePtx(const std::string &ptx, const std::string &target) {
  auto done = assemble(ptx, target, false);
  if (!done)
    return done.takeErrors();
  return std::move(done->cubin);
}

Expected<std::vector<PtxasUsage>> usageOfPtx(const std::string &ptx, const std::string &target) {
  auto done = assemble(ptx, target, true);
  if (!done)
    return done.takeErrors();
  // ptxas info    : Compiling entry function 'f' for 'sm_90a'
  //     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
  // ptxas info    : Used 40 registers, used 0 barriers
  std::vector<PtxasUsage> kernels;
  std::istringstream lines(done->log);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view entry = "entry function '";
    if (size_t at = line.find(entry); at != std::string::npos) {
      at += entry.size();
      kernels.push_back({.kernel = line.substr(at, line.find('\'', at) - at)});
    }
    if (kernels.empty())
      continue;
    PtxasUsage &kernel = kernels.back();
    long long stores = 0, loads = 0, registers = 0;
    if (std::sscanf(line.c_str(), " %*d bytes stack frame, %lld bytes spill stores, %lld bytes spill loads", &stores, &loads) ==
        2) {
      kernel.spillStores = stores;
      kernel.spillLoads = loads;
    }
    if (size_t at = line.find("Used ");
        at != std::string::npos && std::sscanf(line.c_str() + at, "Used %lld registers", &registers) == 1)
      kernel.registers = registers;
  }
  return kernels;
}

} // namespace minic
