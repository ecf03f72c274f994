// Machine-level kernels to LLVM IR to PTX. Makes no choice of its own: what the text says is what the GPU runs.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/CodeGen/KernelOverride.h"
#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"
#include "minic/Support/LineSource.h"
#include "minic/Support/Trace.h"
#include "minic/Target/TargetInfo.h"

#include <string>

namespace minic {

// With `lines` code says which lines of that source it is from, by LLVM debug locations and PTX `.loc`. The instructions are the
// same.

/// LLVM IR text of all machine-level kernels of the module (after the optimization pipeline if `optimize`), for `--emit=llvm`.
Expected<std::string> emitLLVM(Module &module, const TargetInfo &target, bool optimize, const LineSource *lines = nullptr);
/// PTX of all machine-level kernels as one PTX module, for `--emit=ptx`; those that are PTX are named. The `.version` is the lowest
/// that the target takes.
Expected<std::string> emitPtx(Module &module, const TargetInfo &target, const LineSource *lines = nullptr);
struct KernelOptions {
  const LineSource *lines = nullptr;
  std::span<const KernelOverride> overrides = {}; ///< The code of the kernels that they name.
  Trace *trace = nullptr;                         ///< Is told of each kernel, on the thread that makes it.
};
/// Fills everything of each machine-level kernel (`ptx`: one PTX module per kernel), in module order. Errors: also UnknownFunction
/// for an override of a name that no kernel has, LaunchMismatch for one with other parameters.
Expected<std::vector<KernelCode>> emitKernels(Module &module, const TargetInfo &target, const KernelOptions &options = {});
/// The same without PTX: what the interpreter needs. Works for kernels of any level.
std::vector<KernelCode> describeKernels(Module &module);
/// "22.1.8".
std::string llvmVersion();
/// Which build of LLVM that is, as `buildIdOf` has it.
std::string llvmBuildId();
/// The newest PTX version that this LLVM writes: 90 for 9.0. Kernels get the oldest that their target takes (`minPtx`).
Expected<int> newestPtx();

} // namespace minic
