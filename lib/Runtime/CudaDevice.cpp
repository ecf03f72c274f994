#include "CudaContext.h"
#include "minic/Support/BuildId.h"

#include <cassert>

namespace minic {

using namespace cuda;

namespace {
constexpr unsigned nonBlocking = 1;   // CU_STREAM_NON_BLOCKING
constexpr int captureThreadLocal = 1; // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

CuStream asStream(StreamHandle stream) { return static_cast<CuStream>(stream); }
CuEvent asEvent(EventHandle event) { return static_cast<CuEvent>(event); }
std::string bytesText(int64_t bytes) { return std::to_string(bytes) + " bytes"; }
} // namespace

CudaDevice::CudaDevice(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

CudaDevice::~CudaDevice() {
  CublasLt *library = impl->cublasLt.release(); // Where its context cannot be current, it stays.
  // In a forked child the driver's state belongs to the parent.
  if (!impl->context || !impl->api.isUsable())
    return;
  CuContext popped;
  if (impl->api.cuCtxPushCurrent_v2(impl->context) == success) {
    impl->api.cuCtxSynchronize();
    delete library;
    impl->modules.unloadAll();
    impl->staging.freeAll();
    if (impl->pool)
      impl->api.cuMemPoolDestroy(impl->pool);
    impl->api.cuCtxPopCurrent_v2(&popped);
  }
  if (impl->retained)
    impl->api.cuDevicePrimaryCtxRelease_v2(impl->device);
}

std::string CudaDevice::name() const { return "cuda:" + std::to_string(impl->ordinal); }
const GpuProperties &CudaDevice::properties() const { return impl->properties; }
const Client &CudaDevice::client() const { return *impl->client; }

//===- Kept code -===//

void CudaDevice::useCache(CacheUse cache) {
  // Releases of a driver that say the same CUDA version are other builds, with another compiler in them.
  std::string driver =
      std::to_string(impl->client->driverVersion()) + " " + buildIdOf(reinterpret_cast<const void *>(impl->api.cuDriverGetVersion));
  impl->modules.useCache(std::move(cache), {impl->properties.model, impl->properties.computeCapability, std::move(driver)});
}

CubinCounts CudaDevice::cubinCounts() const { return impl->modules.counts(); }

//===- Memory -===//

Expected<int64_t> CudaDevice::freeBytes() {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  size_t free = 0, total = 0;
  if (CuResult result = impl->api.cuMemGetInfo_v2(&free, &total); result != success)
    return impl->fail(result, "cannot ask for free memory");
  return int64_t(free);
}

std::optional<MemoryExtent> CudaDevice::extentOf(DeviceMemory memory) {
  ContextScope scope(*impl);
  CuPointer start = 0;
  size_t bytes = 0;
  if (!scope || impl->api.cuMemGetAddressRange_v2(&start, &bytes, memory) != success)
    return std::nullopt; // Not every kind of memory tells.
  return MemoryExtent{start, start + bytes};
}

Expected<DeviceMemory> CudaDevice::allocate(int64_t bytes, StreamHandle stream) {
  assert(bytes >= 0 && "a negative size");
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  CuPointer memory = 0;
  size_t size = size_t(std::max<int64_t>(bytes, 1)); // A tensor without elements has an address all the same.
  CuResult result = impl->pool ? impl->api.cuMemAllocFromPoolAsync(&memory, size, impl->pool, asStream(stream))
                               : impl->api.cuMemAlloc_v2(&memory, size);
  if (result == outOfMemory) {
    Diagnostic error{.code = ErrorCode::OutOfMemory,
                     .message = "the device has no memory for " + bytesText(bytes) + ": " + impl->api.describe(result)};
    size_t free = 0, total = 0;
    if (impl->api.cuMemGetInfo_v2(&free, &total) == success)
      error.note(std::to_string(free) + " of " + bytesText(int64_t(total)) + " are free");
    return error;
  }
  if (result != success)
    return impl->fail(result, "cannot allocate " + bytesText(bytes));
  return DeviceMemory(memory);
}

void CudaDevice::release(DeviceMemory memory, StreamHandle stream) {
  ContextScope scope(*impl);
  if (!scope) // Forked or lost: the memory goes with the context.
    return;
  // A failure is kept by `fail`, or comes again at the next call that can say it.
  if (impl->pool && impl->api.cuMemFreeAsync(memory, asStream(stream)) == success)
    return;
  impl->api.cuStreamSynchronize(asStream(stream));
  impl->api.cuMemFree_v2(memory);
}

Expected<void> CudaDevice::copyFromHost(DeviceMemory to, std::span<const std::byte> from, StreamHandle stream) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (CuResult result = impl->staging.toDevice(to, from, asStream(stream)); result != success)
    return impl->fail(result, "cannot copy " + bytesText(int64_t(from.size())) + " to the device");
  return {};
}

Expected<void> CudaDevice::copyToHost(std::span<std::byte> to, DeviceMemory from, StreamHandle stream) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (CuResult result = impl->staging.toHost(to, from, asStream(stream)); result != success)
    return impl->fail(result, "cannot copy " + bytesText(int64_t(to.size())) + " from the device");
  return {};
}

Expected<void> CudaDevice::copy(DeviceMemory to, DeviceMemory from, int64_t bytes, StreamHandle stream) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (bytes <= 0)
    return {};
  if (CuResult result = impl->api.cuMemcpyDtoDAsync_v2(to, from, size_t(bytes), asStream(stream)); result != success)
    return impl->fail(result, "cannot copy " + bytesText(bytes) + " on the device");
  return {};
}

Expected<void> CudaDevice::poison(DeviceMemory memory, int64_t bytes, StreamHandle stream) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (bytes <= 0)
    return {};
  if (CuResult result = impl->api.cuMemsetD8Async(memory, 0xff, size_t(bytes), asStream(stream)); result != success)
    return impl->fail(result, "cannot fill " + bytesText(bytes) + " on the device");
  return {};
}

//===- Order -===//

Expected<StreamHandle> CudaDevice::createStream() {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  CuStream stream = nullptr;
  // Not ordered with the default stream, on which other code of the process may be busy.
  if (CuResult result = impl->api.cuStreamCreate(&stream, nonBlocking); result != success)
    return impl->fail(result, "cannot create a stream");
  return StreamHandle(stream);
}

void CudaDevice::destroyStream(StreamHandle stream) {
  if (ContextScope scope(*impl); scope)
    impl->api.cuStreamDestroy_v2(asStream(stream));
}

Expected<void> CudaDevice::synchronize(StreamHandle stream) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (CuResult result = impl->api.cuStreamSynchronize(asStream(stream)); result != success)
    return impl->fail(result, "waiting for the device failed");
  impl->recent.clear(asStream(stream));
  return {};
}

Expected<void> CudaDevice::finish() {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (CuResult result = impl->api.cuCtxSynchronize(); result != success)
    return impl->fail(result, "waiting for the device failed");
  impl->recent.clearAll();
  return {};
}

Expected<EventHandle> CudaDevice::createEvent() {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  CuEvent event = nullptr;
  if (CuResult result = impl->api.cuEventCreate(&event, 0); result != success)
    return impl->fail(result, "cannot create an event");
  return EventHandle(event);
}

void CudaDevice::destroyEvent(EventHandle event) {
  if (ContextScope scope(*impl); scope)
    impl->api.cuEventDestroy_v2(asEvent(event));
}

Expected<void> CudaDevice::record(EventHandle event, StreamHandle stream) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  return impl->check(impl->api.cuEventRecord(asEvent(event), asStream(stream)), "cannot record an event");
}

Expected<void> CudaDevice::wait(StreamHandle stream, EventHandle event) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  return impl->check(impl->api.cuStreamWaitEvent(asStream(stream), asEvent(event), 0), "a stream cannot wait for an event");
}

Expected<void> CudaDevice::synchronizeEvent(EventHandle event) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  return impl->check(impl->api.cuEventSynchronize(asEvent(event)), "waiting for an event failed");
}

Expected<bool> CudaDevice::isDone(EventHandle event) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  CuResult result = impl->api.cuEventQuery(asEvent(event));
  if (result != success && result != notReady)
    return impl->fail(result, "cannot ask for an event");
  return result == success;
}

Expected<double> CudaDevice::elapsedMs(EventHandle from, EventHandle to) {
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  float time = 0;
  if (CuResult result = impl->api.cuEventElapsedTime(&time, asEvent(from), asEvent(to)); result != success)
    return impl->fail(result, "cannot read the time between two events");
  return time;
}

//===- Graphs -===//

namespace {

class CudaGraph final : public ReplayableGraph {
public:
  CudaGraph(CudaDevice::Impl &device, CuGraphExec exec, std::set<const std::string *> kernels)
      : device(device), exec(exec), kernels(std::move(kernels)) {}
  ~CudaGraph() override {
    if (ContextScope scope(device); scope)
      device.api.cuGraphExecDestroy(exec);
  }
  Expected<void> launch(StreamHandle stream) const override {
    ContextScope scope(device);
    if (!scope)
      return scope.takeErrors();
    if (CuResult result = device.api.cuGraphLaunch(exec, asStream(stream)); result != success)
      return device.fail(result, "cannot launch a captured run");
    for (const std::string *kernel : kernels)
      device.recent.add(kernel, asStream(stream));
    return {};
  }

private:
  CudaDevice::Impl &device;
  CuGraphExec exec;
  std::set<const std::string *> kernels;
};

} // namespace

Expected<std::unique_ptr<ReplayableGraph>> CudaDevice::capture(const std::function<Expected<void>(StreamHandle)> &body) {
  auto stream = createStream();
  if (!stream)
    return stream.takeErrors();
  struct Guard { // Destroyed last, also after a failure.
    CudaDevice &device;
    StreamHandle stream;
    ~Guard() { device.destroyStream(stream); }
  } guard{*this, *stream};
  ContextScope scope(*impl);
  if (!scope)
    return scope.takeErrors();
  if (CuResult result = impl->api.cuStreamBeginCapture_v2(asStream(*stream), captureThreadLocal); result != success)
    return impl->fail(result, "cannot capture a run");
  std::set<const std::string *> kernels;
  capturedLaunches = &kernels;
  auto done = body(*stream);
  capturedLaunches = nullptr;
  CuGraph graph = nullptr;
  CuResult ended = impl->api.cuStreamEndCapture(asStream(*stream), &graph);
  CuGraphExec exec = nullptr;
  CuResult result = ended;
  if (done && ended == success)
    result = impl->api.cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (graph)
    impl->api.cuGraphDestroy(graph);
  if (!done)
    return done.takeErrors();
  if (result != success)
    return impl->fail(result, "cannot capture a run");
  return std::unique_ptr<ReplayableGraph>(std::make_unique<CudaGraph>(*impl, exec, std::move(kernels)));
}

} // namespace minic
