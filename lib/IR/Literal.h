// Number literals to elements, with one rounding. Private to lib/IR.
#pragma once

#include "minic/Support/DType.h"

#include <optional>
#include <string_view>

namespace minic {

/// The integer that a literal writes in decimal or as `0x1f`; nullopt if the text is not one or does not fit.
std::optional<int64_t> parseIntLiteral(std::string_view text);

/// The element of float type `t` nearest to an integer or float literal (ties to even; also `inf`, `-inf`, `nan`), held as a
/// double. Rounds once: a literal is never rounded to a double first and then again. Nullopt if a finite literal is too large for
/// `t`.
std::optional<double> parseFloatLiteral(std::string_view text, DType t);

} // namespace minic
