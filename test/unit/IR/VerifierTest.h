// What the tests of the verifier share: text to findings, and what is expected of them.
#pragma once

#include "minic/IR/Parser.h"
#include "minic/IR/Verifier.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace minic::test {

inline std::string text(const Diagnostics &list) {
  std::string all;
  for (const Diagnostic &d : list)
    all += renderDiagnostic(d, nullptr) + "\n";
  return all;
}

/// Parses (which must succeed) and verifies.
inline Diagnostics findings(const std::string &source, const LevelHooks &hooks = {}) {
  Context context;
  auto module = parseModule(context, SourceBuffer("test.ir", source));
  if (!module) {
    ADD_FAILURE() << "does not parse:\n" << text(module.errors()) << source;
    return {};
  }
  return verify(**module, hooks);
}

inline std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << "no '" << from << "' in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// Exactly one finding, of this code, whose message has all of `words`; and whose fix has `fix`.
inline void refuse(const std::string &source, ErrorCode code, const std::vector<std::string> &words, const std::string &fix = {}) {
  Diagnostics list = findings(source);
  ASSERT_EQ(list.size(), 1u) << text(list) << source;
  EXPECT_EQ(errorCodeName(list[0].code), errorCodeName(code)) << list[0].message;
  for (const std::string &word : words)
    EXPECT_NE(list[0].message.find(word), std::string::npos) << "no '" << word << "' in: " << list[0].message;
  EXPECT_NE(list[0].fix.find(fix), std::string::npos) << "no '" << fix << "' in the fix: " << list[0].fix;
  EXPECT_TRUE(list[0].loc.isValid());
}

inline void accept(const std::string &source) {
  Diagnostics list = findings(source);
  EXPECT_TRUE(list.empty()) << text(list) << source;
}

} // namespace minic::test
