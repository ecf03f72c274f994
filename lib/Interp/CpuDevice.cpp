#include "CpuDeviceImpl.h"

#include <algorithm>
#include <chrono>

namespace minic {

using namespace interp;

namespace {

/// More than this on one device is refused: it would take the host's memory, not give a result.
constexpr int64_t maxDeviceBytes = int64_t(8) << 30;

struct CpuEvent {
  std::optional<std::chrono::steady_clock::time_point> time; ///< Of its last record.
};
CpuEvent &asEvent(EventHandle handle) { return *static_cast<CpuEvent *>(handle); }

class CpuGraph final : public ReplayableGraph {
public:
  CpuGraph(CpuDevice::Impl &device, std::vector<CpuDevice::Impl::Work> steps) : device(device), steps(std::move(steps)) {}
  Expected<void> launch(StreamHandle stream) const override {
    for (const CpuDevice::Impl::Work &step : steps)
      if (auto done = device.order(stream, step); !done)
        return done.takeErrors();
    return {};
  }

private:
  CpuDevice::Impl &device;
  std::vector<CpuDevice::Impl::Work> steps;
};

Diagnostic notCapturable(const char *what) {
  return deviceError(ErrorCode::CudaError, std::string(what) + " waits for the host, so it cannot be captured");
}

} // namespace

CpuDevice::CpuDevice(CpuOptions options) : impl(new Impl{.module = nullptr, .options = options}) {}
CpuDevice::CpuDevice(Module &module, CpuOptions options) : impl(new Impl{.module = &module, .options = options}) {}
CpuDevice::~CpuDevice() = default;

Expected<DeviceMemory> CpuDevice::allocate(int64_t bytes, StreamHandle) {
  std::lock_guard lock(impl->mutex);
  if (bytes < 0 || bytes > maxDeviceBytes - impl->total)
    return deviceError(ErrorCode::OutOfMemory,
                       "the interpreter's device has no " + std::to_string(bytes) + " bytes left of its 8 GiB");
  Allocation allocation{.bytes = bytes};
  allocation.data.reset(static_cast<std::byte *>(std::malloc(size_t(std::max<int64_t>(bytes, 1)))));
  allocation.defined = zeroedArray<uint8_t>(bytes);
  if (!allocation.data || !allocation.defined)
    return deviceError(ErrorCode::OutOfMemory, "the host has no memory for " + std::to_string(bytes) + " bytes");
  impl->total += bytes;
  DeviceMemory address = impl->next;
  impl->memory.emplace(address, std::move(allocation));
  // What lies past an allocation belongs to none.
  impl->next += (DeviceMemory(bytes) / Impl::alignment + 2) * Impl::alignment;
  return address;
}

void CpuDevice::release(DeviceMemory address, StreamHandle) {
  std::lock_guard lock(impl->mutex);
  auto it = impl->memory.find(address);
  if (it == impl->memory.end())
    return;
  impl->total -= it->second.bytes;
  impl->memory.erase(it);
}

std::optional<MemoryExtent> CpuDevice::extentOf(DeviceMemory memory) {
  std::lock_guard lock(impl->mutex);
  auto [start, allocation] = impl->allocationAt(memory);
  return allocation ? std::optional(MemoryExtent{start, start + DeviceMemory(allocation->bytes)}) : std::nullopt;
}

Expected<void> CpuDevice::copyFromHost(DeviceMemory to, std::span<const std::byte> from, StreamHandle stream) {
  std::lock_guard lock(impl->mutex);
  if (impl->captures.contains(stream))
    return notCapturable("a copy from the host");
  auto memory = impl->find(to, int64_t(from.size()));
  if (!memory)
    return memory.takeErrors();
  if (!from.empty()) {
    std::memcpy(memory->data(), from.data(), from.size());
    std::memset(memory->defined(), 1, from.size());
  }
  return {};
}

Expected<void> CpuDevice::copyToHost(std::span<std::byte> to, DeviceMemory from, StreamHandle stream) {
  std::lock_guard lock(impl->mutex);
  if (impl->captures.contains(stream))
    return notCapturable("a copy to the host");
  auto memory = impl->find(from, int64_t(to.size()));
  if (!memory)
    return memory.takeErrors();
  const uint8_t *defined = memory->defined();
  if (!allDefined(defined, 0, int64_t(to.size()))) {
    const std::string &storedBy = memory->allocation->storedBy;
    auto *hole = static_cast<const uint8_t *>(std::memchr(defined, 0, to.size()));
    return deviceError(ErrorCode::LostStore, (storedBy.empty() ? "a result" : storedBy) + " is never stored at byte " +
                                                 std::to_string(hole - defined) + " of " + std::to_string(to.size()));
  }
  if (!to.empty())
    std::memcpy(to.data(), memory->data(), to.size());
  return {};
}

Expected<void> CpuDevice::poison(DeviceMemory to, int64_t bytes, StreamHandle stream) {
  return impl->order(stream, [impl = impl.get(), to, bytes]() -> Expected<void> {
    auto memory = impl->find(to, bytes);
    if (!memory)
      return memory.takeErrors();
    std::memset(memory->data(), 0xff, size_t(bytes));
    std::memset(memory->defined(), 0, size_t(bytes));
    return {};
  });
}

Expected<void> CpuDevice::copy(DeviceMemory to, DeviceMemory from, int64_t bytes, StreamHandle stream) {
  if (bytes < 0)
    return deviceError(ErrorCode::OutOfBounds, "a copy of " + std::to_string(bytes) + " bytes");
  return impl->order(stream, [impl = impl.get(), to, from, bytes]() -> Expected<void> {
    auto target = impl->find(to, bytes), source = impl->find(from, bytes);
    if (!target)
      return target.takeErrors();
    if (!source)
      return source.takeErrors();
    // Undefined bytes stay so: what reads them is at fault, not the copy.
    std::memmove(target->data(), source->data(), size_t(bytes));
    std::memmove(target->defined(), source->defined(), size_t(bytes));
    target->allocation->storedBy = source->allocation->storedBy;
    return {};
  });
}

//===- Order -===//

Expected<void> CpuDevice::Impl::order(StreamHandle stream, Work work) {
  std::lock_guard lock(mutex);
  if (auto capture = captures.find(stream); capture != captures.end()) {
    capture->second.push_back(std::move(work));
    return {};
  }
  return work();
}

Expected<StreamHandle> CpuDevice::createStream() {
  std::lock_guard lock(impl->mutex);
  return reinterpret_cast<StreamHandle>(++impl->lastStream);
}
void CpuDevice::destroyStream(StreamHandle) {}

Expected<std::unique_ptr<ReplayableGraph>> CpuDevice::capture(const std::function<Expected<void>(StreamHandle)> &body) {
  auto stream = createStream();
  {
    std::lock_guard lock(impl->mutex);
    impl->captures[*stream];
  }
  auto done = body(*stream);
  std::vector<Impl::Work> steps;
  {
    std::lock_guard lock(impl->mutex);
    steps = std::move(impl->captures.extract(*stream).mapped());
  }
  if (!done)
    return done.takeErrors();
  return std::unique_ptr<ReplayableGraph>(std::make_unique<CpuGraph>(*impl, std::move(steps)));
}

Expected<EventHandle> CpuDevice::createEvent() { return EventHandle(new CpuEvent); }
void CpuDevice::destroyEvent(EventHandle event) { delete &asEvent(event); }

Expected<void> CpuDevice::record(EventHandle event, StreamHandle stream) {
  return impl->order(stream, [event]() -> Expected<void> {
    asEvent(event).time = std::chrono::steady_clock::now();
    return {};
  });
}

Expected<double> CpuDevice::elapsedMs(EventHandle from, EventHandle to) {
  std::lock_guard lock(impl->mutex);
  if (!asEvent(from).time || !asEvent(to).time)
    return deviceError(ErrorCode::CudaError, "the time between two events is asked before both are recorded");
  return std::chrono::duration<double, std::milli>(*asEvent(to).time - *asEvent(from).time).count();
}

std::vector<LaunchTraffic> CpuDevice::takeTraffic() {
  std::lock_guard lock(impl->mutex);
  return std::exchange(impl->traffic, {});
}

std::pair<DeviceMemory, Allocation *> CpuDevice::Impl::allocationAt(DeviceMemory address) {
  auto next = memory.upper_bound(address);
  if (next == memory.begin())
    return {0, nullptr};
  auto &[start, allocation] = *std::prev(next);
  bool within = address - start <= DeviceMemory(allocation.bytes);
  return {start, within ? &allocation : nullptr};
}

Expected<CpuDevice::Impl::Place> CpuDevice::Impl::find(DeviceMemory address, int64_t bytes) {
  auto [start, allocation] = allocationAt(address);
  if (!allocation)
    return deviceError(ErrorCode::CannotInterpret, "there is no memory at " + std::to_string(address) + " on this device");
  auto offset = int64_t(address - start);
  if (bytes < 0 || bytes > allocation->bytes - offset)
    return deviceError(ErrorCode::OutOfBounds, std::to_string(bytes) + " bytes are touched " +
                                                   (offset ? "from byte " + std::to_string(offset) + " on " : std::string()) +
                                                   "in memory of " + std::to_string(allocation->bytes) + " bytes");
  return Place{allocation, offset};
}

} // namespace minic
