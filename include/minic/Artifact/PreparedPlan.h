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

/// The constants of a plan on a device, uploaded once for all dims (their sizes are numbers).
class PlanConstants {
public:
  static Expected<std::shared_ptr<const PlanConstants>> create(const Artifact &artifact, Device &device);
  PlanConstants(const PlanConstants &) = delete;
  ~PlanConstants(); ///< Waits for the device: work on any stream may read them.

private:
  friend class PreparedPlan;
  explicit PlanConstants(Device &device) : device(device) {}
  Device &device;
  std::vector<DeviceMemory> memory; ///< In the order of the plan's steps.
};

/// Memory of a plan's temporaries.
class Workspace {
public:
  Workspace() = default;
  Workspace(Workspace &&other) noexcept;
  Workspace &operator=(Workspace &&other) noexcept;
  ~Workspace(); ///< Gives the memory back in the order of the stream.

private:
  friend class PreparedPlan;
  Device *device = nullptr;
  StreamHandle stream = nullptr;
  std::vector<DeviceMemory> owned;
};

/// Immutable, so threads may share it. The artifact and the device must outlive it.
class PreparedPlan {
public:
  /// Checks the plan (an artifact may come from a file) and prepares its launches.
  static Expected<std::shared_ptr<const PreparedPlan>> create(const Artifact &artifact, Device &device, DimBindings dims,
                                                              std::shared_ptr<const PlanConstants> constants);
  PreparedPlan(const PreparedPlan &) = delete;

  const DimBindings &dims() const { return bindings; }
  const std::vector<int64_t> &inputShape(size_t i) const { return inputShapes[i]; }
  const std::vector<int64_t> &resultShape(size_t i) const { return resultShapes[i]; }
  int64_t launches() const;
  /// Bytes of everything that is alive at one time: inputs, results, constants, temporaries.
  int64_t peakBytes() const { return totalBytes; }

  /// Temporaries, in the order of `stream`. A plan without temporaries takes no memory.
  Expected<Workspace> allocate(StreamHandle stream) const;
  /// Enqueues the whole plan. One memory per input and result; `workspace` comes from `allocate`, and one run uses it at a time.
  Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> inputs, std::span<const DeviceMemory> results,
                         const Workspace &workspace, const WalkOptions &options = {}) const;

private:
  friend class PlanPreparer;
  PreparedPlan(const Artifact &artifact, Device &device) : artifact(artifact), device(device) {}

  /// A launch, or a copy of `bytes` from the first to the second operand. Operands are indices into the memory of a run: inputs,
  /// results, constants, temporaries.
  struct Step {
    const PlanStep *source = nullptr;
    std::unique_ptr<PreparedLaunch> launch;
    std::vector<uint32_t> operands;
    int64_t bytes = 0;
  };
  struct Temporary {
    int64_t bytes, offset;
    std::string name; ///< For messages.
  };

  const Artifact &artifact;
  Device &device;
  DimBindings bindings;
  std::shared_ptr<const PlanConstants> constants;
  std::vector<std::vector<int64_t>> inputShapes, resultShapes;
  std::vector<Temporary> temporaries;
  std::vector<Step> steps;
  int64_t workspaceBytes = 0, totalBytes = 0;
};

} // namespace minic
