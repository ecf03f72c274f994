// Launches of the interpreter: from an artifact's kernel to programs that run on the host's threads.
#include "CpuDeviceImpl.h"
#include "minic/IR/CustomOp.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Verifier.h"

#include <algorithm>
#include <bit>
#include <thread>

namespace minic {

using namespace interp;

namespace {

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

/// A kernel of a module, ready to be interpreted.
class CpuLaunch final : public PreparedLaunch {
public:
  CpuLaunch(CpuDevice::Impl &device, std::shared_ptr<ParsedText> keeper, std::unique_ptr<PreparedKernel> kernel,
            std::vector<int64_t> grid, uint64_t programs)
      : device(device), work(std::make_shared<Launchable>(std::move(keeper), std::move(kernel), std::move(grid), programs)) {}

  Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> buffers) const override {
    return device.order(stream, [&device = device, work = work, buffers = std::vector(buffers.begin(), buffers.end())] {
      return device.launch(*work->kernel, work->grid, work->programs, buffers);
    });
  }

private:
  struct Launchable { // Captured work may outlive the launch.
    Launchable(std::shared_ptr<ParsedText> keeper, std::unique_ptr<PreparedKernel> kernel, std::vector<int64_t> grid,
               uint64_t programs)
        : keeper(std::move(keeper)), kernel(std::move(kernel)), grid(std::move(grid)), programs(programs) {}
    std::shared_ptr<ParsedText> keeper;
    std::unique_ptr<PreparedKernel> kernel;
    std::vector<int64_t> grid;
    uint64_t programs;
  };
  CpuDevice::Impl &device;
  std::shared_ptr<const Launchable> work;
};

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

Expected<const Function *> CpuDevice::Impl::findKernel(const Artifact &artifact, const std::string &name,
                                                       std::shared_ptr<ParsedText> &keeper) {
  Module *from = module;
  if (!from) {
    if (artifact.text.empty())
      return deviceError(ErrorCode::CannotInterpret, "the artifact holds no IR text, which the interpreter runs");
    keeper = texts[artifact.text].lock();
    if (!keeper) {
      keeper = std::make_shared<ParsedText>();
      auto parsed = parseModule(keeper->context, SourceBuffer("artifact", artifact.text));
      if (!parsed)
        return parsed.takeErrors();
      if (Diagnostics findings = verify(**parsed); hasErrors(findings))
        return findings;
      keeper->module = std::move(*parsed);
      std::erase_if(texts, [](const auto &entry) { return entry.second.expired(); });
      texts[artifact.text] = keeper;
    }
    from = keeper->module.get();
  }
  const Function *function = from->find(name);
  if (!function || function->kind != FunctionKind::Kernel)
    return deviceError(ErrorCode::UnknownFunction, "the module has no kernel '" + name + "'");
  return function;
}

Expected<std::unique_ptr<PreparedLaunch>> CpuDevice::prepare(const Artifact &artifact, int kernelIndex,
                                                             std::span<const int64_t> grid, const DimBindings &dims,
                                                             std::span<const int64_t> strides) {
  std::lock_guard lock(impl->mutex);
  if (kernelIndex < 0 || size_t(kernelIndex) >= artifact.kernels.size())
    return deviceError(ErrorCode::LaunchMismatch, "the artifact has no kernel " + std::to_string(kernelIndex));
  const std::string &name = artifact.kernels[size_t(kernelIndex)].name;
  if (const std::string &file = artifact.kernels[size_t(kernelIndex)].overriddenBy; !file.empty())
    return deviceError(ErrorCode::CannotInterpret, "the code of kernel '" + name + "' is that of '" + file +
                                                       "', by --override, and the interpreter (CPU) runs no code of a GPU");
  std::shared_ptr<ParsedText> keeper;
  auto function = impl->findKernel(artifact, name, keeper);
  if (!function)
    return function.takeErrors();
  auto programs = checkedProduct(grid);
  if (!programs || *programs >= maxPrograms)
    return deviceError(ErrorCode::TooLarge, "kernel '" + name + "': the grid is too large");
  if (const Operation *ptx = ptxOf(**function))
    return impl->prepareReference(*ptx, std::move(keeper), dims);
  auto kernel = prepareKernel(**function, dims, strides);
  if (!kernel)
    return kernel.takeErrors();
  return std::unique_ptr<PreparedLaunch>(std::make_unique<CpuLaunch>(*impl, std::move(keeper), std::move(*kernel),
                                                                     std::vector(grid.begin(), grid.end()), uint64_t(*programs)));
}

Expected<void> CpuDevice::Impl::launch(const PreparedKernel &kernel, const std::vector<int64_t> &grid, uint64_t programs,
                                       std::span<const DeviceMemory> buffers) {
  if (programs == 0)
    return {};
  LaunchState state;
  state.kernel = &kernel;
  state.grid = grid;
  if (auto bound = bindBuffers(state, buffers); !bound)
    return bound.takeErrors();
  std::vector<std::vector<BufferTraffic>> issued;
  runPrograms(state, programs, issued);
  if (auto error = state.finish())
    return std::move(*error);
  if (options.countTraffic)
    addTraffic(state, issued);
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
    LaunchBuffer buffer{.param = &param};
    int64_t bytes = dtypeBytes(param.dtype), elements = param.span.size();
    auto found = find(buffers[i] + DeviceMemory(param.span.lowest * bytes), elements * bytes);
    if (!found) {
      Diagnostics errors = found.takeErrors();
      errors[0].message = "the buffer '" + param.name + "' of kernel '" + kernel.function->name + "': " + errors[0].message;
      return errors;
    }
    buffer.data = found->data();
    buffer.defined = found->defined();
    if (param.stored) {
      found->allocation->storedBy = "'" + param.name + "' of kernel '" + kernel.function->name + "'";
      buffer.marks = zeroedArray<uint64_t>(elements);
      if (!buffer.marks)
        return noMemory();
    }
    if (options.countTraffic) {
      buffer.read = zeroedArray<uint8_t>(elements);
      buffer.written = zeroedArray<uint8_t>(elements);
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
    int64_t bytes = dtypeBytes(buffer.param->dtype), elements = buffer.param->span.size();
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

} // namespace minic
