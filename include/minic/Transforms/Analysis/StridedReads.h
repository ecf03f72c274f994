// Whether kernels read a tensor with unknown strides where it lies, or a row-major copy of it.
#pragma once

#include "minic/IR/IR.h"

namespace minic {

/// Bytes that move in the worst case, where no two elements of the tensor lie in one sector of memory.
struct StridedReads {
  double inPlace = 0;     ///< A sector for each element that a kernel reads.
  double copied = 0;      ///< A sector for each element once, the copy, and what the kernels read of that.
  bool needsCopy = false; ///< What uses it takes row-major memory alone.
  bool copyFirst() const { return needsCopy || copied < inPlace; }
};

/// Of an input of a plan whose kernels stand at the tile level. A name without a value counts as 1024.
StridedReads countStridedReads(const Value &input, const DimBindings &dims = {});

} // namespace minic
