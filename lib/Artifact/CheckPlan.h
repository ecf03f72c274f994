// Whether a plan can be walked at all: an artifact may come from a file.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/Support/Expected.h"

namespace minic {

/// Checks the indices of the plans: every slot is defined before it is used and only once, launches fit their kernels, what has
/// strides is an input or a result; and that all plans take and give the same tensors, but for sizes and strides.
Expected<void> checkPlans(const Artifact &artifact);

} // namespace minic
