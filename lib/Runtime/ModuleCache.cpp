#include "ModuleCache.h"

#include "minic/Support/Hash.h"

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

size_t ModuleCache::Hash::operator()(const KeyView &key) const {
  constexpr size_t end = 128;
  size_t tail = key.ptx.size() > end ? key.ptx.size() - end : 0;
  return stableHash(key.ptx.substr(tail), stableHash(key.name) + key.ptx.size());
}

Expected<CuFunction> ModuleCache::find(const KernelCode &kernel) {
  if (auto it = loaded.find(KeyView(kernel.name, kernel.ptx)); it != loaded.end())
    return it->second.function;
  if (kernel.ptx.empty())
    return Diagnostic{.code = ErrorCode::LaunchMismatch, .message = "kernel '" + kernel.name + "' has no PTX"};
  auto fresh = load(kernel);
  if (!fresh)
    return fresh.takeErrors();
  return loaded.emplace(Key{kernel.name, kernel.ptx}, *fresh).first->second.function;
}

Expected<ModuleCache::Loaded> ModuleCache::load(const KernelCode &kernel) {
  std::vector<char> info(logSize, '\0'), errors(logSize, '\0');
  int options[] = {InfoLogBuffer, InfoLogBufferSize, ErrorLogBuffer, ErrorLogBufferSize};
  void *values[] = {info.data(), asValue(logSize - 1), errors.data(), asValue(logSize - 1)};
  Loaded fresh;
  CuResult result = api.cuModuleLoadDataEx(&fresh.module, kernel.ptx.c_str(), 4, options, values);
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
    return api.error(result, "the PTX of kernel '" + kernel.name + "' has no entry of that name");
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
  return fresh;
}

void ModuleCache::unloadAll() {
  for (auto &[key, entry] : loaded)
    api.cuModuleUnload(entry.module);
  loaded.clear();
}

} // namespace minic::cuda
