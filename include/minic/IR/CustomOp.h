// Custom ops: declarations in the module, their uses, and the kernels that compute them.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

namespace minic {

/// What one use may come to when all custom ops in it are written out, and how deep they may nest.
inline constexpr int64_t maxCustomOps = 1 << 18, maxCustomDepth = 64;

/// The declaration of a `custom` op; null if the module has none of that name.
Function *customOf(const Operation &use);
/// The kernel that a declaration names (`kernel = @k`); null if it names none.
Function *kernelOf(const Function &custom);
/// The `ptx` that is all of a kernel; null if it is written in IR.
Operation *ptxOf(const Function &kernel);
/// The programs that a kernel's program_id counts; one if it has none.
std::vector<DimExpr> gridOf(const Function &kernel);

/// What the names of sizes in a declaration stand for where operands of these types are given. Each name is the size of an axis of
/// a parameter, the same one wherever it occurs; other sizes must then come out equal. Errors are without a place.
Expected<DimSizes> unifySizes(const Function &custom, std::span<const Type> operands);
/// The types of the results under these sizes.
std::vector<Type> customResults(const Function &custom, const DimSizes &sizes);

} // namespace minic
