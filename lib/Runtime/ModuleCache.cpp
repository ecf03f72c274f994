#include "ModuleCache.h"

#include <algorithm>
#include <vector>

namespace minic::cuda {

namespace {

/// Options of cuModuleLoadDataEx.
enum JitOption : int {
  InfoLogBuffer = 3,
  InfoLogBufferSize = 4,
  ErrorLogBuffer = 5,
  ErrorLogBufferSize = 6,
};
constexpr size_t logSize = 16 * 1024;

/// The text in a log that the driver filled: up to its NUL, without the last line end.
std::string logText(const std::vector<char> &log) {
  std::string text(log.begin(), std::find(log.begin(), log.end(), '\0'));
  text.erase(text.find_last_not_of(" \r\n\t") + 1);
  return text;
}

void *asValue(size_t number) { return reinterpret_cast<void *>(number); }

} // namespace

Expected<CuFunction> ModuleCache::find(const KernelCode &kernel, bool assembledFor) {
  const std::string &code = assembledFor && !kernel.cubin.empty() ? kernel.cubin : kernel.ptx;
  if (code.empty())
    return Diagnostic{.code = ErrorCode::LaunchMismatch, .message = "kernel '" + kernel.name + "' has no code for this device"};
  std::pair key(kernel.name, code);
  std::lock_guard lock(mutex);
  if (auto it = loaded.find(key); it != loaded.end())
    return it->second.function;
  auto fresh = load(kernel, code);
  if (!fresh)
    return fresh.takeErrors();
  return loaded.emplace(std::move(key), *fresh).first->second.function;
}

Expected<ModuleCache::Loaded> ModuleCache::load(const KernelCode &kernel, const std::string &code) {
  std::vector<char> info(logSize, '\0'), errors(logSize, '\0');
  int options[] = {InfoLogBuffer, InfoLogBufferSize, ErrorLogBuffer, ErrorLogBufferSize};
  void *values[] = {info.data(), asValue(logSize - 1), errors.data(), asValue(logSize - 1)};
  Loaded fresh;
  CuResult result = api.cuModuleLoadDataEx(&fresh.module, code.c_str(), 4, options, values);
  if (result != success) {
    Diagnostic error = api.error(result, "cannot load kernel '" + kernel.name + "'");
    for (const std::vector<char> *log : {&errors, &info})
      if (std::string text = logText(*log); !text.empty())
        error.note("the driver says: " + text);
    if (result == unsupportedPtxVersion)
      error.fix = "update the NVIDIA driver, or compile for an older target";
    return error;
  }
  result = api.cuModuleGetFunction(&fresh.function, fresh.module, kernel.name.c_str());
  if (result != success) {
    api.cuModuleUnload(fresh.module);
    return api.error(result, "the code of kernel '" + kernel.name + "' has no entry of that name");
  }
  constexpr int maxDynamicShared = 8; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  if (kernel.dynamicSharedBytes) {
    result = api.cuFuncSetAttribute(fresh.function, maxDynamicShared, int(kernel.dynamicSharedBytes));
    if (result != success) {
      api.cuModuleUnload(fresh.module);
      return api.error(result, "kernel '" + kernel.name + "' needs " + std::to_string(kernel.dynamicSharedBytes) +
                                   " bytes of shared memory, more than the device has");
    }
  }
  constexpr int nonPortableCluster = 14; // CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
  if (kernel.clusterCtas > portableClusterCtas) {
    result = api.cuFuncSetAttribute(fresh.function, nonPortableCluster, 1);
    if (result != success) {
      api.cuModuleUnload(fresh.module);
      return api.error(result, "kernel '" + kernel.name + "' needs clusters of " + std::to_string(kernel.clusterCtas) +
                                   " CTAs, more than the device has");
    }
  }
  return fresh;
}

void ModuleCache::unloadAll() {
  for (auto &[key, entry] : loaded)
    api.cuModuleUnload(entry.module);
  loaded.clear();
}

} // namespace minic::cuda
