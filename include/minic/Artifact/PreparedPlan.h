// The one walker of plans: sizes, memory and launches of a plan for one value of its dims on one device.
#pragma once

#include "minic/Artifact/Device.h"

namespace minic {

/// Binds dim names by the shapes of `inputs`, then of `results` (may be empty); checks number, types and shapes and says which
/// tensor is wrong. `given` are values that were fixed beforehand; a name that nothing binds is an error.
Expected<DimBindings> bindDims(const Plan &plan, std::span<const TensorView> inputs, std::span<const TensorView> results = {},
                               DimBindings given = {});

/// Which of an artifact's plans runs, and for what.
struct PlanChoice {
  size_t plan = 0;
  DimBindings dims;
  /// One per input, then one per result: the strides, in elements; empty where the plan takes row-major tensors alone.
  std::vector<std::vector<int64_t>> strides;
  friend bool operator==(const PlanChoice &, const PlanChoice &) = default;
};
/// Binds dims as `bindDims` does and takes the first plan that these tensors fit; the error says which tensor does not fit the last
/// one, and why. Without `results` they are taken for row-major.
Expected<PlanChoice> choosePlan(const Artifact &artifact, std::span<const TensorView> inputs,
                                std::span<const TensorView> results = {}, DimBindings given = {});

/// What may be watched while a plan is walked.
struct WalkOptions {
  bool poison = false; ///< Fill temporaries before use.
  /// Called around each launch (before: true), e.g. to count the bytes that it touches.
  std::function<void(const PlanStep &, bool before)> onLaunch;
};

/// The constants of an artifact on a device, uploaded once.
class PlanConstants {
public:
  static Expected<std::shared_ptr<const PlanConstants>> create(const Artifact &artifact, Device &device);
  PlanConstants(const PlanConstants &) = delete;
  ~PlanConstants(); ///< Waits for the device: work on any stream may read them.

private:
  friend class PreparedPlan;
  explicit PlanConstants(Device &device) : device(device) {}
  Device &device;
  std::vector<DeviceMemory> memory; ///< In the artifact's order.
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
  /// Checks the plans (an artifact may come from a file) and prepares the launches of the one that was chosen.
  static Expected<std::shared_ptr<const PreparedPlan>> create(const Artifact &artifact, Device &device, PlanChoice choice,
                                                              std::shared_ptr<const PlanConstants> constants);
  PreparedPlan(const PreparedPlan &) = delete;

  const PlanChoice &choice() const { return chosen; }
  const Plan &plan() const { return artifact.plans[chosen.plan]; }
  /// Whether these tensors make the same choice. `positions`: which inputs of the plan they are; the others are row-major and of
  /// the right shapes.
  bool fits(std::span<const TensorView> inputs, std::span<const size_t> positions, std::span<const TensorView> results) const;
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
  PlanChoice chosen;
  std::shared_ptr<const PlanConstants> constants;
  std::vector<std::vector<int64_t>> inputShapes, resultShapes;
  std::vector<Temporary> temporaries;
  std::vector<Step> steps;
  int64_t workspaceBytes = 0, totalBytes = 0;
};

} // namespace minic
