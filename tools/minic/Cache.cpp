// minic cache: what the cache of compiled graphs holds, and what it is worth.
#include "Execution.h"

#include "minic/Cache/NearestEntry.h"
#include "minic/Compiler/CompileCache.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <ctime>

namespace minic::cli {

namespace {

/// `device`: what `run` would run it on; empty: as `compile` has it.
struct Flags : ExecutionFlags {
  std::string other; ///< The second entry of `why`, or empty.
};

using Json = nlohmann::json;
/// What a sub-command found, as text or JSON, and the exit code for it.
struct Answer {
  std::string text;
  Json json;
  int code = Fine;
};

/// `2026-11-30 18:21:39`, in UTC.
std::string timeText(std::chrono::system_clock::time_point time) {
  std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts));
}

std::string entries(uint64_t count) { return std::to_string(count) + (count == 1 ? " entry" : " entries"); }

std::string_view stateName(CacheEntry::State state) {
  return state == CacheEntry::Readable ? "readable" : state == CacheEntry::Damaged ? "damaged" : "of another format";
}

Expected<Answer> info(CacheStore &store, const Flags &) {
  CacheInfo info = store.info();
  std::string text = "directory  " + info.directory + (info.writable ? "\n" : " (read-only: entries are used, none is made)\n");
  text += "entries    " + std::to_string(info.entries) + "\n";
  text += "bytes      " + std::to_string(info.bytes) + " of " + std::to_string(info.limit) + "\n";
  return Answer{text,
                {{"directory", info.directory},
                 {"writable", info.writable},
                 {"entries", info.entries},
                 {"bytes", info.bytes},
                 {"limit", info.limit}}};
}

Expected<Answer> list(CacheStore &store, const Flags &) {
  Answer answer{"", Json::array()};
  for (const CacheEntry &entry : store.list()) {
    std::string what = entry.state == CacheEntry::Readable ? entry.kind + " " + entry.description
                                                           : "(" + std::string(stateName(entry.state)) + ")";
    answer.text += entry.name + "  " + timeText(entry.lastUse) + "  " + std::to_string(entry.bytes) + " bytes  " + what + "\n";
    answer.json.push_back({{"name", entry.name},
                           {"state", stateName(entry.state)},
                           {"kind", entry.kind},
                           {"description", entry.description},
                           {"bytes", entry.bytes},
                           {"last_use", timeText(entry.lastUse)}});
  }
  if (answer.text.empty())
    answer.text = "no entries\n";
  return answer;
}

Expected<Answer> verify(CacheStore &store, const Flags &) {
  CacheCheck check = store.verify();
  Answer answer;
  answer.json = {
      {"good", check.good}, {"other_format", check.otherFormat}, {"leftovers", check.leftovers}, {"damaged", Json::array()}};
  answer.text = entries(check.good) + " good\n";
  for (const CacheCheck::Fault &fault : check.damaged) {
    answer.text +=
        fault.name + " is damaged: " + fault.why + (fault.removed ? "; removed\n" : "; it stays, nothing may be written\n");
    answer.json["damaged"].push_back({{"name", fault.name}, {"why", fault.why}, {"removed", fault.removed}});
    answer.code = BadData;
  }
  if (check.otherFormat)
    answer.text += std::to_string(check.otherFormat) + " of another format, which this minic does not read\n";
  if (check.leftovers)
    answer.text += std::to_string(check.leftovers) + " left behind by writers that ended too early; removed\n";
  return answer;
}

Expected<Answer> clear(CacheStore &store, const Flags &) {
  auto cleared = store.clear();
  if (!cleared)
    return cleared.takeErrors();
  return Answer{"removed " + entries(cleared->entries) + ", " + std::to_string(cleared->bytes) + " bytes\n",
                {{"entries", cleared->entries}, {"bytes", cleared->bytes}}};
}

Json toJson(const CacheDifference &difference) {
  Json fields = Json::array();
  for (const CacheDifference::Field &field : difference.fields)
    fields.push_back({{"name", field.name},
                      {"line", field.line},
                      {"a", field.a ? Json(*field.a) : Json()},
                      {"b", field.b ? Json(*field.b) : Json()}});
  return {{"a", difference.nameA}, {"b", difference.nameB}, {"fields", fields}};
}

/// The key under which `compile -o` looks, or `run` on a device.
Expected<CacheKey> keyFor(const Flags &flags) {
  auto options = compileOptions(flags);
  if (!options)
    return options.takeErrors();
  auto source = readSource(flags.file);
  if (!source)
    return source.takeErrors();
  Context context;
  auto module = loadModule(context, *source, *options);
  if (!module)
    return module.takeErrors();
  if (!flags.device.empty()) {
    auto choice = deviceChoice(flags);
    if (!choice)
      return choice.takeErrors();
    auto opened = openDevice(*choice, {}, Messages(flags.json));
    if (!opened)
      return opened.takeErrors();
    if (auto suited = suitDevice(**module, *options, *opened); !suited)
      return suited.takeErrors();
  }
  if (auto kept = keepOnly(**module, options->graph); !kept)
    return kept.takeErrors();
  return ArtifactEntry(**module, *options).key();
}

/// Why what a file compiles to is not there: the nearest entry.
Expected<Answer> whyNot(CacheStore &store, const Flags &flags) {
  auto key = keyFor(flags);
  if (!key)
    return key.takeErrors();
  auto nearest = nearestEntry(store, *key);
  Answer answer{"", {{"key", key->name()}, {"kept", nearest && nearest->difference.fields.empty()}, {"nearest", Json()}}};
  if (!nearest) {
    answer.text = "not kept, nor is any other artifact\n";
    return answer;
  }
  answer.json["nearest"] = toJson(nearest->difference);
  std::string entry = nearest->difference.nameB + ", " + nearest->description + ", used " + timeText(nearest->lastUse);
  if (nearest->difference.fields.empty())
    answer.text = "kept: " + entry + "\n";
  else
    answer.text = "not kept; nearest: " + entry + "\n" + describe(nearest->difference);
  return answer;
}

Expected<Answer> why(CacheStore &store, const Flags &flags) {
  if (flags.other.empty())
    return whyNot(store, flags);
  auto difference = store.why(flags.file, flags.other);
  if (!difference)
    return difference.takeErrors();
  return Answer{describe(*difference), toJson(*difference)};
}

using Job = Expected<Answer> (*)(CacheStore &, const Flags &);

int answerWith(Job job, const Flags &flags) {
  Messages messages(flags.json);
  auto store = CacheStore::open({.notice = [&](const Diagnostic &notice) { messages.print({notice}); }});
  if (!store)
    return messages.fail(store.errors());
  auto answer = job(**store, flags);
  if (!answer)
    return messages.fail(answer.errors());
  auto written =
      writeOutput({}, flags.json ? answer->json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n" : answer->text);
  return written ? answer->code : messages.fail(written.errors());
}

} // namespace

void addCache(CLI::App &app, Action &chosen) {
  CLI::App *command = app.add_subcommand("cache", "Say what the cache of compiled graphs holds, check it, or empty it");
  command->require_subcommand(1);
  auto add = [&](const char *name, const char *help, Job job) {
    auto flags = std::make_shared<Flags>();
    flags->device.clear();
    CLI::App *sub = command->add_subcommand(name, help);
    sub->callback([flags, job, &chosen] { chosen = [flags, job] { return answerWith(job, *flags); }; });
    sub->add_flag("--json", flags->json, "print one JSON value");
    return std::pair(sub, flags);
  };
  add("info", "where it is, how much it holds and may hold", info);
  add("list", "its entries, the last used first", list);
  add("verify", "read and check every entry; damaged ones are removed (exit code 1)", verify);
  add("clear", "remove all entries, and no other files", clear);
  auto [sub, flags] =
      add("why", "why a graph is not kept: the nearest entry and how its key differs; or how those of two entries do", why);
  addModuleFlags(*sub, *flags, WithGraph | WithMode | WithStrides | WithSchedules | WithLineInfo);
  sub->get_option("file")->description("the graph; with B, an entry: its first digits, as `list` has them");
  sub->add_option("B", flags->other, "another entry");
  sub->add_option("--device", flags->device,
                  "auto|cuda[:N]|cpu: what `run` takes on that device (default: what `compile -o` takes)");
}

} // namespace minic::cli
