// How quick a launch can be at most, and what keeps it from being quicker.
#pragma once

#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/Traffic.h"

namespace minic {

/// What the product that a target stands for can do at most, by its data sheet: what kernels are measured against. No pass looks at
/// it.
struct PeakRates {
  std::string_view target, product; ///< "sm_90a", "H200".
  double memoryGBps;
  double fmaTflopsOfF32, fmaTflopsOfF64;
  double mmaTflopsOfF16; ///< Tensor cores, dense, f32 sums; other types in proportion to their bytes.
  double mmaTflopsOfF64; ///< 0: no tensor cores for it.
};
const PeakRates &peakRates(const TargetInfo &target);

enum class Bound : uint8_t { Memory, Compute, Launch };
/// "memory".
std::string_view boundName(Bound bound);

/// Microseconds of a launch among others in a CUDA graph, however little it does: a copy of 128x1024 f32 takes 1.55 on an H200
/// (docs/performance.md).
inline constexpr double launchUs = 1.5;

/// Of a launch that moves its bytes and does its arithmetic at the rates of the target's data sheet, both at once.
struct LaunchLimit {
  double memoryUs = 0, computeUs = 0;
  double intensity = 0;  ///< FLOP per byte.
  double peakTflops = 0; ///< Of the hardware that does most of its arithmetic.
  double ridge = 0;      ///< The intensity from which on that hardware, and not memory, is the limit.
  Bound bound = Bound::Launch;
  /// The longest of memory, arithmetic and launch.
  double us() const;
  /// "at 4800 GB/s the bytes take 6.99 us, the arithmetic 0.313 us"
  std::string why;
};
LaunchLimit limitOf(const OpTraffic &launch, const PeakRates &rates);
/// TFLOP/s of the hardware that does it.
double peakTflops(const Work &work, const PeakRates &rates);

} // namespace minic
