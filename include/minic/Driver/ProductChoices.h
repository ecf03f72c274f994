// What computes each matrix product of a graph, and why.
#pragma once

#include "minic/Compiler/Compiler.h"

namespace minic {

/// A fusion region with a product.
struct ProductChoice {
  std::string name; ///< "mlp.h": the graph, and the region's first result.
  SourceLoc loc;    ///< Of the product.
  bool isLibrary = false;
  std::string schedule; ///< "#matmul<...>".
  std::string why;      ///< "cuBLASLt does not compute this: ...".
};

/// Lowers the graph that `options` name to the fused level and says what became of its products, in order.
Expected<std::vector<ProductChoice>> productChoices(Module &module, const CompileOptions &options);

} // namespace minic
