// Whether a plan can be walked at all: an artifact may come from a file.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/Support/Expected.h"

namespace minic {

/// Checks the indices of a plan: every slot is defined before it is used and only once, launches fit their kernels.
Expected<void> checkPlan(const Artifact &artifact);

} // namespace minic
