#include "minic/Support/Trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

namespace minic {

double Trace::since(Clock::time_point time) const { return std::chrono::duration<double, std::micro>(time - began).count(); }

/// The mutex is held.
int Trace::addTrack(std::string name, bool isDevice) {
  tracks.push_back({std::move(name), isDevice});
  return int(tracks.size()) - 1;
}

int Trace::deviceTrack(const std::string &name) {
  std::lock_guard lock(mutex);
  auto [it, isNew] = devices.try_emplace(name);
  if (isNew)
    it->second = addTrack(name, true);
  return it->second;
}

int Trace::threadTrack() {
  std::lock_guard lock(mutex);
  auto [it, isNew] = threads.try_emplace(std::this_thread::get_id());
  if (isNew)
    it->second = addTrack(threads.size() == 1 ? "main" : "worker " + std::to_string(threads.size() - 1), false);
  return it->second;
}

void Trace::add(int track, std::string name, Clock::time_point start, Clock::time_point end, Args args) {
  std::lock_guard lock(mutex);
  events.push_back({track, std::move(name), since(start), since(end), std::move(args)});
}

std::string Trace::json() const {
  std::lock_guard lock(mutex);
  constexpr int host = 1, device = 2; // Processes, as the format calls them.
  auto processOf = [&](int track) { return tracks[size_t(track)].isDevice ? device : host; };
  nlohmann::json list = nlohmann::json::array();
  auto name = [&](const char *what, int process, int track, const std::string &text) {
    list.push_back({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", {{"name", text}}}});
  };
  name("process_name", host, 0, "minic");
  if (!devices.empty())
    name("process_name", device, 0, "device");
  for (int track = 0; track < int(tracks.size()); ++track)
    name("thread_name", processOf(track), track, tracks[size_t(track)].name);
  std::vector<const Event *> order;
  for (const Event &event : events)
    order.push_back(&event);
  std::ranges::stable_sort(order, [](const Event *a, const Event *b) { // Those that hold others first.
    return std::tuple(a->start, -a->end) < std::tuple(b->start, -b->end);
  });
  for (const Event *event : order) {
    nlohmann::json entry = {{"ph", "X"},           {"name", event->name}, {"pid", processOf(event->track)},
                            {"tid", event->track}, {"ts", event->start},  {"dur", event->end - event->start}};
    for (const auto &[key, value] : event->args)
      entry["args"][key] = value;
    list.push_back(std::move(entry));
  }
  return nlohmann::json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(list)}}.dump(-1, ' ', false,
                                                                                          nlohmann::json::error_handler_t::replace);
}

Trace::Span::Span(Trace *trace, std::string name, Args args)
    : trace(trace), name(std::move(name)), args(std::move(args)), start(Clock::now()) {}

Trace::Span::~Span() {
  if (trace)
    trace->add(trace->threadTrack(), std::move(name), start, Clock::now(), std::move(args));
}

} // namespace minic
