// Kernels that are loaded on a device.
#pragma once

#include "DriverCode.h"
#include "minic/Artifact/Artifact.h"
#include "minic/Cache/CacheUse.h"
#include "minic/Runtime/CudaDevice.h"

#include <map>
#include <mutex>
#include <string>

namespace minic::cuda {

/// For which device PTX becomes cubins, and what makes them.
struct CubinMaker {
  std::string device; ///< Its model.
  int capability = 0;
  std::string driver; ///< Which version and build.
};

/// Loads code and keeps it, keyed by kernel name and code. The device's context must be current in each call but `useCache`.
/// Callable from several threads at a time.
class ModuleCache {
public:
  explicit ModuleCache(const DriverApi &api) : api(api) {}
  /// Keeps cubins that are made of PTX from now on, and takes those that are kept.
  void useCache(CacheUse cache, CubinMaker maker);
  CubinCounts counts() const;
  /// The kernel's cubin if it was `assembledFor` this device, else its PTX, which is for `target` ("sm_90a").
  Expected<CuFunction> find(const KernelCode &kernel, const std::string &target, bool assembledFor);
  void unloadAll();

private:
  struct Loaded {
    CuModule module = nullptr;
    CuFunction function = nullptr;
  };
  Expected<CuModule> load(const KernelCode &kernel, const std::string &code);
  /// Loads the cubin that is kept of the kernel's PTX, or makes and keeps one.
  Expected<CuModule> loadKept(const KernelCode &kernel, const std::string &target);
  Expected<Loaded> prepare(const KernelCode &kernel, CuModule module);
  CacheKey keyOf(const KernelCode &kernel, const std::string &target) const;

  const DriverApi &api;
  mutable std::mutex mutex; // Of what follows.
  CacheUse cache;
  CubinMaker maker;
  CubinCounts counted;
  std::map<std::pair<std::string, std::string>, Loaded> loaded; // By name and code.
};

} // namespace minic::cuda
