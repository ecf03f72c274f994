// The body of one tile-level kernel.
#pragma once

#include "minic/IR/Schedule.h"
#include "minic/Transforms/Analysis/IterationSpace.h"

namespace minic {

/// Fills `kernel`, whose parameters are a buffer per argument of the fusion's region and one per yield, with tiles and loops:
/// program ids for parallel loop axes, a sweep over the reduced ones per stage of reductions, and one more for outputs that run
/// along them. In exact numerics a product is one chain in ascending order.
void emitKernel(Operation &fusion, const IterationSpace &space, const Schedule &schedule, bool exact, Function &kernel);

} // namespace minic
