#include "minic/Support/DimFact.h"

#include <gtest/gtest.h>

using namespace minic;

namespace {

std::string roundTrip(std::string_view text) {
  auto facts = parseDimFacts(text);
  if (!facts)
    return "error: " + facts.errors().front().message;
  std::string out;
  for (const DimFact &fact : *facts)
    out += (out.empty() ? "" : ", ") + fact.str();
  return out;
}

TEST(DimFact, Texts) {
  EXPECT_EQ(roundTrip("N % 8 == 0"), "N % 8 == 0");
  EXPECT_EQ(roundTrip("N%8==0,M<=4"), "N % 8 == 0, M <= 4");
  EXPECT_EQ(roundTrip(" 1 <= N <= 4096 "), "1 <= N <= 4096");
  EXPECT_EQ(roundTrip("0 < N < 10"), "1 <= N <= 9");
  EXPECT_EQ(roundTrip("N > 3, 7 >= M, 2 <= K"), "N >= 4, M <= 7, K >= 2");
  EXPECT_EQ(roundTrip("N == 5"), "N == 5");
  EXPECT_EQ(roundTrip("5 == N"), "N == 5");
  EXPECT_EQ(roundTrip("ceildiv(N, 4) * M <= 100"), "M*ceildiv(N, 4) <= 100");
}

TEST(DimFact, WhatIsNone) {
  for (const char *text :
       {"", "N", "8", "N % 8", "N % 8 == 1", "N % 0 == 0", "N <= M", "1 <= 2", "N = 4", "N <= -1", "N <= 99999999999999999999",
        "1 <= N", "1 <= N <= 2 <= 3", "N <= 4,", "n <= 4", "N ! 4", "1 == N == 2", "1 <= N >= 2"}) {
    bool good = std::string_view(text) == "1 <= N"; // The one that is.
    EXPECT_EQ(bool(parseDimFacts(text)), good) << text;
  }
  EXPECT_EQ(roundTrip("4 <= N <= 3"), "error: no size is as '4 <= N <= 3' says");
  EXPECT_EQ(roundTrip("N < 0"), "error: no size is as 'N < 0' says");
  EXPECT_EQ(roundTrip("N maybe 3"), "error: 'N maybe 3' says nothing of a size");
}

TEST(DimFact, Bounds) {
  std::vector<DimFact> facts = *parseDimFacts("1 <= N <= 100, N <= 50, M >= 2");
  DimExpr n = DimExpr::name("N"), m = DimExpr::name("M");
  EXPECT_EQ(leastOf(n, facts), 1);
  EXPECT_EQ(mostOf(n, facts), 50);
  EXPECT_EQ(leastOf(m, facts), 2);
  EXPECT_EQ(mostOf(m, facts), INT64_MAX);
  EXPECT_EQ(mostOf(DimExpr(7), facts), 7);
  EXPECT_EQ(leastOf(n * m, facts), 0);
  DimFact even = *parseDimFact("N % 2 == 0");
  EXPECT_TRUE(even.holds(0));
  EXPECT_TRUE(even.holds(4));
  EXPECT_FALSE(even.holds(3));
  EXPECT_FALSE(facts[0].holds(0));
}

} // namespace
