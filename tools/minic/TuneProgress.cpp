#include "TuneProgress.h"

#include <cstdio>
#include <unistd.h>

namespace minic::cli {

TuneProgress::TuneProgress(size_t region, size_t regions, std::string name)
    : region(region), regions(regions), name(std::move(name)), onTerminal(isatty(STDERR_FILENO)) {}

void TuneProgress::clear() const {
  if (onTerminal)
    std::fputs("\r\033[K", stderr);
}

/// Of this region, from the pace so far, and of the others as if they were like it.
double TuneProgress::secondsLeft(const SearchProgress &now, double elapsed) {
  if (now.checked < now.candidates || checkingSeconds == 0)
    checkingSeconds = elapsed;
  double perCheck = checkingSeconds / double(now.checked);
  // Until something is timed: a measurement is several runs, a check compiles as well.
  double perTiming = now.timed ? (elapsed - checkingSeconds) / double(now.timed) : perCheck / 4;
  double whole = perCheck * double(now.candidates) + perTiming * double(now.timings);
  return whole - elapsed + whole * double(regions - region - 1);
}

void TuneProgress::show(const SearchProgress &now) {
  constexpr double terminalSeconds = 0.1, lineSeconds = 5;
  auto since = [](Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); };
  double left = secondsLeft(now, since(start));
  bool isFirst = now.checked == 1 && now.timed == 0, isLast = now.timed == now.timings && now.checked == now.candidates;
  if (since(shown) < (onTerminal ? terminalSeconds : lineSeconds) && !isFirst && !isLast)
    return;
  shown = Clock::now();
  char times[80] = "";
  if (now.ownUs > 0)
    std::snprintf(times, sizeof times, ", best %.2f us, default %.2f us", now.bestUs, now.ownUs);
  std::fprintf(stderr, "%sregion %zu of %zu, %s: checked %zu of %zu, timed %zu of %zu%s, about %.0f s left%s",
               onTerminal ? "\r\033[K" : "", region + 1, regions, name.c_str(), now.checked, now.candidates, now.timed, now.timings,
               times, left > 0 ? left : 0, onTerminal ? "" : "\n");
  std::fflush(stderr);
}

} // namespace minic::cli
