// What changed between two texts, line by line.
#pragma once

#include <cstddef>
#include <span>
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

} // namespace minic
