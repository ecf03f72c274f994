#include "minic/Driver/Report.h"
#include "../../../lib/Driver/LineDiff.h"
#include "minic/Support/File.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <unistd.h>

using namespace minic;

namespace {

//===- Differences -===//

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

//===- The page -===//

class ReportTest : public testing::Test {
protected:
  std::string path = (std::filesystem::temp_directory_path() / ("minic-report-" + std::to_string(::getpid()) + ".html")).string();
  void TearDown() override { std::filesystem::remove(path); }
  std::string page() const {
    auto text = readFile(path);
    return text ? *text : "";
  }
  static size_t count(std::string_view text, std::string_view what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1))
      ++found;
    return found;
  }

  SourceBuffer source{"softmax.ir", "minic 1\n"
                                    "graph @softmax(%x: tensor<64x256xf32>) -> (y: tensor<64x256xf32>) {\n"
                                    "  %y = softmax %x, axis = 1 : tensor<64x256xf32>\n"
                                    "  return %y\n"
                                    "}\n"};
};

TEST_F(ReportTest, HoldsEachPass) {
  Context context;
  auto module = loadModule(context, source, {});
  ASSERT_TRUE(module);
  auto file = ReportPage::create(path, "softmax");
  ASSERT_TRUE(file);
  size_t passes = 0;
  CompileOptions options;
  options.passes.afterPass = [&](const Pass &, Module &) {
    ++passes;
    EXPECT_EQ(count(page(), "data-part=\"pass\""), passes) << "a pass is on disk when it has ended";
  };
  ASSERT_TRUE(writeReport(**module, source, options, *file));
  ASSERT_TRUE(endReport({}, source, *file));
  EXPECT_GT(passes, 30u);
  for (const char *part : {"begin", "before", "fusion", "masks", "kernels", "end"})
    EXPECT_EQ(count(page(), std::string("data-part=\"") + part + "\""), 1u) << part;
  EXPECT_EQ(count(page(), "data-part=\"level\""), 5u);
  EXPECT_EQ(count(page(), "data-part=\"code\""), 2u);
}

TEST_F(ReportTest, ACrashLeavesWhatCameBefore) {
  auto crash = [&] {
    Context context;
    auto module = loadModule(context, source, {});
    auto file = ReportPage::create(path, "softmax");
    CompileOptions options;
    options.passes.afterPass = [&](const Pass &pass, Module &) {
      if (pass.name == "mask")
        std::abort();
    };
    (void)!writeReport(**module, source, options, *file);
  };
  EXPECT_DEATH(crash(), "");
  std::string text = page();
  EXPECT_EQ(count(text, "\"name\":\"mask\""), 1u) << "the pass before the crash is there";
  EXPECT_EQ(count(text, "data-part=\"fusion\""), 1u);
  EXPECT_EQ(count(text, "data-part=\"end\""), 0u);
  EXPECT_TRUE(text.ends_with("</script>\n"));
}

TEST_F(ReportTest, NothingIsReadAsHtml) {
  auto file = ReportPage::create(path, "</title><script>alert(1)</script>");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->add("end", "{\"errors\": \"</script><script>alert(2)</script><!--\"}"));
  std::string text = page();
  EXPECT_EQ(count(text, "<script>alert"), 0u);
  EXPECT_EQ(count(text, "\\u003c/script>\\u003cscript>alert(2)"), 1u);
  EXPECT_EQ(count(text, "&lt;script&gt;alert(1)"), 2u);
}

TEST_F(ReportTest, AFileThatCannotBeWritten) {
  auto file = ReportPage::create("/nowhere/r.html", "softmax");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.errors().front().code, ErrorCode::UnreadableFile);
}

} // namespace
