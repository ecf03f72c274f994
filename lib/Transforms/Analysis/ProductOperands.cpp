#include "ProductOperands.h"

#include "minic/IR/OpKind.h"

#include <algorithm>

namespace minic {

static constexpr size_t maxTmaRank = 5; ///< PTX ISA, "Tensors".

std::optional<InMemory> inMemory(const IterationSpace &space, const Operation &product, unsigned i) {
  std::vector<int> axes = space.axesOfUse(&product, i);
  const Value *value = product.operand(i);
  while (value->definition() && value->definition()->is(OpKind::Transpose)) {
    std::vector<int64_t> perm = value->definition()->intsAttr("perm");
    std::vector<int> inner(axes.size());
    for (size_t a = 0; a < axes.size(); ++a)
      inner[size_t(perm[a])] = axes[a];
    axes = inner;
    value = value->definition()->operand(0);
  }
  const Operation *maker = value->definition();
  if (maker && (space.has(value) || isFreeInRegion(*maker)))
    return std::nullopt;
  return InMemory{value, axes};
}

bool feedsProductAlone(const IterationSpace &space, std::span<Operation *const> ops) {
  for (const Operation *op : ops)
    for (const Value *value : op->results())
      for (const Use &use : space.isInner(value) ? value->uses() : std::span<const Use>())
        if (use.user->info().terminator || use.user->is(OpKind::Reshape) || use.user->is(OpKind::Custom) ||
            readsFromMemory(*use.user, use.index))
          return false;
  return true;
}

bool liesInMatrices(const IterationSpace &space, const Operation &product) {
  auto lhs = inMemory(space, product, 0), rhs = inMemory(space, product, 1);
  int m = space.rank() - 3, n = m + 1, k = m + 2;
  auto endsWith = [](const std::vector<int> &axes, int row, int column) {
    return axes.size() <= maxTmaRank && axes.size() >= 2 && axes[axes.size() - 2] == row && axes.back() == column;
  };
  // No tensor map has a size of 0.
  bool isEmpty = std::ranges::any_of(space.axes(), [](const auto &axis) { return axis.extent.constant() == 0; });
  return !isEmpty && lhs && rhs && (endsWith(lhs->axes, m, k) || endsWith(lhs->axes, k, m)) &&
         (endsWith(rhs->axes, k, n) || endsWith(rhs->axes, n, k));
}

int64_t batchesOf(const IterationSpace &space) {
  int64_t batches = 1;
  for (int axis = 0; axis < space.rank() - 3; ++axis)
    batches *= space.axes()[size_t(axis)].extent.constant().value_or(1);
  return batches;
}

} // namespace minic
