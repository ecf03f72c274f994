#include "minic/Transforms/Analysis/LaunchLimit.h"

#include <algorithm>
#include <cstdio>

namespace minic {

std::string_view boundName(Bound bound) {
  static constexpr std::string_view names[] = {"memory", "compute", "launch"};
  return names[size_t(bound)];
}

double LaunchLimit::us() const { return std::max({memoryUs, computeUs, launchUs}); }

double peakTflops(const Work &work, const TargetInfo &target) {
  bool isF64 = work.dtype == DType::F64;
  if (!work.onTensorCores)
    return isF64 ? target.fmaTflopsOfF64 : target.fmaTflopsOfF32;
  if (isF64)
    return target.mmaTflopsOfF64;
  // Parts are 16-bit numbers.
  return work.parts > 1 ? target.mmaTflopsOfF16 / double(work.parts) : target.mmaTflopsOfF16 * 2 / double(dtypeBytes(work.dtype));
}

/// Three digits: "0.0213", "33.6", "1280".
static std::string digits(double value) {
  char text[40];
  std::snprintf(text, sizeof text, value >= 1000 ? "%.0f" : "%.3g", value);
  return text;
}

LaunchLimit limitOf(const OpTraffic &launch, const TargetInfo &target) {
  LaunchLimit limit;
  limit.memoryUs = double(launch.bytes) / (target.memoryGBps * 1e3);
  double onTensorCores = 0, elsewhere = 0, most = -1;
  limit.peakTflops = target.fmaTflopsOfF32;
  for (const Work &work : launch.work) {
    double us = double(work.flops) / (peakTflops(work, target) * 1e6);
    (work.onTensorCores ? onTensorCores : elsewhere) += us;
    if (us > most) {
      most = us;
      limit.peakTflops = peakTflops(work, target);
    }
  }
  limit.computeUs = std::max(onTensorCores, elsewhere); // They work at the same time.
  limit.intensity = launch.bytes ? double(launch.flops()) / double(launch.bytes) : 0;
  limit.ridge = limit.peakTflops * 1e3 / target.memoryGBps;
  double most_us = std::max(limit.memoryUs, limit.computeUs);
  limit.bound = most_us < launchUs ? Bound::Launch : limit.memoryUs >= limit.computeUs ? Bound::Memory : Bound::Compute;
  switch (limit.bound) {
  case Bound::Launch:
    limit.why = "memory and arithmetic take " + digits(most_us) + " us, less than the " + digits(launchUs) + " us of a launch";
    break;
  case Bound::Memory:
    limit.why = "at " + digits(target.memoryGBps) + " GB/s the bytes take " + digits(limit.memoryUs) + " us, the arithmetic " +
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
