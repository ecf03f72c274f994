#include "Execution.h"

#include "minic/Target/TargetInfo.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>

namespace minic::cli {

void addExecutionFlags(CLI::App &command, ExecutionFlags &flags, unsigned set) {
  addModuleFlags(command, flags, set);
  addListFlag(command, "--input", flags.inputs, "NAME=a.npy, NAME=random:7, NAME=iota, NAME=const:1.5 or 'NAME=[[1,-2],[0,1]]'");
  command.add_option("--device", flags.device, "auto|cuda[:N]|cpu; cpu is an interpreter")->capture_default_str();
  command.add_flag("--poison", flags.poison, "fill fresh memory with NaN first");
  command.add_option("--shuffle", flags.shuffle,
                     "interpreter: run the programs of a launch in the pseudo-random order of this seed");
}

//===- Devices -===//

template <typename T> static std::optional<T> parseWhole(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

Expected<DeviceChoice> deviceChoice(const ExecutionFlags &flags) {
  DeviceChoice choice;
  std::string_view word = flags.device;
  if (word == "cpu") {
    choice.kind = DeviceChoice::Cpu;
  } else if (word == "cuda" || word.starts_with("cuda:")) {
    choice.kind = DeviceChoice::Cuda;
    auto ordinal = word == "cuda" ? 0 : parseWhole<int>(word.substr(5));
    if (!ordinal || *ordinal < 0)
      return badFlag("--device=" + flags.device + " has no device number after cuda:", "write --device=cuda:0");
    choice.ordinal = *ordinal;
  } else if (word != "auto") {
    return badFlag("unknown device '" + flags.device + "'", "it is one of auto, cuda, cuda:N, cpu");
  }
  if (flags.shuffle.empty())
    return choice;
  auto seed = parseWhole<uint64_t>(flags.shuffle);
  if (!seed)
    return badFlag("--shuffle takes a number, not '" + flags.shuffle + "'");
  if (choice.kind == DeviceChoice::Cuda)
    return badFlag("--shuffle orders the programs of the interpreter; a GPU has its own order", "add --device=cpu");
  choice.kind = DeviceChoice::Cpu;
  choice.shuffleSeed = *seed;
  return choice;
}

Expected<OpenedDevice> openDevice(const DeviceChoice &choice, const Messages &messages, bool countTraffic) {
  OpenedDevice opened;
  std::string why;
  if (choice.kind == DeviceChoice::Cuda || (choice.kind == DeviceChoice::Auto && cudaAvailable(why))) {
    auto client = Client::open();
    if (!client)
      return client.takeErrors();
    auto gpu = (*client)->device(choice.ordinal);
    if (!gpu)
      return gpu.takeErrors();
    opened.gpu = gpu->get();
    opened.device = std::move(*gpu);
    return opened;
  }
  messages.note("running on the interpreter (CPU)" + (why.empty() ? "" : ": " + why));
  auto interpreter = std::make_shared<CpuDevice>(CpuOptions{.shuffleSeed = choice.shuffleSeed, .countTraffic = countTraffic});
  opened.interpreter = interpreter.get();
  opened.device = std::move(interpreter);
  return opened;
}

//===- Inputs -===//

Signature signatureOf(const Function &function) {
  Signature signature{.name = function.name, .results = function.resultNames};
  for (const Value *param : function.params())
    signature.inputs.push_back({param->name(), param->type().dtype(), param->type().shape()});
  return signature;
}

Expected<std::map<std::string, std::string>> namedValues(std::string_view flag, const std::vector<std::string> &texts,
                                                         std::string_view what, const std::vector<std::string> &known) {
  std::map<std::string, std::string> values;
  for (const std::string &text : texts) {
    auto pair = splitPair(flag, text);
    if (!pair)
      return pair.takeErrors();
    const std::string &name = pair->first;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      std::string near = didYouMean(name, known), list;
      for (const std::string &other : known)
        list += (list.empty() ? "" : ", ") + other;
      return Diagnostic{.code = ErrorCode::UnknownInput,
                        .message = "no " + std::string(what) + " is called '" + name + "'",
                        .fix = !near.empty()  ? "did you mean " + near + "?"
                               : list.empty() ? "there are none"
                                              : "there are " + list};
    }
    if (!values.insert(*pair).second)
      return badFlag(std::string(flag) + " " + name + " is given twice");
  }
  return values;
}

/// What the shape of a tensor says about the names in a parameter's type.
static void bindNames(const TensorSpec &spec, const std::vector<int64_t> &shape, DimBindings &dims) {
  for (size_t axis = 0; axis < std::min(shape.size(), spec.shape.size()); ++axis)
    if (std::string name = spec.shape[axis].str(); isDimName(name))
      dims.emplace(name, shape[axis]);
}

Expected<std::vector<HostTensor>> makeInputs(const Signature &signature, const std::map<std::string, std::string> &words,
                                             bool randomByDefault, const std::string &command, DimBindings &dims) {
  // Files and literals first: their shapes bind names.
  std::vector<std::optional<HostTensor>> made(signature.inputs.size());
  Diagnostics missing;
  std::string ready = command;
  for (size_t i = 0; i < made.size(); ++i) {
    const TensorSpec &spec = signature.inputs[i];
    auto word = words.find(spec.name);
    if (word == words.end()) {
      if (!randomByDefault)
        missing.push_back({.code = ErrorCode::MissingInput, .message = "input '" + spec.name + "' is not given"});
      ready += " --input " + spec.name + "=random:" + std::to_string(i + 1);
      continue;
    }
    ready += " --input '" + spec.name + "=" + word->second + "'";
    auto shape = inputShape(spec.name, word->second, spec.dtype);
    if (!shape)
      return shape.takeErrors();
    if (!*shape)
      continue;
    auto tensor = makeInput(spec.name, word->second, spec.dtype, **shape);
    if (!tensor)
      return tensor.takeErrors();
    bindNames(spec, tensor->shape(), dims);
    made[i] = std::move(*tensor);
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < made.size(); ++i)
    for (const DimExpr &dim : signature.inputs[i].shape)
      if (!made[i])
        dim.collectNames(names);
  std::vector<std::string> unbound;
  for (const std::string &name : names)
    if (!dims.contains(name) && std::find(unbound.begin(), unbound.end(), name) == unbound.end())
      unbound.push_back(name);
  if (!missing.empty()) {
    for (const std::string &name : unbound)
      ready += " --dim " + name + "=64";
    missing.back().fix = "for example: " + ready;
    return missing;
  }
  if (auto bound = requireDims(unbound, dims, randomByDefault ? command : ready); !bound)
    return bound.takeErrors();

  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < made.size(); ++i) {
    const TensorSpec &spec = signature.inputs[i];
    if (!made[i]) {
      std::vector<int64_t> shape;
      for (const DimExpr &dim : spec.shape) {
        auto size = dim.evaluate(dims);
        if (!size)
          return Diagnostic{.code = ErrorCode::TooLarge,
                            .message = "the size " + dim.str() + " of input '" + spec.name + "' is too large"};
        shape.push_back(*size);
      }
      auto word = words.find(spec.name);
      auto tensor = makeInput(spec.name, word == words.end() ? "random:" + std::to_string(i + 1) : word->second, spec.dtype, shape);
      if (!tensor)
        return tensor.takeErrors();
      made[i] = std::move(*tensor);
    }
    inputs.push_back(std::move(*made[i]));
  }
  return inputs;
}

//===- Artifacts -===//

Expected<std::shared_ptr<const Artifact>> compileFor(const OpenedDevice &opened, const SourceBuffer &source,
                                                     CompileOptions options) {
  Context context;
  auto module = loadModule(context, source, options);
  if (!module)
    return module.takeErrors();
  options.withCode = opened.gpu != nullptr;
  if (opened.gpu && options.target.empty() && !(*module)->targetStated) {
    int capability = opened.gpu->computeCapability();
    const TargetInfo *target = targetForDevice(capability / 10, capability % 10);
    if (!target)
      return Diagnostic{.code = ErrorCode::NoDevice,
                        .message = opened.model() + " has compute capability " + std::to_string(capability / 10) + "." +
                                   std::to_string(capability % 10) + ", older than any target",
                        .fix = "run on the interpreter with --device=cpu"};
    (*module)->target = target->name;
  }
  auto artifact = compile(**module, options);
  if (!artifact) {
    addReproducer(artifact.errors(), source, options, Stage::Plan);
    return artifact.takeErrors();
  }
  return std::make_shared<const Artifact>(std::move(*artifact));
}

} // namespace minic::cli
