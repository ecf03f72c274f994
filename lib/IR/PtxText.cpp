#include "minic/IR/PtxText.h"

#include <algorithm>
#include <charconv>

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

/// Of `.param .align 64 .b8 name[128]`, read from behind `.param` to the comma or bracket behind it, which is the last word.
static int64_t readParam(PtxReader &reader, std::string_view &word) {
  int64_t bytes = 0;
  bool isCount = false;
  for (word = reader.next(); !word.empty() && word != "," && word != ")"; word = reader.next()) {
    int64_t number = 0;
    size_t digits = word.find_first_of("0123456789");
    if (digits != std::string_view::npos)
      std::from_chars(word.data() + digits, word.data() + word.size(), number);
    bool isType = digits == 2 && word[0] == '.' && std::string_view("busf").find(word[1]) != std::string_view::npos;
    if (isType)
      bytes = number / 8;
    else if (isCount)
      bytes *= number;
    isCount = word == "[";
  }
  return bytes;
}

std::vector<PtxEntry> ptxEntries(std::string_view text) {
  PtxReader reader(text);
  std::vector<PtxEntry> entries;
  for (std::string_view word = reader.next(); !word.empty(); word = reader.next()) {
    if (word != ".entry")
      continue;
    std::string_view name = reader.next();
    if (name.empty())
      break;
    PtxEntry &entry = entries.emplace_back(PtxEntry{std::string(name)});
    entry.line = uint32_t(1 + std::count(text.data(), name.data(), '\n'));
    if (reader.next() != "(")
      continue;
    for (word = reader.next(); !word.empty() && word != ")";)
      if (word == ".param")
        entry.params.push_back(readParam(reader, word));
      else
        word = reader.next();
  }
  return entries;
}

} // namespace minic
