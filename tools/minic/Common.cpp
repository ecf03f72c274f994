#include "Common.h"

#include "minic/Driver/Driver.h"
#include "minic/IR/Printer.h"
#include "minic/Support/File.h"
#include "minic/Support/LineDiff.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/PassPipeline.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace minic::cli {

//===- Messages -===//

static nlohmann::json locationJson(SourceLoc loc) {
  loc = loc.inText();
  return loc.isValid() ? nlohmann::json{{"line", loc.line}, {"column", loc.column}} : nlohmann::json(nullptr);
}

static nlohmann::json toJson(const Diagnostic &diagnostic, const SourceBuffer *source) {
  nlohmann::json notes = nlohmann::json::array();
  for (const DiagnosticNote &note : diagnostic.notes)
    notes.push_back({{"message", note.message}, {"location", locationJson(note.loc)}});
  return {{"severity", diagnostic.severity == Severity::Error ? "error" : "warning"},
          {"code", errorCodeName(diagnostic.code)},
          {"message", diagnostic.message},
          {"file", source ? nlohmann::json(source->name()) : nlohmann::json(nullptr)},
          {"location", locationJson(diagnostic.loc)},
          {"notes", notes},
          {"fix", diagnostic.fix}};
}

/// Text of untrusted origin may hold any bytes; JSON is UTF-8.
static std::string dump(const nlohmann::json &json) { return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

void Messages::note(const std::string &text) const {
  std::string line = json ? dump({{"severity", "note"}, {"message", text}}) : "note: " + text;
  std::fprintf(stderr, "%s\n", line.c_str());
}

void Messages::print(const Diagnostics &list, const SourceBuffer *source) const {
  if (json) {
    for (const Diagnostic &diagnostic : list)
      std::fprintf(stderr, "%s\n", dump(toJson(diagnostic, source)).c_str());
    return;
  }
  bool colour = isatty(STDERR_FILENO) && !std::getenv("NO_COLOR");
  std::string text = renderDiagnostics(list, source, colour);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

int Messages::fail(const Diagnostics &list, const SourceBuffer *source) const {
  print(list, source);
  return exitCodeOf(list);
}

ExitCode exitCodeOf(const Diagnostics &list) {
  ExitCode code = Fine;
  for (const Diagnostic &diagnostic : list) {
    if (diagnostic.severity != Severity::Error)
      continue;
    std::string_view name = errorCodeName(diagnostic.code);
    bool flag = name.starts_with("E10") || diagnostic.code == ErrorCode::UnknownDim || diagnostic.code == ErrorCode::UnknownPass;
    code = std::max(code, name.starts_with("E09") ? BadEnvironment : flag ? BadFlags : BadData);
  }
  return code;
}

Diagnostic badFlag(std::string message, std::string fix) {
  return {.code = ErrorCode::BadFlag, .message = std::move(message), .fix = std::move(fix)};
}

std::string plural(int64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " " + std::string(noun);
  if (count != 1)
    text += noun.ends_with("ch") ? "es" : "s";
  return text;
}

//===- Files -===//

/// What messages and code call the file.
static std::string sourceName(const std::string &path) { return path == "-" ? "<stdin>" : path; }

Expected<SourceBuffer> readSource(const std::string &path) {
  bool standardInput = path == "-";
  std::string name = sourceName(path);
  auto text = standardInput ? readStream(stdin, name) : readFile(path);
  if (!text)
    return text.takeErrors();
  return SourceBuffer(std::move(name), std::move(*text));
}

Expected<void> writeOutput(const std::string &path, std::string_view bytes) {
  std::FILE *file = path.empty() ? stdout : std::fopen(path.c_str(), "wb");
  auto failed = [&](int error) {
    return Diagnostic{.code = ErrorCode::UnreadableFile,
                      .message = "cannot write '" + (path.empty() ? "<stdout>" : path) + "': " + std::strerror(error)};
  };
  if (!file)
    return failed(errno);
  bool good = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fflush(file) == 0;
  int error = errno;
  if (!path.empty() && std::fclose(file) != 0 && good) {
    good = false;
    error = errno;
  }
  if (!good)
    return failed(error);
  return {};
}

//===- Flags -===//

void addListFlag(CLI::App &command, const std::string &name, std::vector<std::string> &values, const std::string &help) {
  // Without this a list would take the file that follows as well.
  command.add_option(name, values, help)->type_size(1)->allow_extra_args(false);
}

void addModuleFlags(CLI::App &command, ModuleFlags &flags, unsigned set) {
  command.add_option("file", flags.file, "the module; - reads standard input")->required();
  std::string targets;
  for (const TargetInfo &target : allTargets())
    targets += (targets.empty() ? "" : "|") + std::string(target.name);
  command.add_option("--target", flags.target, targets + " (default: the file's, else " + std::string(defaultTarget) + ")");
  command.add_option("--numerics", flags.numerics, "exact|default|fast (default: the file's, else default)");
  addListFlag(command, "--dim", flags.dims, "bind a dim name, e.g. --dim M=4096; may stand several times");
  if (set & WithMode)
    command.add_option("--mode", flags.mode, "fused|eager: one kernel per fusion region, or per op");
  command.add_option("--matmul", flags.matmul,
                     "auto|generated|cublaslt: whose products are taken (default: auto: generated ones, but where --schedules says "
                     "that cuBLASLt's are quicker)");
  if (set & WithStrides)
    command.add_option("--strides", flags.strides,
                       "any|dense: whether there is a plan for tensors of any strides and alignment behind the one for row-major "
                       "tensors (default: any for artifacts, dense for what --emit shows)");
  if (set & WithStrides)
    addListFlag(
        command, "--specialize", flags.specializations,
        "put a plan for some sizes in front of the one for all: --specialize=\"N % 8 == 0, M == 1\"; may stand several times");
  if (set & WithSchedules) {
    command.add_option("--schedules", flags.schedules,
                       "use the schedules of this file, which `minic tune` writes, where they fit, before those that minic brings; "
                       "none: no tuned ones at all");
    command.add_option("--tuned-for", flags.tunedFor,
                       "the GPU whose tuned schedules are used, e.g. \"NVIDIA H200\" (default: the one that is run on)");
  }
  if (set & WithCache) {
    flags.cache = "on";
    command.add_option(
        "--cache", flags.cache,
        "on|off|refresh|must-hit: keep what is compiled for later processes and take it from there; compile again and "
        "keep that; or refuse to compile (default: on; `minic cache info` says where)");
  }
  if (set & WithLineInfo)
    command.add_flag(
        "--line-info", flags.lineInfo,
        "code says which lines of the file it is from (PTX `.loc`), for profilers, compute-sanitizer and error messages");
  if (set & WithPasses)
    command.add_option(
        "--passes", flags.passes,
        "the passes to run instead of the usual ones, e.g. \"canonicalize,fuse{max=8},choose-schedule{bm=64},tile,mask\" "
        "(see minic doc passes); an artifact says by which it was compiled");
  if (set & WithOverrides)
    addListFlag(command, "--override", flags.overrides,
                "take a kernel's code from a file: --override=@KERNEL=FILE.ptx, or FILE.ll with LLVM IR; may stand several times");
  if (set & WithTrace)
    command.add_option_function<std::string>(
        "--trace",
        [&flags](const std::string &file) {
          flags.traceFile = file;
          flags.trace = std::make_shared<Trace>();
        },
        "write what took how long to this file, in the Chrome trace format, which Perfetto shows");
  if (set & WithGraph)
    command.add_option("--graph", flags.graph, "which graph or plan of the file");
  if (set & WithJson)
    command.add_flag("--json", flags.json, "results and messages as JSON");
}

Expected<std::pair<std::string, std::string>> splitPair(std::string_view flag, std::string_view text) {
  size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size())
    return badFlag(std::string(flag) + " takes NAME=VALUE, not '" + std::string(text) + "'");
  return std::pair(std::string(text.substr(0, equals)), std::string(text.substr(equals + 1)));
}

static std::optional<Diagnostic> checkWord(std::string_view flag, const std::string &word, std::vector<std::string> words) {
  if (word.empty() || std::find(words.begin(), words.end(), word) != words.end())
    return std::nullopt;
  std::string list, near = didYouMean(word, words);
  for (const std::string &other : words)
    list += (list.empty() ? "" : ", ") + other;
  return badFlag("unknown " + std::string(flag) + " '" + word + "'",
                 (near.empty() ? "" : "did you mean " + near + "? ") + std::string("It is one of ") + list);
}

static Expected<std::vector<KernelOverride>> readOverrides(const std::vector<std::string> &words) {
  std::vector<KernelOverride> overrides;
  for (const std::string &word : words) {
    auto pair = splitPair("--override", word);
    if (!pair)
      return pair.takeErrors();
    auto &[name, file] = *pair;
    if (name.starts_with('@'))
      name.erase(0, 1);
    if (!file.ends_with(".ptx") && !file.ends_with(".ll"))
      return badFlag("--override takes PTX or LLVM IR, and '" + file + "' is neither by its name",
                     "name the file FILE.ptx or FILE.ll");
    if (std::ranges::find(overrides, name, &KernelOverride::kernel) != overrides.end())
      return badFlag("--override @" + name + " is given twice");
    auto text = readFile(file);
    if (!text)
      return text.takeErrors();
    overrides.push_back({name, file, std::move(*text)});
  }
  return overrides;
}

Expected<CompileOptions> compileOptions(const ModuleFlags &flags) {
  std::vector<std::string> targets;
  for (const TargetInfo &target : allTargets())
    targets.emplace_back(target.name);
  if (auto error = checkWord("target", flags.target, targets))
    return *error;
  if (auto error = checkWord("numerics", flags.numerics, {"exact", "default", "fast"}))
    return *error;
  if (auto error = checkWord("mode", flags.mode, {"fused", "eager"}))
    return *error;
  if (auto error = checkWord("matmul", flags.matmul, {"auto", "generated", "cublaslt"}))
    return *error;
  if (auto error = checkWord("strides", flags.strides, {"any", "dense"}))
    return *error;
  CompileOptions options;
  options.target = flags.target;
  options.numerics = flags.numerics;
  options.eager = flags.mode == "eager";
  options.matmul = parseMatmulProvider(flags.matmul).value_or(MatmulProvider::Auto);
  options.graph = flags.graph;
  options.lineInfo = flags.lineInfo;
  options.trace = flags.trace;
  options.lines.file = sourceName(flags.file);
  options.specializations = flags.specializations;
  if (!flags.schedules.empty()) {
    if (auto done = useSchedules(options, flags.schedules); !done)
      return done.takeErrors();
    options.scheduleReport = std::make_shared<ScheduleReport>();
  }
  options.tunedFor = flags.tunedFor;
  if (!flags.passes.empty()) {
    auto steps = parsePipeline(flags.passes, "--passes");
    if (!steps)
      return steps.takeErrors();
    options.pipeline = pipelineText(*steps);
  }
  auto overrides = readOverrides(flags.overrides);
  if (!overrides)
    return overrides.takeErrors();
  options.overrides = std::move(*overrides);
  if (!flags.strides.empty())
    options.anyStrides = flags.strides == "any";
  for (const std::string &dim : flags.dims) {
    auto pair = splitPair("--dim", dim);
    if (!pair)
      return pair.takeErrors();
    const auto &[name, text] = *pair;
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > INT32_MAX)
      return badFlag("--dim " + name + " takes a number from 0 to 2147483647, not '" + text + "'");
    auto [entry, fresh] = options.dims.emplace(name, value);
    if (!fresh && entry->second != value)
      return badFlag("--dim " + name + " is given as " + std::to_string(entry->second) + " and as " + text);
  }
  auto cache =
      openCache(flags.cache, {.notice = [json = flags.json](const Diagnostic &notice) { Messages(json).print({notice}); }});
  if (!cache)
    return cache.takeErrors();
  options.cache = std::move(*cache);
  return options;
}

int finish(int code, const ModuleFlags &flags, const Messages &messages) {
  if (flags.trace)
    if (auto written = writeOutput(flags.traceFile, flags.trace->json() + "\n"); !written)
      return messages.fail(written.errors());
  return code;
}

void noteUnusedSchedules(const CompileOptions &options, const Messages &messages) {
  if (options.schedules && options.scheduleReport)
    for (const std::string &sentence : unusedSchedules(*options.schedules, *options.scheduleReport))
      messages.note(sentence);
}

void addPassFlags(CLI::App &command, PassFlags &flags) {
  addListFlag(command, "--print-before", flags.printBefore, "print the module before a pass, or before `all`, on stderr");
  addListFlag(command, "--print-after", flags.printAfter, "print the module after a pass, or after `all`, on stderr");
  command.add_flag("--print-changed", flags.printChanged,
                   "print what each pass changed, as a diff of the module, and the names of those that changed nothing, on stderr");
  command.add_flag("--time-passes", flags.time, "print the time of each pass, of reading and of code generation on stderr");
}

static std::optional<Diagnostic> checkPassNames(std::string_view flag, const std::vector<std::string> &names) {
  std::vector<std::string> known = {"all"};
  for (const Pass &pass : allPasses())
    known.emplace_back(pass.name);
  for (const std::string &name : names)
    if (auto error = checkWord("pass", name, known)) {
      error->message += " in " + std::string(flag);
      return error;
    }
  return std::nullopt;
}

/// A hook that prints the module if the pass is among `names`.
static std::function<void(const Pass &, Module &)> printer(std::string when, std::vector<std::string> names) {
  if (names.empty())
    return nullptr;
  return [when = std::move(when), names = std::move(names)](const Pass &pass, Module &module) {
    if (std::none_of(names.begin(), names.end(), [&](const std::string &name) { return name == "all" || name == pass.name; }))
      return;
    std::string text = printModule(module);
    std::fprintf(stderr, "// ----- %s %s -----\n%s", when.c_str(), std::string(pass.name).c_str(), text.c_str());
  };
}

static void printUnchanged(std::vector<std::string> &names) {
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + name;
  if (!names.empty())
    std::fprintf(stderr, "// ----- unchanged: %s -----\n", list.c_str());
  names.clear();
}

/// Both hooks, in order; either may be null.
static std::function<void(const Pass &, Module &)> both(std::function<void(const Pass &, Module &)> first,
                                                        std::function<void(const Pass &, Module &)> second) {
  if (!first || !second)
    return first ? first : second;
  return [first = std::move(first), second = std::move(second)](const Pass &pass, Module &module) {
    first(pass, module);
    second(pass, module);
  };
}

Expected<void> watchPasses(const PassFlags &flags, PassManagerOptions &options, PassRecord &record) {
  if (auto error = checkPassNames("--print-before", flags.printBefore))
    return *error;
  if (auto error = checkPassNames("--print-after", flags.printAfter))
    return *error;
  options.beforePass = printer("before", flags.printBefore);
  options.afterPass = printer("after", flags.printAfter);
  if (flags.printChanged) {
    options.beforePass = both(options.beforePass, [&](const Pass &, Module &module) { record.before = printModule(module); });
    options.afterPass = both(
        [&](const Pass &pass, Module &module) {
          std::string name(pass.name), changes = textDiff(record.before, printModule(module));
          if (changes.empty()) {
            record.unchanged.push_back(name);
            return;
          }
          printUnchanged(record.unchanged);
          std::fprintf(stderr, "// ----- changed by %s -----\n%s", name.c_str(), changes.c_str());
        },
        options.afterPass);
  }
  if (flags.time)
    options.timings = &record.timings;
  return {};
}

void finishPasses(const PassFlags &flags, PassRecord &record) {
  printUnchanged(record.unchanged);
  if (!flags.time)
    return;
  double total = 0;
  for (const PassTiming &timing : record.timings) {
    std::fprintf(stderr, "%9.3f ms  %s\n", timing.milliseconds, timing.name.c_str());
    total += timing.milliseconds;
  }
  std::fprintf(stderr, "%9.3f ms  total\n", total);
}

//===- Modules -===//

Expected<void> load(LoadedModule &loaded, const CompileOptions &options, const Messages &messages) {
  Diagnostics warnings;
  auto module = loadModule(loaded.context, loaded.source, options, &warnings);
  if (!module)
    return module.takeErrors();
  messages.print(warnings, &loaded.source);
  loaded.module = std::move(*module);
  return {};
}

std::optional<int> beginWithModule(const ModuleFlags &flags, const Messages &messages, BegunModule &begun,
                                   const FlagCheck &checkFlags) {
  auto options = compileOptions(flags);
  if (!options)
    return messages.fail(options.errors());
  begun.options = std::move(*options);
  if (checkFlags)
    if (auto checked = checkFlags(begun.options); !checked)
      return messages.fail(checked.errors());
  auto source = readSource(flags.file);
  if (!source)
    return messages.fail(source.errors());
  begun.source = std::move(*source);
  if (auto done = load(begun, begun.options, messages); !done)
    return messages.fail(done.errors(), &begun.source);
  return std::nullopt;
}

std::optional<int> beginWithGraph(const ModuleFlags &flags, const Messages &messages, BegunGraph &begun,
                                  const FlagCheck &checkFlags) {
  if (auto failed = beginWithModule(flags, messages, begun, checkFlags))
    return failed;
  auto graph = chooseGraph(*begun.module, flags.graph);
  if (!graph)
    return messages.fail(graph.errors(), &begun.source);
  begun.graph = *graph;
  return std::nullopt;
}

std::string shellWord(const std::string &text) {
  std::string word = "'";
  for (char c : text)
    word += c == '\'' ? "'\\''" : std::string(1, c);
  return word + "'";
}

Expected<void> requireDims(const std::vector<std::string> &names, const DimBindings &dims, const std::string &command) {
  std::string missing, flags;
  for (const std::string &name : names)
    if (!dims.contains(name)) {
      missing += (missing.empty() ? "" : ", ") + name;
      flags += " --dim " + name + "=64";
    }
  if (missing.empty())
    return {};
  return Diagnostic{
      .code = ErrorCode::UnboundDim, .message = "no value is given for dim " + missing, .fix = "for example: " + command + flags};
}

void addReproducer(Diagnostics &errors, const SourceBuffer &source, const CompileOptions &options, Stage stage) {
  auto failed = std::find_if(errors.begin(), errors.end(), [](const Diagnostic &d) { return d.code == ErrorCode::PassFailed; });
  if (failed == errors.end())
    return;
  Context context;
  auto module = loadModule(context, source, options);
  std::string input, pass;
  CompileOptions again = options;
  again.passes = {};
  again.passes.beforePass = [&](const Pass &next, Module &) { pass = next.name; };
  if (!module || lowerTo(**module, std::min(stage, Stage::Plan), again, &input) || input.empty())
    return;
  std::string path = temporaryName(".ir");
  int descriptor = mkstemps(path.data(), 3);
  if (descriptor < 0)
    return;
  close(descriptor);
  if (writeOutput(path, input))
    failed->note("to see it again: minic opt " + path + " --passes=" + pass + (options.eager ? " --mode=eager" : ""));
}

} // namespace minic::cli
