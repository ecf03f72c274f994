#include "DriverApi.h"

#include <atomic>
#include <dlfcn.h>
#include <mutex>
#include <pthread.h>

namespace minic::cuda {

/// Counted in children, so that "is this a child?" costs no system call.
static std::atomic<unsigned> forks = 0;

static unsigned watchForks() {
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); }); });
  return forks.load(std::memory_order_relaxed);
}

bool isSticky(CuResult result) {
  switch (result) {
  case 214: // ECC_UNCORRECTABLE
  case 220: // NVLINK_UNCORRECTABLE
  case 226: // CONTAINED
  case 700: // ILLEGAL_ADDRESS
  case 702: // LAUNCH_TIMEOUT
  case 709: // CONTEXT_IS_DESTROYED
  case 710: // ASSERT
  case 714: // HARDWARE_STACK_ERROR
  case 715: // ILLEGAL_INSTRUCTION
  case 716: // MISALIGNED_ADDRESS
  case 717: // INVALID_ADDRESS_SPACE
  case 718: // INVALID_PC
  case 719: // LAUNCH_FAILED
  case 721: // TENSOR_MEMORY_LEAK
    return true;
  default:
    return false;
  }
}

/// Finds every function; gives the name of the first that is missing.
static const char *resolve(DriverApi &api, void *handle) {
#define MINIC_CUDA(name, parameters)                                                                                               \
  api.name = reinterpret_cast<CuResult(*) parameters>(dlsym(handle, #name));                                                       \
  if (!api.name)                                                                                                                   \
    return #name;
#define MINIC_CUDA_OPTIONAL(name, parameters) api.name = reinterpret_cast<CuResult(*) parameters>(dlsym(handle, #name));
#include "DriverApi.def"
#undef MINIC_CUDA
  return nullptr;
}

Expected<DriverApi> DriverApi::open(const char *library) {
  auto noDriver = [&](std::string message, std::string fix) {
    return Diagnostic{.code = ErrorCode::NoDriver, .message = std::move(message), .fix = std::move(fix)};
  };
  const char *install = "install the NVIDIA driver, or run on the CPU with --device=cpu";
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    return noDriver("cannot open the CUDA driver: " + std::string(why ? why : library), install);
  }
  DriverApi api;
  api.generation = watchForks();
  if (const char *missing = resolve(api, handle))
    return noDriver("the CUDA driver '" + std::string(library) + "' has no function '" + missing + "'",
                    "update the NVIDIA driver (CUDA 11.4 or later)");
  switch (CuResult result = api.cuInit(0)) {
  case success:
    return api;
  case stubLibrary:
    return noDriver("'" + std::string(library) + "' is the stub library of the CUDA toolkit, not a driver",
                    "take the toolkit's stubs folder out of the library path");
  case noDevice:
    return Diagnostic{.code = ErrorCode::NoDevice,
                      .message = "the CUDA driver finds no device: " + api.describe(result),
                      .fix = "check CUDA_VISIBLE_DEVICES, or run on the CPU with --device=cpu"};
  case notInitialized:
    return noDriver("the CUDA driver cannot start: " + api.describe(result),
                    "if this process was forked from one that uses CUDA, start a new process instead");
  default:
    return noDriver("the CUDA driver cannot start: " + api.describe(result), install);
  }
}

bool DriverApi::isUsable() const { return forks.load(std::memory_order_relaxed) == generation; }

std::string DriverApi::describe(CuResult result) const {
  const char *name = nullptr, *text = nullptr;
  if (cuGetErrorName(result, &name) != success || !name)
    return "CUDA error " + std::to_string(result);
  if (cuGetErrorString(result, &text) != success || !text)
    return name;
  return std::string(name) + " (" + text + ")";
}

Diagnostic DriverApi::error(CuResult result, const std::string &what) const {
  return {.code = ErrorCode::CudaError, .message = what + ": " + describe(result)};
}

} // namespace minic::cuda
