// Pieces of texts.
#pragma once

#include <string_view>
#include <vector>

namespace minic {

/// The lines of a text without their line ends. What follows the last line end is a line unless it is empty.
std::vector<std::string_view> linesOf(std::string_view text);
/// Without blanks, tabs and line ends at both ends.
std::string_view trimmed(std::string_view text);

} // namespace minic
