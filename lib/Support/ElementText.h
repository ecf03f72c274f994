// One element of a tensor as text.
#pragma once

#include "minic/Support/DType.h"

#include <cstddef>
#include <string_view>

namespace minic {

/// Reads `1.5`, `-2`, `0x1.8p3`, `nan`, `inf`, `true` ... (the whole word) and stores an element of type `t` at `to`. Gives null,
/// or what is wrong with the word. Never depends on the locale.
const char *readElement(std::string_view word, DType t, std::byte *to);

} // namespace minic
