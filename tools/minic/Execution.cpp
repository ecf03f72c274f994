#include "Execution.h"

#include "minic/Artifact/ArtifactFile.h"
#include "minic/Support/Safetensors.h"
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

Expected<OpenedDevice> openDevice(const DeviceChoice &choice, const CacheUse &cache, const Messages &messages, bool countTraffic) {
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
    opened.gpu->useCache(cache);
    opened.device = std::move(*gpu);
    return opened;
  }
  messages.note("running on the interpreter (CPU)" + (why.empty() ? "" : ": " + why));
  auto interpreter = std::make_shared<CpuDevice>(CpuOptions{.shuffleSeed = choice.shuffleSeed, .countTraffic = countTraffic});
  opened.interpreter = interpreter.get();
  opened.device = std::move(interpreter);
  return opened;
}

//===- Programs -===//

Signature signatureOf(const Function &function) {
  Signature signature{.name = function.name, .results = function.resultNames};
  for (const Value *param : function.params())
    signature.inputs.push_back({param->name(), param->type().dtype(), param->type().shape()});
  return signature;
}

/// Flags that say how to compile what is compiled already.
static std::optional<Diagnostic> checkArtifactFlags(const ModuleFlags &flags, const Plan &plan) {
  const std::pair<const char *, const std::string *> words[] = {
      {"--target", &flags.target}, {"--numerics", &flags.numerics},   {"--mode", &flags.mode},
      {"--matmul", &flags.matmul}, {"--schedules", &flags.schedules}, {"--tuned-for", &flags.tunedFor}};
  for (auto [flag, word] : words)
    if (!word->empty())
      return badFlag("an artifact is compiled already, and " + std::string(flag) + "=" + *word + " says how to",
                     "compile the graph with it: minic compile GRAPH.ir -o FILE.mnc " + std::string(flag) + "=" + *word);
  if (!flags.overrides.empty())
    return badFlag("an artifact is compiled already, and --override=" + flags.overrides.front() + " changes what is compiled",
                   "compile the graph with it: minic compile GRAPH.ir -o FILE.mnc --override=" + flags.overrides.front());
  if (!flags.graph.empty() && flags.graph != plan.name)
    return badFlag("--graph=" + flags.graph + ": the artifact is of '" + plan.name + "'");
  return std::nullopt;
}

std::optional<int> beginWithGraph(const ExecutionFlags &flags, const Messages &messages, GraphToRun &begun) {
  auto failed = beginWithGraph(flags, messages, static_cast<BegunGraph &>(begun), [&](CompileOptions &) -> Expected<void> {
    auto choice = deviceChoice(flags);
    if (!choice)
      return choice.takeErrors();
    begun.choice = *choice;
    return {};
  });
  if (failed)
    return failed;
  begun.signature = signatureOf(*begun.graph);
  begun.options.graph = begun.signature.name;
  auto words = namedValues("--input", flags.inputs, "input", begun.signature.inputNames());
  if (!words)
    return messages.fail(words.errors());
  begun.words = std::move(*words);
  return std::nullopt;
}

Expected<Program> loadProgram(const SourceBuffer &source, const ModuleFlags &flags, const Messages &messages) {
  auto options = compileOptions(flags);
  if (!options)
    return options.takeErrors();
  Program program{.options = std::move(*options)};
  if (isArtifact(source.text())) {
    auto artifacts = deserializeArtifacts(source.text(), "'" + source.name() + "'");
    if (!artifacts)
      return artifacts.takeErrors();
    program.artifacts = std::move(*artifacts);
    const Plan &plan = program.artifacts.front().signature();
    if (auto error = checkArtifactFlags(flags, plan))
      return *error;
    program.signature = {.name = plan.name, .inputs = plan.inputs};
    for (const TensorSpec &spec : plan.results)
      program.signature.results.push_back(spec.name);
    return program;
  }
  LoadedModule loaded{.source = source};
  if (auto done = load(loaded, program.options, messages); !done)
    return done.takeErrors();
  auto function = chooseFunction(*loaded.module, flags.graph);
  if (!function)
    return function.takeErrors();
  program.signature = signatureOf(**function);
  return program;
}

//===- Inputs -===//

std::vector<std::string> Signature::inputNames() const {
  std::vector<std::string> names;
  for (const TensorSpec &spec : inputs)
    names.push_back(spec.name);
  return names;
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

Expected<std::map<std::string, HostTensor>> readWeights(const std::vector<std::string> &texts, const Signature &signature) {
  std::vector<std::string> names = signature.inputNames(), pairs;
  std::map<std::string, HostTensor> weights;
  for (const std::string &text : texts) {
    if (!text.ends_with(".safetensors")) {
      pairs.push_back(text);
      continue;
    }
    auto tensors = readSafetensors(text, std::set<std::string>(names.begin(), names.end()));
    if (!tensors)
      return tensors.takeErrors();
    if (tensors->empty()) {
      std::string list;
      for (const std::string &name : names)
        list += (list.empty() ? "" : ", ") + name;
      return Diagnostic{.code = ErrorCode::UnknownInput,
                        .message = "no tensor of '" + text + "' has the name of an input",
                        .fix = "the inputs are " + list};
    }
    weights.merge(*tensors);
    if (!tensors->empty()) // What stays behind was there before.
      return badFlag("--weights gives '" + tensors->begin()->first + "' twice");
  }
  auto files = namedValues("--weights", pairs, "input", names);
  if (!files)
    return files.takeErrors();
  for (const TensorSpec &spec : signature.inputs) {
    auto file = files->find(spec.name);
    if (file == files->end())
      continue;
    auto tensor = readNpy(file->second, spec.dtype);
    if (!tensor)
      return tensor.takeErrors();
    if (!weights.emplace(spec.name, std::move(*tensor)).second)
      return badFlag("--weights gives '" + spec.name + "' twice");
  }
  return weights;
}

void bindNames(const TensorSpec &spec, const std::vector<int64_t> &shape, DimBindings &dims) {
  for (size_t axis = 0; axis < std::min(shape.size(), spec.shape.size()); ++axis)
    if (std::string name = spec.shape[axis].str(); isDimName(name))
      dims.emplace(name, shape[axis]);
}

Expected<std::vector<HostTensor>> makeInputs(const Signature &signature, const std::map<std::string, std::string> &words,
                                             bool randomByDefault, const std::string &command, DimBindings &dims,
                                             std::map<std::string, HostTensor> weights) {
  // Files and literals first: their shapes bind names.
  std::vector<std::optional<HostTensor>> made(signature.inputs.size());
  Diagnostics missing;
  std::string ready = command;
  for (size_t i = 0; i < made.size(); ++i) {
    const TensorSpec &spec = signature.inputs[i];
    auto word = words.find(spec.name);
    if (auto weight = weights.find(spec.name); weight != weights.end()) {
      if (word != words.end())
        return badFlag("'" + spec.name + "' is given by --input and by --weights");
      bindNames(spec, weight->second.shape(), dims);
      made[i] = std::move(weight->second);
      continue;
    }
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

Expected<void> suitDevice(Module &module, CompileOptions &options, const OpenedDevice &opened) {
  options.withCode = opened.gpu != nullptr;
  if (opened.gpu && options.tunedFor.empty()) // The interpreter runs what a GPU would.
    options.tunedFor = opened.model();
  options.anyStrides = false; // The command line's tensors are row-major.
  if (opened.gpu && options.target.empty() && !module.targetStated) {
    int capability = opened.gpu->computeCapability();
    const TargetInfo *target = targetForDevice(capability / 10, capability % 10);
    if (!target)
      return Diagnostic{.code = ErrorCode::NoDevice,
                        .message = opened.model() + " has compute capability " + std::to_string(capability / 10) + "." +
                                   std::to_string(capability % 10) + ", older than any target",
                        .fix = "run on the interpreter with --device=cpu"};
    module.target = target->name;
  }
  return {};
}

Expected<std::shared_ptr<const Artifact>> compileFor(const OpenedDevice &opened, const SourceBuffer &source,
                                                     CompileOptions options) {
  Context context;
  auto module = loadModule(context, source, options);
  if (!module)
    return module.takeErrors();
  if (auto suited = suitDevice(**module, options, opened); !suited)
    return suited.takeErrors();
  auto artifact = compile(**module, options);
  if (!artifact) {
    addReproducer(artifact.errors(), source, options, Stage::Plan);
    return artifact.takeErrors();
  }
  return std::make_shared<const Artifact>(std::move(*artifact));
}

void noteUnrunPtx(const Artifact &artifact, const OpenedDevice &opened, const Messages &messages) {
  if (!opened.interpreter)
    return;
  for (const KernelCode &kernel : artifact.kernels)
    if (!kernel.entry.empty())
      messages.note("kernel @" + kernel.name +
                    " is PTX, which the interpreter does not run: what its custom op means is evaluated");
}

Expected<std::shared_ptr<const Artifact>> artifactFor(const OpenedDevice &opened, const SourceBuffer &source, Program program) {
  if (program.artifacts.empty())
    return compileFor(opened, source, program.options);
  auto picked = pickArtifact(program.artifacts, opened.device->computeCapability());
  if (!picked)
    return picked.takeErrors();
  return std::make_shared<const Artifact>(std::move(program.artifacts[*picked]));
}

} // namespace minic::cli
