// Composites of graphs in f64, from their definitions and not from the ops that they are written out as. Private to lib/Interp.
#pragma once

#include "Lanes.h"

#include <span>

namespace minic::interp {

/// Softmax, layernorm, rmsnorm, mean or argmax. `operands` hold all their elements, floats as f64; `out` gets the result's,
/// likewise.
void evalComposite(const Operation &op, std::span<const int64_t> shape, std::span<const LaneArray> operands, std::byte *out);

} // namespace minic::interp
