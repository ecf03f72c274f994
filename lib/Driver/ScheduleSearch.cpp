#include "minic/Driver/ScheduleSearch.h"

#include <algorithm>
#include <random>

namespace minic {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

class Search {
public:
  Search(const SearchSubject &subject, const SearchOptions &options) : subject(subject), options(options), random(options.seed) {}

  Expected<SearchResult> run() {
    result.us.assign(subject.candidates, 0);
    progress.candidates = subject.candidates;
    if (auto done = checkAll(); !done)
      return done.takeErrors();
    for (int effort = 0; !stopped; ++effort) {
      bool final = alive.size() <= options.finalists;
      if (auto done = timeAll(effort, final ? 3 * options.rounds : options.rounds); !done)
        return done.takeErrors();
      if (stopped)
        break;
      rank();
      result.best = winner();
      result.finished = final;
      if (final)
        break;
      alive.resize(kept(alive.size()));
    }
    return std::move(result);
  }

private:
  bool stop() { return stopped = stopped || subject.isStopped(); }

  Expected<void> checkAll() {
    for (size_t i = 0; i < subject.candidates && !stop(); ++i) {
      result.verdicts.push_back(subject.check(i));
      const Verdict &verdict = result.verdicts.back();
      if (i == 0 && verdict.kind != Verdict::Good)
        return Diagnostic{.code = verdict.kind == Verdict::Wrong ? ErrorCode::Mismatch : ErrorCode::NoSchedule,
                          .message = "the schedule that would be used without tuning fails: " + verdict.why};
      if (i > 0 && verdict.kind == Verdict::Good)
        alive.push_back(i);
      ++progress.checked;
      progress.timings = countTimings();
      subject.onProgress(progress);
    }
    return {};
  }

  /// How many stay after a cut.
  size_t kept(size_t count) const { return std::max(options.finalists, (count + 3) / 4); }

  size_t countTimings() const {
    size_t total = 0, left = alive.size();
    for (; left > options.finalists; left = kept(left))
      total += (left + 1) * size_t(options.rounds);
    return total + (left + 1) * size_t(3 * options.rounds);
  }

  /// Times of one group are of the same minutes, so that clocks and heat are the same for all.
  Expected<void> timeAll(int effort, int rounds) {
    std::vector<size_t> order = alive;
    order.push_back(0);
    std::vector<std::vector<double>> times(subject.candidates);
    for (int round = 0; round < rounds; ++round) {
      std::ranges::shuffle(order, random);
      for (size_t candidate : order) {
        if (stop())
          return {};
        auto us = subject.time(candidate, effort);
        if (!us)
          return us.takeErrors();
        times[candidate].push_back(*us);
        ++progress.timed;
        subject.onProgress(progress);
      }
    }
    for (size_t candidate : order)
      result.us[candidate] = median(std::move(times[candidate]));
    progress.ownUs = result.us[0];
    progress.bestUs = result.us[*std::ranges::min_element(order, {}, [&](size_t i) { return result.us[i]; })];
    return {};
  }

  double fastest() const {
    double us = result.us[0];
    for (size_t i : alive)
      us = std::min(us, result.us[i]);
    return us;
  }
  bool isAsFast(size_t candidate, double us) const { return result.us[candidate] <= us * (1 + options.noise); }

  /// Those as fast as the fastest first, small ones before large ones, so that noise does not choose between them; then by time.
  void rank() {
    double best = fastest();
    std::ranges::sort(alive, [&](size_t a, size_t b) {
      bool first = isAsFast(a, best), second = isAsFast(b, best);
      if (first != second)
        return first;
      return first || result.us[a] == result.us[b] ? subject.isSmaller(a, b) : result.us[a] < result.us[b];
    });
  }

  size_t winner() const {
    size_t best = 0;
    double us = fastest();
    for (size_t i : alive)
      if (result.us[i] < result.us[0] * (1 - options.noise) && isAsFast(i, us) && (best == 0 || subject.isSmaller(i, best)))
        best = i;
    return best;
  }

  const SearchSubject &subject;
  const SearchOptions &options;
  std::mt19937_64 random;
  SearchResult result;
  SearchProgress progress;
  std::vector<size_t> alive; ///< Without candidate 0.
  bool stopped = false;
};

} // namespace

Expected<SearchResult> searchFastest(const SearchSubject &subject, const SearchOptions &options) {
  return Search(subject, options).run();
}

} // namespace minic
