// Bytes that a graph must move, op by op and region by region.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

#include <string>
#include <vector>

namespace minic {

struct OpTraffic {
  std::string name; ///< The op, or the region's ops.
  int64_t bytes;
};

/// Each launch reads every tensor that it depends on once and writes every result once. A broadcast or transposed operand counts
/// its source; constants count nothing; a tensor read by two operands of one launch counts once.
struct TrafficModel {
  std::vector<OpTraffic> ops; ///< One per launch.
  int64_t bytes = 0;
  int64_t launches = 0;
};

/// One launch per op of a graph that is not a constant, a view or a broadcast.
Expected<TrafficModel> eagerTraffic(const Function &graph, const DimBindings &dims);
/// One launch per fusion region of a graph at the fused level.
Expected<TrafficModel> fusedTraffic(const Function &fused, const DimBindings &dims);
/// Floating-point operations of the graph's matmuls (2 * batch * M * N * K), 0 without one.
Expected<int64_t> matmulFlops(const Function &graph, const DimBindings &dims);

} // namespace minic
