// What minic knows of each GPU it can compile for, as plain data.
#pragma once

#include "minic/Support/Expected.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace minic {

struct TargetInfo {
  std::string_view name; ///< "sm_90a", as LLVM and ptxas spell it.
  int computeMajor, computeMinor;
  int minPtx; ///< Lowest PTX ISA that has what kernels use of the target: 81 means 8.1 (PTX ISA, "Release notes"; st.async).
  int warpSize;
  int multiprocessors;          ///< Of the largest product with this compute capability.
  int64_t sharedBytesPerCta;    ///< Static shared memory a CTA may declare (48 KiB without opt-in).
  int64_t maxSharedBytesPerCta; ///< With opt-in (CUDA Programming Guide, "Technical Specifications per Compute Capability").
  int maxThreadsPerCta;
  int registersPerMultiprocessor;
  int maxRegistersPerThread; ///< An instruction names them in 8 bits.
  int mmaRate;           ///< Products that mma adds in a multiprocessor and cycle: f16 with f32 sums ("Arithmetic Instructions").
  int mmaRateOfF64;      ///< 0: no more than fused multiply-adds.
  int maxParameterBytes; ///< Kernel parameters at `minPtx`, which is the version emitted: 4096 before PTX 8.1, 32764 since.
};

/// All targets, oldest first.
std::span<const TargetInfo> allTargets();
/// The target called `name`, or a diagnostic (UnknownTarget) that lists all.
Expected<const TargetInfo *> findTarget(std::string_view name);
/// The newest target that a device of this compute capability runs, or null.
const TargetInfo *targetForDevice(int major, int minor);
inline constexpr std::string_view defaultTarget = "sm_90a";

} // namespace minic
