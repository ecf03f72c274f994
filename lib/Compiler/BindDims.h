// Dim names become numbers, everywhere in a module.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

namespace minic {

/// Replaces the names in `dims` in all types and attributes. A name that occurs nowhere is UnknownDim, with the names that do.
Expected<void> bindDimNames(Module &module, const DimBindings &dims);

} // namespace minic
