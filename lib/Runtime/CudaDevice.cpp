#include "minic/Runtime/CudaDevice.h"

#include "DriverApi.h"
#include "ModuleCache.h"
#include "TensorMaps.h"
#include "minic/Support/TensorMap.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <unordered_map>
#include <utility>

namespace minic {

using namespace cuda;

namespace {
constexpr int multiprocessorCount = 16, computeCapabilityMajor = 75, computeCapabilityMinor = 76; // CUdevice_attribute
constexpr unsigned nonBlocking = 1;                                                               // CU_STREAM_NON_BLOCKING
constexpr int64_t maxGrid = INT32_MAX, maxThreads = 1024;
} // namespace

struct CudaDevice::Impl {
  explicit Impl(DriverApi driver) : api(driver), modules(api), tensorMaps(api) {}

  DriverApi api;
  ModuleCache modules;
  TensorMaps tensorMaps;
  CuDevice device = 0;
  CuContext context = nullptr; ///< Null until retained.
  CuStream stream = nullptr;
  std::string name;
  int capability = 0, multiprocessors = 0, version = 0;
  std::unordered_map<DeviceMemory, int64_t> allocations;
  std::vector<std::string> running; ///< Kernels launched since the stream was last known to be done.
  std::optional<Diagnostic> lost;   ///< Why the context cannot be used any more.

  /// `what: CUDA_ERROR_...`. A sticky error is kept for all later calls.
  Diagnostic fail(CuResult result, std::string what) {
    if (isSticky(result) && !running.empty()) {
      std::string names;
      for (const std::string &kernel : running)
        names += (names.empty() ? "'" : ", '") + kernel + "'";
      what = running.size() == 1 ? "kernel " + names + " failed" : "one of the kernels " + names + " failed";
    }
    Diagnostic error = api.error(result, what);
    if (isSticky(result)) {
      error.note("the CUDA context is lost; nothing more can run on the device in this process");
      lost = error;
    }
    return error;
  }

  /// The tensor map that parameter `i` asks for.
  Expected<const EncodedMap *> findMap(const KernelCode &kernel, size_t i, CuPointer address, const DimBindings &dims) {
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
    return tensorMaps.find(spec, shape, address);
  }

  void noteLaunch(const std::string &kernel) {
    constexpr size_t kept = 16;
    if (std::ranges::find(running, kernel) != running.end())
      return;
    if (running.size() == kept)
      running.erase(running.begin());
    running.push_back(kernel);
  }

  Expected<void> wait() {
    if (CuResult result = api.cuStreamSynchronize(stream); result != success)
      return fail(result, "waiting for the device failed");
    running.clear();
    return {};
  }

  Expected<void> enter() {
    if (!api.isUsable())
      return Diagnostic{.code = ErrorCode::CudaError,
                        .message = "this process was forked from one that uses CUDA, and CUDA does not survive a fork",
                        .fix = "start a new process, or fork before the first use of the device"};
    if (lost)
      return *lost;
    if (CuResult result = api.cuCtxPushCurrent_v2(context); result != success)
      return fail(result, "cannot make the CUDA context current");
    return {};
  }
};

namespace {

/// Makes the device's context current for a block.
template <typename Impl> class Scope {
public:
  explicit Scope(Impl &impl) : impl(impl), entered(impl.enter()) {}
  ~Scope() {
    CuContext popped;
    if (entered)
      impl.api.cuCtxPopCurrent_v2(&popped);
  }
  Scope(const Scope &) = delete;
  explicit operator bool() const { return bool(entered); }
  Diagnostics takeErrors() { return entered.takeErrors(); }

private:
  Impl &impl;
  Expected<void> entered;
};

/// A point in the stream whose time can be asked.
class Event {
public:
  explicit Event(const DriverApi &api) : api(&api) { api.cuEventCreate(&event, 0); }
  Event(Event &&other) noexcept : api(other.api), event(std::exchange(other.event, nullptr)) {}
  ~Event() {
    if (event)
      api->cuEventDestroy_v2(event);
  }
  CuEvent get() const { return event; }

private:
  const DriverApi *api;
  CuEvent event = nullptr;
};

} // namespace

CudaDevice::CudaDevice(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Expected<std::unique_ptr<CudaDevice>> CudaDevice::create(int ordinal) {
  auto api = DriverApi::open();
  if (!api)
    return api.takeErrors();
  int count = 0;
  if (CuResult result = api->cuDeviceGetCount(&count); result != success)
    return api->error(result, "cannot count the CUDA devices");
  if (ordinal < 0 || ordinal >= count)
    return Diagnostic{.code = ErrorCode::NoDevice,
                      .message =
                          "there is no CUDA device " + std::to_string(ordinal) + "; this machine has " + std::to_string(count)};

  // From here on the destructor undoes what was done.
  std::unique_ptr<CudaDevice> device(new CudaDevice(std::make_unique<Impl>(*api)));
  Impl &impl = *device->impl;
  char name[256] = {};
  int major = 0, minor = 0;
  CuResult result = impl.api.cuDeviceGet(&impl.device, ordinal);
  if (result == success)
    result = impl.api.cuDeviceGetName(name, sizeof name - 1, impl.device);
  if (result == success)
    result = impl.api.cuDeviceGetAttribute(&major, computeCapabilityMajor, impl.device);
  if (result == success)
    result = impl.api.cuDeviceGetAttribute(&minor, computeCapabilityMinor, impl.device);
  if (result == success)
    result = impl.api.cuDeviceGetAttribute(&impl.multiprocessors, multiprocessorCount, impl.device);
  if (result == success)
    result = impl.api.cuDriverGetVersion(&impl.version);
  if (result == success)
    result = impl.api.cuDevicePrimaryCtxRetain(&impl.context, impl.device);
  if (result != success)
    return impl.fail(result, "cannot use CUDA device " + std::to_string(ordinal));
  impl.name = name;
  impl.capability = major * 10 + minor;
  Scope scope(impl);
  if (!scope)
    return scope.takeErrors();
  if (result = impl.api.cuStreamCreate(&impl.stream, nonBlocking); result != success)
    return impl.fail(result, "cannot create a stream on CUDA device " + std::to_string(ordinal));
  return device;
}

CudaDevice::~CudaDevice() {
  // In a forked child the driver's state belongs to the parent.
  if (!impl->context || !impl->api.isUsable())
    return;
  CuContext popped;
  if (impl->api.cuCtxPushCurrent_v2(impl->context) == success) {
    if (impl->stream)
      impl->api.cuStreamSynchronize(impl->stream);
    for (auto [memory, bytes] : impl->allocations)
      impl->api.cuMemFree_v2(memory);
    impl->modules.unloadAll();
    if (impl->stream)
      impl->api.cuStreamDestroy_v2(impl->stream);
    impl->api.cuCtxPopCurrent_v2(&popped);
  }
  impl->api.cuDevicePrimaryCtxRelease_v2(impl->device);
}

const std::string &CudaDevice::name() const { return impl->name; }
int CudaDevice::computeCapability() const { return impl->capability; }
int CudaDevice::multiprocessors() const { return impl->multiprocessors; }
int CudaDevice::driverVersion() const { return impl->version; }

Expected<DeviceMemory> CudaDevice::allocate(int64_t bytes) {
  assert(bytes >= 0 && "a negative size");
  Scope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  CuPointer memory = 0;
  CuResult result = impl->api.cuMemAlloc_v2(&memory, size_t(std::max<int64_t>(bytes, 1)));
  if (result == outOfMemory) {
    Diagnostic error{.code = ErrorCode::OutOfMemory,
                     .message = "the device has no memory for " + std::to_string(bytes) + " bytes: " + impl->api.describe(result)};
    size_t free = 0, total = 0;
    if (impl->api.cuMemGetInfo_v2(&free, &total) == success)
      error.note(std::to_string(free) + " of " + std::to_string(total) + " bytes are free");
    return error;
  }
  if (result != success)
    return impl->fail(result, "cannot allocate " + std::to_string(bytes) + " bytes");
  impl->allocations[memory] = bytes;
  return DeviceMemory(memory);
}

void CudaDevice::release(DeviceMemory memory) {
  if (!impl->allocations.erase(memory)) {
    assert(false && "memory that is not allocated, or released twice");
    return;
  }
  Scope scope(*impl);
  if (!scope) // Forked or lost: the memory goes with the context.
    return;
  // A failure is kept by `fail` and said by the next call that can say it.
  if (impl->wait())
    impl->api.cuMemFree_v2(memory);
}

Expected<void> CudaDevice::copyFromHost(DeviceMemory to, std::span<const std::byte> from) {
  Scope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (from.empty())
    return {};
  // On our stream: a copy on the default stream is not ordered with a non-blocking one.
  if (CuResult result = impl->api.cuMemcpyHtoDAsync_v2(to, from.data(), from.size(), impl->stream); result != success)
    return impl->fail(result, "cannot copy " + std::to_string(from.size()) + " bytes to the device");
  return impl->wait();
}

Expected<void> CudaDevice::copyToHost(std::span<std::byte> to, DeviceMemory from) {
  Scope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (!to.empty())
    if (CuResult result = impl->api.cuMemcpyDtoHAsync_v2(to.data(), from, to.size(), impl->stream); result != success)
      return impl->fail(result, "cannot copy " + std::to_string(to.size()) + " bytes from the device");
  return impl->wait();
}

Expected<void> CudaDevice::copy(DeviceMemory to, DeviceMemory from, int64_t bytes) {
  Scope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (bytes <= 0)
    return {};
  if (CuResult result = impl->api.cuMemcpyDtoDAsync_v2(to, from, size_t(bytes), impl->stream); result != success)
    return impl->fail(result, "cannot copy " + std::to_string(bytes) + " bytes on the device");
  return {};
}

Expected<void> CudaDevice::prepare(const KernelCode &kernel) {
  Scope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (auto function = impl->modules.find(kernel); !function)
    return function.takeErrors();
  return {};
}

/// The number of CTAs, or why it cannot be launched.
static Expected<int64_t> countPrograms(const KernelCode &kernel, std::span<const int64_t> grid) {
  int64_t programs = 1;
  for (int64_t size : grid)
    if (__builtin_mul_overflow(programs, size, &programs) || programs > maxGrid)
      return Diagnostic{.code = ErrorCode::ResourceLimit,
                        .message =
                            "the grid of kernel '" + kernel.name + "' has more than " + std::to_string(maxGrid) + " programs"};
  if (kernel.threads < 1 || kernel.threads > maxThreads)
    return Diagnostic{.code = ErrorCode::ResourceLimit,
                      .message = "kernel '" + kernel.name + "' has " + std::to_string(kernel.threads) +
                                 " threads per CTA, expected 1 to " + std::to_string(maxThreads)};
  return programs;
}

Expected<void> CudaDevice::launch(const Artifact &artifact, int index, std::span<const int64_t> grid,
                                  std::span<const DeviceMemory> buffers, const DimBindings &dims) {
  const KernelCode &kernel = artifact.kernels[size_t(index)];
  auto programs = countPrograms(kernel, grid);
  if (!programs)
    return programs.takeErrors();
  if (buffers.size() != kernel.params.size())
    return Diagnostic{.code = ErrorCode::LaunchMismatch,
                      .message = "kernel '" + kernel.name + "' takes " + std::to_string(kernel.params.size()) + " buffers, given " +
                                 std::to_string(buffers.size())};
  std::vector<DeviceMemory> pointers(buffers.begin(), buffers.end());
  std::vector<int32_t> sizes;
  for (const std::string &name : kernel.dims) {
    auto it = dims.find(name);
    if (it == dims.end() || it->second < 0 || it->second > INT32_MAX)
      return Diagnostic{
          .code = ErrorCode::UnboundDim,
          .message = "dimension '" + name + "' of kernel '" + kernel.name + "' " +
                     (it == dims.end() ? "has no value" : "is " + std::to_string(it->second) + ", expected 0 to 2147483647")};
    sizes.push_back(int32_t(it->second));
  }

  Scope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  std::vector<EncodedMap> maps(pointers.size());
  std::vector<void *> parameters;
  for (size_t i = 0; i < pointers.size(); ++i) {
    parameters.push_back(&pointers[i]);
    if (!kernel.params[i].map || *programs == 0)
      continue;
    auto map = impl->findMap(kernel, i, pointers[i], dims);
    if (!map)
      return map.takeErrors();
    maps[i] = **map;
    parameters.back() = &maps[i];
  }
  for (int32_t &size : sizes)
    parameters.push_back(&size);

  auto function = impl->modules.find(kernel);
  if (!function)
    return function.takeErrors();
  if (*programs == 0)
    return {};
  CuResult result = impl->api.cuLaunchKernel(*function, unsigned(*programs), 1, 1, unsigned(kernel.threads), 1, 1,
                                             unsigned(kernel.dynamicSharedBytes), impl->stream, parameters.data(), nullptr);
  if (result != success)
    return impl->fail(result, "cannot launch kernel '" + kernel.name + "' on " + std::to_string(*programs) + " CTAs of " +
                                  std::to_string(kernel.threads) + " threads");
  impl->noteLaunch(kernel.name);
  return {};
}

Expected<void> CudaDevice::synchronize() {
  Scope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  return impl->wait();
}

Expected<std::vector<double>> CudaDevice::timesMs(const std::function<Expected<void>()> &body, int repeats, int warmUps) {
  assert(repeats > 0 && "nothing to measure");
  for (int i = 0; i < warmUps; ++i)
    if (auto done = body(); !done)
      return done.takeErrors();
  Scope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  std::vector<Event> events;
  for (int i = 0; i < 2 * repeats; ++i)
    if (!events.emplace_back(impl->api).get())
      return Diagnostic{.code = ErrorCode::CudaError, .message = "cannot create an event"};
  if (auto done = impl->wait(); !done)
    return done.takeErrors();
  // No waiting in between: the device stays busy, and the host's time hides behind it.
  for (int i = 0; i < repeats; ++i) {
    CuResult before = impl->api.cuEventRecord(events[size_t(2 * i)].get(), impl->stream);
    if (auto done = body(); !done)
      return done.takeErrors();
    CuResult after = impl->api.cuEventRecord(events[size_t(2 * i + 1)].get(), impl->stream);
    if (before != success || after != success)
      return impl->fail(before != success ? before : after, "cannot record an event");
  }
  if (auto done = impl->wait(); !done)
    return done.takeErrors();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    float time = 0;
    CuResult result = impl->api.cuEventElapsedTime(&time, events[size_t(2 * i)].get(), events[size_t(2 * i + 1)].get());
    if (result != success)
      return impl->fail(result, "cannot read the time of an event");
    times.push_back(time);
  }
  return times;
}

Expected<double> CudaDevice::timeMs(const std::function<Expected<void>()> &body, int repeats) {
  auto times = timesMs(body, repeats);
  if (!times)
    return times.takeErrors();
  std::ranges::sort(*times);
  size_t half = times->size() / 2;
  return times->size() % 2 ? (*times)[half] : ((*times)[half - 1] + (*times)[half]) / 2;
}

bool cudaAvailable(std::string &why) {
  auto device = DriverApi::open();
  if (!device) {
    why = device.errors().front().message;
    return false;
  }
  int count = 0;
  if (device->cuDeviceGetCount(&count) != success || count == 0) {
    why = "the CUDA driver finds no device";
    return false;
  }
  why.clear();
  return true;
}

} // namespace minic
