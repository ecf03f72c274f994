#include "minic/Support/Diagnostic.h"

#include <algorithm>
#include <array>

namespace minic {

namespace {
struct Row {
  std::string_view code, summary;
};
constexpr std::array rows = {
#define MINIC_ERROR(id, code, summary) Row{code, summary},
#include "minic/Support/Errors.def"
#undef MINIC_ERROR
};

/// Bytes of a source line shown around the caret.
constexpr size_t shownWidth = 120;
} // namespace

std::string_view errorCodeName(ErrorCode code) { return rows[size_t(code)].code; }
std::string_view errorCodeSummary(ErrorCode code) { return rows[size_t(code)].summary; }

const std::vector<ErrorCode> &allErrorCodes() {
  static const std::vector<ErrorCode> codes = [] {
    std::vector<ErrorCode> list;
    for (size_t i = 0; i < rows.size(); ++i)
      list.push_back(ErrorCode(i));
    return list;
  }();
  return codes;
}

bool hasErrors(const Diagnostics &list) {
  return std::any_of(list.begin(), list.end(), [](const Diagnostic &d) { return d.severity == Severity::Error; });
}

SourceBuffer::SourceBuffer(std::string name, std::string text) : bufferName(std::move(name)), contents(std::move(text)) {
  lineStarts.push_back(0);
  for (size_t i = 0; i < contents.size(); ++i)
    if (contents[i] == '\n')
      lineStarts.push_back(i + 1);
}

std::string_view SourceBuffer::line(uint32_t number) const {
  if (number == 0 || number > lineStarts.size())
    return {};
  size_t start = lineStarts[number - 1], end = number < lineStarts.size() ? lineStarts[number] - 1 : contents.size();
  if (end > start && contents[end - 1] == '\r')
    --end;
  return std::string_view(contents).substr(start, end - start);
}

static std::string printable(std::string_view bytes) {
  std::string text(bytes);
  for (char &c : text)
    if (c == '\t')
      c = ' ';
    else if (static_cast<unsigned char>(c) < 32 || static_cast<unsigned char>(c) > 126)
      c = '?';
  return text;
}

/// Messages and names quote untrusted text: no byte of it may drive the terminal. UTF-8 passes; so do line ends where `lines`.
static std::string harmless(std::string_view message, bool lines) {
  std::string text(message);
  for (char &c : text)
    if ((static_cast<unsigned char>(c) < 32 && !(lines && (c == '\n' || c == '\t'))) || c == 127)
      c = c == '\t' || c == '\n' ? ' ' : '?';
  return text;
}

static std::string place(const SourceBuffer *source, SourceLoc loc) {
  loc = loc.inText();
  std::string text = source ? harmless(source->name(), false) : "";
  if (loc.isValid())
    text += (text.empty() ? "" : ":") + std::to_string(loc.line) + ":" + std::to_string(loc.column);
  return text.empty() ? "" : text + ": ";
}

static std::string caretLines(const SourceBuffer &source, SourceLoc loc, uint32_t length, const char *on, const char *off) {
  loc = loc.inText();
  std::string_view line = source.line(loc.line);
  size_t column = loc.column ? loc.column - 1 : 0;
  if (column > line.size())
    column = line.size();
  size_t start = column > shownWidth / 2 ? std::min(column - shownWidth / 2, line.size()) : 0;
  if (line.size() <= shownWidth)
    start = 0;
  std::string_view shown = line.substr(start, shownWidth);
  std::string before = start ? "..." : "", after = start + shown.size() < line.size() ? "..." : "";
  size_t end = std::min<size_t>(column + std::max<uint32_t>(length, 1), start + shown.size());
  std::string caret(before.size() + column - start, ' ');
  caret += "^" + std::string(end > column + 1 ? end - column - 1 : 0, '~');
  return "  " + before + printable(shown) + after + "\n  " + on + caret + off + "\n";
}

std::string renderDiagnostic(const Diagnostic &diagnostic, const SourceBuffer *source, bool colour) {
  bool isError = diagnostic.severity == Severity::Error;
  const char *bold = colour ? "\033[1m" : "", *off = colour ? "\033[0m" : "";
  const char *kind = !colour ? "" : isError ? "\033[1;31m" : "\033[1;35m";
  const char *green = colour ? "\033[1;32m" : "";
  std::string text = bold + place(source, diagnostic.loc) + off + kind + (isError ? "error" : "warning") + ": " + off + bold +
                     harmless(diagnostic.message, false) + off + " [" + std::string(errorCodeName(diagnostic.code)) + "]\n";
  if (source && diagnostic.loc.inText().isValid())
    text += caretLines(*source, diagnostic.loc, diagnostic.length, green, off);
  if (diagnostic.loc.isInDump() && diagnostic.loc.isValid())
    text +=
        "note: it is from " + std::to_string(diagnostic.loc.line) + ":" + std::to_string(diagnostic.loc.column) + " of the graph\n";
  for (const DiagnosticNote &note : diagnostic.notes) {
    bool isPlaced = note.loc.inText().isValid();
    text += (isPlaced ? place(source, note.loc) : "") + "note: " + harmless(note.message, true) + "\n";
    if (source && isPlaced)
      text += caretLines(*source, note.loc, 1, green, off);
  }
  if (!diagnostic.fix.empty())
    text += "fix: " + harmless(diagnostic.fix, true) + "\n";
  return text;
}

std::string renderDiagnostics(const Diagnostics &list, const SourceBuffer *source, bool colour) {
  std::string text;
  for (const Diagnostic &diagnostic : list)
    text += renderDiagnostic(diagnostic, source, colour);
  return text;
}

/// Optimal string alignment distance: insertions, deletions, substitutions and swaps of neighbours.
static size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> twoBack, previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        current[j] = std::min(current[j], twoBack[j - 2] + 1);
    }
    twoBack = previous;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::string didYouMean(std::string_view word, const std::vector<std::string> &candidates) {
  if (word.empty() || word.size() > 64)
    return {};
  std::string best;
  size_t limit = word.size() <= 3 ? 1 : word.size() <= 6 ? 2 : 3, distance = limit + 1;
  for (const std::string &candidate : candidates) {
    if (candidate.size() > word.size() + limit || word.size() > candidate.size() + limit)
      continue;
    size_t d = editDistance(word, candidate);
    if (d < distance && d < std::max(word.size(), candidate.size())) {
      distance = d;
      best = candidate;
    }
  }
  return best;
}

} // namespace minic
