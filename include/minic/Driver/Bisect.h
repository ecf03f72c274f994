// Which pass changes what a graph computes: each stage of the pipeline is run on the CPU.
#pragma once

#include "minic/Compiler/Compiler.h"
#include "minic/Driver/Difference.h"
#include "minic/Driver/Reduce.h"

namespace minic {

/// Tensors for the inputs of a graph, and into `dims` the sizes of names that they say. They depend on the graph alone.
using MakeInputs = std::function<Expected<std::vector<HostTensor>>(const Function &graph, DimBindings &dims)>;

struct BisectOptions {
  CompileOptions compile; ///< Of `passes` nothing counts.
  Tolerance tolerance;    ///< Against the f64 oracle.
  MakeInputs makeInputs;
  std::function<void(const std::string &)> onProgress = [](const std::string &) {}; ///< Told of each stage that was run.
};

/// The first wrong pass.
struct WrongPass {
  size_t step = 0;      ///< Its place in the list.
  std::string name;     ///< "mask", "cse#2".
  std::string before;   ///< The stage before it that was run: a pass, or "the graph".
  std::string how;      ///< "output 'y' [0, 3]: mask gives 0.25, the f64 oracle 0.5", or what stopped the run.
  int64_t elements = 0; ///< How many differ, of all results.
  double largest = 0;   ///< By how much at most.
};

/// Runs the passes one after the other, and what the module is after each on the CPU: graphs by the oracle in f64, plans and
/// kernels by the interpreter. A pass is wrong if it fails the verifier, if the interpreter finds a fault then, if a result is
/// beyond the tolerance of what the graph means, or if it has other bits than before a pass that keeps them. Stages that a pass
/// left as they were are not run. In each stretch of passes that keep bits the last stage is run first, and where that is wrong the
/// first wrong one is searched by halving; what a later pass of the stretch puts right again is not found. `steps` are those of
/// `pipelineFor`.
Expected<std::optional<WrongPass>> findWrongPass(const SourceBuffer &source, std::span<const PassStep> steps,
                                                 const BisectOptions &options);

/// The smallest module found in which the same pass is the first wrong one.
Expected<std::string> reduceToWrongPass(const SourceBuffer &source, std::span<const PassStep> steps, const WrongPass &wrong,
                                        const BisectOptions &options, const ReduceOptions &reduce = {});

} // namespace minic
