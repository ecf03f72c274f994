// Instructions that ptxas is known to compile wrongly, in other words.
#pragma once

#include <llvm/IR/Module.h>

namespace minic::codegen {

/// Rewrites them in optimized IR; behind it no pass of LLVM may run that would find the old form again. Found in ptxas 13.0.
void avoidPtxasBugs(llvm::Module &module);

} // namespace minic::codegen
