#include "ModuleCache.h"

#include "minic/Support/BuildId.h"

namespace minic::cuda {

/// Whether the driver has nothing against the device or the process, but against the cubin.
static bool isRefusal(CuResult result) {
  return result == invalidImage || result == noBinaryForGpu || result == invalidPtx || result == invalidSource;
}

/// An H200 ran a linked matmul with wrong results (driver 580.159.04), its PTX as text with right ones. What is linked is
/// relocatable code; of that, `ptxas -c` and nvlink put memory that the launch sizes at no multiple of 1024 bytes, which swizzled
/// blocks need, and ignore setmaxnreg (C7504).
static bool isLinkedRight(const KernelCode &kernel) { return kernel.dynamicSharedBytes == 0; }

void ModuleCache::useCache(CacheUse use, CubinMaker by) {
  std::lock_guard lock(mutex);
  cache = std::move(use);
  maker = std::move(by);
}

CubinCounts ModuleCache::counts() const {
  std::lock_guard lock(mutex);
  return counted;
}

Expected<CuFunction> ModuleCache::find(const KernelCode &kernel, const std::string &target, bool assembledFor) {
  bool assembled = assembledFor && !kernel.cubin.empty();
  const std::string &code = assembled ? kernel.cubin : kernel.ptx;
  if (code.empty())
    return Diagnostic{.code = ErrorCode::LaunchMismatch, .message = "kernel '" + kernel.name + "' has no code for this device"};
  std::pair key(kernel.name, code);
  std::lock_guard lock(mutex);
  if (auto it = loaded.find(key); it != loaded.end())
    return it->second.function;
  auto module = assembled || !cache.store ? load(kernel, code) : loadKept(kernel, target);
  if (!module)
    return module.takeErrors();
  auto fresh = prepare(kernel, *module);
  if (!fresh) {
    api.cuModuleUnload(*module);
    return fresh.takeErrors();
  }
  return loaded.emplace(std::move(key), *fresh).first->second.function;
}

static std::string cannotLoad(const KernelCode &kernel) { return "cannot load kernel '" + kernel.name + "'"; }

Expected<CuModule> ModuleCache::load(const KernelCode &kernel, const std::string &code) {
  JitLog log;
  CuModule module = nullptr;
  if (CuResult result = loadCode(api, code, log, module); result != success)
    return log.error(api, result, kernel, cannotLoad(kernel));
  return module;
}

CacheKey ModuleCache::keyOf(const KernelCode &kernel, const std::string &target) const {
  CacheKey key("cubin");
  key.add("ptx", kernel.ptx)
      .add("target", target)
      .add("capability", std::to_string(maker.capability))
      .add("device", maker.device)
      .add("driver", maker.driver)
      .add("minic", buildIdOf(reinterpret_cast<const void *>(&isRefusal)));
  return key;
}

Expected<CuModule> ModuleCache::loadKept(const KernelCode &kernel, const std::string &target) {
  if (!isLinkedRight(kernel)) {
    if (cache.policy == CachePolicy::MustHit)
      return Diagnostic{.code = ErrorCode::NotCached,
                        .message = "of kernel '" + kernel.name +
                                   "' no cubin is ever kept, since the launch sizes its shared memory, and nothing may be compiled",
                        .fix = "compile where ptxas is installed, so that the artifact has a cubin"};
    return load(kernel, kernel.ptx);
  }
  CacheKey key = keyOf(kernel, target);
  CuModule module = nullptr;
  if (cache.policy != CachePolicy::Refresh)
    if (auto cubin = cache.store->get(key)) {
      JitLog log;
      CuResult result = loadCode(api, *cubin, log, module);
      if (result == success) {
        ++counted.hits;
        return module;
      }
      if (!isRefusal(result))
        return log.error(api, result, kernel, cannotLoad(kernel));
      ++counted.refused;
      cache.store->reject(key, "is refused by the driver: " + api.describe(result));
    }
  ++counted.misses;
  if (cache.policy == CachePolicy::MustHit)
    return Diagnostic{.code = ErrorCode::NotCached,
                      .message = "no cubin of kernel '" + kernel.name + "' for " + maker.device + " is kept in '" +
                                 cache.store->directory() + "' under the key " + key.name() + ", and nothing may be compiled",
                      .fix = "run it once with the cache on, on such a device and driver"};
  JitLog log;
  std::string cubin;
  CuResult result = linkPtx(api, kernel.ptx, {maker.capability, target.ends_with('a')}, log, cubin);
  if (result == success)
    result = loadCode(api, cubin, log, module);
  if (result == success) {
    cache.store->put(key, cubin, kernel.name + " for " + maker.device);
    return module;
  }
  // What the linker does not take the driver may take as text, as it does without a cache. If not, its answer to that is the error.
  auto text = load(kernel, kernel.ptx);
  if (text)
    cache.store->tell(
        log.error(api, result, kernel, "the cubin of kernel '" + kernel.name + "' is not kept, since the driver cannot link it"));
  return text;
}

Expected<ModuleCache::Loaded> ModuleCache::prepare(const KernelCode &kernel, CuModule module) {
  Loaded fresh{.module = module};
  const std::string &entry = kernel.entry.empty() ? kernel.name : kernel.entry;
  CuResult result = api.cuModuleGetFunction(&fresh.function, module, entry.c_str());
  if (result != success)
    return api.error(result, "the code of kernel '" + kernel.name + "' has no entry of that name");
  constexpr int maxDynamicShared = 8; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (kernel.dynamicSharedBytes) {
    result = api.cuFuncSetAttribute(fresh.function, maxDynamicShared, int(kernel.dynamicSharedBytes));
    if (result != success)
      return api.error(result, "kernel '" + kernel.name + "' needs " + std::to_string(kernel.dynamicSharedBytes) +
                                   " bytes of shared memory, more than the device has");
  }
  constexpr int nonPortableCluster = 14; // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
  if (kernel.clusterCtas > portableClusterCtas) {
    result = api.cuFuncSetAttribute(fresh.function, nonPortableCluster, 1);
    if (result != success)
      return api.error(result, "kernel '" + kernel.name + "' needs clusters of " + std::to_string(kernel.clusterCtas) +
                                   " CTAs, more than the device has");
  }
  return fresh;
}

void ModuleCache::unloadAll() {
  for (auto &[key, entry] : loaded)
    api.cuModuleUnload(entry.module);
  loaded.clear();
}

} // namespace minic::cuda
