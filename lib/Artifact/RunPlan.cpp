#include "minic/Artifact/RunPlan.h"

#include <algorithm>
#include <new>

namespace minic {

namespace {

/// Tensors on a device for one call.
class DeviceTensors {
public:
  explicit DeviceTensors(Device &device) : device(device) {}
  DeviceTensors(const DeviceTensors &) = delete;
  ~DeviceTensors() {
    for (DeviceMemory memory : owned)
      device.release(memory, nullptr);
  }
  Expected<DeviceMemory> add(int64_t bytes, const std::string &name, const std::string &plan) {
    auto memory = device.allocate(bytes, nullptr);
    if (!memory) {
      Diagnostics errors = memory.takeErrors();
      errors.front().note("while allocating " + std::to_string(bytes) + " bytes for '" + name + "' of '" + plan + "'");
      return errors;
    }
    owned.push_back(*memory);
    return memory;
  }
  std::span<const DeviceMemory> all() const { return owned; }

private:
  Device &device;
  std::vector<DeviceMemory> owned;
};

} // namespace

std::vector<TensorView> viewsOf(std::span<const HostTensor> tensors) {
  std::vector<TensorView> views;
  for (const HostTensor &tensor : tensors)
    views.push_back({.dtype = tensor.dtype(), .shape = tensor.shape()});
  return views;
}

Expected<HostTensor> makeHostTensor(DType dtype, std::span<const int64_t> shape, const std::string &who) {
  auto bytes = HostTensor::checkedBytes(dtype, shape);
  std::byte *probe = bytes ? new (std::nothrow) std::byte[size_t(*bytes)] : nullptr;
  delete[] probe;
  if (!probe)
    return Diagnostic{.code = ErrorCode::OutOfMemory,
                      .message = "no host memory for " + who + " of shape " + shapeString(dtype, shape)};
  return HostTensor(dtype, {shape.begin(), shape.end()});
}

Expected<std::vector<HostTensor>> runPlan(const Artifact &artifact, Device &device, std::span<const HostTensor> inputs,
                                          const DimBindings &given, const WalkOptions &options) {
  const Plan &plan = artifact.signature();
  auto choice = choosePlan(artifact, viewsOf(inputs), {}, given);
  if (!choice)
    return choice.takeErrors();
  auto constants = PlanConstants::create(artifact, device);
  if (!constants)
    return constants.takeErrors();
  auto prepared = PreparedPlan::create(artifact, device, std::move(*choice), std::move(*constants));
  if (!prepared)
    return prepared.takeErrors();

  DeviceTensors onDevice(device);
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto memory = onDevice.add(int64_t(inputs[i].bytes().size()), plan.inputs[i].name, plan.name);
    if (!memory)
      return memory.takeErrors();
    if (!inputs[i].bytes().empty())
      if (auto done = device.copyFromHost(*memory, inputs[i].bytes(), nullptr); !done)
        return done.takeErrors();
  }
  std::vector<HostTensor> results;
  for (size_t i = 0; i < plan.results.size(); ++i) {
    auto result = makeHostTensor(plan.results[i].dtype, (*prepared)->resultShape(i), "result '" + plan.results[i].name + "'");
    if (!result)
      return result.takeErrors();
    int64_t bytes = int64_t(result->bytes().size());
    auto memory = onDevice.add(bytes, plan.results[i].name, plan.name);
    if (!memory)
      return memory.takeErrors();
    if (options.poison && bytes)
      if (auto done = device.poison(*memory, bytes, nullptr); !done)
        return done.takeErrors();
    results.push_back(std::move(*result));
  }
  auto workspace = (*prepared)->allocate(nullptr);
  if (!workspace)
    return workspace.takeErrors();
  std::span<const DeviceMemory> memory = onDevice.all();
  if (auto done = (*prepared)->enqueue(nullptr, memory.first(inputs.size()), memory.subspan(inputs.size()), *workspace, options);
      !done)
    return done.takeErrors();
  for (size_t i = 0; i < results.size(); ++i)
    if (!results[i].bytes().empty())
      if (auto done = device.copyToHost(results[i].bytes(), memory[inputs.size() + i], nullptr); !done)
        return done.takeErrors();
  // Also where every result is empty: a failed launch is said here, not at the next run.
  if (auto done = device.synchronize(nullptr); !done)
    return done.takeErrors();
  return results;
}

} // namespace minic
