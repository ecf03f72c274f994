// When two pieces of IR do the same.
#pragma once

#include "minic/IR/IR.h"

#include <functional>
#include <string>

namespace minic {

/// A text that is equal for blocks that are equal up to places and the names of values. `outside` gives the text of a value that is
/// defined in none of the block's operations.
std::string structuralKey(const Block &block, const std::function<std::string(const Value *)> &outside);

} // namespace minic
