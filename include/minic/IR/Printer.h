// IR to text that the parser reads back to the same IR.
#pragma once

#include "minic/IR/IR.h"

#include <string>

namespace minic {

struct PrintOptions {
  bool locations = true; ///< `loc(L:C)` after ops of functions below the graph level.
};

/// The whole module with its header. Printing what the parser made of printed text gives that text again.
std::string printModule(const Module &module, const PrintOptions &options = {});
std::string printFunction(const Function &function, const PrintOptions &options = {});
/// One operation on one line (regions elided as `{...}`), for messages.
std::string printOperation(const Operation &op);

} // namespace minic
