#include "minic/Support/ErrorText.h"

#include <cassert>
#include <map>

namespace minic {
namespace {

constexpr std::pair<std::string_view, std::string_view> files[] = {
#include "ErrorTexts.inc"
};

/// A line without an indent begins a code, `E0312`, or a part of it, `wrong:`. Indented lines and empty ones are the part's.
void readFile(std::string_view file, std::map<std::string_view, ErrorText> &texts) {
  ErrorText *text = nullptr;
  std::string *part = nullptr;
  size_t empty = 0;
  while (!file.empty()) {
    std::string_view line = file.substr(0, file.find('\n'));
    file.remove_prefix(std::min(line.size() + 1, file.size()));
    if (line.empty()) {
      ++empty;
    } else if (line.starts_with("    ")) {
      part->append(part->empty() ? 0 : empty, '\n').append(line.substr(4)).append("\n");
      empty = 0;
    } else if (line.ends_with(':')) {
      part = line == "wrong:" ? &text->wrong : line == "right:" ? &text->right : line == "reason:" ? &text->reason : &text->needs;
      empty = 0;
    } else {
      text = &texts[line];
    }
  }
}

} // namespace

const ErrorText &errorText(ErrorCode code) {
  static const std::map<std::string_view, ErrorText> texts = [] {
    std::map<std::string_view, ErrorText> read;
    for (const auto &[name, file] : files)
      readFile(file, read);
    return read;
  }();
  auto found = texts.find(errorCodeName(code));
  assert(found != texts.end() && "a code without a text in lib/Support/ErrorTexts");
  return found->second;
}

} // namespace minic
