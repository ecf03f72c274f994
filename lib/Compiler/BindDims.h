// What is known of sizes, written into the types: names become numbers or multiples of other names; graphs for special sizes.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

namespace minic {

/// Replaces the names in `dims` in all types and attributes. A name that occurs nowhere is UnknownDim, with the names that do.
Expected<void> bindDimNames(Module &module, const DimBindings &dims);

/// Writes into the types what the function's facts say of its names: `where N == 4` makes N the number, `where N % 8 == 0` makes it
/// 8*N_8. Ranges stay facts.
Expected<void> applyFacts(Function &graph);

/// Puts a graph for each list of facts ("N % 8 == 0, M == 1") in front of one for all sizes; the first has the graph's name.
Expected<void> specialize(Function &graph, const std::vector<std::string> &specializations);

} // namespace minic
