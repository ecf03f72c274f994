#include "minic/IR/PtxText.h"

#include <algorithm>

namespace minic {
namespace {

/// Words and single characters, without comments and strings (PTX ISA, "Syntax").
class PtxReader {
public:
  explicit PtxReader(std::string_view text) : rest(text) {}

  /// The next word; empty at the end.
  std::string_view next() {
    while (!rest.empty()) {
      if (rest.starts_with("//"))
        skipPast("\n", 2);
      else if (rest.starts_with("/*"))
        skipPast("*/", 2);
      else if (rest.starts_with("\""))
        skipPast("\"", 1);
      else if (std::string_view(" \t\r\n").find(rest.front()) != std::string_view::npos)
        rest.remove_prefix(1);
      else
        return take(std::max<size_t>(wordLength(), 1));
    }
    return {};
  }

private:
  size_t wordLength() const {
    auto isWord = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' ||
             c == '.';
    };
    return size_t(std::find_if_not(rest.begin(), rest.end(), isWord) - rest.begin());
  }
  std::string_view take(size_t length) {
    std::string_view word = rest.substr(0, length);
    rest.remove_prefix(length);
    return word;
  }
  void skipPast(std::string_view end, size_t from) {
    size_t at = rest.find(end, from);
    rest.remove_prefix(at == std::string_view::npos ? rest.size() : at + end.size());
  }

  std::string_view rest;
};

} // namespace

std::string ptxTarget(std::string_view text) {
  PtxReader reader(text);
  for (std::string_view word = reader.next(); !word.empty(); word = reader.next())
    if (word == ".target")
      return std::string(reader.next());
  return {};
}

std::optional<size_t> countPtxParams(std::string_view text, std::string_view entry) {
  PtxReader reader(text);
  for (std::string_view word = reader.next(); !word.empty(); word = reader.next()) {
    if (word != ".entry" || reader.next() != entry)
      continue;
    size_t params = 0;
    if (reader.next() == "(")
      for (word = reader.next(); !word.empty() && word != ")"; word = reader.next())
        params += word == ".param";
    return params;
  }
  return std::nullopt;
}

} // namespace minic
