// Kernels that only move memory, made where a plan turns out to need one.
#pragma once

#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

#include <functional>

namespace minic {

struct CopyKernel {
  Function *kernel; ///< Of a source and a destination, row-major, at the tile level.
  Attribute grid;
};

/// The kernel of a graph with one op, which `make` emits for a tensor of type `from`. It stands before `plan`, and is named after
/// it.
Expected<CopyKernel> makeCopyKernel(Function &plan, Type from, PassContext &pass,
                                    const std::function<Value *(Builder &, Value *)> &make);

} // namespace minic
