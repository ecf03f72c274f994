// The modelled traffic of a graph and its limits, for `cost` and `compare`.
#pragma once

#include "Common.h"

#include "minic/Transforms/Analysis/LaunchLimit.h"
#include "minic/Transforms/Analysis/StridedReads.h"
#include "minic/Transforms/Analysis/Traffic.h"

namespace minic::cli {

struct Model {
  const PeakRates *rates; ///< Of the target.
  TrafficModel eager, fused;
  int64_t flops = 0; ///< Of matmuls.
  /// Of each input, if it came with strides of its own.
  std::vector<std::pair<std::string, StridedReads>> strided;
};
/// For the graph `name` of `source`, all of whose names `dims` binds.
Expected<Model> modelGraph(const SourceBuffer &source, const CompileOptions &options, const std::string &name,
                           const DimBindings &dims);

} // namespace minic::cli
