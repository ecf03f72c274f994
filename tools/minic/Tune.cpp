// minic tune: searches the schedules of a graph's fusion regions on the device for faster ones, and keeps them in a file; and
// merges such files.
#include "RegionBench.h"
#include "TuneProgress.h"

#include "minic/Driver/Driver.h"
#include "minic/Support/File.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>

namespace minic::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags : ExecutionFlags {
  ToleranceFlags tolerance;
  SearchOptions search;
  std::string output, regions, how = "cold";
  std::vector<std::string> merged; ///< Files to merge instead.
  double budget = 0, noise = 2, seconds = 30;
  int rounds = 0; ///< 0: as many as suit the device.
  unsigned jobs = 0;
  size_t candidates = 256;
  bool again = false, oracle = false;
};

volatile std::sig_atomic_t interrupted = 0;
/// The first Ctrl-C stops the search, a second one the program.
void catchInterrupt() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
}
constexpr int exitInterrupted = 130;

/// What the search found out about one region.
struct Tuned {
  const FusedRegion *region;
  std::vector<Schedule> schedules;
  SearchResult result;
  std::string checkedAgainst;

  size_t count(Verdict::Kind kind) const {
    return size_t(std::ranges::count(result.verdicts, kind, [](const Verdict &verdict) { return verdict.kind; }));
  }
};

//===- Reports -===//

std::string text(const Tuned &tuned, const std::string &how) {
  const SearchResult &result = tuned.result;
  std::string out = "\n" + tuned.region->title + "\n  " + plural(int64_t(tuned.schedules.size()), "schedule") + ", " +
                    std::to_string(tuned.count(Verdict::Good)) + " right by " + tuned.checkedAgainst + ", " +
                    std::to_string(tuned.count(Verdict::Refused)) + " refused, " + std::to_string(tuned.count(Verdict::Wrong)) +
                    " wrong; times " + how +
                    (result.finished ? result.sure ? "" : "; not sure, since times are at the edge of noise" : "; not finished") +
                    "\n";
  if (!result.found())
    return out + "  nothing is timed yet\n";
  auto line = [&](const char *title, size_t schedule) {
    char time[64];
    std::snprintf(time, sizeof time, "  %-8s %10.3f us  ", title, result.us[schedule]);
    out += time + Attribute(tuned.schedules[schedule].toAttr()).str() + "\n";
  };
  line("default", 0);
  if (result.best == 0)
    return out + "  best     the default: no other is faster by more than noise\n";
  line("best", result.best);
  return out + "  " + number(result.us[0] / result.us[result.best]) + " times as fast\n";
}

nlohmann::json json(const Tuned &tuned) {
  static constexpr const char *verdicts[] = {"good", "refused", "wrong"};
  const SearchResult &result = tuned.result;
  nlohmann::json list = nlohmann::json::array();
  for (size_t i = 0; i < result.verdicts.size(); ++i) {
    const Verdict &verdict = result.verdicts[i];
    list.push_back({{"schedule", Attribute(tuned.schedules[i].toAttr()).str()}, {"verdict", verdicts[verdict.kind]}});
    if (result.us[i] > 0)
      list.back()["us"] = result.us[i];
    if (!verdict.why.empty())
      list.back()["why"] = verdict.why;
  }
  nlohmann::json region = {
      {"region", tuned.region->name}, {"title", tuned.region->title}, {"checked_against", tuned.checkedAgainst},
      {"finished", result.finished},  {"sure", result.sure},          {"candidates", list}};
  if (result.found()) {
    region["default_us"] = result.us[0];
    region["best_us"] = result.us[result.best];
    region["best"] = Attribute(tuned.schedules[result.best].toAttr()).str();
  }
  return region;
}

//===- The search -===//

class Tuner {
public:
  Tuner(const Flags &flags, const Messages &messages, const OpenedDevice &opened, std::span<const HostTensor> inputs,
        MatmulProvider matmul)
      : flags(flags), messages(messages), opened(opened), inputs(inputs),
        withLibrary(opened.gpu && matmul != MatmulProvider::Generated) {} // The interpreter's times say nothing of a library.

  /// What was found before goes on in the same file.
  Expected<void> readFound() {
    if (flags.output.empty() || !std::filesystem::exists(flags.output))
      return {};
    auto found = readSchedules(flags.output);
    if (!found)
      return found.takeErrors();
    table = std::move(*found);
    return {};
  }

  Expected<void> run(const std::vector<FusedRegion> &regions) {
    RegionBenchOptions benchOptions{.tolerance = flags.tolerance, .jobs = flags.jobs, .oracle = flags.oracle};
    benchOptions.how = flags.how == "warm" ? How::Warm : flags.how == "graph" ? How::Graph : How::Cold;
    for (size_t i = 0; i < regions.size() && !isStopped(); ++i) {
      if (isDecided(regions[i])) {
        ++decided;
        continue;
      }
      TuneProgress progress(i, regions.size(), regions[i].name);
      auto bench = RegionBench::create(opened, regions[i], inputs, benchOptions);
      if (!bench)
        return bench.takeErrors();
      if (auto done = search(regions[i], **bench, progress); !done)
        return done.takeErrors();
      if (auto kept = keep(all.back()); !kept)
        return kept.takeErrors();
    }
    return {};
  }

  /// Why the search ended before its end, or nothing.
  std::string whyStopped() const {
    return interrupted ? "interrupted" : isStopped() ? "the budget of " + number(flags.budget) + " s is used up" : "";
  }
  const std::vector<Tuned> &tuned() const { return all; }
  size_t wrong() const {
    size_t count = 0;
    for (const Tuned &region : all)
      count += region.count(Verdict::Wrong);
    return count;
  }
  size_t decidedRegions() const { return decided; }

private:
  bool isStopped() const { return interrupted || (flags.budget > 0 && secondsSince(start) > flags.budget); }
  static double secondsSince(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

  TunedSchedule entryOf(const FusedRegion &region) const {
    std::vector<int64_t> sizes;
    for (const DimExpr &size : region.key.sizes)
      sizes.push_back(size.constant().value_or(0)); // All are bound.
    return {.region = region.key.text,
            .sizes = std::move(sizes),
            .target = region.target,
            .numerics = region.numerics,
            .device = opened.model(),
            .title = region.title};
  }

  bool isDecided(const FusedRegion &region) const {
    const TunedSchedule *known = table.find(entryOf(region));
    if (!known || !known->finished || flags.again)
      return false;
    messages.note("region '" + region.name + "' is decided: " + flags.output + ":" + std::to_string(known->line) +
                  "; --again tunes it anew");
    return true;
  }

  Expected<void> search(const FusedRegion &region, RegionBench &bench, TuneProgress &progress) {
    auto schedules = schedulesOf(region, flags.candidates, withLibrary);
    if (!schedules)
      return schedules.takeErrors();
    all.push_back({&region, std::move(*schedules), {}, bench.checkedAgainst()});
    const std::vector<Schedule> &list = all.back().schedules;
    std::vector<std::string> texts;
    for (const Schedule &schedule : list)
      texts.push_back(Attribute(schedule.toAttr()).str());
    bench.start(list);
    SearchSubject subject{.candidates = list.size()};
    subject.check = [&](size_t i) {
      Verdict verdict = bench.check(i);
      if (verdict.kind == Verdict::Wrong) {
        progress.clear();
        messages.print(
            {Diagnostic{.code = ErrorCode::Mismatch,
                        .message = "a fault of minic: region '" + region.name + "' with " + texts[i] + ": " + verdict.why}});
      }
      return verdict;
    };
    subject.isSmaller = [&](size_t a, size_t b) {
      auto size = [&](size_t i) {
        int64_t elements = 1;
        for (int64_t block : list[i].block)
          elements *= block;
        return std::tuple(list[i].isLibrary(), list[i].numThreads(), elements,
                          texts[i]); // What minic makes before what others make.
      };
      return size(a) < size(b);
    };
    subject.isStopped = [&] { return isStopped(); };
    std::optional<Clock::time_point> firstTime;
    subject.time = [&](size_t i) {
      firstTime = firstTime.value_or(Clock::now());
      return bench.time(i);
    };
    subject.isLate = [&] { return firstTime && secondsSince(*firstTime) > flags.seconds; };
    subject.onProgress = [&](const SearchProgress &now) { progress.show(now); };
    SearchOptions options = flags.search;
    constexpr int roundsOfInterpreter = 8; // Its times say nothing.
    options.rounds = flags.rounds ? flags.rounds : opened.gpu ? options.rounds : roundsOfInterpreter;
    auto result = searchFastest(subject, options);
    bench.stop();
    if (!result)
      return result.takeErrors();
    all.back().result = std::move(*result);
    decided += all.back().result.finished;
    return {};
  }

  /// Adds what was found to the table and the file. What was not finished does not replace what was.
  Expected<void> keep(const Tuned &tuned) {
    const SearchResult &result = tuned.result;
    TunedSchedule entry = entryOf(*tuned.region);
    const TunedSchedule *known = table.find(entry);
    if (flags.output.empty() || !result.found() || (known && known->finished && !result.finished))
      return {};
    entry.own = tuned.schedules[0].toAttr();
    entry.best = tuned.schedules[result.best].toAttr();
    entry.ownUs = result.us[0];
    entry.bestUs = result.us[result.best];
    entry.finished = result.finished;
    table.set(std::move(entry));
    return replaceFile(flags.output, table.text());
  }

  const Flags &flags;
  const Messages &messages;
  const OpenedDevice &opened;
  std::span<const HostTensor> inputs;
  const bool withLibrary; ///< cuBLASLt's products are candidates.
  const Clock::time_point start = Clock::now();
  ScheduleTable table;
  std::vector<Tuned> all;
  size_t decided = 0;
};

/// Those that --regions names, in the order of the graph.
Expected<std::vector<FusedRegion>> pickRegions(std::vector<FusedRegion> regions, const std::string &names) {
  if (names.empty())
    return regions;
  std::vector<std::string> known;
  std::string list;
  for (const FusedRegion &region : regions) {
    known.push_back(region.name);
    list += (list.empty() ? "" : ", ") + region.name;
  }
  std::set<std::string> wanted;
  for (size_t start = 0, end; start <= names.size(); start = end + 1) {
    end = std::min(names.find(',', start), names.size());
    std::string name = names.substr(start, end - start);
    if (std::ranges::find(known, name) == known.end())
      return badFlag("--regions=" + names + ": no region is called '" + name + "'", "the regions are " + list);
    wanted.insert(name);
  }
  std::erase_if(regions, [&](const FusedRegion &region) { return !wanted.contains(region.name); });
  return regions;
}

int report(const Tuner &tuner, const Flags &flags, const OpenedDevice &opened, const std::string &graph, size_t regions,
           const Messages &messages) {
  std::string how = !opened.gpu           ? "of the interpreter, which say nothing of a GPU"
                    : flags.how == "cold" ? "with cold L2"
                                          : flags.how;
  std::string out = graph + " on " + (opened.gpu ? opened.model() : "the interpreter (CPU)") + "\n";
  nlohmann::json list = nlohmann::json::array();
  for (const Tuned &tuned : tuner.tuned()) {
    out += text(tuned, how);
    list.push_back(json(tuned));
  }
  if (flags.json)
    out = nlohmann::json{{"graph", graph}, {"device", opened.model()}, {"how", flags.how}, {"regions", list}}.dump() + "\n";
  if (auto written = writeOutput({}, out); !written)
    return messages.fail(written.errors());
  if (std::string why = tuner.whyStopped(); !why.empty())
    messages.note("stopped: " + why + "; " + std::to_string(tuner.decidedRegions()) + " of " + plural(int64_t(regions), "region") +
                  " decided" + (flags.output.empty() ? "" : ", in " + flags.output + ", from where the same command goes on"));
  if (size_t wrong = tuner.wrong())
    return messages.fail({Diagnostic{.code = ErrorCode::Mismatch,
                                     .message = plural(int64_t(wrong), "schedule") + " gave wrong results and took no part",
                                     .fix = "report it with the graph and the lines above"}});
  return interrupted ? exitInterrupted : int(Fine);
}

std::optional<Diagnostic> checkFlags(const Flags &flags) {
  if (flags.how != "cold" && flags.how != "warm" && flags.how != "graph")
    return badFlag("unknown way of timing '" + flags.how + "'", "--how is one of cold, warm, graph");
  if (flags.budget < 0 || !(flags.noise >= 0 && flags.noise < 100) || !(flags.seconds > 0) || flags.candidates < 1 ||
      flags.rounds < 0)
    return badFlag(
        "--candidates must be at least 1, --budget, --rounds and --noise at least 0, --noise less than 100 and --seconds more "
        "than 0");
  return std::nullopt;
}

/// Puts files together: what is known of each key best.
int merge(const Flags &flags) {
  Messages messages(flags.json);
  if (!flags.file.empty())
    return messages.fail(
        {badFlag("--merge takes files of schedules, and '" + flags.file + "' stands before it", "minic tune --merge A B -o C")});
  ScheduleTable all;
  Diagnostics errors;
  for (const std::string &file : flags.merged) {
    auto table = readSchedules(file);
    if (!table) {
      errors.insert(errors.end(), table.errors().begin(), table.errors().end());
      continue;
    }
    for (uint32_t line : table->looseComments)
      messages.note(file + ":" + std::to_string(line) + ": a comment that stands before no region is dropped");
    for (const std::string &conflict : all.merge(*table))
      messages.note(conflict);
  }
  if (!errors.empty()) // All of them, and nothing written.
    return messages.fail(errors);
  auto written = flags.output.empty() ? writeOutput({}, all.text()) : replaceFile(flags.output, all.text());
  return written ? int(Fine) : messages.fail(written.errors());
}

int tune(Flags flags) {
  if (!flags.merged.empty())
    return merge(flags);
  Messages messages(flags.json);
  if (flags.file.empty())
    return messages.fail({badFlag("file is required: a graph, or --merge with files of schedules", "see minic tune --help")});
  if (auto error = checkFlags(flags))
    return messages.fail({*error});
  flags.search.noise = flags.noise / 100;
  if (!flags.jobs)
    flags.jobs = std::max(1u, std::thread::hardware_concurrency());
  GraphToRun begun;
  if (auto code = beginWithGraph(flags, messages, begun))
    return *code;
  CompileOptions &options = begun.options;
  const Signature &signature = begun.signature;
  const SourceBuffer &source = begun.source;
  auto inputs = makeInputs(signature, begun.words, true, "minic tune " + flags.file, options.dims);
  if (!inputs)
    return messages.fail(inputs.errors());
  auto opened = openDevice(begun.choice, begun.options.cache, messages);
  if (!opened)
    return messages.fail(opened.errors());

  Tuner tuner(flags, messages, *opened, *inputs, options.matmul);
  if (auto done = tuner.readFound(); !done)
    return messages.fail(done.errors());
  auto regions = fusedRegions(source, options, *opened->device);
  if (!regions)
    return messages.fail(regions.errors(), &source);
  auto picked = pickRegions(std::move(*regions), flags.regions);
  if (!picked)
    return messages.fail(picked.errors());
  catchInterrupt();
  if (auto done = tuner.run(*picked); !done)
    return messages.fail(done.errors());
  return report(tuner, flags, *opened, signature.name, picked->size(), messages);
}

} // namespace

void addTune(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("tune", "Search faster schedules of a graph's regions on the device, and keep them in a file");
  addExecutionFlags(*command, *flags, WithGraph | WithJson);
  command->get_option("file")->required(false);
  command->add_option("-o", flags->output, "keep what is found in this file; what is in it already is not tuned again");
  command->add_option("--merge", flags->merged, "A B ...: put files of schedules together instead, into -o or on standard output")
      ->expected(1, 1 << 20);
  command->add_option("--regions", flags->regions, "A,B: only the regions with these results");
  command->add_option("--budget", flags->budget, "stop after this many seconds");
  command->add_option("--jobs", flags->jobs, "threads that compile and check (default: one for each core)");
  command->add_option("--candidates", flags->candidates, "schedules to try for each region, at most")->capture_default_str();
  command->add_option("--how", flags->how, "cold|warm|graph: times with the L2 cache overwritten, without, or in a CUDA graph")
      ->capture_default_str();
  command->add_option("--rounds", flags->rounds,
                      "measurements of each schedule that may be the best, at most (default: 1024, on the interpreter 8)");
  command->add_option("--seconds", flags->seconds, "time for the measurements of a region, about; then what leads is the best")
      ->capture_default_str();
  command->add_option("--noise", flags->noise, "percent by which times differ that are equal")->capture_default_str();
  command->add_option("--seed", flags->search.seed, "of the order in each round")->capture_default_str();
  command->add_flag("--again", flags->again, "tune what is decided already");
  command->add_flag("--oracle", flags->oracle,
                    "check against f64 even where that takes long (large regions are checked against eager)");
  addToleranceFlags(*command, flags->tolerance);
  command->callback([flags, &chosen] { chosen = [flags] { return tune(*flags); }; });
}

} // namespace minic::cli
