// A GPU, through the CUDA driver.
#pragma once

#include "minic/Cache/CacheUse.h"
#include "minic/Runtime/Client.h"

namespace minic {

/// What the driver says of a GPU.
struct GpuProperties {
  std::string model;     ///< "NVIDIA H200".
  int computeCapability; ///< 90 for sm_90.
  int multiprocessors;
  int64_t memoryBytes, l2Bytes;
  int clockKHz, memoryClockKHz; ///< Highest clocks; 0 where the driver does not say.
};

/// What became of kernels that a device got as PTX while it had a cache.
struct CubinCounts {
  uint64_t hits = 0;    ///< Their cubin was kept.
  uint64_t misses = 0;  ///< It was not, or could not be used.
  uint64_t refused = 0; ///< Of those, what was kept and the driver did not take.
};

/// Made by a Client. A kernel that faults makes the context unusable: the error names the kernels that may have done it and their
/// graph ops, and every later call repeats it. In a child of fork every call is an error.
class CudaDevice final : public Device {
public:
  ~CudaDevice() override;

  std::string name() const override;
  std::string model() const override { return properties().model; }
  int computeCapability() const override { return properties().computeCapability; }
  const GpuProperties &properties() const;
  const Client &client() const;
  /// Keeps cubins that are made of PTX from now on for later processes, and takes those that are kept. Without a cache, as at
  /// first, the driver compiles PTX in each process.
  void useCache(CacheUse cache);
  CubinCounts cubinCounts() const;
  /// Bytes of the GPU's memory that nobody uses.
  Expected<int64_t> freeBytes();

  Expected<DeviceMemory> allocate(int64_t bytes, StreamHandle stream) override;
  void release(DeviceMemory memory, StreamHandle stream) override;
  bool isAddressable() const override { return true; }
  std::optional<MemoryExtent> extentOf(DeviceMemory memory) override;
  Expected<void> copyFromHost(DeviceMemory to, std::span<const std::byte> from, StreamHandle stream) override;
  Expected<void> copyToHost(std::span<std::byte> to, DeviceMemory from, StreamHandle stream) override;
  Expected<void> copy(DeviceMemory to, DeviceMemory from, int64_t bytes, StreamHandle stream) override;
  Expected<void> poison(DeviceMemory memory, int64_t bytes, StreamHandle stream) override;

  /// Loads the kernel's code if it is not loaded yet; it stays loaded as long as the device.
  Expected<std::unique_ptr<PreparedLaunch>> prepare(const Artifact &artifact, int kernel, std::span<const int64_t> grid,
                                                    const DimBindings &dims, std::span<const int64_t> strides = {}) override;
  /// Opens cuBLASLt if it is not open yet.
  Expected<std::unique_ptr<PreparedLaunch>> prepareMatmul(const MatmulProblem &problem) override;
  Expected<std::unique_ptr<ReplayableGraph>> capture(const std::function<Expected<void>(StreamHandle)> &body) override;

  Expected<StreamHandle> createStream() override;
  void destroyStream(StreamHandle stream) override;
  Expected<void> synchronize(StreamHandle stream) override;
  Expected<void> finish() override;
  Expected<EventHandle> createEvent() override;
  void destroyEvent(EventHandle event) override;
  Expected<void> record(EventHandle event, StreamHandle stream) override;
  Expected<void> wait(StreamHandle stream, EventHandle event) override;
  Expected<void> synchronizeEvent(EventHandle event) override;
  Expected<bool> isDone(EventHandle event) override;
  Expected<double> elapsedMs(EventHandle from, EventHandle to) override;

  struct Impl;

private:
  friend class Client;
  explicit CudaDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace minic
