// The passes: one function each, one row each in Passes.def.
#pragma once

#include "minic/Transforms/PassManager.h"

namespace minic {

namespace passes {
#define MINIC_PASS(function, name, levels, to, results, summary) Expected<void> function(Function &, PassContext &);
#include "minic/Transforms/Passes.def"
#undef MINIC_PASS
} // namespace passes

/// All rows in the order of Passes.def.
std::span<const Pass> allPasses();
/// Null if there is none of this name.
const Pass *findPass(std::string_view name);

} // namespace minic
