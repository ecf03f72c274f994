#include "minic/Runtime/Executable.h"

#include "minic/Artifact/ArtifactFile.h"
#include "minic/CApiRuntime/Tensors.h"
#include "minic/Support/Safetensors.h"

#include <algorithm>

namespace minic {

ExecutableObject::ExecutableObject(std::shared_ptr<Executable> loaded)
    : executable(std::move(loaded)), defaultStream(Stream::borrow(executable->device(), nullptr)),
      deviceKind(deviceKindOf(executable->device()->name(), ordinal)), inputs(executable->inputs()),
      results(executable->results()) {}

namespace {

//===- Weights -===//

using Weights = std::map<std::string, HostTensor>;

Expected<HostTensor> copyOf(const TensorView &tensor, const std::string &who) {
  if (!tensor.strides.empty())
    return Diagnostic{.code = ErrorCode::BadInput,
                      .message = who + " has strides, and a weight is row-major",
                      .fix = "give a row-major copy of it"};
  auto bytes = hostBytes(tensor, who);
  if (!bytes)
    return bytes.takeErrors();
  HostTensor copy(tensor.dtype, {tensor.shape.begin(), tensor.shape.end()});
  std::ranges::copy(*bytes, copy.bytes().begin());
  return copy;
}

/// One input from a file or from memory; `who` is the argument.
Expected<HostTensor> namedWeight(const MinicWeight &weight, const Plan &plan, const std::string &who) {
  auto spec = std::ranges::find(plan.inputs, std::string_view(weight.name), &TensorSpec::name);
  if (spec == plan.inputs.end())
    return Diagnostic{.code = ErrorCode::UnknownInput,
                      .message = "'" + plan.name + "' has no input called '" + weight.name + "', as '" + who + "' says"};
  if (weight.tensor) {
    TensorViews views(1);
    auto good = views.fill(weight.tensor, "weight", {*spec}, nullptr);
    return good ? copyOf(views.views()[0], "weight '" + spec->name + "'") : good.takeErrors();
  }
  std::filesystem::path path = weight.path;
  if (path.extension() != ".safetensors")
    return readNpy(path, spec->dtype);
  auto tensors = readSafetensors(path, std::set<std::string>{weight.name});
  if (!tensors)
    return tensors.takeErrors();
  auto found = tensors->find(weight.name);
  if (found == tensors->end())
    return Diagnostic{.code = ErrorCode::UnknownInput,
                      .message = "'" + path.string() + "' has no tensor called '" + weight.name + "'"};
  return std::move(found->second);
}

Expected<Weights> readWeights(const MinicWeight *list, size_t count, const Plan &plan) {
  Weights weights;
  if (count && !list)
    return badArgument("weights", "is NULL, expected " + std::to_string(count) + " weights");
  for (size_t i = 0; i < count; ++i) {
    const MinicWeight &weight = list[i];
    std::string who = "weights[" + std::to_string(i) + "]";
    if (!weight.path == !weight.tensor)
      return badArgument(who, "has to have either a path or a tensor");
    if (!weight.name) {
      if (!weight.path || std::filesystem::path(weight.path).extension() != ".safetensors")
        return badArgument(who, "has no name, which only a .safetensors file can do without");
      std::set<std::string> names;
      for (const TensorSpec &spec : plan.inputs)
        names.insert(spec.name);
      auto tensors = readSafetensors(weight.path, names);
      if (!tensors)
        return tensors.takeErrors();
      if (tensors->empty())
        return Diagnostic{.code = ErrorCode::UnknownInput,
                          .message = "'" + std::string(weight.path) + "' has no tensor that is called like an input of '" +
                                     plan.name + "'"};
      weights.merge(*tensors);
      continue;
    }
    auto tensor = namedWeight(weight, plan, who);
    if (!tensor)
      return tensor.takeErrors();
    weights.insert_or_assign(weight.name, std::move(*tensor));
  }
  return weights;
}

//===- Runs -===//

/// Inputs and results of one call.
struct Arguments {
  TensorViews inputs, results;

  Arguments(size_t numInputs, size_t numResults) : inputs(numInputs), results(numResults) {}
  Expected<void> fill(const MinicTensor *inputList, const MinicTensor *resultList, const ExecutableObject &object,
                      const ExecutableObject *device) {
    if (auto good = inputs.fill(inputList, "input", object.executable->inputs(), device); !good)
      return good;
    return results.fill(resultList, "result", object.executable->results(), device);
  }
};

/// The stream of a call, which stays while `pinned` does.
Expected<const Stream *> streamOf(MinicStream *handle, const std::shared_ptr<Stream> &defaultStream,
                                  std::optional<Pinned<StreamObject>> &pinned) {
  if (!handle)
    return defaultStream.get();
  auto object = use<StreamObject>(handle, "stream");
  if (!object)
    return object.takeErrors();
  pinned.emplace(std::move(*object));
  const Stream *stream = (*pinned)->stream.get();
  if (&stream->device() != &defaultStream->device())
    return badArgument("stream", "is a stream of " + stream->device().name() + " (or of another context), expected one of " +
                                     defaultStream->device().name());
  return stream;
}

/// Host memory of a call on the device: all bytes of each tensor from the lowest to the highest, so that strides stay what they
/// are.
class HostArguments {
public:
  explicit HostArguments(std::shared_ptr<Stream> stream) : stream(std::move(stream)) {}

  /// `upload`: the bytes. Else they are undefined.
  Expected<void> add(const TensorView &view, std::span<const std::byte> bytes, bool upload) {
    auto buffer = Buffer::allocate(stream, DType::U8, {int64_t(bytes.size())});
    if (!buffer)
      return buffer.takeErrors();
    if (upload && !bytes.empty())
      if (auto copied = device().copyFromHost(buffer->memory(), bytes, stream->handle()); !copied)
        return copied;
    TensorView on = view;
    on.memory = buffer->memory() + (bytes.empty() ? 0 : view.memory - DeviceMemory(reinterpret_cast<uintptr_t>(bytes.data())));
    on.device = &device();
    list.push_back(on);
    buffers.push_back(std::move(*buffer));
    return {};
  }
  /// The elements of a tensor; nothing between them is touched.
  Expected<void> download(size_t i, std::span<std::byte> bytes) const {
    if (bytes.empty())
      return {};
    if (list[i].strides.empty())
      return device().copyToHost(bytes, buffers[i].memory(), stream->handle());
    std::vector<std::byte> all(bytes.size());
    auto copied = device().copyToHost(all, buffers[i].memory(), stream->handle());
    if (copied)
      copyElements(list[i], all, bytes);
    return copied;
  }
  std::span<const TensorView> views() const { return list; }

private:
  Device &device() const { return stream->device(); }
  std::shared_ptr<Stream> stream;
  std::vector<Buffer> buffers;
  std::vector<TensorView> list;
};

Expected<void> runOnHost(const ExecutableObject &object, const MinicTensor *inputs, size_t numInputs, const MinicTensor *results,
                         size_t numResults) {
  const Executable &executable = *object.executable;
  Arguments host(numInputs, numResults);
  if (auto good = host.fill(inputs, results, object, nullptr); !good)
    return good;
  // Before memory is taken for what does not fit. The addresses will be others.
  std::vector<TensorView> in(host.inputs.views().begin(), host.inputs.views().end());
  std::vector<TensorView> out(host.results.views().begin(), host.results.views().end());
  for (std::vector<TensorView> *views : {&in, &out})
    for (TensorView &view : *views)
      view.memory = 0;
  if (auto plan = executable.prepare(in, out); !plan)
    return plan.takeErrors();
  auto stream = Stream::create(executable.device());
  if (!stream)
    return stream.takeErrors();
  HostArguments arguments(*stream);
  for (size_t i = 0; i < numInputs; ++i) {
    auto bytes = hostBytes(host.inputs.views()[i], tensorName("input", i, executable.inputs()));
    if (!bytes)
      return bytes.takeErrors();
    if (auto added = arguments.add(host.inputs.views()[i], *bytes, true); !added)
      return added;
  }
  std::vector<std::span<std::byte>> into;
  for (size_t i = 0; i < numResults; ++i) {
    const TensorView &view = host.results.views()[i];
    auto bytes = hostBytes(view, tensorName("result", i, executable.results()));
    if (!bytes)
      return bytes.takeErrors();
    // The interpreter gives back what is defined: what lies between the elements has to be.
    if (auto added = arguments.add(view, *bytes, !view.strides.empty()); !added)
      return added;
    into.push_back(*bytes);
  }
  if (auto done = executable.run(**stream, arguments.views().first(numInputs), arguments.views().subspan(numInputs)); !done)
    return done;
  for (size_t i = 0; i < numResults; ++i)
    if (auto copied = arguments.download(numInputs + i, into[i]); !copied)
      return copied;
  return (*stream)->synchronize();
}

} // namespace
} // namespace minic

using namespace minic;

MinicError *minic_executable_load(MinicArtifact *artifact, MinicDevice *device, const MinicWeight *weights, size_t num_weights,
                                  MinicExecutable **executable) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(executable, "executable"); !place)
      return place;
    auto of = use<ArtifactObject>(artifact, "artifact");
    if (!of)
      return of.takeErrors();
    auto on = use<DeviceObject>(device, "device");
    if (!on)
      return on.takeErrors();
    const auto &variants = (*of)->variants;
    auto picked = pickArtifact(*variants, (*on)->device->computeCapability());
    if (!picked)
      return picked.takeErrors();
    std::shared_ptr<const Artifact> chosen(variants, &(*variants)[*picked]);
    auto bound = readWeights(weights, num_weights, chosen->signature());
    if (!bound)
      return bound.takeErrors();
    auto loaded = Executable::load(std::move(chosen), (*on)->device, *bound);
    if (!loaded)
      return loaded.takeErrors();
    *executable = give(std::make_unique<ExecutableObject>(std::move(*loaded)));
    return {};
  });
}

MinicError *minic_executable_inputs(MinicExecutable *executable, const MinicTensorSpec **specs, size_t *count) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    return object ? giveSpecs((*object)->inputs, specs, count) : object.takeErrors();
  });
}

MinicError *minic_executable_results(MinicExecutable *executable, const MinicTensorSpec **specs, size_t *count) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    return object ? giveSpecs((*object)->results, specs, count) : object.takeErrors();
  });
}

MinicError *minic_executable_shape_counts(MinicExecutable *executable, MinicShapeCounts *counts) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    if (!object)
      return object.takeErrors();
    ShapeCounts is = (*object)->executable->shapeCounts();
    MinicShapeCounts known = {.hits = is.hits, .misses = is.misses};
    known.evictions = is.evictions;
    known.compilations = is.compilations;
    known.kept = is.kept;
    known.limit = is.limit;
    return fillInfo(known, counts, "counts");
  });
}

MinicError *minic_executable_limit_shapes(MinicExecutable *executable, size_t limit) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    if (!object)
      return object.takeErrors();
    if (limit == 0)
      return badArgument("limit", "is 0, expected at least 1");
    (*object)->executable->limitShapes(limit);
    return {};
  });
}

MinicError *minic_executable_allow_compilation(MinicExecutable *executable, int allowed) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    if (!object)
      return object.takeErrors();
    (*object)->executable->allowCompilation(allowed != 0);
    return {};
  });
}

MinicError *minic_executable_result_dims(MinicExecutable *executable, const MinicTensor *inputs, size_t num_inputs, int64_t *dims,
                                         size_t capacity) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    if (!object)
      return object.takeErrors();
    const Executable &of = *(*object)->executable;
    TensorViews views(num_inputs);
    if (auto good = views.fill(inputs, "input", of.inputs(), &**object); !good)
      return good;
    size_t needed = 0;
    for (const TensorSpec &spec : of.results())
      needed += spec.shape.size();
    if (capacity < needed || (needed && !dims))
      return badArgument("dims", "has no room for " + std::to_string(needed) + " numbers");
    auto plan = of.prepare(views.views());
    if (!plan)
      return plan.takeErrors();
    for (size_t i = 0; i < of.results().size(); ++i)
      dims = std::ranges::copy((*plan)->resultShape(i), dims).out;
    return {};
  });
}

MinicError *minic_executable_run(MinicExecutable *executable, MinicStream *stream, const MinicTensor *inputs, size_t num_inputs,
                                 const MinicTensor *results, size_t num_results) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    if (!object)
      return object.takeErrors();
    std::optional<Pinned<StreamObject>> pinned;
    auto order = streamOf(stream, (*object)->defaultStream, pinned);
    if (!order)
      return order.takeErrors();
    Arguments arguments(num_inputs, num_results);
    if (auto good = arguments.fill(inputs, results, **object, &**object); !good)
      return good;
    return (*object)->executable->run(**order, arguments.inputs.views(), arguments.results.views());
  });
}

MinicError *minic_executable_run_host(MinicExecutable *executable, const MinicTensor *inputs, size_t num_inputs,
                                      const MinicTensor *results, size_t num_results) {
  return guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    if (!object)
      return object.takeErrors();
    return runOnHost(**object, inputs, num_inputs, results, num_results);
  });
}

MinicError *minic_executable_destroy(MinicExecutable *executable) { return destroy<ExecutableObject>(executable, "executable"); }

MinicError *minic_executable_capture(MinicExecutable *executable, const MinicTensor *inputs, size_t num_inputs,
                                     const MinicTensor *results, size_t num_results, MinicCapturedRun **run) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(run, "run"); !place)
      return place;
    auto object = use<ExecutableObject>(executable, "executable");
    if (!object)
      return object.takeErrors();
    Arguments arguments(num_inputs, num_results);
    if (auto good = arguments.fill(inputs, results, **object, &**object); !good)
      return good;
    auto captured = (*object)->executable->capture(arguments.inputs.views(), arguments.results.views());
    if (!captured)
      return captured.takeErrors();
    auto made = std::make_unique<CapturedRunObject>(std::move(*captured));
    made->defaultStream = (*object)->defaultStream;
    *run = give(std::move(made));
    return {};
  });
}

MinicError *minic_captured_run_launch(MinicCapturedRun *run, MinicStream *stream) {
  return guarded([&]() -> Expected<void> {
    auto object = use<CapturedRunObject>(run, "run");
    if (!object)
      return object.takeErrors();
    std::optional<Pinned<StreamObject>> pinned;
    auto order = streamOf(stream, (*object)->defaultStream, pinned);
    return order ? (*object)->run.launch(**order) : order.takeErrors();
  });
}

MinicError *minic_captured_run_destroy(MinicCapturedRun *run) { return destroy<CapturedRunObject>(run, "run"); }
