// What `fuse` decided of each edge of a graph, for those who ask.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Transforms/Analysis/KernelResources.h"

#include <optional>
#include <string>
#include <vector>

namespace minic {

enum class FusionReason : uint8_t {
#define MINIC_FUSION_REASON(name, code, why, change) name,
#include "minic/Transforms/FusionReasons.def"
#undef MINIC_FUSION_REASON
};

/// A row of FusionReasons.def.
struct FusionReasonInfo {
  std::string_view code, why;
  std::string_view change; ///< What would let them be one kernel; empty where no change of the graph or the flags does.
};
const FusionReasonInfo &fusionReasonInfo(FusionReason reason);

/// What one op of a graph leaves for another, through broadcasts and what else is free in a kernel.
struct FusionEdge {
  std::string from, to;     ///< The ops' results, "%y"; "(exp)" of one without a name.
  int fromOp = 0, toOp = 0; ///< Positions in the graph, which tell ops apart.
  SourceLoc fromLoc, toLoc;
  std::optional<FusionReason> reason;       ///< Of two kernels; none where both are in one.
  std::string detail;                       ///< What the rule found, if it says more than the reason.
  DimExpr bytes;                            ///< Of the value.
  bool isStored = true;                     ///< The value goes through memory: for this reader or another one.
  std::optional<KernelResources> resources; ///< Of the one kernel, if it got as far as that.
};

struct FusionReport {
  std::vector<FusionEdge> edges; ///< In the order of their readers.
};

} // namespace minic
