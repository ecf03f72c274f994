// How far a search for schedules is, on stderr.
#pragma once

#include "minic/Driver/ScheduleSearch.h"

#include <chrono>
#include <string>

namespace minic::cli {

/// Of one region. On a terminal one line that changes; else a line every few seconds.
class TuneProgress {
public:
  TuneProgress(size_t region, size_t regions, std::string name);
  ~TuneProgress() { clear(); }
  void show(const SearchProgress &now);
  /// Removes the line, so that a message may follow.
  void clear() const;

private:
  using Clock = std::chrono::steady_clock;
  double secondsLeft(const SearchProgress &now, double elapsed);

  const size_t region, regions;
  const std::string name;
  const bool onTerminal;
  const Clock::time_point start = Clock::now();
  Clock::time_point shown = start;
  double checkingSeconds = 0; ///< From the start until the last check.
};

} // namespace minic::cli
