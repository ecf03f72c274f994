// What is known of sizes before they have values.
#pragma once

#include "minic/Support/DimExpr.h"
#include "minic/Support/Expected.h"

#include <span>

namespace minic {

/// A size is a multiple of a number, or lies between two. The text is that of a `where` clause.
struct DimFact {
  DimExpr size;
  int64_t multiple = 1;
  int64_t least = 0, most = INT64_MAX;

  /// `N % 8 == 0`, `N == 4`, `1 <= N <= 4096`, `N <= 4096`, `N >= 1`.
  std::string str() const;
  bool holds(int64_t value) const { return value >= least && value <= most && value % multiple == 0; }
  friend bool operator==(const DimFact &, const DimFact &) = default;
};

/// Reads the text form; also with `<` and `>`, and numbers on the left.
Expected<DimFact> parseDimFact(std::string_view text);
/// A list of them, split at commas.
Expected<std::vector<DimFact>> parseDimFacts(std::string_view text);

/// What the facts say of a size: of itself, or that it is a number.
int64_t leastOf(const DimExpr &size, std::span<const DimFact> facts);
int64_t mostOf(const DimExpr &size, std::span<const DimFact> facts);

} // namespace minic
