#include "minic/Runtime/Executable.h"

#include "CheckTensors.h"
#include "minic/Artifact/RunPlan.h"
#include "minic/Support/ScratchArray.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>

namespace minic {

namespace {

/// An artifact with its constants on a device.
struct Code {
  std::shared_ptr<const Artifact> artifact;
  std::shared_ptr<const PlanConstants> constants;

  static Expected<Code> load(std::shared_ptr<const Artifact> artifact, Device &device) {
    auto constants = PlanConstants::create(*artifact, device);
    if (!constants)
      return constants.takeErrors();
    return Code{std::move(artifact), std::move(*constants)};
  }
};

/// What is ready for one shape.
struct ReadyShape {
  PlanChoice choice; ///< Of the executable's artifact, which runs any shape.
  Code code;         ///< What runs this one.
  std::shared_ptr<const PreparedPlan> plan;
};

/// "M = 4, N = 781".
std::string describe(const DimBindings &dims) {
  std::string text;
  for (const auto &[name, value] : dims)
    text += (text.empty() ? "" : ", ") + name + " = " + std::to_string(value);
  return text;
}

} // namespace

struct Executable::Impl {
  std::shared_ptr<Device> device;
  Code code;                                  ///< For all shapes.
  std::vector<std::optional<Buffer>> weights; ///< One per input of the plan, where it is bound.
  std::vector<TensorSpec> inputs;             ///< The others.
  std::vector<size_t> positions;              ///< Of those among the plan's.

  std::mutex preparing;                               ///< One shape is made ready at a time; runs of others go on.
  mutable std::shared_mutex mutex;                    ///< Of what follows.
  std::list<std::shared_ptr<const ReadyShape>> ready; ///< The one used last stands first.
  size_t limit = 64;
  ShapeCompiler compiler; ///< Null: the artifact's own plans run.
  bool mayCompile = true;
  std::atomic<uint64_t> hits = 0, misses = 0, evictions = 0, compilations = 0;

  /// Gives the plan, which keeps all that it needs.
  std::shared_ptr<const PreparedPlan> hit(const std::shared_ptr<const ReadyShape> &shape) {
    hits.fetch_add(1, std::memory_order_relaxed);
    return {shape, shape->plan.get()};
  }

  std::shared_ptr<const PreparedPlan> find(const PlanChoice &choice) {
    std::unique_lock lock(mutex);
    auto known = std::ranges::find_if(ready, [&](const auto &shape) { return shape->choice == choice; });
    if (known == ready.end())
      return nullptr;
    ready.splice(ready.begin(), ready, known);
    return hit(ready.front());
  }

  void makeRoom() {
    for (; ready.size() > limit; ++evictions)
      ready.pop_back();
  }

  /// What runs sizes: the artifact, or code for them alone, made here if it is not known with other strides. `preparing` is locked.
  Expected<Code> codeFor(const DimBindings &dims, std::span<const TensorView> inputs) {
    {
      std::shared_lock lock(mutex);
      if (!compiler || dims.empty())
        return code;
      for (const auto &shape : ready)
        if (shape->choice.dims == dims)
          return shape->code;
      if (!mayCompile)
        return newShape(dims);
    }
    ++compilations;
    auto special = compiler(inputs);
    if (!special)
      return special.takeErrors();
    return Code::load(std::move(*special), *device);
  }

  /// `choice`: of the artifact's plans. `preparing` is locked.
  Expected<std::shared_ptr<const PreparedPlan>> makeReady(std::span<const TensorView> inputs, std::span<const TensorView> results,
                                                          PlanChoice choice) {
    ++misses;
    auto found = codeFor(choice.dims, inputs);
    if (!found)
      return found.takeErrors();
    auto own = choosePlan(*found->artifact, inputs, results);
    if (!own)
      return own.takeErrors();
    auto plan = PreparedPlan::create(*found->artifact, *device, std::move(*own), found->constants);
    if (!plan)
      return plan.takeErrors();
    auto shape = std::make_shared<const ReadyShape>(ReadyShape{std::move(choice), std::move(*found), std::move(*plan)});
    std::unique_lock lock(mutex);
    ready.push_front(shape);
    makeRoom();
    return std::shared_ptr<const PreparedPlan>(shape, shape->plan.get());
  }

  /// The error for sizes that are not ready. `mutex` is locked.
  Diagnostic newShape(const DimBindings &dims) const {
    constexpr size_t shown = 8;
    std::set<std::string> known;
    for (const auto &shape : ready)
      known.insert(describe(shape->choice.dims));
    Diagnostic error{.code = ErrorCode::NotCached,
                     .message = "'" + code.artifact->signature().name + "' has no code for " + describe(dims) +
                                ", and nothing may be compiled for a new shape",
                     .fix = "allow compilation, or run this shape once before it is forbidden"};
    size_t count = 0;
    for (const std::string &sizes : known)
      if (++count <= shown)
        error.note("it has code for " + sizes);
    if (known.size() > shown)
      error.note("and for " + std::to_string(known.size() - shown) + " more");
    return error;
  }

  Diagnostics checkCount(std::span<const TensorView> views, std::span<const TensorView> results) const {
    Diagnostics errors;
    auto count = [&](const char *verb, const char *what, const std::vector<TensorSpec> &specs, size_t given) {
      if (given != specs.size())
        errors.push_back({.code = given < specs.size() ? ErrorCode::MissingInput : ErrorCode::BadInput,
                          .message = "'" + code.artifact->signature().name + "' " + verb + " " + std::to_string(specs.size()) +
                                     " " + what + ", given " + std::to_string(given)});
    };
    count("takes", "inputs", inputs, views.size());
    count("gives", "results", code.artifact->signature().results, results.size());
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
    return checkTensors(*device, inputs, views, code.artifact->signature().results, results);
  }
};

Executable::Executable(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Executable::~Executable() {
  bool holds = std::ranges::any_of(impl->weights, [](const auto &weight) { return weight.has_value(); });
  if (holds)
    (void)impl->device->finish(); // Work on any stream may read them; a failure is said again by the next call that can.
}

const Artifact &Executable::artifact() const { return *impl->code.artifact; }
const std::shared_ptr<Device> &Executable::device() const { return impl->device; }
const std::vector<TensorSpec> &Executable::inputs() const { return impl->inputs; }

Expected<std::shared_ptr<Executable>> Executable::load(std::shared_ptr<const Artifact> artifact, std::shared_ptr<Device> device,
                                                       const std::map<std::string, HostTensor> &weights) {
  auto impl = std::make_unique<Impl>();
  auto code = Code::load(artifact, *device);
  if (!code)
    return code.takeErrors();
  impl->code = std::move(*code);
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
  impl->device = std::move(device);
  return std::shared_ptr<Executable>(new Executable(std::move(impl)));
}

Expected<std::shared_ptr<const PreparedPlan>> Executable::prepare(std::span<const TensorView> inputs,
                                                                  std::span<const TensorView> results) const {
  if (inputs.size() != impl->inputs.size())
    return impl->checkCount(inputs, std::vector<TensorView>(this->results().size()));
  if (results.empty() || results.size() == this->results().size()) {
    std::shared_lock lock(impl->mutex);
    if (!impl->ready.empty() && impl->ready.front()->plan->fits(inputs, impl->positions, results))
      return impl->hit(impl->ready.front());
  }
  // Other shapes or strides than last time.
  std::vector<TensorView> all(impl->weights.size());
  impl->gather(inputs, all);
  auto choice = choosePlan(*impl->code.artifact, all, results);
  if (!choice)
    return choice.takeErrors();
  if (auto known = impl->find(*choice))
    return known;
  std::lock_guard preparing(impl->preparing);
  if (auto known = impl->find(*choice)) // Another thread was faster.
    return known;
  return impl->makeReady(all, results, std::move(*choice));
}

void Executable::limitShapes(size_t limit) {
  std::unique_lock lock(impl->mutex);
  impl->limit = std::max<size_t>(limit, 1);
  impl->makeRoom();
}

void Executable::specialize(ShapeCompiler compiler) {
  std::lock_guard preparing(impl->preparing);
  std::unique_lock lock(impl->mutex);
  impl->compiler = std::move(compiler);
  impl->ready.clear();
}

void Executable::allowCompilation(bool allowed) {
  std::unique_lock lock(impl->mutex);
  impl->mayCompile = allowed;
}

ShapeCounts Executable::shapeCounts() const {
  std::shared_lock lock(impl->mutex);
  return {.hits = impl->hits,
          .misses = impl->misses,
          .evictions = impl->evictions,
          .compilations = impl->compilations,
          .kept = impl->ready.size(),
          .limit = impl->limit};
}

Expected<void> Executable::run(const Stream &stream, std::span<const TensorView> inputs,
                               std::span<const TensorView> results) const {
  if (inputs.size() != impl->inputs.size() || results.size() != this->results().size())
    return impl->checkCount(inputs, results);
  if (&stream.device() != impl->device.get())
    return Diagnostic{.code = ErrorCode::WrongDevice,
                      .message = "the stream is one of " + stream.device().name() + ", and '" +
                                 impl->code.artifact->signature().name + "' is loaded on " + impl->device->name()};
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
