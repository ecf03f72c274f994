// Ops of graphs that read their operands at indices of their own. Private to lib/Interp.
#pragma once

#include "Lanes.h"
#include "minic/Support/DimExpr.h"

#include <span>
#include <vector>

namespace minic::interp {

struct IndexedOperand {
  std::vector<int64_t> shape;
  LaneArray lanes; ///< Floats as f64; maybe a splat.
};

/// Slice, pad, concat, gather or iota. `result` has room for all elements of `shape`, floats as f64.
void evalIndexed(const Operation &op, const DimBindings &dims, std::span<const IndexedOperand> operands,
                 std::span<const int64_t> shape, LaneArray &result);

} // namespace minic::interp
