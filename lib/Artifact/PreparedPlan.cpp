#include "minic/Artifact/PreparedPlan.h"

#include "CheckPlan.h"
#include "minic/Support/HostTensor.h"
#include "minic/Support/ScratchArray.h"

#include <algorithm>
#include <utility>

namespace minic {

using Kind = PlanStep::Kind;

namespace {

/// Alignment of temporaries that share one allocation.
constexpr int64_t alignment = 256;

std::string bufferName(const Plan &plan, size_t slot) {
  const std::string &name = plan.buffers[slot].spec.name;
  return name.empty() ? "buffer " + std::to_string(slot) : "'" + name + "'";
}

/// The buffer that a constant is.
std::string constantName(const Plan &plan, size_t constant) {
  for (const PlanStep &step : plan.steps)
    if (step.kind == Kind::Constant && step.constant == int(constant) && size_t(step.result) < plan.buffers.size())
      return bufferName(plan, size_t(step.result));
  return "a constant";
}

Expected<std::vector<int64_t>> evaluate(const std::vector<DimExpr> &shape, const DimBindings &dims, const std::string &of) {
  std::vector<int64_t> sizes;
  for (const DimExpr &dim : shape) {
    auto size = dim.evaluate(dims);
    if (!size)
      return Diagnostic{.code = ErrorCode::UnboundDim,
                        .message = "the size " + dim.str() + " of " + of + " is unbound or does not fit int64"};
    sizes.push_back(*size);
  }
  return sizes;
}

/// Kernels take sizes as i32, and a launch the product of its grid as one number.
Expected<void> checkLaunch(const KernelCode &kernel, std::span<const int64_t> grid, const DimBindings &dims) {
  auto sizes = evaluate(kernel.dims, dims, "kernel '" + kernel.name + "'");
  if (!sizes)
    return sizes.takeErrors();
  for (size_t i = 0; i < sizes->size(); ++i)
    if ((*sizes)[i] > INT32_MAX)
      return Diagnostic{.code = ErrorCode::ResourceLimit,
                        .message = "dimension '" + kernel.dims[i].str() + "' of kernel '" + kernel.name + "' is " +
                                   std::to_string((*sizes)[i]) + ", the limit is 2147483647"};
  int64_t programs = 1;
  for (int64_t size : grid)
    if (__builtin_mul_overflow(programs, size, &programs))
      return Diagnostic{.code = ErrorCode::ResourceLimit,
                        .message = "the grid of kernel '" + kernel.name + "' has more than 2^63 programs"};
  return {};
}

/// Adds to what failed for want of memory what it was wanted for.
Diagnostics allocationError(Diagnostics errors, int64_t bytes, const std::string &name, const Plan &plan) {
  errors.front().note("while allocating " + std::to_string(bytes) + " bytes for " + name + " of '" + plan.name + "'");
  return errors;
}

} // namespace

//===- Constants -===//

Expected<std::shared_ptr<const PlanConstants>> PlanConstants::create(const Artifact &artifact, Device &device) {
  std::shared_ptr<PlanConstants> constants(new PlanConstants(device));
  for (size_t i = 0; i < artifact.constants.size(); ++i) {
    const std::vector<std::byte> &data = artifact.constants[i];
    auto memory = device.allocate(int64_t(data.size()), nullptr);
    if (!memory)
      return allocationError(memory.takeErrors(), int64_t(data.size()), constantName(artifact.signature(), i),
                             artifact.signature());
    constants->memory.push_back(*memory);
    if (!data.empty())
      if (auto done = device.copyFromHost(*memory, data, nullptr); !done)
        return done.takeErrors();
  }
  // Any stream may read them from now on.
  if (!constants->memory.empty())
    if (auto done = device.synchronize(nullptr); !done)
      return done.takeErrors();
  return std::shared_ptr<const PlanConstants>(std::move(constants));
}

PlanConstants::~PlanConstants() {
  if (memory.empty())
    return;
  (void)device.finish(); // Its failure is said again by the next call that can say it.
  for (DeviceMemory constant : memory)
    device.release(constant, nullptr);
}

//===- Workspace -===//

Workspace::Workspace(Workspace &&other) noexcept
    : device(other.device), stream(other.stream), owned(std::exchange(other.owned, {})) {}

Workspace &Workspace::operator=(Workspace &&other) noexcept {
  std::swap(device, other.device);
  std::swap(stream, other.stream);
  std::swap(owned, other.owned);
  return *this;
}

Workspace::~Workspace() {
  for (DeviceMemory memory : owned)
    device->release(memory, stream);
}

//===- Preparing -===//

/// Resolves views to memory, sizes to numbers and launches to what the device made ready.
class PlanPreparer {
public:
  PlanPreparer(const Artifact &artifact, Device &device, std::unique_ptr<PreparedPlan> prepared)
      : plan(prepared->plan()), artifact(artifact), device(device), prepared(std::move(prepared)), roots(plan.buffers.size()),
        places(plan.buffers.size()), argumentOf(plan.buffers.size(), -1) {
    for (size_t i = 0; i < plan.inputs.size(); ++i)
      argumentOf[i] = int(i);
    for (size_t i = 0; i < plan.resultBuffers.size(); ++i)
      argumentOf[size_t(plan.resultBuffers[i])] = int(plan.inputs.size() + i);
  }

  Expected<std::shared_ptr<const PreparedPlan>> run() {
    if (auto done = sizeBuffers(); !done)
      return done.takeErrors();
    if (auto done = findRoots(); !done)
      return done.takeErrors();
    placeRoots();
    for (const PlanStep &step : plan.steps)
      if (auto done = step.kind == Kind::LibraryCall ? prepareLibraryCall(step) : prepareStep(step); !done)
        return done.takeErrors();
    for (size_t i = 0; i < plan.results.size(); ++i)
      if (auto done = finishResult(i); !done)
        return done.takeErrors();
    placeWorkspace();
    return std::shared_ptr<const PreparedPlan>(std::move(prepared));
  }

private:
  Expected<void> sizeBuffers() {
    for (size_t slot = 0; slot < plan.buffers.size(); ++slot) {
      const TensorSpec &spec = plan.buffers[slot].spec;
      auto shape = evaluate(spec.shape, prepared->chosen.dims, bufferName(plan, slot));
      if (!shape)
        return shape.takeErrors();
      auto size = HostTensor::checkedBytes(spec.dtype, *shape);
      if (!size)
        return Diagnostic{.code = ErrorCode::TooLarge,
                          .message = bufferName(plan, slot) + " of shape " + shapeString(spec.dtype, *shape) + " is too large"};
      bytes.push_back(*size);
      if (slot < plan.inputs.size())
        prepared->inputShapes.push_back(std::move(*shape));
    }
    return {};
  }

  /// The buffer that owns the memory of each buffer.
  Expected<void> findRoots() {
    for (size_t slot = 0; slot < plan.inputs.size(); ++slot)
      roots[slot] = slot;
    for (const PlanStep &step : plan.steps) {
      if (!step.definesBuffer())
        continue;
      size_t slot = size_t(step.result), from = step.operands.empty() ? slot : size_t(step.operands[0]);
      int64_t needed = step.kind == Kind::Constant ? int64_t(artifact.constants[size_t(step.constant)].size()) : bytes[from];
      bool fits = step.kind == Kind::View ? bytes[slot] <= needed : bytes[slot] == needed;
      if (!fits)
        return Diagnostic{.code = ErrorCode::BadStructure,
                          .message = "the plan of '" + plan.name + "' is damaged: " + bufferName(plan, slot) + " has " +
                                     std::to_string(bytes[slot]) + " bytes, its source " + std::to_string(needed)};
      roots[slot] = step.kind == Kind::View ? roots[from] : slot;
    }
    return {};
  }

  /// Where the memory of each root is found in a run.
  void placeRoots() {
    auto take = [&](size_t root) {
      places[root] = nextPlace++;
      prepared->totalBytes += bytes[root];
      placed[root] = true;
    };
    for (size_t slot = 0; slot < plan.inputs.size(); ++slot)
      take(slot);
    // A result lies in the caller's memory where nothing else claims it.
    std::vector<bool> fresh(plan.buffers.size(), false);
    for (const PlanStep &step : plan.steps)
      if (step.kind == Kind::Alloc || step.kind == Kind::Copy)
        fresh[size_t(step.result)] = true;
    for (int buffer : plan.resultBuffers) {
      size_t root = roots[size_t(buffer)];
      if (fresh[root] && !placed[root] && bytes[root] == bytes[size_t(buffer)]) {
        take(root);
      } else {
        ++nextPlace;
        prepared->totalBytes += bytes[size_t(buffer)];
      }
    }
    std::vector<uint32_t> constants;
    for (const std::vector<std::byte> &constant : artifact.constants) {
      constants.push_back(nextPlace++);
      prepared->totalBytes += int64_t(constant.size());
    }
    for (const PlanStep &step : plan.steps)
      if (step.kind == Kind::Constant)
        places[size_t(step.result)] = constants[size_t(step.constant)];
    for (size_t root = 0; root < plan.buffers.size(); ++root) {
      if (!fresh[root] || placed[root])
        continue;
      take(root);
      addTemporary(bytes[root], bufferName(plan, root));
    }
  }

  uint32_t placeOf(int slot) const { return places[roots[size_t(slot)]]; }

  Expected<void> prepareStep(const PlanStep &step) {
    if (step.kind == Kind::Copy && bytes[size_t(step.result)] > 0)
      addCopy(placeOf(step.operands[0]), placeOf(step.result), bytes[size_t(step.result)]);
    if (step.kind != Kind::Launch)
      return {};
    const KernelCode &kernel = artifact.kernels[size_t(step.kernel)];
    auto grid = evaluate(step.grid, prepared->chosen.dims, "the grid of kernel '" + kernel.name + "'");
    if (!grid)
      return grid.takeErrors();
    if (std::ranges::find(*grid, 0) != grid->end())
      return {}; // No programs. A launch of none is an error of the driver.
    if (auto checked = checkLaunch(kernel, *grid, prepared->chosen.dims); !checked)
      return checked.takeErrors();
    std::vector<int64_t> strides;
    for (int operand : step.operands)
      if (plan.buffers[size_t(operand)].spec.strided) {
        const std::vector<int64_t> &own = prepared->chosen.strides[size_t(argumentOf[size_t(operand)])];
        strides.insert(strides.end(), own.begin(), own.end());
      }
    auto launch = device.prepare(artifact, step.kernel, *grid, prepared->chosen.dims, strides);
    if (!launch)
      return launch.takeErrors();
    PreparedPlan::Step made{.source = &step, .launch = std::move(*launch)};
    for (int operand : step.operands)
      made.operands.push_back(placeOf(operand));
    prepared->steps.push_back(std::move(made));
    return {};
  }

  Expected<void> prepareLibraryCall(const PlanStep &step) {
    std::vector<std::vector<int64_t>> shapes;
    PreparedPlan::Step made{.source = &step};
    for (int operand : step.operands) {
      auto shape = evaluate(plan.buffers[size_t(operand)].spec.shape, prepared->chosen.dims, bufferName(plan, size_t(operand)));
      if (!shape)
        return shape.takeErrors();
      shapes.push_back(std::move(*shape));
      made.operands.push_back(placeOf(operand));
    }
    size_t lhs = size_t(step.operands[0]), result = size_t(step.operands.back());
    MatmulProblem problem = matmulProblem(step.matmul, plan.buffers[lhs].spec.dtype, plan.buffers[result].spec.dtype, shapes);
    if (problem.isEmpty())
      return {};
    problem.name = bufferName(plan, result) + " of '" + plan.name + "'";
    auto launch = device.prepareMatmul(problem);
    if (!launch)
      return launch.takeErrors();
    made.launch = std::move(*launch);
    prepared->steps.push_back(std::move(made));
    return {};
  }

  /// Steps run one after the other, so one memory serves all that need some while they run.
  void placeWorkspace() {
    int64_t most = 0;
    for (PreparedPlan::Step &step : prepared->steps)
      if (int64_t needed = step.launch ? step.launch->workspaceBytes() : 0) {
        most = std::max(most, needed);
        step.operands.push_back(nextPlace);
      }
    if (!most)
      return;
    prepared->totalBytes += most;
    addTemporary(most, "the workspace of a library");
  }

  void addTemporary(int64_t size, std::string name) {
    prepared->temporaries.push_back({size, prepared->workspaceBytes, std::move(name)});
    prepared->workspaceBytes += (size + alignment - 1) / alignment * alignment;
  }

  void addCopy(uint32_t from, uint32_t to, int64_t size) {
    PreparedPlan::Step copy;
    copy.operands = {from, to};
    copy.bytes = size;
    prepared->steps.push_back(std::move(copy));
  }

  /// A result that is a constant, an input or part of something larger is copied into the caller's memory.
  Expected<void> finishResult(size_t i) {
    const TensorSpec &spec = plan.results[i];
    auto shape = evaluate(spec.shape, prepared->chosen.dims, "result '" + spec.name + "'");
    if (!shape)
      return shape.takeErrors();
    int buffer = plan.resultBuffers[i];
    if (HostTensor::checkedBytes(spec.dtype, *shape) != bytes[size_t(buffer)])
      return Diagnostic{.code = ErrorCode::BadStructure, .message = "result '" + spec.name + "' and its buffer differ in size"};
    prepared->resultShapes.push_back(std::move(*shape));
    uint32_t caller = uint32_t(plan.inputs.size() + i);
    if (placeOf(buffer) != caller && bytes[size_t(buffer)] > 0)
      addCopy(placeOf(buffer), caller, bytes[size_t(buffer)]);
    return {};
  }

  const Plan &plan;
  const Artifact &artifact;
  Device &device;
  std::unique_ptr<PreparedPlan> prepared;
  std::vector<int64_t> bytes;   ///< Of each buffer.
  std::vector<size_t> roots;    ///< Of each buffer, the one that owns its memory.
  std::vector<uint32_t> places; ///< Of each root, its index in the memory of a run.
  uint32_t nextPlace = 0;       ///< The index that the next one gets; temporaries have the last ones.
  std::vector<int> argumentOf;  ///< Of each buffer that is an input or a result, which one; else -1.
  std::vector<bool> placed = std::vector<bool>(plan.buffers.size(), false);
};

Expected<std::shared_ptr<const PreparedPlan>> PreparedPlan::create(const Artifact &artifact, Device &device, PlanChoice choice,
                                                                   std::shared_ptr<const PlanConstants> constants) {
  if (auto checked = checkPlans(artifact); !checked)
    return checked.takeErrors();
  std::unique_ptr<PreparedPlan> prepared(new PreparedPlan(artifact, device));
  prepared->chosen = std::move(choice);
  prepared->constants = std::move(constants);
  return PlanPreparer(artifact, device, std::move(prepared)).run();
}

//===- Running -===//

int64_t PreparedPlan::launches() const {
  return std::ranges::count_if(steps, [](const Step &step) { return step.launch != nullptr; });
}

Expected<Workspace> PreparedPlan::allocate(StreamHandle stream) const {
  Workspace workspace;
  workspace.device = &device;
  workspace.stream = stream;
  auto take = [&](int64_t bytes, const std::string &name) -> Expected<void> {
    auto memory = device.allocate(bytes, stream);
    if (!memory)
      return allocationError(memory.takeErrors(), bytes, name, plan());
    workspace.owned.push_back(*memory);
    return {};
  };
  if (temporaries.empty())
    return workspace;
  if (device.isAddressable()) {
    if (auto done = take(workspaceBytes, "the temporaries"); !done)
      return done.takeErrors();
    return workspace;
  }
  for (const Temporary &temporary : temporaries)
    if (auto done = take(temporary.bytes, temporary.name); !done)
      return done.takeErrors();
  return workspace;
}

Expected<void> PreparedPlan::enqueue(StreamHandle stream, std::span<const DeviceMemory> inputs,
                                     std::span<const DeviceMemory> results, const Workspace &workspace,
                                     const WalkOptions &options) const {
  ScratchArray<DeviceMemory, 64> memory(inputs.size() + results.size() + constants->memory.size() + temporaries.size());
  DeviceMemory *next = std::ranges::copy(inputs, memory.data()).out;
  next = std::ranges::copy(results, next).out;
  next = std::ranges::copy(constants->memory, next).out;
  for (size_t i = 0; i < temporaries.size(); ++i) {
    *next = device.isAddressable() ? workspace.owned[0] + DeviceMemory(temporaries[i].offset) : workspace.owned[i];
    if (options.poison)
      if (auto done = device.poison(*next, temporaries[i].bytes, stream); !done)
        return done.takeErrors();
    ++next;
  }
  for (const Step &step : steps) {
    if (!step.launch) {
      if (auto done = device.copy(memory[step.operands[1]], memory[step.operands[0]], step.bytes, stream); !done)
        return done.takeErrors();
      continue;
    }
    ScratchArray<DeviceMemory, 16> buffers(step.operands.size());
    for (size_t i = 0; i < step.operands.size(); ++i)
      buffers[i] = memory[step.operands[i]];
    if (options.onLaunch)
      options.onLaunch(*step.source, true);
    if (auto done = step.launch->enqueue(stream, buffers.span()); !done)
      return done.takeErrors();
    if (options.onLaunch)
      options.onLaunch(*step.source, false);
  }
  return {};
}

} // namespace minic
