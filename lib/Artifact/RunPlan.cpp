#include "minic/Artifact/RunPlan.h"

#include "CheckPlan.h"

#include <algorithm>
#include <new>

namespace minic {

using Kind = PlanStep::Kind;

namespace {

Diagnostic unknownSize(const DimExpr &dim, std::string of) {
  return {.code = ErrorCode::UnboundDim,
          .message = "the size " + dim.str() + " of " + std::move(of) + " is unbound or does not fit int64"};
}

std::string bufferName(const Plan &plan, size_t slot) {
  const std::string &name = plan.buffers[slot].spec.name;
  return name.empty() ? "buffer " + std::to_string(slot) : "'" + name + "'";
}

Expected<std::vector<int64_t>> shapeOf(const std::vector<DimExpr> &shape, const DimBindings &dims, const std::string &of) {
  std::vector<int64_t> sizes;
  for (const DimExpr &dim : shape) {
    auto size = dim.evaluate(dims);
    if (!size)
      return unknownSize(dim, of);
    sizes.push_back(*size);
  }
  return sizes;
}

/// Bytes of each buffer of the plan.
Expected<std::vector<int64_t>> bufferSizes(const Plan &plan, const DimBindings &dims) {
  std::vector<int64_t> sizes;
  for (size_t slot = 0; slot < plan.buffers.size(); ++slot) {
    const TensorSpec &spec = plan.buffers[slot].spec;
    auto shape = shapeOf(spec.shape, dims, bufferName(plan, slot));
    if (!shape)
      return shape.takeErrors();
    auto bytes = HostTensor::checkedBytes(spec.dtype, *shape);
    if (!bytes)
      return Diagnostic{.code = ErrorCode::TooLarge,
                        .message = bufferName(plan, slot) + " of shape " + shapeString(spec.dtype, *shape) + " is too large"};
    sizes.push_back(*bytes);
  }
  return sizes;
}

/// Kernels take sizes as i32, and a launch the product of its grid as one number.
Expected<void> checkLaunch(const KernelCode &kernel, std::span<const int64_t> grid, const DimBindings &dims) {
  for (const std::string &name : kernel.dims) {
    auto it = dims.find(name);
    if (it == dims.end())
      return Diagnostic{.code = ErrorCode::UnboundDim,
                        .message = "dimension '" + name + "' of kernel '" + kernel.name + "' has no value"};
    if (it->second > INT32_MAX)
      return Diagnostic{.code = ErrorCode::ResourceLimit,
                        .message = "dimension '" + name + "' of kernel '" + kernel.name + "' is " + std::to_string(it->second) +
                                   ", the limit is 2147483647"};
  }
  int64_t programs = 1;
  for (int64_t size : grid)
    if (__builtin_mul_overflow(programs, size, &programs))
      return Diagnostic{.code = ErrorCode::ResourceLimit,
                        .message = "the grid of kernel '" + kernel.name + "' has more than 2^63 programs"};
  return {};
}

} // namespace

PlanInstance::PlanInstance(const Artifact &artifact, Device &device, DimBindings dims, RunOptions options)
    : artifact(&artifact), device(&device), dims(std::move(dims)), options(std::move(options)) {}

PlanInstance::PlanInstance(PlanInstance &&other) noexcept
    : artifact(other.artifact), device(other.device), dims(std::move(other.dims)), options(std::move(other.options)),
      memory(std::move(other.memory)), owned(std::move(other.owned)), bytes(std::move(other.bytes)) {
  other.owned.clear(); // The memory has one owner.
}

PlanInstance::~PlanInstance() {
  for (size_t slot = owned.size(); slot-- > 0;)
    if (owned[slot])
      device->release(memory[slot]);
}

Expected<PlanInstance> PlanInstance::create(const Artifact &artifact, Device &device, const DimBindings &dims,
                                            const RunOptions &options) {
  if (auto checked = checkPlan(artifact); !checked)
    return checked.takeErrors();
  const Plan &plan = artifact.plan;
  auto sizes = bufferSizes(plan, dims);
  if (!sizes)
    return sizes.takeErrors();
  PlanInstance instance(artifact, device, dims, options);
  instance.bytes = std::move(*sizes);
  instance.memory.assign(plan.buffers.size(), 0);
  instance.owned.assign(plan.buffers.size(), false);

  auto allocate = [&](size_t slot) -> Expected<void> {
    // A tensor without elements has an address all the same.
    auto memory = device.allocate(std::max<int64_t>(instance.bytes[slot], 1));
    if (!memory) {
      Diagnostics errors = memory.takeErrors();
      errors.front().note("while allocating " + std::to_string(instance.bytes[slot]) + " bytes for " + bufferName(plan, slot) +
                          " of '" + plan.name + "', with " + std::to_string(instance.peakBytes()) + " bytes allocated before");
      return errors;
    }
    instance.memory[slot] = *memory;
    instance.owned[slot] = true;
    if (!options.poison || instance.bytes[slot] == 0)
      return {};
    std::vector<std::byte> pattern(size_t(instance.bytes[slot]), std::byte(0xff));
    return device.poison(*memory, pattern);
  };
  for (size_t slot = 0; slot < plan.inputs.size(); ++slot)
    if (auto done = allocate(slot); !done)
      return done.takeErrors();
  // Memory is taken and constants are uploaded once; `run` may then be called many times.
  for (const PlanStep &step : plan.steps) {
    if (step.kind == Kind::Launch)
      continue;
    size_t slot = size_t(step.result), from = step.operands.empty() ? slot : size_t(step.operands[0]);
    int64_t needed = step.kind == Kind::Constant ? int64_t(step.data.size()) : instance.bytes[from];
    bool fits = step.kind == Kind::View ? instance.bytes[slot] <= needed : instance.bytes[slot] == needed;
    if (!fits)
      return Diagnostic{.code = ErrorCode::BadStructure,
                        .message = "the plan of '" + plan.name + "' is damaged: " + bufferName(plan, slot) + " has " +
                                   std::to_string(instance.bytes[slot]) + " bytes, its source " + std::to_string(needed)};
    if (step.kind == Kind::View) {
      instance.memory[slot] = instance.memory[from];
      continue;
    }
    if (auto done = allocate(slot); !done)
      return done.takeErrors();
    if (step.kind == Kind::Constant && !step.data.empty())
      if (auto done = device.copyFromHost(instance.memory[slot], step.data); !done)
        return done.takeErrors();
  }
  return instance;
}

DeviceMemory PlanInstance::result(int i) const { return memory[size_t(artifact->plan.resultBuffers[size_t(i)])]; }
int64_t PlanInstance::bytesOf(int buffer) const { return bytes[size_t(buffer)]; }

int64_t PlanInstance::peakBytes() const {
  // Everything lives as long as the instance; reuse is already in the plan, as views.
  int64_t total = 0;
  for (size_t slot = 0; slot < owned.size(); ++slot)
    total += owned[slot] ? bytes[slot] : 0;
  return total;
}

Expected<void> PlanInstance::run() {
  std::vector<DeviceMemory> buffers;
  for (const PlanStep &step : artifact->plan.steps) {
    if (step.kind == Kind::Copy) {
      size_t from = size_t(step.operands[0]);
      if (bytes[from] == 0)
        continue;
      if (auto done = device->copy(memory[size_t(step.result)], memory[from], bytes[from]); !done)
        return done.takeErrors();
    }
    if (step.kind != Kind::Launch)
      continue;
    const KernelCode &kernel = artifact->kernels[size_t(step.kernel)];
    auto grid = shapeOf(step.grid, dims, "the grid of kernel '" + kernel.name + "'");
    if (!grid)
      return grid.takeErrors();
    if (std::ranges::find(*grid, 0) != grid->end())
      continue; // No programs. A launch of none is an error of the driver.
    if (auto checked = checkLaunch(kernel, *grid, dims); !checked)
      return checked.takeErrors();
    buffers.clear();
    for (int operand : step.operands)
      buffers.push_back(memory[size_t(operand)]);
    if (options.onLaunch)
      options.onLaunch(step, true);
    if (auto done = device->launch(*artifact, step.kernel, *grid, buffers, dims); !done)
      return done.takeErrors();
    if (options.onLaunch)
      options.onLaunch(step, false);
  }
  return {};
}

/// A result's host memory, or why there is none: a broadcast may be far larger than what the user gave.
static Expected<HostTensor> makeResult(const TensorSpec &spec, const DimBindings &dims, int64_t deviceBytes) {
  auto shape = shapeOf(spec.shape, dims, "result '" + spec.name + "'");
  if (!shape)
    return shape.takeErrors();
  auto bytes = HostTensor::checkedBytes(spec.dtype, *shape);
  if (!bytes || *bytes != deviceBytes)
    return Diagnostic{.code = ErrorCode::BadStructure, .message = "result '" + spec.name + "' and its buffer differ in size"};
  std::byte *probe = new (std::nothrow) std::byte[size_t(*bytes)];
  delete[] probe;
  if (!probe)
    return Diagnostic{.code = ErrorCode::OutOfMemory,
                      .message = "no host memory for result '" + spec.name + "' of " + std::to_string(*bytes) + " bytes"};
  return HostTensor(spec.dtype, std::move(*shape));
}

Expected<std::vector<HostTensor>> runPlan(const Artifact &artifact, Device &device, std::span<const HostTensor> inputs,
                                          const DimBindings &dims, const RunOptions &options) {
  auto bound = bindDims(artifact.plan, inputs, dims);
  if (!bound)
    return bound.takeErrors();
  auto instance = PlanInstance::create(artifact, device, *bound, options);
  if (!instance)
    return instance.takeErrors();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].bytes().empty())
      if (auto done = device.copyFromHost(instance->input(int(i)), inputs[i].bytes()); !done)
        return done.takeErrors();
  if (auto done = instance->run(); !done)
    return done.takeErrors();
  std::vector<HostTensor> results;
  for (size_t i = 0; i < artifact.plan.results.size(); ++i) {
    int64_t bytes = instance->bytesOf(artifact.plan.resultBuffers[i]);
    auto result = makeResult(artifact.plan.results[i], *bound, bytes);
    if (!result)
      return result.takeErrors();
    if (bytes)
      if (auto done = device.copyToHost(result->bytes(), instance->result(int(i))); !done)
        return done.takeErrors();
    results.push_back(std::move(*result));
  }
  // Also where every result is empty: a failed launch is said here, not at the next run.
  if (auto done = device.synchronize(); !done)
    return done.takeErrors();
  return results;
}

} // namespace minic
