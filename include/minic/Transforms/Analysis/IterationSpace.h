// The loops that a set of graph ops shares, computed from the `axes` column of the op table alone.
#pragma once

#include "minic/IR/IR.h"

#include <map>
#include <optional>

namespace minic {

struct LoopAxis {
  DimExpr extent;
  bool reduced = false; ///< Some reduce or matmul of the set contracts it, or a scan runs along it in order.
  bool held = false; ///< A matmul's results are reduced along it, so one program has all of it: it runs in parallel, in one block.
  int64_t chunk = 0; ///< Elements of a piece, where a reduction cuts the axis into pieces; else 0.
  int pieces = -1;   ///< The loop axis that counts them, which runs in parallel.

  /// What one program runs along.
  DimExpr length() const { return chunk ? DimExpr(chunk) : extent; }
};

/// Axes of tensors that must run together are one loop axis. Values that come from outside the set have axes per use, so one tensor
/// may be read along different loops.
class IterationSpace {
public:
  /// For ops in topological order, e.g. a fusion region's. Fails, with the reason, if the ops have no common loop nest: a value
  /// would run along one loop with two of its axes, reductions differ in what they contract, or an op has opaque axes.
  static std::optional<IterationSpace> compute(std::span<Operation *const> ops, std::string *why = nullptr);

  const std::vector<LoopAxis> &axes() const { return loops; }
  int rank() const { return int(loops.size()); }
  /// The loop axis of each axis of an op's result.
  const std::vector<int> &axesOf(const Value *result) const { return resultAxes.at(result); }
  bool has(const Value *result) const { return resultAxes.count(result) != 0; }
  /// The loop axis of each axis of an operand, which may come from outside; none of one that is read from memory at other indices.
  const std::vector<int> &axesOfUse(const Operation *op, unsigned operand) const { return useAxes.at({op, operand}); }
  /// True if what runs along `axes` does along this loop: it is one of them, or counts the pieces of one.
  bool runsAlong(const std::vector<int> &axes, int loop) const;
  /// True if the loop counts the pieces of another.
  bool countsPieces(int loop) const;
  /// True if an axis is held: programs compute whole rows of a matmul's result.
  bool holdsRows() const;
  /// True if the op reduces what a matmul of the set gives, along an axis that is held.
  bool reducesHeld(const Operation &op) const;
  /// True if one of the axes is reduced.
  bool isReduced(const std::vector<int> &axes) const;
  /// True if the value runs along a reduced axis.
  bool isInner(const Value *result) const { return isReduced(axesOf(result)); }

private:
  std::vector<LoopAxis> loops;
  std::map<const Value *, std::vector<int>> resultAxes;
  std::map<std::pair<const Operation *, unsigned>, std::vector<int>> useAxes;
};

/// Reads of memory or copies that cost nothing inside a region: constants, broadcasts, transposes, and what only reads its operands
/// at other indices.
bool isFreeInRegion(const Operation &op);
/// The op reads this operand at indices of its own, so it must lie in memory.
bool readsFromMemory(const Operation &op, unsigned operand);
/// Work worth keeping single: contractions, divisions, roots and functions with a body in IR.
bool isExpensive(const Operation &op);

} // namespace minic
