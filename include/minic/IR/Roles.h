// What the columns of `role` mean together.
#pragma once

#include "minic/IR/IR.h"

namespace minic {

/// The role that the operation stands in, or null.
Operation *roleOf(const Operation &op);
/// Its attributes; 0, 1 and 0 where they are not there (or are no integers, before the verifier has seen them).
int64_t roleWarps(const Operation &role);
int64_t roleInstances(const Operation &role);
int64_t roleRegisters(const Operation &role);
/// Whether one thread of each instance runs the region.
bool isOneThread(const Operation &role);
/// Threads that run the operation: of the role's instance or of the kernel; 0 if unknown.
int64_t threadsAround(const Operation &op);
/// Warps, and instances of roles, before this role in the CTA.
int64_t firstWarp(const Operation &role);
int64_t firstInstance(const Operation &role);
/// Registers of a thread when a CTA of this many threads starts that is to run alone on its multiprocessor: what ptxas gives it if
/// roles move registers (PTX ISA, "setmaxnreg").
int64_t registersAtStart(int64_t threads);

} // namespace minic
