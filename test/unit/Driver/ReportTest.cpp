#include "minic/Driver/Report.h"
#include "minic/Support/File.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <unistd.h>

using namespace minic;

namespace {

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
