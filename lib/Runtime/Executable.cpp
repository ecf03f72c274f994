#include "minic/Runtime/Executable.h"

#include "CheckTensors.h"
#include "minic/Artifact/RunPlan.h"
#include "minic/Support/ScratchArray.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <optional>
#include <shared_mutex>

namespace minic {

namespace {

/// Shapes and strides for which an executable keeps what it prepared.
constexpr size_t maxPlans = 64;

} // namespace

struct Executable::Impl {
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<Device> device;
  std::shared_ptr<const PlanConstants> constants;
  std::vector<std::optional<Buffer>> weights; ///< One per input of the plan, where it is bound.
  std::vector<TensorSpec> inputs;             ///< The others.
  std::vector<size_t> positions;              ///< Of those among the plan's.

  mutable std::shared_mutex mutex;
  std::list<std::shared_ptr<const PreparedPlan>> plans; ///< The one used last stands first.

  Diagnostics checkCount(std::span<const TensorView> views, std::span<const TensorView> results) const {
    Diagnostics errors;
    auto count = [&](const char *verb, const char *what, const std::vector<TensorSpec> &specs, size_t given) {
      if (given != specs.size())
        errors.push_back({.code = given < specs.size() ? ErrorCode::MissingInput : ErrorCode::BadInput,
                          .message = "'" + artifact->signature().name + "' " + verb + " " + std::to_string(specs.size()) + " " +
                                     what + ", given " + std::to_string(given)});
    };
    count("takes", "inputs", inputs, views.size());
    count("gives", "results", artifact->signature().results, results.size());
    return errors;
  }

  /// All inputs of the plan.
  void gather(std::span<const TensorView> views, std::span<TensorView> all) const {
    for (size_t i = 0; i < weights.size(); ++i)
      if (weights[i])
        all[i] = weights[i]->view();
    for (size_t i = 0; i < views.size(); ++i)
      all[positions[i]] = views[i];
  }

  /// The memory of all inputs of the plan.
  void gather(std::span<const TensorView> views, std::span<DeviceMemory> memory) const {
    for (size_t i = 0; i < weights.size(); ++i)
      if (weights[i])
        memory[i] = weights[i]->memory();
    for (size_t i = 0; i < views.size(); ++i)
      memory[positions[i]] = views[i].memory;
  }

  /// Bounds of what the tensors may be.
  Expected<void> check(std::span<const TensorView> views, std::span<const TensorView> results) const {
    return checkTensors(*device, inputs, views, artifact->signature().results, results);
  }
};

Executable::Executable(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Executable::~Executable() {
  bool holds = std::ranges::any_of(impl->weights, [](const auto &weight) { return weight.has_value(); });
  if (holds)
    (void)impl->device->finish(); // Work on any stream may read them; a failure is said again by the next call that can.
}

const Artifact &Executable::artifact() const { return *impl->artifact; }
const std::shared_ptr<Device> &Executable::device() const { return impl->device; }
const std::vector<TensorSpec> &Executable::inputs() const { return impl->inputs; }

Expected<std::shared_ptr<Executable>> Executable::load(std::shared_ptr<const Artifact> artifact, std::shared_ptr<Device> device,
                                                       const std::map<std::string, HostTensor> &weights) {
  auto impl = std::make_unique<Impl>();
  auto constants = PlanConstants::create(*artifact, *device);
  if (!constants)
    return constants.takeErrors();
  impl->constants = std::move(*constants);
  std::shared_ptr<Stream> stream = Stream::borrow(device, nullptr);
  size_t bound = 0;
  for (size_t i = 0; i < artifact->signature().inputs.size(); ++i) {
    const TensorSpec &spec = artifact->signature().inputs[i];
    auto weight = weights.find(spec.name);
    impl->weights.emplace_back();
    if (weight == weights.end()) {
      impl->inputs.push_back(spec);
      impl->positions.push_back(i);
      continue;
    }
    if (auto error = weightFault(spec, weight->second))
      return *error;
    auto buffer = Buffer::upload(stream, weight->second);
    if (!buffer)
      return buffer.takeErrors();
    impl->weights.back() = std::move(*buffer);
    ++bound;
  }
  if (bound < weights.size())
    return unknownWeight(artifact->signature(), weights);
  if (bound)
    if (auto done = stream->synchronize(); !done) // Any stream may read them from now on.
      return done.takeErrors();
  impl->artifact = std::move(artifact);
  impl->device = std::move(device);
  return std::shared_ptr<Executable>(new Executable(std::move(impl)));
}

Expected<std::shared_ptr<const PreparedPlan>> Executable::prepare(std::span<const TensorView> inputs,
                                                                  std::span<const TensorView> results) const {
  if (inputs.size() != impl->inputs.size())
    return impl->checkCount(inputs, std::vector<TensorView>(this->results().size()));
  if (results.empty() || results.size() == this->results().size()) {
    std::shared_lock lock(impl->mutex);
    if (!impl->plans.empty() && impl->plans.front()->fits(inputs, impl->positions, results))
      return impl->plans.front();
  }
  // Other shapes or strides than last time.
  std::vector<TensorView> all(impl->weights.size());
  impl->gather(inputs, all);
  auto choice = choosePlan(*impl->artifact, all, results);
  if (!choice)
    return choice.takeErrors();
  std::unique_lock lock(impl->mutex);
  auto known = std::ranges::find_if(impl->plans, [&](const auto &plan) { return plan->choice() == *choice; });
  if (known != impl->plans.end()) {
    impl->plans.splice(impl->plans.begin(), impl->plans, known);
    return impl->plans.front();
  }
  auto plan = PreparedPlan::create(*impl->artifact, *impl->device, std::move(*choice), impl->constants);
  if (!plan)
    return plan.takeErrors();
  if (impl->plans.size() == maxPlans)
    impl->plans.pop_back();
  impl->plans.push_front(*plan);
  return plan;
}

Expected<void> Executable::run(const Stream &stream, std::span<const TensorView> inputs,
                               std::span<const TensorView> results) const {
  if (inputs.size() != impl->inputs.size() || results.size() != this->results().size())
    return impl->checkCount(inputs, results);
  if (&stream.device() != impl->device.get())
    return Diagnostic{.code = ErrorCode::WrongDevice,
                      .message = "the stream is one of " + stream.device().name() + ", and '" + impl->artifact->signature().name +
                                 "' is loaded on " + impl->device->name()};
  auto plan = prepare(inputs, results);
  if (!plan)
    return plan.takeErrors();
  if (auto checked = impl->check(inputs, results); !checked)
    return checked.takeErrors();
  auto workspace = (*plan)->allocate(stream.handle());
  if (!workspace)
    return workspace.takeErrors();
  ScratchArray<DeviceMemory, 32> from(impl->weights.size()), to(results.size());
  impl->gather(inputs, from.span());
  for (size_t i = 0; i < results.size(); ++i)
    to[i] = results[i].memory;
  return (*plan)->enqueue(stream.handle(), from.span(), to.span(), *workspace);
}

Expected<std::vector<Buffer>> Executable::run(const std::shared_ptr<Stream> &stream, std::span<const TensorView> inputs) const {
  auto plan = prepare(inputs);
  if (!plan)
    return plan.takeErrors();
  std::vector<Buffer> buffers;
  std::vector<TensorView> views;
  for (size_t i = 0; i < results().size(); ++i) {
    auto buffer = Buffer::allocate(stream, results()[i].dtype, (*plan)->resultShape(i));
    if (!buffer)
      return buffer.takeErrors();
    buffers.push_back(std::move(*buffer));
  }
  for (const Buffer &buffer : buffers)
    views.push_back(buffer.view());
  if (auto done = run(*stream, inputs, views); !done)
    return done.takeErrors();
  return buffers;
}

Expected<std::vector<HostTensor>> Executable::run(std::span<const HostTensor> inputs) const {
  std::shared_ptr<Stream> stream = Stream::borrow(impl->device, nullptr);
  std::vector<Buffer> buffers;
  for (const HostTensor &input : inputs) {
    auto buffer = Buffer::upload(stream, input);
    if (!buffer)
      return buffer.takeErrors();
    buffers.push_back(std::move(*buffer));
  }
  std::vector<TensorView> views;
  for (const Buffer &buffer : buffers)
    views.push_back(buffer.view());
  auto results = run(stream, views);
  if (!results)
    return results.takeErrors();
  std::vector<HostTensor> tensors;
  for (const Buffer &result : *results) {
    auto tensor = result.download();
    if (!tensor)
      return tensor.takeErrors();
    tensors.push_back(std::move(*tensor));
  }
  // Also where every result is empty: a failed launch is said here, not at the next run.
  if (auto done = stream->synchronize(); !done)
    return done.takeErrors();
  return tensors;
}

Expected<CapturedRun> Executable::capture(std::span<const TensorView> inputs, std::span<const TensorView> results, int runs) const {
  if (inputs.size() != impl->inputs.size() || results.size() != this->results().size())
    return impl->checkCount(inputs, results);
  auto plan = prepare(inputs, results);
  if (!plan)
    return plan.takeErrors();
  if (auto checked = impl->check(inputs, results); !checked)
    return checked.takeErrors();
  CapturedRun captured;
  captured.executable = shared_from_this();
  captured.plan = *plan;
  // Taken before, since memory that is taken in the recording belongs to a launch of it. Any stream may use it, so it is waited
  // for.
  auto workspace = captured.plan->allocate(nullptr);
  if (!workspace)
    return workspace.takeErrors();
  captured.workspace = std::move(*workspace);
  if (auto done = impl->device->synchronize(nullptr); !done)
    return done.takeErrors();
  std::vector<DeviceMemory> from(impl->weights.size()), to;
  impl->gather(inputs, from);
  for (const TensorView &result : results)
    to.push_back(result.memory);
  auto graph = impl->device->capture([&](StreamHandle stream) -> Expected<void> {
    for (int i = 0; i < runs; ++i)
      if (auto done = captured.plan->enqueue(stream, from, to, captured.workspace); !done)
        return done.takeErrors();
    return {};
  });
  if (!graph)
    return graph.takeErrors();
  captured.graph = std::move(*graph);
  return captured;
}

} // namespace minic
