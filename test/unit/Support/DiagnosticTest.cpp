#include "minic/Support/Expected.h"

#include <gtest/gtest.h>

#include <set>

using namespace minic;

namespace {

TEST(Diagnostic, CodesAreUnique) {
  std::set<std::string_view> seen;
  for (ErrorCode code : allErrorCodes()) {
    EXPECT_TRUE(seen.insert(errorCodeName(code)).second) << errorCodeName(code);
    EXPECT_EQ(errorCodeName(code)[0], 'E');
    EXPECT_FALSE(errorCodeSummary(code).empty());
  }
  EXPECT_EQ(errorCodeName(ErrorCode::ContractedMismatch), "E0312");
}

TEST(Diagnostic, RendersPlaceCaretNotesAndFix) {
  SourceBuffer source("g.ir", "first\n  %y = matmull %x\r\nlast");
  Diagnostic error{.code = ErrorCode::UnknownOp, .message = "no op 'matmull'", .loc = {2, 8}, .length = 7, .fix = "write matmul"};
  error.note("seen before", {1, 1}).note("ops are listed by minic doc");
  EXPECT_EQ(renderDiagnostic(error, &source), "g.ir:2:8: error: no op 'matmull' [E0201]\n"
                                              "    %y = matmull %x\n"
                                              "         ^~~~~~~\n"
                                              "g.ir:1:1: note: seen before\n"
                                              "  first\n"
                                              "  ^\n"
                                              "note: ops are listed by minic doc\n"
                                              "fix: write matmul\n");
}

TEST(Diagnostic, RendersWithoutPlaceOrSource) {
  Diagnostic warning{.code = ErrorCode::UncheckedPadding, .message = "m", .severity = Severity::Warning};
  EXPECT_EQ(renderDiagnostic(warning, nullptr), "warning: m [E0407]\n");
  SourceBuffer source("g.ir", "");
  EXPECT_EQ(renderDiagnostic(warning, &source), "g.ir: warning: m [E0407]\n");
  EXPECT_FALSE(hasErrors({warning}));
  // A place outside the text.
  warning.loc = {7, 900};
  EXPECT_EQ(renderDiagnostic(warning, &source), "g.ir:7:900: warning: m [E0407]\n  \n  ^\n");
}

TEST(Diagnostic, CutsLongLines) {
  SourceBuffer source("g.ir", std::string(1 << 20, 'a') + "b" + std::string(1 << 20, 'c'));
  for (uint32_t column : {1u, 60u, 61u, 62u, (1u << 20) + 1, (2u << 20) + 1, (2u << 20) + 2}) {
    Diagnostic error{.code = ErrorCode::BadNumber, .message = "m", .loc = {1, column}, .length = 1u << 30};
    std::string text = renderDiagnostic(error, &source);
    EXPECT_LT(text.size(), 500u) << column;
    // The caret stands under its column.
    std::vector<std::string> lines;
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      lines.push_back(text.substr(at, end - at));
    ASSERT_EQ(lines.size(), 3u);
    size_t caret = lines[2].find('^');
    ASSERT_NE(caret, std::string::npos);
    if (column <= (1u << 20) + 1) {
      EXPECT_EQ(lines[1][caret], column <= 62 ? 'a' : 'b');
    }
  }
}

TEST(Diagnostic, BinaryTextNeverReachesTheTerminal) {
  std::string garbage;
  for (int i = 0; i < 256; ++i)
    garbage += char(i);
  SourceBuffer source("a\x1b[31m.ir", garbage);
  Diagnostic error{.code = ErrorCode::UnexpectedCharacter, .message = "odd \x1b[2J\x07 byte", .loc = {2, 20}};
  error.note("note \x1b");
  std::string text = renderDiagnostic(error, &source);
  for (char c : text)
    EXPECT_TRUE(c == '\n' || (c >= 32 && c < 127)) << int(c);
  EXPECT_NE(text.find("odd ?[2J? byte"), std::string::npos);
}

TEST(Diagnostic, ColourOnlyWhenAsked) {
  Diagnostic error{.code = ErrorCode::BadNumber, .message = "m"};
  EXPECT_EQ(renderDiagnostic(error, nullptr).find('\033'), std::string::npos);
  EXPECT_NE(renderDiagnostic(error, nullptr, true).find("\033[1;31merror"), std::string::npos);
}

TEST(SourceBuffer, Lines) {
  SourceBuffer source("x", "a\r\n\nc");
  EXPECT_EQ(source.line(0), "");
  EXPECT_EQ(source.line(1), "a");
  EXPECT_EQ(source.line(2), "");
  EXPECT_EQ(source.line(3), "c");
  EXPECT_EQ(source.line(4), "");
}

TEST(DidYouMean, FindsCloseWords) {
  std::vector<std::string> ops = {"add", "max", "matmul", "reduce", "broadcast", "reshape"};
  EXPECT_EQ(didYouMean("matmull", ops), "matmul");
  EXPECT_EQ(didYouMean("braodcast", ops), "broadcast");
  EXPECT_EQ(didYouMean("mac", ops), "max");
  EXPECT_EQ(didYouMean("redcue", ops), "reduce");
  EXPECT_EQ(didYouMean("softmax", ops), "");
  EXPECT_EQ(didYouMean("", ops), "");
  EXPECT_EQ(didYouMean("x", {"y"}), "");
  EXPECT_EQ(didYouMean(std::string(1 << 20, 'a'), ops), "");
  EXPECT_EQ(didYouMean("add", {}), "");
}

TEST(Expected, HoldsValueOrErrors) {
  Expected<int> value = 3;
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, 3);
  Expected<int> failure = Diagnostic{.code = ErrorCode::BadNumber, .message = "m"};
  ASSERT_FALSE(failure);
  EXPECT_EQ(failure.errors().size(), 1u);
  EXPECT_TRUE(hasErrors(failure.takeErrors()));
  EXPECT_TRUE(Expected<void>());
}

} // namespace
