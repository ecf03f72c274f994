// What tuned schedules are found by: a fusion region with letters for its sizes, and what sizes have in common.
#pragma once

#include "minic/IR/IR.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace minic {

/// What a fusion does and for which sizes, whatever its values are called and whatever was proved of them (`ranges`).
struct RegionKey {
  std::string text;           ///< "{:tensor<AxBxf32>;reduce %0,...}": equal sizes have one letter, 0 and 1 stay.
  std::vector<DimExpr> sizes; ///< What the letters stand for, in order.

  static RegionKey of(const Operation &fusion);
};

/// What two sizes have in common that one schedule serves.
struct SizeClass {
  int64_t block;     ///< The smallest power of two that holds it, as blocks are powers of two.
  int64_t alignment; ///< The largest power of two up to 16 that divides it: 16 bytes of any type, which vectors and TMA move.

  /// Nothing for a name whose values, as far as facts say, are not all of one class.
  static std::optional<SizeClass> of(const DimExpr &size, std::span<const DimFact> facts = {});
  friend bool operator==(const SizeClass &, const SizeClass &) = default;
};

} // namespace minic
