// What `run` and `compare` share: flags, inputs, devices, and a module made ready for one device.
#pragma once

#include "Common.h"

#include "minic/Artifact/RunPlan.h"
#include "minic/Interp/CpuDevice.h"
#include "minic/Runtime/CudaDevice.h"

#include <map>
#include <optional>

namespace minic::cli {

struct ExecutionFlags : ModuleFlags {
  std::string device = "auto", shuffle;
  std::vector<std::string> inputs;
  bool poison = false;
};
void addExecutionFlags(CLI::App &command, ExecutionFlags &flags, unsigned set);

/// `auto`, `cpu`, `cuda` or `cuda:N`, and the seed of --shuffle, which only the interpreter has.
struct DeviceChoice {
  enum Kind { Auto, Cpu, Cuda } kind = Auto;
  int ordinal = 0;
  uint64_t shuffleSeed = 0;
};
Expected<DeviceChoice> deviceChoice(const ExecutionFlags &flags);
/// The GPU, or null for the interpreter; says so where it is the interpreter.
Expected<std::unique_ptr<CudaDevice>> openDevice(const DeviceChoice &choice, const Messages &messages);
/// "cpu" or the GPU's name.
std::string deviceName(const CudaDevice *device);

/// Parameters and results of a graph or plan, copied, since lowering replaces the function.
struct Signature {
  std::string name;
  std::vector<TensorSpec> inputs;
  std::vector<std::string> results;
};
Signature signatureOf(const Function &function);
/// `NAME=VALUE` flags by name. A name that is not among `known` is UnknownInput, one that stands twice is a wrong flag.
Expected<std::map<std::string, std::string>> namedValues(std::string_view flag, const std::vector<std::string> &texts,
                                                         std::string_view what, const std::vector<std::string> &known);
/// The inputs in order, and into `dims` the names that their shapes bind. An input without a word is random if `randomByDefault`,
/// else MissingInput; a missing input or dim gives a fix that starts with `command`.
Expected<std::vector<HostTensor>> makeInputs(const Signature &signature, const std::map<std::string, std::string> &words,
                                             bool randomByDefault, const std::string &command, DimBindings &dims);

/// A module lowered for one device, which outlives it.
struct Executable {
  LoadedModule loaded;
  Artifact artifact;
  std::unique_ptr<CpuDevice> interpreter; ///< Null on a GPU.
  CudaDevice *gpu = nullptr;
  explicit Executable(const SourceBuffer &source) : loaded(source) {}
  Device &device() { return gpu ? static_cast<Device &>(*gpu) : *interpreter; }
};
/// Loads `executable.loaded.source` again and lowers it: a graph all the way; a plan on the interpreter is run where it stands.
Expected<void> prepare(Executable &executable, CompileOptions options, CudaDevice *gpu, const CpuOptions &cpu);

} // namespace minic::cli
