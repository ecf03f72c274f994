// Launches: everything that does not depend on the buffers is made ready once.
#include "CudaContext.h"
#include "TensorMaps.h"
#include "minic/Support/ScratchArray.h"
#include "minic/Support/TensorMap.h"

namespace minic {

using namespace cuda;

namespace {

constexpr int64_t maxGrid = INT32_MAX, maxThreads = 1024;

/// "'softmax__max_exp' (reduce at 3:8, exp at 6:8)".
std::string describe(const KernelCode &kernel) {
  std::string ops;
  for (const std::string &op : kernel.ops)
    ops += (ops.empty() ? " (" : ", ") + op;
  return "'" + kernel.name + "'" + ops + (ops.empty() ? "" : ")");
}

class CudaLaunch final : public PreparedLaunch {
public:
  CudaLaunch(CudaDevice::Impl &device, const KernelCode &kernel, CuFunction function, unsigned programs)
      : device(device), kernel(kernel), function(function), programs(programs), what(device.keep(describe(kernel))) {}

  std::vector<int32_t> sizes;                    ///< The kernel's dims.
  std::vector<int64_t> strides;                  ///< Of its strided axes.
  std::vector<std::unique_ptr<TensorMaps>> maps; ///< One per parameter, null for pointers; empty if all are pointers.

  Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> buffers) const override {
    ContextScope scope(device);
    if (!scope)
      return scope.takeErrors();
    ScratchArray<void *, 32> parameters(buffers.size() + sizes.size() + strides.size());
    ScratchArray<EncodedMap, 8> encoded(maps.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      parameters[i] = const_cast<DeviceMemory *>(&buffers[i]); // The driver only reads it.
      if (maps.empty() || !maps[i])
        continue;
      if (auto found = maps[i]->find(buffers[i], encoded[i]); !found)
        return found.takeErrors();
      parameters[i] = &encoded[i];
    }
    for (size_t i = 0; i < sizes.size(); ++i)
      parameters[buffers.size() + i] = const_cast<int32_t *>(&sizes[i]);
    for (size_t i = 0; i < strides.size(); ++i)
      parameters[buffers.size() + sizes.size() + i] = const_cast<int64_t *>(&strides[i]);
    CuStream order = static_cast<CuStream>(stream);
    CuResult result = launch(order, parameters.data());
    if (result != success)
      return device.fail(result, "cannot launch kernel " + *what + " on " + std::to_string(programs) + " CTAs of " +
                                     std::to_string(kernel.threads) + " threads");
    device.recent.add(what, order);
    if (capturedLaunches)
      capturedLaunches->insert(what);
    return {};
  }

private:
  CuResult launch(CuStream order, void **parameters) const {
    unsigned threads = unsigned(kernel.threads), shared = unsigned(kernel.dynamicSharedBytes);
    if (!kernel.waitsForLaunches || !device.api.cuLaunchKernelEx)
      return device.api.cuLaunchKernel(function, programs, 1, 1, threads, 1, 1, shared, order, parameters, nullptr);
    CuLaunchAttribute early{.id = programmaticSerialization, .value = {1}};
    CuLaunchConfig config{
        .gridX = programs, .blockX = threads, .sharedBytes = shared, .stream = order, .attributes = &early, .numAttributes = 1};
    return device.api.cuLaunchKernelEx(&config, function, parameters, nullptr);
  }

  CudaDevice::Impl &device;
  const KernelCode &kernel;
  CuFunction function;
  unsigned programs;
  const std::string *what;
};

/// The number of CTAs, or why it cannot be launched.
Expected<unsigned> countPrograms(const KernelCode &kernel, std::span<const int64_t> grid) {
  int64_t programs = kernel.clusterCtas;
  for (int64_t size : grid)
    if (__builtin_mul_overflow(programs, size, &programs) || programs > maxGrid)
      return Diagnostic{.code = ErrorCode::ResourceLimit,
                        .message =
                            "the grid of kernel '" + kernel.name + "' has more than " + std::to_string(maxGrid) + " programs"};
  if (kernel.threads < 1 || kernel.threads > maxThreads)
    return Diagnostic{.code = ErrorCode::ResourceLimit,
                      .message = "kernel '" + kernel.name + "' has " + std::to_string(kernel.threads) +
                                 " threads per CTA, expected 1 to " + std::to_string(maxThreads)};
  return unsigned(programs);
}

/// The maps that the kernel's parameters ask for.
Expected<std::vector<std::unique_ptr<TensorMaps>>> makeMaps(const DriverApi &api, const KernelCode &kernel,
                                                            const DimBindings &dims) {
  std::vector<std::unique_ptr<TensorMaps>> maps;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    if (!kernel.params[i].map)
      continue;
    const TensorMapSpec &spec = *kernel.params[i].map;
    std::string who = "the parameter '" + kernel.params[i].name + "' of kernel '" + kernel.name + "' ";
    std::vector<int64_t> shape;
    for (const DimExpr &size : spec.shape) {
      auto value = size.evaluate(dims);
      if (!value)
        return Diagnostic{.code = ErrorCode::UnboundDim, .message = who + "has a size without a value"};
      shape.push_back(*value);
    }
    if (auto fault = tensorMapFault(spec.dtype, {shape.begin(), shape.end()}, spec.box, spec.swizzle))
      return Diagnostic{.code = ErrorCode::LaunchMismatch, .message = who + *fault};
    maps.resize(kernel.params.size());
    maps[i] = std::make_unique<TensorMaps>(api, spec, std::move(shape));
  }
  return maps;
}

/// Digits of "sm_90a", and whether it runs on that compute capability alone.
struct TargetWord {
  int capability = 0;
  bool exactOnly = false;
  explicit TargetWord(const std::string &target) {
    for (char c : target)
      if (c >= '0' && c <= '9' && capability < 1000)
        capability = capability * 10 + (c - '0');
    exactOnly = !target.empty() && target.back() == 'a';
  }
};

} // namespace

Expected<std::unique_ptr<PreparedLaunch>> CudaDevice::prepare(const Artifact &artifact, int index, std::span<const int64_t> grid,
                                                              const DimBindings &dims, std::span<const int64_t> strides) {
  const KernelCode &kernel = artifact.kernels[size_t(index)];
  TargetWord target(artifact.target);
  int capability = computeCapability();
  if (target.exactOnly ? target.capability != capability : target.capability > capability)
    return Diagnostic{.code = ErrorCode::WrongDevice,
                      .message = "kernel '" + kernel.name + "' is compiled for " + artifact.target + ", and " + name() + " (" +
                                 impl->properties.model + ") has compute capability " + std::to_string(capability / 10) + "." +
                                 std::to_string(capability % 10),
                      .fix = "compile for a target that the device runs"};
  auto programs = countPrograms(kernel, grid);
  if (!programs)
    return programs.takeErrors();
  std::vector<int32_t> sizes;
  for (const DimExpr &dim : kernel.dims) {
    auto size = dim.evaluate(dims);
    if (!size || *size > INT32_MAX)
      return Diagnostic{.code = ErrorCode::UnboundDim,
                        .message = "dimension '" + dim.str() + "' of kernel '" + kernel.name + "' " +
                                   (size ? "is " + std::to_string(*size) + ", expected 0 to 2147483647" : "has no value")};
    sizes.push_back(int32_t(*size));
  }
  auto maps = makeMaps(impl->api, kernel, dims);
  if (!maps)
    return maps.takeErrors();
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  auto function = impl->modules.find(kernel, artifact.target, target.capability == capability);
  if (!function)
    return function.takeErrors();
  auto launch = std::make_unique<CudaLaunch>(*impl, kernel, *function, *programs);
  launch->sizes = std::move(sizes);
  launch->strides.assign(strides.begin(), strides.end());
  launch->maps = std::move(*maps);
  return std::unique_ptr<PreparedLaunch>(std::move(launch));
}

} // namespace minic
