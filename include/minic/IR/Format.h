// Text to text: spaces and lines as the house writes them.
#pragma once

#include <string>
#include <string_view>

namespace minic {

/// The text with its spaces and lines in canonical form. No token and no comment is added, taken away or changed, nor does a token
/// get to another line, and formatting once more changes nothing. For text that parses.
///
/// - A line is indented by 2 for each brace around it, and by 4 more if it goes on with what a line before began:
///   by as many more as it was, if those were more, since people align there too.
/// - One space stands where there were several, but for those before `=`, `:` and a comment: with them people align columns.
/// - There is one space around `=`, after `,` and before `{`; none before `,` nor inside parentheses and brackets.
/// - One empty line stands where there were several; none at the ends of the file nor of a body.
std::string formatText(std::string_view source);

} // namespace minic
