#include "minic/Driver/ScheduleSearch.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace minic {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// How many values on either side have no say: a quarter, since a measurement in thirty may be far off.
size_t trimmed(size_t count) { return (count + 1) / 4; }

double trimmedMean(std::vector<double> values) {
  std::ranges::sort(values);
  size_t cut = trimmed(values.size());
  double sum = 0;
  for (size_t i = cut; i < values.size() - cut; ++i)
    sum += values[i];
  return sum / double(values.size() - 2 * cut);
}

/// The standard error of the trimmed mean times the root of the count (Tukey and McLaughlin 1963): the deviation of the values with
/// those that are cut off moved to the cut.
double scatterOf(std::vector<double> values) {
  std::ranges::sort(values);
  size_t count = values.size(), cut = trimmed(count);
  if (count < 2)
    return 0;
  double mean = 0, squares = 0;
  for (double &value : values)
    mean += (value = std::clamp(value, values[cut], values[count - 1 - cut])) / double(count);
  for (double value : values)
    squares += (value - mean) * (value - mean);
  return std::sqrt(squares / double(count - 1)) / (1 - 2 * double(cut) / double(count));
}

class Search {
public:
  Search(const SearchSubject &subject, const SearchOptions &options)
      : subject(subject), options(options), random(options.seed), times(subject.candidates), logs(subject.candidates) {}

  Expected<SearchResult> run() {
    result.us.assign(subject.candidates, 0);
    progress.candidates = subject.candidates;
    if (auto done = checkAll(); !done)
      return done.takeErrors();
    for (int until = firstRounds;; until *= 2) {
      if (auto done = timeUntil(std::min(until, options.rounds)); !done)
        return done.takeErrors();
      if (stopped)
        break;
      estimate();
      result.best = winner();
      result.sure = isDecided();
      result.finished = result.sure || until >= options.rounds || subject.isLate();
      if (result.finished)
        break;
      narrow();
    }
    return std::move(result);
  }

private:
  static constexpr int firstRounds = 8;

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
      progress.timings = (alive.size() + 1) * size_t(std::min(firstRounds, options.rounds));
      subject.onProgress(progress);
    }
    std::ranges::sort(alive, subject.isSmaller);
    return {};
  }

  std::vector<size_t> members() const {
    std::vector<size_t> all = alive;
    all.push_back(0);
    return all;
  }

  //===- Measuring -===//

  /// Times of one round are of the same moment, so that clocks and heat are the same for all.
  Expected<void> timeUntil(int until) {
    std::vector<size_t> order = members();
    progress.timings = progress.timed + order.size() * size_t(until - rounds);
    for (; rounds < until && !(rounds > 0 && subject.isLate()); ++rounds) {
      std::ranges::shuffle(order, random);
      for (size_t candidate : order) {
        if (stop())
          return {};
        auto us = subject.time(candidate);
        if (!us)
          return us.takeErrors();
        times[candidate].push_back(std::log(std::max(*us, 1e-3))); // A clock's step may be longer.
        if (++progress.timed < progress.timings)
          subject.onProgress(progress);
      }
    }
    return {};
  }

  /// Logarithms of times against each other: what all have in common in a round (drift, mostly) is taken off.
  void estimate() {
    std::vector<size_t> all = members();
    std::vector<double> common;
    for (int round = 0; round < rounds; ++round) {
      std::vector<double> each;
      for (size_t i : all)
        each.push_back(times[i][size_t(round)]);
      common.push_back(median(std::move(each)));
    }
    double typical = median(common);
    for (size_t i : all) {
      std::vector<double> apart;
      for (size_t round = 0; round < common.size(); ++round)
        apart.push_back(times[i][round] - common[round]);
      logs[i] = trimmedMean(std::move(apart));
      result.us[i] = std::exp(typical + logs[i]);
    }
    std::ranges::sort(all, {}, [&](size_t i) { return logs[i]; });
    fastest = all.front();
    second = all[all.size() > 1];
    error = errorOfDifferences(all);
    progress.ownUs = result.us[0];
    progress.bestUs = result.us[fastest];
    progress.timings = progress.timed;
    subject.onProgress(progress);
  }

  /// The standard error of the difference of two: the same for all, or chance would make some look sure after few rounds.
  double errorOfDifferences(const std::vector<size_t> &all) const {
    std::vector<double> scatters;
    for (size_t i : all) {
      if (i == fastest)
        continue;
      std::vector<double> differences;
      for (size_t round = 0; round < size_t(rounds); ++round)
        differences.push_back(times[i][round] - times[fastest][round]);
      scatters.push_back(scatterOf(std::move(differences)));
    }
    double least = options.noise / 4; // Clocks have steps, so few times may be all the same.
    double scatter = scatters.empty() ? least : std::max(median(std::move(scatters)), least);
    return scatter / std::sqrt(double(rounds));
  }

  //===- Deciding -===//

  enum class Answer : uint8_t { No, Open, Yes };
  /// Whether something is below a bound, by how many standard errors it is away. Of some hundred comparisons none is to be wrong.
  Answer isBelow(double value, double bound) const {
    constexpr double sureErrors = 4;
    return value < bound - sureErrors * error ? Answer::Yes : value > bound + sureErrors * error ? Answer::No : Answer::Open;
  }
  /// The fastest of the others.
  double behindFastest(size_t i) const { return logs[i] - logs[i == fastest ? second : fastest]; }
  double behindOwn(size_t i) const { return logs[i] - logs[0]; }

  /// Whether a candidate would be the result if there were no smaller ones: as fast as the fastest, and faster than candidate 0.
  Answer qualifies(size_t i) const {
    return std::min(isBelow(behindFastest(i), std::log1p(options.noise)), isBelow(behindOwn(i), std::log1p(-options.noise)));
  }

  /// The first one, by size, that may be the result surely is.
  bool isDecided() const {
    for (size_t i : alive)
      if (Answer answer = qualifies(i); answer != Answer::No)
        return answer == Answer::Yes;
    return true;
  }

  /// As it looks.
  size_t winner() const {
    for (size_t i : alive)
      if (behindFastest(i) <= std::log1p(options.noise) && behindOwn(i) < std::log1p(-options.noise))
        return i;
    return 0;
  }

  /// Leaves those that may be the result, and some of those that may be the fastest, by which the others are judged.
  void narrow() {
    std::vector<size_t> left, yardsticks;
    bool behindWinner = false; // Smaller ones come first.
    for (size_t i : alive) {
      Answer answer = qualifies(i);
      if (!behindWinner && answer != Answer::No)
        left.push_back(i);
      else if (isBelow(behindFastest(i), 0) != Answer::No)
        yardsticks.push_back(i);
      behindWinner |= answer == Answer::Yes;
    }
    std::ranges::sort(yardsticks, {}, [&](size_t i) { return logs[i]; });
    constexpr size_t fewYardsticks = 4;
    yardsticks.resize(std::min(yardsticks.size(), std::max(fewYardsticks, yardsticks.size() / 2)));
    left.insert(left.end(), yardsticks.begin(), yardsticks.end());
    std::ranges::sort(left, subject.isSmaller);
    alive = std::move(left);
  }

  const SearchSubject &subject;
  const SearchOptions &options;
  std::mt19937_64 random;
  SearchResult result;
  SearchProgress progress;
  std::vector<size_t> alive;              ///< Without candidate 0, small ones first.
  int rounds = 0;                         ///< That all who are alive took part in.
  std::vector<std::vector<double>> times; ///< Logarithms of microseconds, by candidate and round.
  std::vector<double> logs;               ///< By candidate: what it takes against others.
  double error = 0;                       ///< Of a difference of two `logs`.
  size_t fastest = 0, second = 0;
  bool stopped = false;
};

} // namespace

Expected<SearchResult> searchFastest(const SearchSubject &subject, const SearchOptions &options) {
  return Search(subject, options).run();
}

} // namespace minic
