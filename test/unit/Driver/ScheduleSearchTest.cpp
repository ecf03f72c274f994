// The search for the fastest candidate, with times that are made up.
#include "minic/Driver/ScheduleSearch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace minic::test {
namespace {

/// Candidates with true times; smaller numbers are smaller configurations.
struct Fake {
  std::vector<double> us;
  double jitter = 0; ///< Share by which a measurement may be off.
  std::vector<size_t> wrong;
  int calls = 0, mostCalls = 1 << 30;
  std::mt19937 random{1};
  std::vector<int> timings = std::vector<int>(us.size());
  SearchProgress last;

  Expected<SearchResult> search(SearchOptions options = {}) {
    SearchSubject subject{.candidates = us.size()};
    subject.check = [&](size_t i) {
      ++calls;
      bool isWrong = std::ranges::find(wrong, i) != wrong.end();
      return isWrong ? Verdict{Verdict::Wrong, "3 is not 4"} : Verdict{};
    };
    subject.time = [&](size_t i, int) -> Expected<double> {
      ++calls;
      ++timings[i];
      return us[i] * std::uniform_real_distribution(1 - jitter, 1 + jitter)(random);
    };
    subject.isSmaller = [](size_t a, size_t b) { return a < b; };
    subject.isStopped = [&] { return calls >= mostCalls; };
    subject.onProgress = [&](const SearchProgress &now) { last = now; };
    return searchFastest(subject, options);
  }
};

/// 100 candidates around 20 us, number 77 with 10.
std::vector<double> oneFast() {
  std::vector<double> us;
  for (int i = 0; i < 100; ++i)
    us.push_back(20 + i % 7);
  us[77] = 10;
  return us;
}

TEST(ScheduleSearch, FindsTheFastest) {
  Fake fake{.us = oneFast(), .jitter = 0.05};
  auto result = fake.search();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->best, 77u);
  EXPECT_TRUE(result->finished);
  EXPECT_NEAR(result->us[77], 10, 0.5);
  // 99 -> 25 -> 7 -> 3: most are timed in three rounds, those of the final in 3 * 3 + 9, candidate 0 in all.
  EXPECT_EQ(fake.timings[77], 18);
  EXPECT_EQ(fake.timings[0], 18);
  EXPECT_EQ(std::ranges::count(fake.timings, 3), 99 - 25);
  EXPECT_EQ(fake.last.timed, fake.last.timings);
  EXPECT_EQ(fake.last.timed, size_t(3 * 100 + 3 * 26 + 3 * 8 + 9 * 4));
}

TEST(ScheduleSearch, GainsWithinNoiseLeaveTheDefault) {
  Fake fake{.us = {10, 9.9, 9.85, 12, 11}};
  auto result = fake.search();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->best, 0u);
  EXPECT_TRUE(result->finished);
  auto strict = Fake{.us = {10, 9.9, 9.85, 12, 11}}.search({.noise = 0.001});
  ASSERT_TRUE(strict);
  EXPECT_EQ(strict->best, 2u);
}

TEST(ScheduleSearch, OfEquallyFastOnesTheSmallestWins) {
  // Half of all are within 2 % of the fastest, which is the last; the larger, the faster.
  std::vector<double> us(60, 20);
  for (size_t i = 30; i < 60; ++i)
    us[i] = 10.15 - 0.005 * double(i - 30);
  for (unsigned seed = 0; seed < 10; ++seed) {
    Fake fake{.us = us};
    auto result = fake.search({.seed = seed});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->best, 30u);
  }
}

TEST(ScheduleSearch, WrongOnesAreReportedAndNeverTimed) {
  Fake fake{.us = oneFast(), .wrong = {77}};
  fake.us[12] = 15;
  auto result = fake.search();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->best, 12u);
  EXPECT_EQ(fake.timings[77], 0);
  EXPECT_EQ(result->us[77], 0);
  EXPECT_EQ(result->verdicts[77].kind, Verdict::Wrong);
  EXPECT_EQ(result->verdicts[77].why, "3 is not 4");
}

TEST(ScheduleSearch, AWrongDefaultIsAnError) {
  Fake fake{.us = {10, 9}, .wrong = {0}};
  auto result = fake.search();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.errors().front().code, ErrorCode::Mismatch);
  EXPECT_EQ(result.errors().front().message, "the schedule that would be used without tuning fails: 3 is not 4");
}

TEST(ScheduleSearch, OneCandidateIsTheWinner) {
  auto result = Fake{.us = {10}}.search();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->best, 0u);
  EXPECT_TRUE(result->finished);
  EXPECT_EQ(result->us[0], 10);
}

TEST(ScheduleSearch, StoppedItGivesWhatWasFound) {
  // 100 checks and 300 measurements of the first rounds; then it stops in the second ones.
  Fake fake{.us = oneFast(), .mostCalls = 410};
  auto result = fake.search();
  ASSERT_TRUE(result);
  EXPECT_FALSE(result->finished);
  EXPECT_TRUE(result->found());
  EXPECT_EQ(result->best, 77u);
  EXPECT_EQ(fake.calls, 410);

  for (int calls : {50, 250}) { // Before a time of all is known.
    Fake early{.us = oneFast(), .mostCalls = calls};
    auto nothing = early.search();
    ASSERT_TRUE(nothing);
    EXPECT_FALSE(nothing->finished);
    EXPECT_FALSE(nothing->found());
  }
}

} // namespace
} // namespace minic::test
