// The one walker of plans, over a small device interface: the CUDA device and the interpreter's CPU device both run through it.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/Support/Expected.h"
#include "minic/Support/HostTensor.h"

#include <cstdint>
#include <functional>
#include <span>

namespace minic {

/// Memory of a device; what it means is the device's own affair (a device pointer, or an index).
using DeviceMemory = uint64_t;

/// What the walker needs of a device. All calls are in stream order; `copyToHost` waits for what was launched before it.
class Device {
public:
  virtual ~Device() = default;
  virtual Expected<DeviceMemory> allocate(int64_t bytes) = 0;
  virtual void release(DeviceMemory memory) = 0;
  virtual Expected<void> copyFromHost(DeviceMemory to, std::span<const std::byte> from) = 0;
  virtual Expected<void> copyToHost(std::span<std::byte> to, DeviceMemory from) = 0;
  virtual Expected<void> copy(DeviceMemory to, DeviceMemory from, int64_t bytes) = 0;
  /// Runs `artifact.kernels[kernel]` over the product of `grid` (> 0) CTAs. `grid` holds the axes of the program id.
  virtual Expected<void> launch(const Artifact &artifact, int kernel, std::span<const int64_t> grid,
                                std::span<const DeviceMemory> buffers, const DimBindings &dims) = 0;
  /// Fills memory that nothing has written with a pattern that is wrong in every type; it stays undefined.
  virtual Expected<void> poison(DeviceMemory memory, std::span<const std::byte> pattern) { return copyFromHost(memory, pattern); }
  virtual Expected<void> synchronize() = 0;
};

struct RunOptions {
  bool poison = false; ///< Fill fresh memory with 0xFF bytes (NaN in every float type) before use.
  /// Called around each launch (before: true), e.g. to time it or to count the bytes that it touches.
  std::function<void(const PlanStep &, bool before)> onLaunch;
};

/// Binds dim names by the shapes of `inputs`; checks number, types and shapes and says which input is wrong. `given` are values
/// that the user fixed beforehand; a name that nothing binds is an error.
Expected<DimBindings> bindDims(const Plan &plan, std::span<const HostTensor> inputs, DimBindings given = {});

/// Uploads `inputs`, walks the plan once, downloads the results. Everything allocated is released, also after a failure.
Expected<std::vector<HostTensor>> runPlan(const Artifact &artifact, Device &device, std::span<const HostTensor> inputs,
                                          const DimBindings &dims, const RunOptions &options = {});

/// The same walk over memory that is already on the device: no copy to or from the host. `buffers` holds one entry per plan buffer;
/// inputs and results are given, the others are allocated here. For timing.
class PlanInstance {
public:
  static Expected<PlanInstance> create(const Artifact &artifact, Device &device, const DimBindings &dims,
                                       const RunOptions &options = {});
  PlanInstance(PlanInstance &&) noexcept;
  PlanInstance &operator=(PlanInstance &&) = delete;
  ~PlanInstance();
  DeviceMemory input(int i) const { return memory[size_t(i)]; }
  DeviceMemory result(int i) const;
  int64_t bytesOf(int buffer) const;
  /// Runs all launches and copies of the plan once, without waiting.
  Expected<void> run();
  /// Largest sum of bytes allocated at one time, inputs and results included.
  int64_t peakBytes() const;

private:
  PlanInstance(const Artifact &artifact, Device &device, DimBindings dims, RunOptions options);
  const Artifact *artifact;
  Device *device;
  DimBindings dims;
  RunOptions options;
  std::vector<DeviceMemory> memory; ///< One per plan buffer.
  std::vector<bool> owned;
  std::vector<int64_t> bytes;
};

} // namespace minic
