// The CUDA driver, opened at run time: no toolkit is needed to build, and no driver to load minic.
#pragma once

#include "minic/Support/Expected.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <sys/types.h>

namespace minic::cuda {

// The driver's types, as wide as in its ABI.
using CuResult = int;
using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct ContextHandle *;
using CuStream = struct StreamHandle *;
using CuModule = struct ModuleHandle *;
using CuFunction = struct FunctionHandle *;
using CuEvent = struct EventHandle *;

// Results that minic tells apart.
inline constexpr CuResult success = 0, outOfMemory = 2, notInitialized = 3, stubLibrary = 34, noDevice = 100,
                          unsupportedPtxVersion = 222;
/// Whether the context cannot be used any more after this result.
bool isSticky(CuResult result);

class DriverApi {
public:
#define MINIC_CUDA(name, parameters) CuResult(*name) parameters = nullptr;
#include "DriverApi.def"
#undef MINIC_CUDA

  /// Opens the library, finds every function and calls cuInit. Fails with NoDriver, or NoDevice if the driver works and has no
  /// device. The library is never closed: it does not survive that.
  static Expected<DriverApi> open(const char *library = "libcuda.so.1");

  /// False in a child of the process that opened the driver: CUDA does not survive a fork.
  bool isUsable() const;

  /// "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)".
  std::string describe(CuResult result) const;
  /// `what`, then what the result says.
  Diagnostic error(CuResult result, const std::string &what) const;

private:
  pid_t owner = 0;
};

} // namespace minic::cuda
