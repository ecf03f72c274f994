// Where the schedules of a graph's regions are from, and what computes its matrix products.
#pragma once

#include "minic/Compiler/Compiler.h"
#include "minic/Transforms/Analysis/KernelResources.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

namespace minic {

/// What was chosen for a fusion region.
struct RegionChoice {
  /// Of a region with one.
  struct Product {
    SourceLoc loc;
    bool isLibrary = false;
    std::string why; ///< "cuBLASLt does not compute this: ...".
  };
  std::string name;     ///< "mlp.h": the graph, and the region's first result.
  std::string schedule; ///< "#matmul<...>".
  std::string origin;   ///< "of the cost model; ...", "tuned on NVIDIA H200, h200.txt:4: 2.950 us (default 3.120 us)".
  std::optional<Product> product;
  KernelResources resources;              ///< Estimated.
  std::vector<ConsideredTile> considered; ///< Of a product: what the cost model compared.
};

/// Of a graph whose regions have schedules, which `options.scheduleReport` was told of.
Expected<std::vector<RegionChoice>> choicesOf(const Function &fused, const CompileOptions &options);
/// Lowers the graph that `options` name to the fused level and says what was chosen for its regions, in order.
Expected<std::vector<RegionChoice>> regionChoices(Module &module, const CompileOptions &options);

} // namespace minic
