#include "CudaContext.h"

namespace minic {

using namespace cuda;

thread_local std::set<const std::string *> *capturedLaunches = nullptr;

//===- RecentLaunches -===//

void RecentLaunches::add(const std::string *what, CuStream stream) {
  Entry &entry = entries[next.fetch_add(1, std::memory_order_relaxed) % entries.size()];
  entry.what.store(what, std::memory_order_relaxed);
  entry.stream.store(stream, std::memory_order_relaxed);
}

void RecentLaunches::clear(CuStream stream) {
  for (Entry &entry : entries)
    if (entry.stream.load(std::memory_order_relaxed) == stream)
      entry.what.store(nullptr, std::memory_order_relaxed);
}

void RecentLaunches::clearAll() {
  for (Entry &entry : entries)
    entry.what.store(nullptr, std::memory_order_relaxed);
}

std::set<std::string> RecentLaunches::list() const {
  std::set<std::string> names;
  for (const Entry &entry : entries)
    if (const std::string *what = entry.what.load(std::memory_order_relaxed))
      names.insert(*what);
  return names;
}

//===- Errors -===//

Diagnostic CudaDevice::Impl::fail(CuResult result, std::string what) {
  if (!isSticky(result))
    return api.error(result, what);
  std::lock_guard lock(mutex);
  if (lost)
    return *lost;
  std::set<std::string> names = recent.list();
  std::string text;
  for (const std::string &kernel : names)
    text += (text.empty() ? "" : ", ") + kernel;
  if (!names.empty())
    what = names.size() == 1 ? "kernel " + text + " failed" : "one of the kernels " + text + " failed";
  lost = api.error(result, what).note("the CUDA context is lost; nothing more can run on the device in this process");
  isLost.store(true, std::memory_order_release);
  return *lost;
}

const std::string *CudaDevice::Impl::keep(std::string kernel) {
  std::lock_guard lock(mutex);
  return &*kernels.insert(std::move(kernel)).first;
}

//===- ContextScope -===//

ContextScope::ContextScope(CudaDevice::Impl &device) : device(device) {
  if (!device.api.isUsable()) {
    entered = Diagnostic{.code = ErrorCode::CudaError,
                         .message = "this process was forked from one that uses CUDA, and CUDA does not survive a fork",
                         .fix = "start a new process, or fork before the first use of the device"};
    return;
  }
  if (device.isLost.load(std::memory_order_acquire)) {
    std::lock_guard lock(device.mutex);
    entered = *device.lost;
    return;
  }
  CuContext current = nullptr;
  if (device.api.cuCtxGetCurrent(&current) == success && current == device.context)
    return;
  CuResult result = device.api.cuCtxPushCurrent_v2(device.context);
  pushed = result == success;
  if (!pushed)
    entered = device.fail(result, "cannot make the CUDA context current");
}

ContextScope::~ContextScope() {
  CuContext popped;
  if (pushed)
    device.api.cuCtxPopCurrent_v2(&popped);
}

} // namespace minic
