// The CUDA driver, opened at run time: no toolkit is needed to build, and no driver to load minic.
#pragma once

#include "minic/Support/Expected.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace minic::cuda {

// The driver's types, as wide as in its ABI.
using CuResult = int;
using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct ContextHandle *;
using CuStream = struct StreamHandleTag *;
using CuModule = struct ModuleHandle *;
using CuLinkState = struct LinkStateHandle *;
using CuFunction = struct FunctionHandle *;
using CuEvent = struct EventHandleTag *;
using CuGraph = struct GraphHandle *;
using CuGraphExec = struct GraphExecHandle *;
using CuMemPool = struct MemPoolHandle *;
/// CUmemPoolProps.
struct CuMemPoolProperties {
  int allocationType = 1; ///< CU_MEM_ALLOCATION_TYPE_PINNED
  int handleTypes = 0;
  int locationType = 1; ///< CU_MEM_LOCATION_TYPE_DEVICE
  int locationId = 0;
  void *security = nullptr;
  size_t maxBytes = 0;
  unsigned char reserved[56] = {};
};

/// CUlaunchAttribute: an id, and a value of up to 64 bytes.
struct CuLaunchAttribute {
  int id;
  int padding = 0;
  unsigned value[16] = {};
};
/// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION; its value is 1 where the launch may start early.
inline constexpr int programmaticSerialization = 6;
/// CUlaunchConfig.
struct CuLaunchConfig {
  unsigned gridX = 1, gridY = 1, gridZ = 1, blockX = 1, blockY = 1, blockZ = 1, sharedBytes = 0;
  CuStream stream = nullptr;
  CuLaunchAttribute *attributes = nullptr;
  unsigned numAttributes = 0;
};

// Results that minic tells apart.
inline constexpr CuResult success = 0, outOfMemory = 2, notInitialized = 3, stubLibrary = 34, noDevice = 100, invalidImage = 200,
                          noBinaryForGpu = 209, invalidPtx = 218, unsupportedPtxVersion = 222, invalidSource = 300, notReady = 600;
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
  unsigned generation = 0; ///< Forks that this process comes from, since the first driver was opened.
};

} // namespace minic::cuda
