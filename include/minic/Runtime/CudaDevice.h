// A CUDA device that runs plans: memory, copies and launches on one stream, through the driver that is opened at run time.
#pragma once

#include "minic/Artifact/RunPlan.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace minic {

/// Whether there is a CUDA device that this process can use; if not, `why` says what is missing, in one line.
bool cudaAvailable(std::string &why);

/// One device, its primary context and one stream of its own. Use it from one thread at a time, any thread; the caller's current
/// context is current again after each call. A launch that faults makes the context unusable: the error names the kernels that may
/// have done it, and every later call repeats it.
class CudaDevice final : public Device {
public:
  /// Opens the driver if need be. Errors: NoDriver, NoDevice, CudaError.
  static Expected<std::unique_ptr<CudaDevice>> create(int ordinal = 0);
  /// Releases the modules and all memory that is still allocated.
  ~CudaDevice() override;

  const std::string &name() const; ///< "NVIDIA H200".
  int computeCapability() const;   ///< 90 for sm_90.
  int multiprocessors() const;
  int driverVersion() const; ///< 12080 for CUDA 12.8.

  /// Memory is aligned to at least 256 bytes.
  Expected<DeviceMemory> allocate(int64_t bytes) override;
  /// Waits for the stream first, so a launch that reads the memory may still be running.
  void release(DeviceMemory memory) override;
  /// Waits, so the host's bytes may be changed at once.
  Expected<void> copyFromHost(DeviceMemory to, std::span<const std::byte> from) override;
  Expected<void> copyToHost(std::span<std::byte> to, DeviceMemory from) override;
  Expected<void> copy(DeviceMemory to, DeviceMemory from, int64_t bytes) override;
  /// The kernel's PTX is loaded at its first launch and kept, found again by its text.
  Expected<void> launch(const Artifact &artifact, int kernel, std::span<const int64_t> grid, std::span<const DeviceMemory> buffers,
                        const DimBindings &dims) override;
  Expected<void> synchronize() override;

  /// Loads a kernel without launching it, e.g. before timing.
  Expected<void> prepare(const KernelCode &kernel);

  /// Runs `body` `warmUps` times, then `repeats` times between two events each, all in a row, and gives the milliseconds of each
  /// repeat. `body` must only enqueue work on this device.
  Expected<std::vector<double>> timesMs(const std::function<Expected<void>()> &body, int repeats, int warmUps = 1);
  /// The median of `timesMs`.
  Expected<double> timeMs(const std::function<Expected<void>()> &body, int repeats);

private:
  struct Impl;
  explicit CudaDevice(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace minic
