#include "minic/Transforms/Analysis/LaunchLimit.h"

#include <gtest/gtest.h>

using namespace minic;

namespace {

const PeakRates &h200() { return peakRates(**findTarget("sm_90a")); }

OpTraffic launch(int64_t bytes, std::vector<Work> work) { return {.name = "f", .bytes = bytes, .work = std::move(work)}; }

// 4.8 TB/s, 66.9 TFLOP/s of f32, 989.4 of f16 on tensor cores.
TEST(LaunchLimit, MemoryComputeLaunch) {
  LaunchLimit copy = limitOf(launch(int64_t(48) << 20, {}), h200());
  EXPECT_NEAR(copy.us(), 10.48576, 1e-9);
  EXPECT_EQ(copy.bound, Bound::Memory);
  EXPECT_EQ(copy.intensity, 0);

  Work product{.dtype = DType::BF16, .onTensorCores = true, .flops = 9894000000};
  LaunchLimit busy = limitOf(launch(4800000, {product}), h200());
  EXPECT_NEAR(busy.us(), 10, 1e-9);
  EXPECT_NEAR(busy.memoryUs, 1, 1e-9);
  EXPECT_EQ(busy.bound, Bound::Compute);
  EXPECT_NEAR(busy.ridge, 989.4e3 / 4800, 1e-9);

  LaunchLimit small = limitOf(launch(4800, {}), h200());
  EXPECT_EQ(small.us(), launchUs);
  EXPECT_EQ(small.bound, Bound::Launch);
}

TEST(LaunchLimit, RatesOfTypes) {
  auto rate = [](DType dtype, bool tensor, int64_t parts = 1) {
    return peakTflops({.dtype = dtype, .onTensorCores = tensor, .parts = parts}, h200());
  };
  EXPECT_DOUBLE_EQ(rate(DType::F32, false), 66.9);
  EXPECT_DOUBLE_EQ(rate(DType::F64, false), 33.5);
  EXPECT_DOUBLE_EQ(rate(DType::F64, true), 66.9);
  EXPECT_DOUBLE_EQ(rate(DType::F16, true), 989.4);
  EXPECT_DOUBLE_EQ(rate(DType::F32, true), 494.7) << "TF32";
  EXPECT_DOUBLE_EQ(rate(DType::F32, true, 6), 164.9) << "six products of 16-bit parts";
}

TEST(LaunchLimit, EveryTargetHasRates) {
  for (const TargetInfo &target : allTargets())
    EXPECT_EQ(peakRates(target).target, target.name);
}

/// Tensor cores and the others work at the same time; work of one kind adds up.
TEST(LaunchLimit, KindsOfWork) {
  Work product{.dtype = DType::F16, .onTensorCores = true, .flops = 9894000000}, scalars{.dtype = DType::F32, .flops = 334500000};
  EXPECT_NEAR(limitOf(launch(1, {product, scalars}), h200()).computeUs, 10, 1e-9);
  Work slow{.dtype = DType::F64, .flops = 335000000};
  EXPECT_NEAR(limitOf(launch(1, {scalars, slow}), h200()).computeUs, 15, 1e-9);
}

} // namespace
