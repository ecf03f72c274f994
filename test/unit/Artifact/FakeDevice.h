// A device of host memory that counts what it is asked for and can be told to fail.
#pragma once

#include "minic/Artifact/RunPlan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace minic::test {

/// Work is done when it is enqueued; memory is addresses. `calls` counts what can fail.
class FakeDevice : public Device {
public:
  struct Launch {
    int kernel;
    std::vector<int64_t> grid;
    std::vector<DeviceMemory> buffers;
    DimBindings dims;
    StreamHandle stream;
    std::vector<int64_t> strides;
  };

  bool addressable = false;
  int failAfter = -1; ///< The call of this number (from 0) fails, releases not counted.
  std::atomic<int> calls = 0, allocations = 0, releases = 0, uploads = 0, downloads = 0, copies = 0, prepared = 0, finished = 0;
  std::vector<Launch> launches;
  std::vector<MatmulProblem> problems; ///< Of products of a library; their launches have kernel -1.
  int64_t matmulWorkspace = 0;         ///< What each of them asks for.
  /// What a launch does with its buffers.
  std::function<void(FakeDevice &, const Launch &)> kernel = [](FakeDevice &, const Launch &) {};
  std::map<DeviceMemory, int64_t> live; ///< Bytes.
  std::mutex mutex;                     ///< Of `launches` and `live`.

  ~FakeDevice() override {
    for (auto [memory, bytes] : live)
      std::free(reinterpret_cast<void *>(memory));
  }
  static float *floats(DeviceMemory memory) { return reinterpret_cast<float *>(memory); }

  std::string name() const override { return "fake"; }
  int computeCapability() const override { return 0; }
  Expected<DeviceMemory> allocate(int64_t bytes, StreamHandle) override {
    if (fails())
      return error();
    ++allocations;
    void *memory = std::aligned_alloc(256, size_t(bytes + 511) / 256 * 256); // At least one element, and never twice the same.
    std::lock_guard lock(mutex);
    live[DeviceMemory(memory)] = bytes;
    return DeviceMemory(memory);
  }
  void release(DeviceMemory memory, StreamHandle) override {
    ++releases;
    std::lock_guard lock(mutex);
    EXPECT_EQ(live.erase(memory), 1u) << "released twice or never allocated";
    std::free(reinterpret_cast<void *>(memory));
  }
  bool isAddressable() const override { return addressable; }
  std::optional<MemoryExtent> extentOf(DeviceMemory memory) override {
    std::lock_guard lock(mutex);
    auto next = live.upper_bound(memory);
    if (next == live.begin())
      return std::nullopt;
    auto [start, bytes] = *std::prev(next);
    return MemoryExtent{start, start + DeviceMemory(bytes)};
  }
  Expected<void> copyFromHost(DeviceMemory to, std::span<const std::byte> from, StreamHandle) override {
    ++uploads;
    return move(to, from.data(), int64_t(from.size()));
  }
  Expected<void> copyToHost(std::span<std::byte> to, DeviceMemory from, StreamHandle) override {
    ++downloads;
    return move(DeviceMemory(to.data()), reinterpret_cast<const std::byte *>(from), int64_t(to.size()));
  }
  Expected<void> copy(DeviceMemory to, DeviceMemory from, int64_t bytes, StreamHandle) override {
    ++copies;
    return move(to, reinterpret_cast<const std::byte *>(from), bytes);
  }
  Expected<void> poison(DeviceMemory memory, int64_t bytes, StreamHandle) override {
    if (fails())
      return error();
    std::memset(reinterpret_cast<void *>(memory), 0xff, size_t(bytes));
    return {};
  }
  Expected<std::unique_ptr<PreparedLaunch>> prepare(const Artifact &, int index, std::span<const int64_t> grid,
                                                    const DimBindings &dims, std::span<const int64_t> strides) override {
    ++prepared;
    if (fails())
      return error();
    return std::unique_ptr<PreparedLaunch>(std::make_unique<FakeLaunch>(
        *this, Launch{index, {grid.begin(), grid.end()}, {}, dims, nullptr, {strides.begin(), strides.end()}}));
  }
  Expected<std::unique_ptr<PreparedLaunch>> prepareMatmul(const MatmulProblem &problem) override {
    ++prepared;
    if (fails())
      return error();
    problems.push_back(problem);
    auto launch = std::make_unique<FakeLaunch>(*this, Launch{.kernel = -1});
    launch->workspace = matmulWorkspace;
    return std::unique_ptr<PreparedLaunch>(std::move(launch));
  }
  Expected<std::unique_ptr<ReplayableGraph>> capture(const std::function<Expected<void>(StreamHandle)> &body) override {
    if (fails())
      return error();
    std::vector<Launch> steps;
    recording = &steps;
    auto done = body(nullptr);
    recording = nullptr;
    if (!done)
      return done.takeErrors();
    return std::unique_ptr<ReplayableGraph>(std::make_unique<FakeGraph>(*this, std::move(steps)));
  }
  Expected<StreamHandle> createStream() override { return reinterpret_cast<StreamHandle>(uintptr_t(++streams)); }
  void destroyStream(StreamHandle) override {}
  Expected<void> synchronize(StreamHandle) override { return fails() ? Expected<void>(error()) : Expected<void>(); }
  Expected<void> finish() override { return ++finished, Expected<void>(); }
  Expected<EventHandle> createEvent() override { return EventHandle(this); }
  void destroyEvent(EventHandle) override {}
  Expected<void> record(EventHandle, StreamHandle) override { return {}; }
  Expected<void> wait(StreamHandle, EventHandle) override { return {}; }
  Expected<void> synchronizeEvent(EventHandle) override { return {}; }
  Expected<bool> isDone(EventHandle) override { return true; }
  Expected<double> elapsedMs(EventHandle, EventHandle) override { return 1.0; }

private:
  class FakeLaunch : public PreparedLaunch {
  public:
    FakeLaunch(FakeDevice &device, Launch launch) : device(device), launch(std::move(launch)) {}
    Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> buffers) const override {
      if (device.fails())
        return error();
      Launch now = launch;
      now.buffers.assign(buffers.begin(), buffers.end());
      now.stream = stream;
      device.recording ? device.recording->push_back(std::move(now)) : device.work(std::move(now));
      return {};
    }
    int64_t workspaceBytes() const override { return workspace; }
    int64_t workspace = 0;

  private:
    FakeDevice &device;
    Launch launch;
  };
  class FakeGraph : public ReplayableGraph {
  public:
    FakeGraph(FakeDevice &device, std::vector<Launch> steps) : device(device), steps(std::move(steps)) {}
    Expected<void> launch(StreamHandle) const override {
      for (const Launch &step : steps)
        device.work(step);
      return {};
    }

  private:
    FakeDevice &device;
    std::vector<Launch> steps;
  };

  void work(Launch launch) {
    kernel(*this, launch);
    std::lock_guard lock(mutex);
    launches.push_back(std::move(launch));
  }
  Expected<void> move(DeviceMemory to, const std::byte *from, int64_t bytes) {
    if (fails())
      return error();
    std::copy_n(from, bytes, reinterpret_cast<std::byte *>(to));
    return {};
  }
  bool fails() { return calls++ == failAfter; }
  static Diagnostic error() { return {.code = ErrorCode::CudaError, .message = "told to fail"}; }
  std::atomic<int> streams = 0;
  std::vector<Launch> *recording = nullptr; ///< Of the capture that is going on.
};

} // namespace minic::test
