// Bytes that a graph must move and what it must compute, op by op and region by region.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

#include <string>
#include <vector>

namespace minic {

/// Floating-point operations of a launch that one kind of hardware does.
struct Work {
  DType dtype = DType::F32; ///< Of operands.
  bool onTensorCores = false;
  int64_t parts = 1; ///< Products of tensor cores for each one, where operands are split.
  DimExpr formula;
  int64_t flops = 0;
};

struct OpTraffic {
  std::string name; ///< The op, or the region's ops.
  SourceLoc loc;
  DimExpr byteFormula;
  int64_t bytes = 0;
  /// Of regions. A product takes 2 * batch * M * N * K; any other op on floats one for each element that it computes or reduces,
  /// a function such as exp as well, so that this is a lower bound.
  std::vector<Work> work = {};
  int64_t flops() const;
  DimExpr flopFormula() const;
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
/// One launch per fusion region of a graph at the fused level. `fusedFormulas` needs no sizes, and leaves numbers at 0.
Expected<TrafficModel> fusedTraffic(const Function &fused, const DimBindings &dims);
TrafficModel fusedFormulas(const Function &fused);
/// Floating-point operations of the graph's matmuls (2 * batch * M * N * K), 0 without one.
Expected<int64_t> matmulFlops(const Function &graph, const DimBindings &dims);

} // namespace minic
