// Code that is given for a kernel: checked against what launches pass, and taken to PTX.
#pragma once

#include "minic/CodeGen/KernelOverride.h"
#include "minic/Target/TargetInfo.h"

namespace minic::codegen {

/// Whether code for what `.target` names runs on a target.
bool runsPtxFor(std::string_view ptxTarget, const TargetInfo &target);
/// The PTX of an override: as it stands, or LLVM IR through the back end, without the optimizer. Its entry must have the kernel's
/// name, and parameters of as many bytes each as `kernel` says. Errors begin with file and line.
Expected<std::string> overridingPtx(const KernelOverride &override, const KernelCode &kernel, const TargetInfo &target);

} // namespace minic::codegen
