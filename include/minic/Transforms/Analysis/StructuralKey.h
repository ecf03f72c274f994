// When two pieces of IR do the same.
#pragma once

#include "minic/IR/IR.h"

#include <functional>
#include <string>

namespace minic {

/// How a key differs from all that a block says.
struct KeyTexts {
  /// Of a value that is defined in none of the block's operations.
  std::function<std::string(const Value *)> outside;
  std::function<std::string(Type)> type = [](Type type) { return type.str(); };
  std::string_view withoutAttribute = {}; ///< An attribute that does not count.
};

/// A text that is equal for blocks that are equal up to places and the names of values.
std::string structuralKey(const Block &block, const KeyTexts &texts);

} // namespace minic
