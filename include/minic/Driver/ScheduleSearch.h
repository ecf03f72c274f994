// The fastest of some candidates, by interleaved measurements until the choice is sure.
#pragma once

#include "minic/Support/Expected.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace minic {

/// What became of a candidate before it was timed.
struct Verdict {
  enum Kind : uint8_t {
    Good,
    Refused, ///< It cannot be compiled or launched.
    Wrong,   ///< It computes something else: a fault of the compiler.
  } kind = Good;
  std::string why; ///< A sentence, unless it is good.
};

struct SearchProgress {
  size_t checked = 0, candidates = 0;
  size_t timed = 0, timings = 0; ///< Measurements; how many there will be when candidates drop out next.
  double ownUs = 0, bestUs = 0;  ///< Of candidate 0 and of the fastest; 0 until they are known.
};

/// Candidates are numbers from 0; candidate 0 is what is used without a search.
struct SearchSubject {
  size_t candidates = 0;
  /// Called once for each, in order.
  std::function<Verdict(size_t)> check;
  /// Microseconds, of a short measurement. Only for good candidates.
  std::function<Expected<double>(size_t)> time;
  /// Which of two equally fast ones is preferred: a strict order.
  std::function<bool(size_t, size_t)> isSmaller;
  std::function<bool()> isStopped = [] { return false; }; ///< Asked between calls.
  std::function<bool()> isLate = [] { return false; }; ///< Asked between rounds: what is not sure by then is decided as it looks.
  std::function<void(const SearchProgress &)> onProgress = [](const SearchProgress &) {};
};

struct SearchOptions {
  double noise = 0.02; ///< Times that differ by less than this share are equal.
  int rounds = 1024;   ///< Measurements of each candidate that is not decided, at most.
  uint64_t seed = 1;   ///< Of the order in each round.
};

struct SearchResult {
  std::vector<Verdict> verdicts; ///< Of those that were checked.
  std::vector<double> us;        ///< Of each candidate, from the rounds that it took part in; 0 where it was not timed.
  size_t best = 0;
  bool finished = false; ///< Otherwise it was stopped, and `best` is from the last decision before.
  bool sure = false;     ///< Otherwise the choice lies at the edge of noise, closer than the measurements tell.
  bool found() const { return !us.empty() && us[best] > 0; }
};

/// Checks all candidates, then times those that are good in rounds of random order. After 8, 16, 32 ... rounds those that surely
/// cannot be the result drop out, until one surely is. The result is the smallest of those that are as fast as the fastest, if they
/// beat candidate 0 by more than noise, else candidate 0, which takes part in every round. Errors: candidate 0 is not good, or a
/// measurement fails.
Expected<SearchResult> searchFastest(const SearchSubject &subject, const SearchOptions &options = {});

} // namespace minic
