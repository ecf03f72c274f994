// What the sub-commands share: flags, reading and writing, messages, exit codes.
#pragma once

#include "minic/Compiler/Compiler.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace minic::cli {

enum ExitCode : int { Fine = 0, BadData = 1, BadFlags = 2, BadEnvironment = 3 };
inline constexpr std::pair<ExitCode, std::string_view> exitCodes[] = {{Fine, "fine"},
                                                                      {BadData, "anything wrong in files or tensors"},
                                                                      {BadFlags, "flags"},
                                                                      {BadEnvironment, "device or environment"}};

/// What the user asked for, once the command line is parsed.
using Action = std::function<int()>;
/// Each adds one sub-command that sets `chosen` if it is the one.
void addCompile(CLI::App &app, Action &chosen);
void addRun(CLI::App &app, Action &chosen);
void addCompare(CLI::App &app, Action &chosen);
void addCost(CLI::App &app, Action &chosen);
void addBench(CLI::App &app, Action &chosen);
void addTune(CLI::App &app, Action &chosen);
void addExplain(CLI::App &app, Action &chosen);
void addReport(CLI::App &app, Action &chosen);
void addOpt(CLI::App &app, Action &chosen);
void addBisect(CLI::App &app, Action &chosen);
void addReduce(CLI::App &app, Action &chosen);
void addFmt(CLI::App &app, Action &chosen);
void addDoc(CLI::App &app, Action &chosen);
void addInspect(CLI::App &app, Action &chosen);
void addCache(CLI::App &app, Action &chosen);
void addDoctor(CLI::App &app, Action &chosen);

//===- Messages -===//

/// Where messages go: text on stderr, or one JSON object a line with --json.
class Messages {
public:
  explicit Messages(bool json = false) : json(json) {}
  void note(const std::string &text) const;
  void print(const Diagnostics &list, const SourceBuffer *source = nullptr) const;
  /// Prints and gives the exit code that the findings ask for.
  int fail(const Diagnostics &list, const SourceBuffer *source = nullptr) const;

private:
  bool json;
};
/// The exit code for errors that no flag is to blame for but those that say so.
ExitCode exitCodeOf(const Diagnostics &list);
Diagnostic badFlag(std::string message, std::string fix = {});
/// `1 launch`, `5 launches`.
std::string plural(int64_t count, std::string_view noun);

//===- Files -===//

/// Reads a file, or standard input for `-`.
Expected<SourceBuffer> readSource(const std::string &path);
/// Writes to a file, or to standard output if `path` is empty.
Expected<void> writeOutput(const std::string &path, std::string_view bytes);

//===- Flags -===//

/// Flags of every sub-command that takes a module.
struct ModuleFlags {
  std::string file, graph, target, numerics, mode, matmul, strides, schedules, tunedFor;
  std::string cache = "off"; ///< "on" unless told otherwise in commands that take --cache.
  bool lineInfo = false;
  std::vector<std::string> dims, specializations, overrides;
  std::string passes;
  bool json = false;
  std::string traceFile;
  std::shared_ptr<Trace> trace; ///< There if its file is.
};
enum ModuleFlagSet : unsigned {
  WithGraph = 1,
  WithMode = 2,
  WithJson = 4,
  WithStrides = 8,
  WithSchedules = 16,
  WithCache = 32,
  WithLineInfo = 64,
  WithPasses = 128,
  WithOverrides = 256,
  WithTrace = 512
};
void addModuleFlags(CLI::App &command, ModuleFlags &flags, unsigned set);
/// A flag that may stand several times, one value each.
void addListFlag(CLI::App &command, const std::string &name, std::vector<std::string> &values, const std::string &help);
Expected<CompileOptions> compileOptions(const ModuleFlags &flags);
/// Writes what --trace asks for, and gives `code` if that works.
int finish(int code, const ModuleFlags &flags, const Messages &messages);
/// Says which schedules of --schedules are not used, and why.
void noteUnusedSchedules(const CompileOptions &options, const Messages &messages);
/// `KEY=VALUE`.
Expected<std::pair<std::string, std::string>> splitPair(std::string_view flag, std::string_view text);

/// Flags that watch the passes.
struct PassFlags {
  std::vector<std::string> printBefore, printAfter;
  bool printChanged = false, time = false;
};
void addPassFlags(CLI::App &command, PassFlags &flags);
/// What was seen of the passes.
struct PassRecord {
  std::vector<PassTiming> timings;
  std::string before;                 ///< The module before the pass that runs.
  std::vector<std::string> unchanged; ///< Passes that changed nothing.
};
/// Sets the hooks of `options`; what they print goes to stderr. `record` must outlive the run.
Expected<void> watchPasses(const PassFlags &flags, PassManagerOptions &options, PassRecord &record);
/// Prints what the flags ask for after the last pass.
void finishPasses(const PassFlags &flags, PassRecord &record);

//===- Modules -===//

/// A module together with what it needs.
struct LoadedModule {
  SourceBuffer source{{}, {}};
  Context context;
  std::unique_ptr<Module> module;
};
/// Loads and verifies; prints warnings. `loaded.source` is set before.
Expected<void> load(LoadedModule &loaded, const CompileOptions &options, const Messages &messages);

/// What commands on a module begin with: it, and the options that their flags ask for.
struct BegunModule : LoadedModule {
  CompileOptions options;
};
/// Looks at the flags that a command has of its own, which may change the options.
using FlagCheck = std::function<Expected<void>(CompileOptions &)>;
/// Reads all flags before the file. Says what is wrong and gives the exit code; nothing where `begun` is filled.
std::optional<int> beginWithModule(const ModuleFlags &flags, const Messages &messages, BegunModule &begun,
                                   const FlagCheck &checkFlags = {});

/// The same, with the graph that the flags name.
struct BegunGraph : BegunModule {
  Function *graph = nullptr;
};
std::optional<int> beginWithGraph(const ModuleFlags &flags, const Messages &messages, BegunGraph &begun,
                                  const FlagCheck &checkFlags = {});

/// `'it'\\''s'`: one word for the shell.
std::string shellWord(const std::string &text);

Expected<void> requireDims(const std::vector<std::string> &names, const DimBindings &dims, const std::string &command);

/// If `errors` say that a pass failed: runs the pipeline once more, writes the IR from before the pass to a file, and adds a note
/// with the command that reproduces the failure.
void addReproducer(Diagnostics &errors, const SourceBuffer &source, const CompileOptions &options, Stage stage);

} // namespace minic::cli
