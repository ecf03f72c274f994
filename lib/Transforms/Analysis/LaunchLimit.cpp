#include "minic/Transforms/Analysis/LaunchLimit.h"

#include <algorithm>
#include <cstdio>

namespace minic {

const PeakRates &peakRates(const TargetInfo &target) {
  // For each target its largest product, as in TargetInfo.cpp.
  static constexpr PeakRates table[] = {
      {"sm_80", "A100", 2039, 19.5, 9.7, 312, 19.5},       {"sm_86", "RTX A6000", 768, 38.7, 0.6, 154.8, 0},
      {"sm_89", "RTX 6000 Ada", 960, 91.1, 1.4, 364.2, 0}, {"sm_90a", "H200", 4800, 66.9, 33.5, 989.4, 66.9},
      {"sm_100", "B200", 8000, 75, 37, 2250, 37},          {"sm_120", "RTX PRO 6000", 1792, 125, 1.95, 503.8, 0},
  };
  return *std::ranges::find(table, target.name, &PeakRates::target);
}

std::string_view boundName(Bound bound) {
  static constexpr std::string_view names[] = {"memory", "compute", "launch"};
  return names[size_t(bound)];
}

double LaunchLimit::us() const { return std::max({memoryUs, computeUs, launchUs}); }

double peakTflops(const Work &work, const PeakRates &rates) {
  bool isF64 = work.dtype == DType::F64;
  if (!work.onTensorCores)
    return isF64 ? rates.fmaTflopsOfF64 : rates.fmaTflopsOfF32;
  if (isF64)
    return rates.mmaTflopsOfF64;
  // Parts are 16-bit numbers.
  return work.parts > 1 ? rates.mmaTflopsOfF16 / double(work.parts) : rates.mmaTflopsOfF16 * 2 / double(dtypeBytes(work.dtype));
}

/// Three digits: "0.0213", "33.6", "1280".
static std::string digits(double value) {
  char text[40];
  std::snprintf(text, sizeof text, value >= 1000 ? "%.0f" : "%.3g", value);
  return text;
}

LaunchLimit limitOf(const OpTraffic &launch, const PeakRates &rates) {
  LaunchLimit limit;
  limit.memoryUs = double(launch.bytes) / (rates.memoryGBps * 1e3);
  double onTensorCores = 0, elsewhere = 0, most = -1;
  limit.peakTflops = rates.fmaTflopsOfF32;
  for (const Work &work : launch.work) {
    double us = double(work.flops) / (peakTflops(work, rates) * 1e6);
    (work.onTensorCores ? onTensorCores : elsewhere) += us;
    if (us > most) {
      most = us;
      limit.peakTflops = peakTflops(work, rates);
    }
  }
  limit.computeUs = std::max(onTensorCores, elsewhere); // They work at the same time.
  limit.intensity = launch.bytes ? double(launch.flops()) / double(launch.bytes) : 0;
  limit.ridge = limit.peakTflops * 1e3 / rates.memoryGBps;
  double most_us = std::max(limit.memoryUs, limit.computeUs);
  limit.bound = most_us < launchUs ? Bound::Launch : limit.memoryUs >= limit.computeUs ? Bound::Memory : Bound::Compute;
  switch (limit.bound) {
  case Bound::Launch:
    limit.why = "memory and arithmetic take " + digits(most_us) + " us, less than the " + digits(launchUs) + " us of a launch";
    break;
  case Bound::Memory:
    limit.why = "at " + digits(rates.memoryGBps) + " GB/s the bytes take " + digits(limit.memoryUs) + " us, the arithmetic " +
                digits(limit.computeUs) + " us";
    break;
  case Bound::Compute:
    limit.why = "at " + digits(limit.peakTflops) + " TFLOP/s the arithmetic takes " + digits(limit.computeUs) + " us, the bytes " +
                digits(limit.memoryUs) + " us";
    break;
  }
  return limit;
}

} // namespace minic
