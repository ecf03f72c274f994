// How the operands of a product lie in memory.
#pragma once

#include "minic/Transforms/Analysis/IterationSpace.h"

#include <optional>
#include <span>
#include <vector>

namespace minic {

/// What the cost model takes for a size that is not known.
inline constexpr int64_t unknownSize = 4096;

/// How an operand of a product lies in memory, behind transposes.
struct InMemory {
  const Value *value;
  std::vector<int> axes; ///< Of the loops, in the order of memory.
  bool operator==(const InMemory &) const = default;
};
/// None if another op of the region, or one that is free in a region and has no memory, makes the operand.
std::optional<InMemory> inMemory(const IterationSpace &space, const Operation &product, unsigned i);

/// What runs along the contracted axis feeds the product alone. A transpose that is a result too, or is viewed or read at other
/// indices, would be stored in a sweep of its own.
bool feedsProductAlone(const IterationSpace &space, std::span<Operation *const> ops);

/// True if both operands lie in memory as matrices, or several one after the other, that TMA can bring in boxes.
bool liesInMatrices(const IterationSpace &space, const Operation &product);

/// Batches and pieces, or as many as are known.
int64_t batchesOf(const IterationSpace &space);

} // namespace minic
