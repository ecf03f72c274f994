// What a graph means, computed in f64: the yardstick for everything else.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"
#include "minic/Support/HostTensor.h"

#include <span>

namespace minic {

/// Evaluates a graph (levels graph and fused) or the body of a custom op with floats in f64, rounded to the result's element type
/// only at `return` and at an explicit `convert`; i32 wraps. `dims` binds every name. Sums run in pairwise trees.
Expected<std::vector<HostTensor>> evaluateGraph(const Function &graph, std::span<const HostTensor> inputs, const DimBindings &dims);

} // namespace minic
