#include "minic/Support/LineDiff.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <sstream>
#include <vector>

namespace minic {
namespace {

TEST(LineDiff, EqualTextsDoNotDiffer) {
  EXPECT_EQ(textDiff("", ""), "");
  EXPECT_EQ(textDiff("a\nb\n", "a\nb\n"), "");
}

TEST(LineDiff, HunksAsDiffMakesThem) {
  EXPECT_EQ(textDiff("", "a\n"), "@@ -0,0 +1,1 @@\n+a\n");
  EXPECT_EQ(textDiff("a\n", ""), "@@ -1,1 +0,0 @@\n-a\n");
  EXPECT_EQ(textDiff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n"),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
  EXPECT_EQ(textDiff("a\nb\nc\nd\ne\nf\n", "A\nb\nc\nd\ne\nF\n", 1), "@@ -1,2 +1,2 @@\n-a\n+A\n b\n@@ -5,2 +5,2 @@\n e\n-f\n+F\n");
  EXPECT_EQ(textDiff("a\nb\nc\n", "A\nb\nC\n", 1), "@@ -1,3 +1,3 @@\n-a\n+A\n b\n-c\n+C\n") << "changes that touch are one hunk";
}

/// What a diff makes of a text: its hunks put in the place of the lines that they name.
std::string patched(const std::string &text, const std::string &diff) {
  std::istringstream in(text), hunks(diff);
  std::string out, line, of;
  size_t at = 1;
  while (std::getline(hunks, line)) {
    if (line.starts_with("@@")) {
      size_t begin = std::stoul(line.substr(4));
      bool isEmpty = line.find(",0 +") != std::string::npos; // Then it stands behind the line that it names.
      for (; at < begin + isEmpty && std::getline(in, of); ++at)
        out += of + "\n";
      continue;
    }
    if (line[0] != '+') {
      std::getline(in, of);
      EXPECT_EQ(of, line.substr(1));
      ++at;
    }
    if (line[0] != '-')
      out += line.substr(1) + "\n";
  }
  while (std::getline(in, of))
    out += of + "\n";
  return out;
}

TEST(LineDiff, PatchingGivesTheOtherText) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string a, b;
    size_t lines = random() % 40, alphabet = 1 + random() % 12;
    for (size_t i = 0; i < lines; ++i) {
      std::string line = std::to_string(random() % alphabet) + "\n";
      if (random() % 5)
        a += line;
      if (random() % 5)
        b += line;
    }
    EXPECT_EQ(patched(a, textDiff(a, b, random() % 4)), b) << a << "--\n" << b;
  }
  std::string long1, long2; // Nothing in common.
  for (int i = 0; i < 3000; ++i) {
    long1 += "a" + std::to_string(i) + "\n";
    long2 += "b" + std::to_string(i) + "\n";
  }
  EXPECT_EQ(patched(long1, textDiff(long1, long2)), long2);
}

/// The second text made of the first and of what differs; stretches must alternate and equal lines be equal.
std::vector<int> rebuilt(const std::vector<int> &before, const std::vector<int> &after) {
  std::vector<int> made;
  size_t i = 0, j = 0;
  std::optional<bool> last;
  for (const DiffStretch &stretch : diffLines(before, after)) {
    EXPECT_NE(last, stretch.equal) << "two stretches of a kind";
    last = stretch.equal;
    for (size_t k = 0; k < stretch.after; ++k) {
      made.push_back(stretch.equal ? before.at(i + k) : after.at(j + k));
    }
    if (stretch.equal) {
      EXPECT_EQ(stretch.before, stretch.after);
    }
    i += stretch.before;
    j += stretch.after;
  }
  EXPECT_EQ(i, before.size());
  EXPECT_EQ(j, after.size());
  return made;
}

size_t equalLines(const std::vector<int> &before, const std::vector<int> &after) {
  size_t count = 0;
  for (const DiffStretch &stretch : diffLines(before, after))
    count += stretch.equal ? stretch.before : 0;
  return count;
}

TEST(LineDiff, RandomTexts) {
  std::mt19937 random(20261201);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> before, after;
    int letters = 1 + int(random() % 12);
    for (size_t n = random() % 24; n; --n)
      before.push_back(int(random()) % letters);
    for (int line : before)
      switch (random() % 6) {
      case 0:
        break;
      case 1:
        after.push_back(int(random()) % letters);
        [[fallthrough]];
      default:
        after.push_back(line);
      }
    EXPECT_EQ(rebuilt(before, after), after);
  }
}

TEST(LineDiff, FindsWhatIsShared) {
  EXPECT_EQ(equalLines({}, {}), 0u);
  EXPECT_EQ(equalLines({1, 2, 3}, {1, 2, 3}), 3u);
  EXPECT_EQ(equalLines({1, 2, 3}, {4, 5}), 0u);
  EXPECT_EQ(equalLines({1, 2, 3, 4}, {1, 9, 3, 4}), 3u);
  EXPECT_EQ(equalLines({7, 7, 7}, {7, 8, 7, 7}), 3u) << "no line is there once";
  EXPECT_EQ(equalLines({1, 2, 3, 4, 5}, {3, 4, 5, 1, 2}), 3u) << "the longer of two that cross";
}

TEST(LineDiff, LongTextsWithoutASharedLine) {
  std::vector<int> before(3000, 1), after(2000, 2);
  EXPECT_EQ(rebuilt(before, after), after);
}

} // namespace
} // namespace minic
