// What PTX says of where its lines are from (PTX ISA, "Debugging Directives"), and what ptxas and the driver say of its lines.
#pragma once

#include "minic/Support/LineSource.h"

#include <optional>
#include <string_view>
#include <vector>

namespace minic {

/// Whether the text says of any line where it is from.
bool hasLineInfo(std::string_view ptx);
/// Where each line of the text is from: what the last `.loc` before it in its function says. No place (line 0) where none does:
/// directives, labels, and what was made for no line.
std::vector<FileLoc> ptxLines(std::string_view ptx);
/// A line that is there for line info alone: `.loc`, `.file`, empty sections, and labels that these name.
bool isLineInfo(std::string_view line);

/// The line of PTX that a message of ptxas or of the driver is about.
struct PtxErrorPlace {
  uint32_t line = 0; ///< From 1 on.
  std::string text;
  FileLoc from; ///< As `ptxLines` has it.
};
/// The place of the first error in a log: `ptxas module.ptx, line 57; error : ...`. Nothing if it names no line of the text.
std::optional<PtxErrorPlace> ptxErrorPlace(std::string_view ptx, std::string_view log);

} // namespace minic
