// The fusion regions of a graph, each as a program of its own.
#pragma once

#include "minic/Artifact/Device.h"
#include "minic/Compiler/Compiler.h"
#include "minic/IR/Schedule.h"

namespace minic {

/// A region with what it takes to run it alone.
struct FusedRegion {
  std::string name;  ///< Of its first result: "y".
  std::string title; ///< For readers: "softmax.y: reduce, sub, exp, reduce, div -> tensor<64x256xf32>".
  RegionKey key;     ///< Its sizes are numbers.
  std::string target, numerics;
  std::string fused; ///< A module with one graph at the fused level, which is the region; its fusion has no schedule.
  std::string ops;   ///< The same as a graph of single ops.
  std::vector<std::string> results;
  /// Where its operands come from: an input of the graph, or else a result of `operands`, in order.
  std::vector<std::optional<size_t>> inputOf;
  std::string operands; ///< A module with the graph as it is fused, which returns those that are no inputs; empty if all are.
};

/// The regions of a graph whose sizes are bound by `options`, in order; of equal ones the first.
Expected<std::vector<FusedRegion>> fusedRegions(const SourceBuffer &source, const CompileOptions &options, const Device &device);

/// The fusion of a region's module.
Operation &onlyFusion(Module &module);
/// `scheduleSpace` of a region, and behind its first one, the default, the library's, if that is asked for and fits; NoSchedule if
/// it is empty.
Expected<std::vector<Schedule>> schedulesOf(const FusedRegion &region, size_t limit, bool withLibrary = false);

} // namespace minic
