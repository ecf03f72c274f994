// A device that runs kernels by interpreting their IR: tile, masked or machine level.
#pragma once

#include "minic/Artifact/Device.h"
#include "minic/IR/IR.h"

#include <memory>

namespace minic {

/// What one launch touched in one buffer.
struct BufferTraffic {
  int64_t distinctRead = 0, distinctWritten = 0; ///< Bytes of elements touched at least once.
  int64_t issuedRead = 0, issuedWritten = 0;     ///< Bytes of all accesses, repeats counted.
};
struct LaunchTraffic {
  std::string kernel;
  std::vector<BufferTraffic> buffers;
  BufferTraffic total() const;
};

struct CpuOptions {
  int threads = 0;          ///< Programs in parallel; 0: as many as the machine has.
  uint64_t shuffleSeed = 0; ///< Not 0: run programs in a pseudo-random order.
  bool countTraffic = false;
};

/// Interprets kernels, at the call that enqueues them: one call at a time, whatever the stream, each launch on several threads of
/// the host. Errors (all located at the op, in Diagnostics):
/// - OutOfBounds: an access outside its buffer, or a view outside its shared memory.
/// - UndefinedRead: use of what nothing defined (tracked by poison per element of allocated memory and shared memory; absent and
///   filled lanes are not undefined), of what a tma_load writes before the mbarrier_wait that covers it, or of stores that
///   tma_store or wgmma may not see for want of a fence_async.
/// - LostStore: an output element that two programs or two threads store.
/// - SharedRace: two threads touch an element of shared memory, one of them writing it, and no barrier or mbarrier orders them; or
///   it is overwritten while a wgmma or a tma_store still reads it.
/// - MbarrierMisuse: more arrivals or bytes than a phase expects, or a wait whose parity speaks of another phase.
/// - Deadlock: every agent that has not ended waits at an mbarrier.
/// The buffer of a tensor map parameter is the one that the map stands for.
class CpuDevice final : public Device {
public:
  /// Runs artifacts by their text.
  explicit CpuDevice(CpuOptions options = {});
  /// Runs the kernels of this module, whatever the artifact says of them. It must stay alive and unchanged.
  explicit CpuDevice(Module &module, CpuOptions options = {});
  ~CpuDevice() override;

  std::string name() const override { return "cpu"; }
  int computeCapability() const override { return 0; }

  Expected<DeviceMemory> allocate(int64_t bytes, StreamHandle stream) override;
  void release(DeviceMemory memory, StreamHandle stream) override;
  bool isAddressable() const override { return false; }
  Expected<void> copyFromHost(DeviceMemory to, std::span<const std::byte> from, StreamHandle stream) override;
  Expected<void> copyToHost(std::span<std::byte> to, DeviceMemory from, StreamHandle stream) override;
  Expected<void> copy(DeviceMemory to, DeviceMemory from, int64_t bytes, StreamHandle stream) override;
  Expected<void> poison(DeviceMemory memory, int64_t bytes, StreamHandle stream) override;

  Expected<std::unique_ptr<PreparedLaunch>> prepare(const Artifact &artifact, int kernel, std::span<const int64_t> grid,
                                                    const DimBindings &dims, std::span<const int64_t> strides = {}) override;
  /// By its meaning, in an order of sums that is not the library's.
  Expected<std::unique_ptr<PreparedLaunch>> prepareMatmul(const MatmulProblem &problem) override;
  std::optional<MemoryExtent> extentOf(DeviceMemory memory) override;
  Expected<std::unique_ptr<ReplayableGraph>> capture(const std::function<Expected<void>(StreamHandle)> &body) override;

  Expected<StreamHandle> createStream() override;
  void destroyStream(StreamHandle stream) override;
  Expected<void> synchronize(StreamHandle) override { return {}; }
  Expected<void> finish() override { return {}; }
  Expected<EventHandle> createEvent() override;
  void destroyEvent(EventHandle event) override;
  Expected<void> record(EventHandle event, StreamHandle stream) override;
  Expected<void> wait(StreamHandle, EventHandle) override { return {}; }
  Expected<void> synchronizeEvent(EventHandle) override { return {}; }
  Expected<bool> isDone(EventHandle) override { return true; }
  Expected<double> elapsedMs(EventHandle from, EventHandle to) override;

  /// One entry per launch since the last call, if traffic is counted.
  std::vector<LaunchTraffic> takeTraffic();

  struct Impl;

private:
  std::unique_ptr<Impl> impl;
};

} // namespace minic
