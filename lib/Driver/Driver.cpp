#include "minic/Driver/Driver.h"

#include "minic/Interp/CpuDevice.h"
#include "minic/Runtime/CudaDevice.h"
#include "minic/Target/TargetInfo.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace minic {

//===- Devices -===//

Expected<std::shared_ptr<Device>> openDevice(std::string_view name, const CacheUse &cache) {
  std::string why;
  bool any = name == "auto";
  if (name == "cpu" || (any && !cudaAvailable(why)))
    return std::shared_ptr<Device>(std::make_shared<CpuDevice>());
  auto ordinal = any ? 0 : cudaOrdinal(name);
  if (!ordinal)
    return Diagnostic{.code = ErrorCode::NoDevice,
                      .message = "no device is called '" + std::string(name) + "'",
                      .fix = "it is one of auto, cuda, cuda:N, cpu"};
  auto client = Client::open();
  if (!client)
    return client.takeErrors();
  auto device = (*client)->device(*ordinal);
  if (!device)
    return device.takeErrors();
  (*device)->useCache(cache);
  return std::shared_ptr<Device>(std::move(*device));
}

//===- Compiling -===//

/// Makes the device's target the module's, and leaves out code that the device cannot run.
static Expected<void> suit(Module &module, CompileOptions &options, const Device &device) {
  int capability = device.computeCapability();
  if (!capability) {
    options.withCode = false;
    return {};
  }
  if (options.tunedFor.empty())
    options.tunedFor = device.model();
  if (!options.target.empty() || module.targetStated)
    return {};
  const TargetInfo *target = targetForDevice(capability / 10, capability % 10);
  if (!target)
    return Diagnostic{.code = ErrorCode::NoDevice,
                      .message = device.name() + " has compute capability " + std::to_string(capability / 10) + "." +
                                 std::to_string(capability % 10) + ", older than any target",
                      .fix = "run on the interpreter, which is the device `cpu`"};
  module.target = target->name;
  return {};
}

Expected<std::unique_ptr<Module>> loadFor(const Device *device, Context &context, const SourceBuffer &source,
                                          CompileOptions &options, Diagnostics *warnings) {
  auto module = loadModule(context, source, options, warnings);
  options.lines.file = source.name();
  if (!module || !device)
    return module;
  if (auto done = suit(**module, options, *device); !done)
    return done.takeErrors();
  return module;
}

/// `origins`: where the lines of the text were written, if a program did.
static Expected<std::shared_ptr<const Artifact>> compile(const SourceBuffer &source, std::vector<FileLoc> origins,
                                                         const CompileOptions &options, const Device *device) {
  Context context;
  CompileOptions suited = options;
  auto module = loadFor(device, context, source, suited);
  if (!module)
    return module.takeErrors();
  suited.lines.origins = std::move(origins);
  auto artifact = compile(**module, suited);
  if (!artifact)
    return artifact.takeErrors();
  return std::shared_ptr<const Artifact>(std::make_shared<Artifact>(std::move(*artifact)));
}

Expected<std::shared_ptr<const Artifact>> compile(const SourceBuffer &source, const CompileOptions &options, const Device *device) {
  return compile(source, {}, options, device);
}

Expected<std::shared_ptr<const Artifact>> compile(const Graph &graph, const CompileOptions &options, const Device *device) {
  if (Diagnostics errors = graph.errors(); !errors.empty())
    return errors;
  auto artifact = compile(SourceBuffer("graph", graph.text()), graph.origins(), options, device);
  if (!artifact)
    graph.addOrigins(artifact.errors());
  return artifact;
}

//===- Shapes -===//

/// What a graph or plan takes, as `bindDims` asks for it.
static Plan inputsOf(const Function &function) {
  Plan plan{.name = function.name};
  for (const Value *param : function.params())
    plan.inputs.push_back({param->name(), param->type().dtype(), param->type().shape()});
  return plan;
}

/// Whether a tensor that one takes could be one that the other takes.
static bool isLike(const TensorSpec &a, const TensorSpec &b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape.size() == b.shape.size();
}

Expected<void> specializeByShape(Executable &executable, const SourceBuffer &source, const CompileOptions &options) {
  Device *device = executable.device().get(); // Stays as long as the executable.
  Context context;
  CompileOptions suited = options;
  auto module = loadFor(device, context, source, suited);
  if (!module)
    return module.takeErrors();
  auto function = chooseFunction(**module, options.graph);
  if (!function)
    return function.takeErrors();
  Plan plan = inputsOf(**function);
  if (!std::ranges::equal(plan.inputs, executable.artifact().signature().inputs, isLike))
    return Diagnostic{.code = ErrorCode::BadArgument,
                      .message = "'" + source.name() + "' takes other inputs than the executable of '" +
                                 executable.artifact().signature().name + "'",
                      .fix = "give the text and the options that it was compiled with"};
  executable.specialize([=](std::span<const TensorView> inputs) -> Expected<std::shared_ptr<const Artifact>> {
    auto dims = bindDims(plan, inputs, {}, options.dims);
    if (!dims)
      return dims.takeErrors();
    CompileOptions sized = options;
    sized.dims = std::move(*dims);
    sized.specializations.clear();
    return compile(source, sized, device);
  });
  return {};
}

//===- Files -===//

Expected<ScheduleTable> readSchedules(const std::filesystem::path &path) {
  auto source = readSource(path);
  if (!source)
    return source.takeErrors();
  auto table = ScheduleTable::parse(*source);
  if (!table)
    for (Diagnostic &error : table.errors()) {
      // Whoever prints it has the graph's text at hand, not this one.
      error.message = source->name() + ":" + std::to_string(error.loc.line) + ": " + error.message;
      error.loc = {};
    }
  return table;
}

Expected<void> useSchedules(CompileOptions &options, const std::string &word) {
  options.shippedToo = word != "none";
  options.schedules = nullptr;
  if (word.empty() || word == "none")
    return {};
  auto table = readSchedules(word);
  if (!table)
    return table.takeErrors();
  options.schedules = std::make_shared<const ScheduleTable>(std::move(*table));
  return {};
}

Expected<SourceBuffer> readSource(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // An empty file sets failbit on the text; a folder opens and cannot be read.
  if (!file || (!(text << file.rdbuf()) && file.bad()) || std::filesystem::is_directory(path))
    return Diagnostic{.code = ErrorCode::UnreadableFile,
                      .message = "cannot read '" + path.string() + "': " + std::strerror(errno ? errno : EIO)};
  return SourceBuffer(path.string(), text.str());
}

} // namespace minic
