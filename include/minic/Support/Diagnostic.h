// What is wrong, where, and how to fix it: diagnostics, their codes, and the source text they point into.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// A place in a source text: 1-based line and byte column; line 0 means "no place". Of an op it is the place in the graph's text. A
/// dump has that behind the op, and an op that was read from one has its place there besides.
struct SourceLoc {
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t dumpLine = 0; ///< 0: there is no dump.
  uint32_t dumpColumn = 0;
  bool isValid() const { return line != 0; }
  bool isInDump() const { return dumpLine != 0; }
  /// The place in the text that was read.
  SourceLoc inText() const { return isInDump() ? SourceLoc{dumpLine, dumpColumn} : *this; }
  /// The same place in the graph's text.
  friend bool operator==(SourceLoc a, SourceLoc b) { return a.line == b.line && a.column == b.column; }
};

enum class ErrorCode : uint16_t {
#define MINIC_ERROR(id, code, summary) id,
#include "minic/Support/Errors.def"
#undef MINIC_ERROR
};
/// "E0303".
std::string_view errorCodeName(ErrorCode code);
/// The sentence of the code's row in Errors.def.
std::string_view errorCodeSummary(ErrorCode code);
/// All codes in the order of Errors.def, for documentation.
const std::vector<ErrorCode> &allErrorCodes();

enum class Severity : uint8_t { Error, Warning };

struct DiagnosticNote {
  std::string message;
  SourceLoc loc;
};

/// One finding. `message` is one lower-case sentence without a final stop that says what is wrong and what was expected; `fix` says
/// what to write instead, if that is known.
struct Diagnostic {
  ErrorCode code;
  std::string message;
  SourceLoc loc = {};
  uint32_t length = 1; ///< Bytes to underline from `loc`.
  std::vector<DiagnosticNote> notes = {};
  std::string fix = {};
  Severity severity = Severity::Error;

  Diagnostic &note(std::string text, SourceLoc at = {}) & {
    notes.push_back({std::move(text), at});
    return *this;
  }
  Diagnostic &&note(std::string text, SourceLoc at = {}) && {
    notes.push_back({std::move(text), at});
    return std::move(*this);
  }
};

/// Findings in the order they were made.
using Diagnostics = std::vector<Diagnostic>;

bool hasErrors(const Diagnostics &list);

/// A named text. Bytes are untrusted: any content, any line length.
class SourceBuffer {
public:
  SourceBuffer(std::string name, std::string text);
  const std::string &name() const { return bufferName; }
  std::string_view text() const { return contents; }
  /// The 1-based line without its line end; empty if there is none.
  std::string_view line(uint32_t number) const;

private:
  std::string bufferName, contents;
  std::vector<size_t> lineStarts;
};

/// `file:line:col: error: message [E0312]`, the source line with a caret (long lines are cut around the caret, control and
/// non-ASCII bytes shown as `?`), then notes and the fix. `source` may be null.
std::string renderDiagnostic(const Diagnostic &diagnostic, const SourceBuffer *source, bool colour = false);
std::string renderDiagnostics(const Diagnostics &list, const SourceBuffer *source, bool colour = false);

/// The candidate closest to `word` by edit distance, or empty if none is close enough to be meant.
std::string didYouMean(std::string_view word, const std::vector<std::string> &candidates);

} // namespace minic
