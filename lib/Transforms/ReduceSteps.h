// Reductions of tiles with layouts, as the machine level says them: over registers, then over lanes.
#pragma once

#include "minic/IR/Builder.h"

#include <vector>

namespace minic {

/// True if one of the modes runs along the axis.
bool holdsAxis(const std::vector<Mode> &modes, int64_t axis);

/// What each warp makes of what it holds of `values` along `axis`, by the combiner of `reduce`. Each value becomes its result.
void reduceInWarps(Builder &builder, const Operation &reduce, std::vector<Value *> &values, int64_t axis);

} // namespace minic
