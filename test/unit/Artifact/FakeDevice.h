// A device of host vectors that counts what it is asked for and can be told to fail.
#pragma once

#include "minic/Artifact/RunPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

namespace minic::test {

class FakeDevice : public Device {
public:
  struct Launch {
    int kernel;
    std::vector<int64_t> grid;
    std::vector<DeviceMemory> buffers;
    DimBindings dims;
  };

  int failAfter = -1; ///< The call of this number (from 0) fails, releases not counted.
  int calls = 0, allocations = 0, releases = 0, uploads = 0, downloads = 0, copies = 0;
  std::vector<Launch> launches;
  /// What a launch does with its buffers.
  std::function<void(FakeDevice &, const Launch &)> kernel = [](FakeDevice &, const Launch &) {};
  std::map<DeviceMemory, std::vector<std::byte>> live;

  float *floats(DeviceMemory memory) { return reinterpret_cast<float *>(live.at(memory).data()); }

  Expected<DeviceMemory> allocate(int64_t bytes) override {
    if (fails())
      return error();
    EXPECT_GT(bytes, 0);
    DeviceMemory memory = 1000 + DeviceMemory(++allocations);
    live[memory].resize(size_t(bytes));
    return memory;
  }
  void release(DeviceMemory memory) override {
    ++releases;
    EXPECT_EQ(live.erase(memory), 1u) << "released twice or never allocated";
  }
  Expected<void> copyFromHost(DeviceMemory to, std::span<const std::byte> from) override {
    ++uploads;
    if (fails())
      return error();
    EXPECT_LE(from.size(), live.at(to).size());
    std::copy(from.begin(), from.end(), live.at(to).begin());
    return {};
  }
  Expected<void> copyToHost(std::span<std::byte> to, DeviceMemory from) override {
    ++downloads;
    if (fails())
      return error();
    EXPECT_LE(to.size(), live.at(from).size());
    std::copy_n(live.at(from).begin(), to.size(), to.begin());
    return {};
  }
  Expected<void> copy(DeviceMemory to, DeviceMemory from, int64_t bytes) override {
    ++copies;
    if (fails())
      return error();
    std::copy_n(live.at(from).begin(), bytes, live.at(to).begin());
    return {};
  }
  Expected<void> launch(const Artifact &, int index, std::span<const int64_t> grid, std::span<const DeviceMemory> buffers,
                        const DimBindings &dims) override {
    if (fails())
      return error();
    launches.push_back({index, {grid.begin(), grid.end()}, {buffers.begin(), buffers.end()}, dims});
    kernel(*this, launches.back());
    return {};
  }
  Expected<void> synchronize() override {
    if (fails())
      return error();
    return {};
  }

private:
  bool fails() { return calls++ == failAfter; }
  static Diagnostic error() { return {.code = ErrorCode::CudaError, .message = "told to fail"}; }
};

} // namespace minic::test
