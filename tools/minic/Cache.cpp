// minic cache: what the cache of compiled graphs holds, and what it is worth.
#include "Common.h"

#include "minic/Cache/CacheStore.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <ctime>

namespace minic::cli {

namespace {

struct Flags {
  std::string entryA, entryB;
  bool json = false;
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

Expected<Answer> why(CacheStore &store, const Flags &flags) {
  auto difference = store.why(flags.entryA, flags.entryB);
  if (!difference)
    return difference.takeErrors();
  Json fields = Json::array();
  for (const CacheDifference::Field &field : difference->fields)
    fields.push_back({{"name", field.name},
                      {"line", field.line},
                      {"a", field.a ? Json(*field.a) : Json()},
                      {"b", field.b ? Json(*field.b) : Json()}});
  return Answer{describe(*difference), {{"a", difference->nameA}, {"b", difference->nameB}, {"fields", fields}}};
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
    CLI::App *sub = command->add_subcommand(name, help);
    sub->add_flag("--json", flags->json, "print one JSON value");
    sub->callback([flags, job, &chosen] { chosen = [flags, job] { return answerWith(job, *flags); }; });
    return std::pair(sub, flags);
  };
  add("info", "where it is, how much it holds and may hold", info);
  add("list", "its entries, the last used first", list);
  add("verify", "read and check every entry; damaged ones are removed (exit code 1)", verify);
  add("clear", "remove all entries, and no other files", clear);
  auto [sub, flags] = add("why", "which fields of the keys of two entries differ: why one is not the other", why);
  sub->add_option("A", flags->entryA, "an entry: its first digits, as `list` has them")->required();
  sub->add_option("B", flags->entryB, "another one")->required();
}

} // namespace minic::cli
