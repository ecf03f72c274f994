// Kernels that are loaded on a device.
#pragma once

#include "DriverApi.h"
#include "minic/Artifact/Artifact.h"

#include <map>
#include <mutex>
#include <string>

namespace minic::cuda {

/// Loads code and keeps it, keyed by kernel name and code. The device's context must be current in each call. Callable from several
/// threads at a time.
class ModuleCache {
public:
  explicit ModuleCache(const DriverApi &api) : api(api) {}
  /// The kernel's cubin if it was `assembledFor` this device, else its PTX.
  Expected<CuFunction> find(const KernelCode &kernel, bool assembledFor);
  void unloadAll();

private:
  struct Loaded {
    CuModule module = nullptr;
    CuFunction function = nullptr;
  };
  Expected<Loaded> load(const KernelCode &kernel, const std::string &code);

  const DriverApi &api;
  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, Loaded> loaded; // By name and code.
};

} // namespace minic::cuda
