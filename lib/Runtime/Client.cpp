#include "minic/Runtime/Client.h"

#include "CudaContext.h"

#include <charconv>
#include <map>

namespace minic {

using namespace cuda;

namespace {
// CUdevice_attribute.
constexpr int clockRate = 13, multiprocessorCount = 16, memoryClockRate = 36, l2CacheSize = 38, computeCapabilityMajor = 75,
              computeCapabilityMinor = 76, memoryPoolsSupported = 115;
} // namespace

struct Client::Impl {
  explicit Impl(DriverApi api) : api(api) {}
  DriverApi api;
  int count = 0, version = 0;
  std::mutex mutex;
  std::map<int, std::weak_ptr<CudaDevice>> devices;
};

Client::~Client() = default;
int Client::deviceCount() const { return impl->count; }
int Client::driverVersion() const { return impl->version; }

Expected<std::shared_ptr<Client>> Client::open() {
  auto api = DriverApi::open();
  if (!api)
    return api.takeErrors();
  std::shared_ptr<Client> client(new Client);
  client->impl = std::make_unique<Impl>(*api);
  if (CuResult result = api->cuDeviceGetCount(&client->impl->count); result != success)
    return api->error(result, "cannot count the CUDA devices");
  if (CuResult result = api->cuDriverGetVersion(&client->impl->version); result != success)
    return api->error(result, "cannot ask for the driver's version");
  return client;
}

/// Asks for everything in `properties`, and makes a pool of memory.
static CuResult describe(CudaDevice::Impl &impl) {
  const DriverApi &api = impl.api;
  GpuProperties &properties = impl.properties;
  char name[256] = {};
  if (CuResult result = api.cuDeviceGetName(name, sizeof name - 1, impl.device); result != success)
    return result;
  properties.model = name;
  size_t bytes = 0;
  if (CuResult result = api.cuDeviceTotalMem_v2(&bytes, impl.device); result != success)
    return result;
  properties.memoryBytes = int64_t(bytes);
  int major = 0, minor = 0, l2 = 0, pools = 0;
  for (auto [value, attribute] : {std::pair(&major, computeCapabilityMajor),
                                  {&minor, computeCapabilityMinor},
                                  {&properties.multiprocessors, multiprocessorCount}})
    if (CuResult result = api.cuDeviceGetAttribute(value, attribute, impl.device); result != success)
      return result;
  // Not worth failing for.
  for (auto [value, attribute] : {std::pair(&l2, l2CacheSize),
                                  {&properties.clockKHz, clockRate},
                                  {&properties.memoryClockKHz, memoryClockRate},
                                  {&pools, memoryPoolsSupported}})
    if (api.cuDeviceGetAttribute(value, attribute, impl.device) != success)
      *value = 0;
  properties.computeCapability = major * 10 + minor;
  properties.l2Bytes = l2;
  if (!pools)
    return success;
  CuMemPoolProperties wanted{.locationId = impl.device};
  if (CuResult result = api.cuMemPoolCreate(&impl.pool, &wanted); result != success)
    return result;
  // Memory up to this much stays in the pool when the host waits; asking the driver for it again would cost far more than a launch.
  constexpr int releaseThreshold = 4; // CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
  uint64_t kept = bytes / 16;
  return api.cuMemPoolSetAttribute(impl.pool, releaseThreshold, &kept);
}

Expected<std::shared_ptr<CudaDevice>> Client::device(int ordinal) {
  if (ordinal < 0 || ordinal >= impl->count)
    return Diagnostic{.code = ErrorCode::NoDevice,
                      .message = "there is no CUDA device " + std::to_string(ordinal) + "; this machine has " +
                                 std::to_string(impl->count)};
  std::lock_guard lock(impl->mutex);
  if (auto known = impl->devices[ordinal].lock())
    return known;
  // From here on the destructor undoes what was done.
  std::shared_ptr<CudaDevice> device(new CudaDevice(std::make_unique<CudaDevice::Impl>(shared_from_this(), impl->api)));
  CudaDevice::Impl &made = *device->impl;
  made.ordinal = ordinal;
  CuResult result = made.api.cuDeviceGet(&made.device, ordinal);
  if (result == success)
    result = made.api.cuDevicePrimaryCtxRetain(&made.context, made.device);
  made.retained = result == success;
  if (result == success)
    result = describe(made);
  if (result != success)
    return made.fail(result, "cannot use CUDA device " + std::to_string(ordinal));
  impl->devices[ordinal] = device;
  return device;
}

Expected<std::shared_ptr<CudaDevice>> Client::adopt(void *context) {
  std::shared_ptr<CudaDevice> device(new CudaDevice(std::make_unique<CudaDevice::Impl>(shared_from_this(), impl->api)));
  CudaDevice::Impl &made = *device->impl;
  made.context = static_cast<CuContext>(context);
  ContextScope scope(made);
  if (!scope)
    return scope.takeErrors();
  CuResult result = made.api.cuCtxGetDevice(&made.device);
  made.ordinal = made.device; // The driver's handles of devices are their ordinals.
  if (result == success)
    result = describe(made);
  if (result != success)
    return made.fail(result, "cannot use the device of a CUDA context");
  return device;
}

bool cudaAvailable(std::string &why) {
  auto client = Client::open();
  why = !client ? client.errors().front().message : (*client)->deviceCount() == 0 ? "the CUDA driver finds no device" : "";
  return why.empty();
}

std::optional<int> cudaOrdinal(std::string_view name) {
  if (name == "cuda")
    return 0;
  if (!name.starts_with("cuda:"))
    return std::nullopt;
  int ordinal = -1;
  std::string_view digits = name.substr(5);
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  bool whole = error == std::errc() && end == digits.data() + digits.size() && ordinal >= 0;
  return whole ? std::optional(ordinal) : std::nullopt;
}

} // namespace minic
