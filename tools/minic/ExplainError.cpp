#include "ExplainError.h"

#include "Common.h"

#include "minic/Support/ErrorText.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace minic::cli {
namespace {

bool looksLikeCode(std::string_view word) {
  return word.size() == 5 && word[0] == 'E' &&
         std::all_of(word.begin() + 1, word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// The codes of the same group, or the groups.
Diagnostic unknownCode(const std::string &word) {
  std::string_view first, last;
  for (ErrorCode code : allErrorCodes())
    if (std::string_view name = errorCodeName(code); name.substr(0, 3) == word.substr(0, 3)) {
      first = first.empty() ? name : first;
      last = name;
    }
  if (first.empty()) {
    first = errorCodeName(allErrorCodes().front()).substr(0, 3);
    last = errorCodeName(allErrorCodes().back()).substr(0, 3);
  }
  return badFlag("no error has the code " + word, "codes are from " + std::string(first) + " to " + std::string(last) +
                                                      "; docs/errors.md lists them, and so does `minic doc errors`");
}

/// As a block of Markdown.
std::string indented(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    out += (line.empty() ? "" : "    ") + std::string(line) + "\n";
  }
  return out;
}

nlohmann::json json(ErrorCode code) {
  const ErrorText &text = errorText(code);
  return {{"code", errorCodeName(code)}, {"summary", errorCodeSummary(code)},
          {"wrong", text.wrong},         {"right", text.right},
          {"reason", text.reason},       {"needs", text.needs}};
}

} // namespace

std::string errorSection(ErrorCode code) {
  const ErrorText &text = errorText(code);
  std::string out = std::string(errorCodeName(code)) + ": " + std::string(errorCodeSummary(code)) + "\n\nWrong:\n\n" +
                    indented(text.wrong) + "\nRight:\n\n" + indented(text.right) + "\n" + text.reason;
  return text.needs.empty() ? out : out + "\nTo see it: " + text.needs;
}

std::optional<int> explainError(const std::string &word, bool asJson) {
  if (!looksLikeCode(word))
    return {};
  Messages messages(asJson);
  const std::vector<ErrorCode> &codes = allErrorCodes();
  auto code = std::ranges::find(codes, word, errorCodeName);
  if (code == codes.end())
    return messages.fail({unknownCode(word)});
  auto written = writeOutput({}, asJson ? json(*code).dump() + "\n" : errorSection(*code));
  return written ? Fine : messages.fail(written.errors());
}

} // namespace minic::cli
