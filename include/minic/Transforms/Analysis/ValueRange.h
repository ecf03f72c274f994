// Between which numbers the elements of graph values lie.
#pragma once

#include "minic/IR/IR.h"

#include <unordered_map>

namespace minic {

/// What holds of each element that is not NaN. Bounds are coarse: powers of two, 0 or infinite.
struct ValueRange {
  double least, greatest;
};

/// Ranges of the values of a graph, a region or, as tiles, a kernel.
class ValueRanges {
public:
  explicit ValueRanges(std::span<const DimFact> facts) : facts(facts) {}
  ValueRange of(const Value *value);

private:
  ValueRange compute(const Operation &op);
  ValueRange ofReduce(const Operation &op);
  /// A number that some element along `axes` is, wherever the others are, unless elements are NaN.
  std::optional<double> attained(const Value *value, const std::vector<int64_t> &axes) const;

  std::span<const DimFact> facts;
  std::unordered_map<const Value *, ValueRange> known;
  int depth = 0; ///< Of the walk towards operands, which ends where it would need much stack.
};

} // namespace minic
