// The schedule space of a region and the cost model's choice from it.
#pragma once

#include "minic/IR/Schedule.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/IterationSpace.h"

namespace minic {

/// A tile of a product that the cost model looked at.
struct ConsideredTile {
  std::string text;             ///< "128x256, wgmma".
  std::optional<double> cycles; ///< What it takes; none if it was not counted.
  std::string why;              ///< Why not, where no count says it.
};

/// The schedule for a region, or nullopt if no schedule of the target can run it. Given by the loops' extents, the element types
/// and the target alone. Of a product, `considered` gets the tiles that were compared.
std::optional<Schedule> chooseSchedule(const IterationSpace &space, std::span<Operation *const> ops, const TargetInfo &target,
                                       bool exact, std::vector<ConsideredTile> *considered = nullptr);

/// True if products of the region would be done sooner by tensor cores in kernels of their own: the region does not run on them
/// with this schedule, or its products hinder each other.
bool losesTensorCores(const Schedule &schedule, const IterationSpace &space, std::span<Operation *const> ops,
                      const TargetInfo &target, bool exact);

/// Numbers that a thread adds up one after the other, and loads at once, where a reduction is no longer and has columns enough.
inline constexpr int64_t mostInChain = 32;

/// True if CTAs can share their memory in clusters.
bool hasClusters(const TargetInfo &target);

/// True if a reduction of such a tensor, and what else is computed of it, can hold what it reduces in one block. Sizes must be
/// known.
bool fitsOnChip(Type operand, std::span<const int64_t> axes, const TargetInfo &target);

} // namespace minic
