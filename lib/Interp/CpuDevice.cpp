#include "minic/Interp/CpuDevice.h"

#include "Cta.h"

#include <algorithm>
#include <bit>
#include <thread>

namespace minic {

using namespace interp;

namespace {

/// More than this on one device is refused: it would take the host's memory, not give a result.
constexpr int64_t maxDeviceBytes = int64_t(8) << 30;

/// A permutation of [0, count): a Feistel network over the next even power of two, walked until it falls inside.
class Shuffle {
public:
  Shuffle(uint64_t count, uint64_t seed) : count(count), seed(seed), halfBits(unsigned(std::bit_width(count - 1) + 1) / 2) {}
  uint64_t operator()(uint64_t i) const {
    if (!seed || count < 2)
      return i;
    do
      i = permute(i);
    while (i >= count);
    return i;
  }

private:
  uint64_t permute(uint64_t i) const {
    uint64_t mask = (uint64_t(1) << halfBits) - 1, left = i >> halfBits, right = i & mask;
    for (uint64_t round = 1; round <= 4; ++round) {
      uint64_t mixed = (right + seed + round) * 0x9E3779B97F4A7C15ull;
      mixed = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9ull;
      left ^= mixed >> 32 & mask;
      std::swap(left, right);
    }
    return left << halfBits | right;
  }
  uint64_t count, seed;
  unsigned halfBits;
};

Diagnostic deviceError(ErrorCode code, std::string message) { return {.code = code, .message = std::move(message)}; }

} // namespace

BufferTraffic LaunchTraffic::total() const {
  BufferTraffic sum;
  for (const BufferTraffic &buffer : buffers) {
    sum.distinctRead += buffer.distinctRead;
    sum.distinctWritten += buffer.distinctWritten;
    sum.issuedRead += buffer.issuedRead;
    sum.issuedWritten += buffer.issuedWritten;
  }
  return sum;
}

struct CpuDevice::Impl {
  Module &module;
  CpuOptions options;
  std::map<DeviceMemory, Allocation> memory;
  DeviceMemory next = 1; // Never used again after release, so that a stale id is found out.
  int64_t total = 0;
  std::vector<LaunchTraffic> traffic;

  Expected<Allocation *> find(DeviceMemory id, int64_t bytes) {
    auto it = memory.find(id);
    if (it == memory.end())
      return deviceError(ErrorCode::CannotInterpret, "there is no memory " + std::to_string(id) + " on this device");
    if (bytes > it->second.bytes)
      return deviceError(ErrorCode::OutOfBounds,
                         std::to_string(bytes) + " bytes are touched in memory of " + std::to_string(it->second.bytes) + " bytes");
    return &it->second;
  }
  Expected<void> bindBuffers(LaunchState &state, std::span<const DeviceMemory> buffers);
  void runPrograms(LaunchState &state, uint64_t programs, std::vector<std::vector<BufferTraffic>> &issued);
  void addTraffic(const LaunchState &state, std::span<const std::vector<BufferTraffic>> issued);
};

CpuDevice::CpuDevice(Module &module, CpuOptions options) : impl(new Impl{module, options, {}, 1, 0, {}}) {}
CpuDevice::~CpuDevice() = default;

Expected<DeviceMemory> CpuDevice::allocate(int64_t bytes) {
  if (bytes < 0 || bytes > maxDeviceBytes - impl->total)
    return deviceError(ErrorCode::OutOfMemory,
                       "the interpreter's device has no " + std::to_string(bytes) + " bytes left of its 8 GiB");
  Allocation allocation{.bytes = bytes};
  allocation.data.reset(static_cast<std::byte *>(std::malloc(size_t(std::max<int64_t>(bytes, 1)))));
  allocation.defined = zeroedArray<uint8_t>(bytes);
  if (!allocation.data || !allocation.defined)
    return deviceError(ErrorCode::OutOfMemory, "the host has no memory for " + std::to_string(bytes) + " bytes");
  impl->total += bytes;
  impl->memory.emplace(impl->next, std::move(allocation));
  return impl->next++;
}

void CpuDevice::release(DeviceMemory id) {
  auto it = impl->memory.find(id);
  if (it == impl->memory.end())
    return;
  impl->total -= it->second.bytes;
  impl->memory.erase(it);
}

Expected<void> CpuDevice::copyFromHost(DeviceMemory to, std::span<const std::byte> from) {
  auto memory = impl->find(to, int64_t(from.size()));
  if (!memory)
    return memory.takeErrors();
  if (!from.empty()) {
    std::memcpy((*memory)->data.get(), from.data(), from.size());
    std::memset((*memory)->defined.get(), 1, from.size());
  }
  return {};
}

Expected<void> CpuDevice::copyToHost(std::span<std::byte> to, DeviceMemory from) {
  auto memory = impl->find(from, int64_t(to.size()));
  if (!memory)
    return memory.takeErrors();
  const Allocation &allocation = **memory;
  if (!allDefined(allocation.defined.get(), 0, int64_t(to.size()))) {
    auto *hole = static_cast<const uint8_t *>(std::memchr(allocation.defined.get(), 0, to.size()));
    return deviceError(ErrorCode::LostStore, (allocation.storedBy.empty() ? "a result" : allocation.storedBy) +
                                                 " is never stored at byte " + std::to_string(hole - allocation.defined.get()) +
                                                 " of " + std::to_string(to.size()));
  }
  if (!to.empty())
    std::memcpy(to.data(), allocation.data.get(), to.size());
  return {};
}

Expected<void> CpuDevice::poison(DeviceMemory to, std::span<const std::byte> pattern) {
  auto memory = impl->find(to, int64_t(pattern.size()));
  if (!memory)
    return memory.takeErrors();
  if (!pattern.empty())
    std::memcpy((*memory)->data.get(), pattern.data(), pattern.size());
  return {};
}

Expected<void> CpuDevice::copy(DeviceMemory to, DeviceMemory from, int64_t bytes) {
  if (bytes < 0)
    return deviceError(ErrorCode::OutOfBounds, "a copy of " + std::to_string(bytes) + " bytes");
  auto target = impl->find(to, bytes), source = impl->find(from, bytes);
  if (!target)
    return target.takeErrors();
  if (!source)
    return source.takeErrors();
  // Undefined bytes stay so: what reads them is at fault, not the copy.
  std::memmove((*target)->data.get(), (*source)->data.get(), size_t(bytes));
  std::memmove((*target)->defined.get(), (*source)->defined.get(), size_t(bytes));
  (*target)->storedBy = (*source)->storedBy;
  return {};
}

Expected<void> CpuDevice::Impl::bindBuffers(LaunchState &state, std::span<const DeviceMemory> buffers) {
  const PreparedKernel &kernel = *state.kernel;
  if (buffers.size() != kernel.buffers.size())
    return deviceError(ErrorCode::LaunchMismatch, "kernel '" + kernel.function->name + "' takes " +
                                                      std::to_string(kernel.buffers.size()) + " buffers, and the launch gives " +
                                                      std::to_string(buffers.size()));
  auto noMemory = [] { return deviceError(ErrorCode::OutOfMemory, "the host has no memory to check a launch"); };
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferParam &param = kernel.buffers[i];
    LaunchBuffer buffer{.param = &param, .strides = rowMajorStrides(param.shape)};
    auto found = find(buffers[i], param.elements * dtypeBytes(param.dtype));
    if (!found) {
      Diagnostics errors = found.takeErrors();
      errors[0].message = "the buffer '" + param.name + "' of kernel '" + kernel.function->name + "': " + errors[0].message;
      return errors;
    }
    buffer.memory = *found;
    if (param.stored) {
      buffer.memory->storedBy = "'" + param.name + "' of kernel '" + kernel.function->name + "'";
      buffer.marks = zeroedArray<uint64_t>(param.elements);
      if (!buffer.marks)
        return noMemory();
    }
    if (options.countTraffic) {
      buffer.read = zeroedArray<uint8_t>(param.elements);
      buffer.written = zeroedArray<uint8_t>(param.elements);
      if (!buffer.read || !buffer.written)
        return noMemory();
    }
    state.buffers.push_back(std::move(buffer));
  }
  return {};
}

void CpuDevice::Impl::runPrograms(LaunchState &state, uint64_t programs, std::vector<std::vector<BufferTraffic>> &issued) {
  Shuffle shuffle(programs, options.shuffleSeed);
  uint64_t workers = options.threads > 0 ? uint64_t(options.threads) : std::max(1u, std::thread::hardware_concurrency());
  workers = std::min(workers, programs);
  // Small chunks keep the workers even; programs do not depend on each other, so who runs which changes nothing.
  uint64_t chunk = std::clamp<uint64_t>(programs / (workers * 8), 1, 64);
  std::atomic<uint64_t> nextChunk = 0;
  issued.resize(workers);
  auto work = [&](uint64_t worker) {
    Cta cta(state);
    while (true) {
      uint64_t first = nextChunk.fetch_add(chunk);
      if (first >= programs)
        break;
      for (uint64_t i = first; i < std::min(first + chunk, programs); ++i)
        if (uint64_t program = shuffle(i); !state.isMoot(program))
          cta.run(program);
    }
    issued[worker] = cta.traffic();
  };
  std::vector<std::thread> threads;
  for (uint64_t worker = 1; worker < workers; ++worker)
    threads.emplace_back(work, worker);
  work(0);
  for (std::thread &thread : threads)
    thread.join();
}

void CpuDevice::Impl::addTraffic(const LaunchState &state, std::span<const std::vector<BufferTraffic>> issued) {
  LaunchTraffic launch{.kernel = state.kernel->function->name};
  for (size_t b = 0; b < state.buffers.size(); ++b) {
    const LaunchBuffer &buffer = state.buffers[b];
    int64_t bytes = dtypeBytes(buffer.param->dtype), elements = buffer.param->elements;
    BufferTraffic sum;
    for (const std::vector<BufferTraffic> &worker : issued) {
      sum.issuedRead += worker[b].issuedRead;
      sum.issuedWritten += worker[b].issuedWritten;
    }
    sum.distinctRead = bytes * std::count(buffer.read.get(), buffer.read.get() + elements, uint8_t(1));
    sum.distinctWritten = bytes * std::count(buffer.written.get(), buffer.written.get() + elements, uint8_t(1));
    launch.buffers.push_back(sum);
  }
  traffic.push_back(std::move(launch));
}

Expected<void> CpuDevice::launch(const Artifact &artifact, int kernelIndex, std::span<const int64_t> grid,
                                 std::span<const DeviceMemory> buffers, const DimBindings &dims) {
  if (kernelIndex < 0 || size_t(kernelIndex) >= artifact.kernels.size())
    return deviceError(ErrorCode::LaunchMismatch, "the artifact has no kernel " + std::to_string(kernelIndex));
  const std::string &name = artifact.kernels[size_t(kernelIndex)].name;
  const Function *function = impl->module.find(name);
  if (!function || function->kind != FunctionKind::Kernel)
    return deviceError(ErrorCode::UnknownFunction, "the module has no kernel '" + name + "'");
  auto programs = checkedProduct(grid);
  if (!programs || *programs >= maxPrograms)
    return deviceError(ErrorCode::TooLarge, "kernel '" + name + "': the grid is too large");
  if (*programs == 0)
    return {};
  auto kernel = prepareKernel(*function, dims);
  if (!kernel)
    return kernel.takeErrors();
  LaunchState state;
  state.kernel = kernel->get();
  state.grid.assign(grid.begin(), grid.end());
  if (auto bound = impl->bindBuffers(state, buffers); !bound)
    return bound.takeErrors();
  std::vector<std::vector<BufferTraffic>> issued;
  impl->runPrograms(state, uint64_t(*programs), issued);
  if (auto error = state.finish())
    return std::move(*error);
  if (impl->options.countTraffic)
    impl->addTraffic(state, issued);
  return {};
}

std::vector<LaunchTraffic> CpuDevice::takeTraffic() { return std::exchange(impl->traffic, {}); }

} // namespace minic
