#include "minic/Support/PtxLines.h"

#include "minic/Support/Text.h"

#include <charconv>
#include <map>

namespace minic {

namespace {

std::string_view withoutBlanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

/// Takes a number and the blanks before it off the front.
std::optional<uint32_t> takeNumber(std::string_view &text) {
  text = withoutBlanks(text);
  uint32_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc())
    return std::nullopt;
  text.remove_prefix(size_t(end - text.data()));
  return number;
}

/// What follows the directive, if the line is one.
std::optional<std::string_view> afterDirective(std::string_view line, std::string_view name) {
  line = withoutBlanks(line);
  if (!line.starts_with(name) || line.size() == name.size() || (line[name.size()] != ' ' && line[name.size()] != '\t'))
    return std::nullopt;
  return line.substr(name.size());
}

/// `.file 1 "name"`; they may stand behind the functions.
std::map<uint32_t, std::string> filesOf(std::string_view ptx) {
  std::map<uint32_t, std::string> files;
  for (std::string_view line : linesOf(ptx)) {
    auto rest = afterDirective(line, ".file");
    auto number = rest ? takeNumber(*rest) : std::nullopt;
    size_t open = rest ? rest->find('"') : std::string_view::npos;
    if (!number || open == std::string_view::npos)
      continue;
    std::string &name = files[*number];
    for (size_t i = open + 1; i < rest->size() && (*rest)[i] != '"'; ++i)
      name += (*rest)[i] == '\\' && i + 1 < rest->size() ? (*rest)[++i] : (*rest)[i];
  }
  return files;
}

} // namespace

bool hasLineInfo(std::string_view ptx) {
  return ptx.find("\n\t.loc\t") != std::string_view::npos || ptx.find("\n.loc ") != std::string_view::npos;
}

std::vector<FileLoc> ptxLines(std::string_view ptx) {
  std::map<uint32_t, std::string> files = filesOf(ptx);
  std::vector<FileLoc> places;
  FileLoc current;
  for (std::string_view line : linesOf(ptx)) {
    if (auto rest = afterDirective(line, ".loc")) {
      auto file = takeNumber(*rest), row = takeNumber(*rest), column = takeNumber(*rest);
      current = file && row && column && *row ? FileLoc{files[*file], {*row, *column}} : FileLoc();
    } else if (line.starts_with('}')) { // The function's end.
      current = {};
    }
    std::string_view text = withoutBlanks(line);
    bool isInstruction = !text.empty() && text != line && !text.starts_with('.') && !text.starts_with("//");
    places.push_back(isInstruction ? current : FileLoc());
  }
  return places;
}

bool isLineInfo(std::string_view line) {
  return afterDirective(line, ".loc") || afterDirective(line, ".file") || line.starts_with("$L__func_") ||
         line.starts_with("$L__tmp") || afterDirective(line, ".section");
}

/// The line of the first error.
static std::optional<uint32_t> errorLine(std::string_view log) {
  for (std::string_view line : linesOf(log)) {
    constexpr std::string_view mark = ", line ";
    size_t at = line.find(mark);
    if (at == std::string_view::npos)
      continue;
    line.remove_prefix(at + mark.size());
    auto number = takeNumber(line);
    if (number && (line.starts_with("; error") || line.starts_with("; fatal")))
      return number;
  }
  return std::nullopt;
}

std::optional<PtxErrorPlace> ptxErrorPlace(std::string_view ptx, std::string_view log) {
  std::vector<std::string_view> lines = linesOf(ptx);
  auto line = errorLine(log);
  if (!line || *line < 1 || *line > lines.size())
    return std::nullopt;
  return PtxErrorPlace{*line, std::string(withoutBlanks(lines[*line - 1])), ptxLines(ptx)[*line - 1]};
}

} // namespace minic
