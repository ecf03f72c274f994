// What differs between two texts, line by line.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// A stretch of lines: `count` that both have, or what the first has alone and then the second.
struct DiffStretch {
  bool equal;
  size_t before, after; ///< Lines of the first and of the second text; the same where they are equal.
};

/// Lines are numbers: equal ones have the same. Stretches alternate and cover both texts. Lines that each text has once are
/// matched in the longest order that both share, and what is between them in turn (patience diff); what has none is compared in
/// full if that is short, else replaced.
std::vector<DiffStretch> diffLines(std::span<const int> before, std::span<const int> after);

/// A unified diff without a head: hunks `@@ -1,4 +1,5 @@` of lines that begin with ` `, `-` or `+`, with up to `context` common
/// ones around each change; empty for equal texts.
std::string textDiff(std::string_view before, std::string_view after, size_t context = 3);

} // namespace minic
