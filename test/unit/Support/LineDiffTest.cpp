#include "minic/Support/LineDiff.h"

#include <gtest/gtest.h>

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

} // namespace
} // namespace minic
