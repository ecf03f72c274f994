// The one walker of plans: sizes, memory and launches of a plan for one value of its dims on one device.
#pragma once

#include "minic/Artifact/Device.h"

namespace minic {

/// Binds dim names by the shapes of `inputs`, then of `results` (may be empty); checks number, types and shapes and says which
/// tensor is wrong. `given` are values that were fixed beforehand; a name that nothing binds is an error.
Expected<DimBindings> bindDims(const Plan &plan, std::span<const TensorView> inputs, std::span<const TensorView> results = {},
                               DimBindings given = {});

/// What may be watched while a plan is walked.
struct WalkOptions {
  bool poison = false; ///< Fill temporaries before use.
  /// Called around each launch (before: true), e.g. to count the bytes that it touches.
  std::function<void(const PlanStep &, bool before)> onLaunch;
};

/// Memory of a plan's temporaries.
class Workspace {
public:
  Workspace() = default;
  Workspace(Device &device, StreamHandle stream) : device(&device), stream(stream) {}
  Workspace(Workspace &&other) noexcept;
  Workspace &operator=(Workspace &&other) noexcept;
  ~Workspace(); ///< Released in the order of the stream.

private:
  friend class PreparedPlan;
  Device *device = nullptr;
  StreamHandle stream = nullptr;
  std::vector<DeviceMemory> memory;
};

/// Immutable, so threads may share it. The artifact and the device must outlive it.
class PreparedPlan {
public:
  /// Checks the plan (an artifact may come from a file), loads kernels, uploads constants.
  static Expected<std::shared_ptr<const PreparedPlan>> create(const Artifact &artifact, Device &device, DimBindings dims);
  PreparedPlan(const PreparedPlan &) = delete;
  ~PreparedPlan();

  const DimBindings &dims() const { return bindings; }
  std::span<const int64_t> inputShape(size_t i) const { return shapes[i]; }
  std::span<const int64_t> resultShape(size_t i) const { return shapes[numInputs + i]; }
  /// Bytes of everything that is alive at one time: inputs, results, constants, temporaries.
  int64_t peakBytes() const;

  /// Temporaries; memory is taken in the order of `stream`. A plan without temporaries takes none.
  Expected<Workspace> allocate(StreamHandle stream) const;
  /// Enqueues the whole plan. One memory per input and result; `workspace` comes from `allocate` and one run uses it at a time.
  Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> inputs, std::span<const DeviceMemory> results,
                         const Workspace &workspace, const WalkOptions &options = {}) const;

private:
  PreparedPlan() = default;
};

} // namespace minic
