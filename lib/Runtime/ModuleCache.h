// Kernels that are loaded on a device.
#pragma once

#include "DriverApi.h"
#include "minic/Artifact/Artifact.h"

#include <string>
#include <string_view>
#include <unordered_map>

namespace minic::cuda {

/// Loads PTX and keeps it, keyed by kernel name and PTX text. The device's context must be current in each call.
class ModuleCache {
public:
  explicit ModuleCache(const DriverApi &api) : api(api) {}
  Expected<CuFunction> find(const KernelCode &kernel);
  void unloadAll();

private:
  struct Loaded {
    CuModule module = nullptr;
    CuFunction function = nullptr;
  };
  struct Key {
    std::string name, ptx;
  };
  struct KeyView {
    std::string_view name, ptx;
    KeyView(const Key &key) : name(key.name), ptx(key.ptx) {}
    KeyView(std::string_view name, std::string_view ptx) : name(name), ptx(ptx) {}
  };
  // A launch looks up its kernel: a hash of the whole text would cost more than the launch. Equality still compares all of it.
  struct Hash {
    using is_transparent = void;
    size_t operator()(const KeyView &key) const;
    size_t operator()(const Key &key) const { return (*this)(KeyView(key)); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const KeyView &a, const KeyView &b) const { return a.name == b.name && a.ptx == b.ptx; }
  };

  Expected<Loaded> load(const KernelCode &kernel);

  const DriverApi &api;
  std::unordered_map<Key, Loaded, Hash, Equal> loaded;
};

} // namespace minic::cuda
