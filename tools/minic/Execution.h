// What `run` and `compare` share: flags, inputs, devices, and a module made ready for one device.
#pragma once

#include "Common.h"

#include "minic/Interp/CpuDevice.h"
#include "minic/Runtime/CudaDevice.h"
#include "minic/Runtime/Executable.h"

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
/// The device of a run, and which kind it is: the one that is not null.
struct OpenedDevice {
  std::shared_ptr<Device> device;
  CudaDevice *gpu = nullptr;
  CpuDevice *interpreter = nullptr;
  /// "cpu" or the GPU's model.
  std::string model() const { return gpu ? gpu->properties().model : "cpu"; }
};
/// Says so where it is the interpreter. A GPU's code is kept in the cache.
Expected<OpenedDevice> openDevice(const DeviceChoice &choice, const CacheUse &cache, const Messages &messages,
                                  bool countTraffic = false);

/// Parameters and results of a graph or plan, copied, since lowering replaces the function.
struct Signature {
  std::string name;
  std::vector<TensorSpec> inputs;
  std::vector<std::string> results;
  std::vector<std::string> inputNames() const;
};
Signature signatureOf(const Function &function);
/// What the shape of a tensor says about the names in a parameter's type; those that are bound stay.
void bindNames(const TensorSpec &spec, const std::vector<int64_t> &shape, DimBindings &dims);

/// A graph of a module and words for its inputs: what `bench`, `compare` and `tune` begin with.
struct GraphToRun : BegunGraph {
  DeviceChoice choice;
  Signature signature;
  std::map<std::string, std::string> words; ///< Of --input, by name.
};
/// Says what is wrong and gives the exit code; nothing where `begun` is filled.
std::optional<int> beginWithGraph(const ExecutionFlags &flags, const Messages &messages, GraphToRun &begun);

/// What a file has to run: a graph or plan of a module, or one graph's artifacts.
struct Program {
  Signature signature;
  CompileOptions options;
  std::vector<Artifact> artifacts; ///< Empty for a module.
};
/// Verifies a module and prints its warnings. Flags that say how to compile are wrong for an artifact.
Expected<Program> loadProgram(const SourceBuffer &source, const ModuleFlags &flags, const Messages &messages);
/// `NAME=VALUE` flags by name. A name that is not among `known` is UnknownInput, one that stands twice is a wrong flag.
Expected<std::map<std::string, std::string>> namedValues(std::string_view flag, const std::vector<std::string> &texts,
                                                         std::string_view what, const std::vector<std::string> &known);
/// Inputs by name, from `NAME=FILE.npy` and from the tensors of FILE.safetensors that have the name of an input.
Expected<std::map<std::string, HostTensor>> readWeights(const std::vector<std::string> &texts, const Signature &signature);
/// The inputs in order, and into `dims` the names that their shapes bind. An input that is no weight and has no word is random if
/// `randomByDefault`, else MissingInput; a missing input or dim gives a fix that starts with `command`.
Expected<std::vector<HostTensor>> makeInputs(const Signature &signature, const std::map<std::string, std::string> &words,
                                             bool randomByDefault, const std::string &command, DimBindings &dims,
                                             std::map<std::string, HostTensor> weights = {});

/// Makes a module and options those for a device that `compileFor` has.
Expected<void> suitDevice(Module &module, CompileOptions &options, const OpenedDevice &opened);
/// Compiles `source` for a device: without a target in flags or file it is the GPU's own.
Expected<std::shared_ptr<const Artifact>> compileFor(const OpenedDevice &opened, const SourceBuffer &source,
                                                     CompileOptions options);
/// Says which kernels are PTX and not run as such by the interpreter, if that is the device.
void noteUnrunPtx(const Artifact &artifact, const OpenedDevice &opened, const Messages &messages);
/// What a device runs of a program: its module compiled, or the artifact for it.
Expected<std::shared_ptr<const Artifact>> artifactFor(const OpenedDevice &opened, const SourceBuffer &source, Program program);

} // namespace minic::cli
