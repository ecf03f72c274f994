// What running a plan asks of a device: memory, copies, launches and their order. The CUDA device and the interpreter answer.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/Support/Expected.h"
#include "minic/Support/Strides.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

namespace minic {

/// An address in a device's memory.
using DeviceMemory = uint64_t;
struct MemoryExtent {
  DeviceMemory begin, end;
};
/// An order of work: a CUstream as it is, so null is CUDA's default stream. The interpreter has one order and ignores it.
using StreamHandle = void *;
using EventHandle = void *;

/// A kernel with its grid and dims, ready to be launched on buffers.
class PreparedLaunch {
public:
  virtual ~PreparedLaunch() = default;
  /// `buffers`: one per parameter of the kernel. Callable from several threads at a time.
  virtual Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> buffers) const = 0;
  /// Memory that it needs while it runs, given as one more buffer behind the others; 0: none.
  virtual int64_t workspaceBytes() const { return 0; }
};

/// Enqueued work that can be enqueued again as a whole.
class ReplayableGraph {
public:
  virtual ~ReplayableGraph() = default;
  virtual Expected<void> launch(StreamHandle stream) const = 0;
};

/// A device. All calls may come from several threads at a time, and leave the thread's current CUDA context as it was. Work on one
/// stream happens in order; a call returns when its work is enqueued, unless it says that it waits.
class Device {
public:
  virtual ~Device() = default;
  /// "cuda:0" or "cpu".
  virtual std::string name() const = 0;
  /// What schedules are tuned for: "NVIDIA H200" or "cpu".
  virtual std::string model() const { return name(); }
  /// 90 for sm_90; 0 for the interpreter.
  virtual int computeCapability() const = 0;

  /// Memory for use on `stream`, of any size (0 too), aligned to at least 256 bytes.
  virtual Expected<DeviceMemory> allocate(int64_t bytes, StreamHandle stream) = 0;
  /// Gives memory back once what is on `stream` now is done.
  virtual void release(DeviceMemory memory, StreamHandle stream) = 0;
  /// Whether addresses are what other libraries take for addresses, and one allocation may serve many buffers. Where not, they
  /// stand for memory, and each buffer has its own bounds.
  virtual bool isAddressable() const = 0;
  /// The allocation that memory lies in, where the device knows it.
  virtual std::optional<MemoryExtent> extentOf(DeviceMemory memory) = 0;
  /// The host's bytes may change as soon as this returns.
  virtual Expected<void> copyFromHost(DeviceMemory to, std::span<const std::byte> from, StreamHandle stream) = 0;
  /// Waits for the bytes.
  virtual Expected<void> copyToHost(std::span<std::byte> to, DeviceMemory from, StreamHandle stream) = 0;
  virtual Expected<void> copy(DeviceMemory to, DeviceMemory from, int64_t bytes, StreamHandle stream) = 0;
  /// Fills memory with 0xFF bytes, NaN in every float type; to the interpreter it is undefined from here on.
  virtual Expected<void> poison(DeviceMemory memory, int64_t bytes, StreamHandle stream) = 0;

  /// `artifact.kernels[kernel]` over the product of `grid` (> 0) CTAs; `grid` holds the axes of the program id, `strides` the
  /// kernel's stride arguments. The artifact must outlive the launch.
  virtual Expected<std::unique_ptr<PreparedLaunch>> prepare(const Artifact &artifact, int kernel, std::span<const int64_t> grid,
                                                            const DimBindings &dims, std::span<const int64_t> strides = {}) = 0;
  /// A product that cuBLASLt computes, of `problem.call.numOperands()` row-major buffers. It is not empty.
  virtual Expected<std::unique_ptr<PreparedLaunch>> prepareMatmul(const MatmulProblem &problem) = 0;
  /// Records what `body` enqueues on the stream it is given, without doing it.
  virtual Expected<std::unique_ptr<ReplayableGraph>> capture(const std::function<Expected<void>(StreamHandle)> &body) = 0;

  virtual Expected<StreamHandle> createStream() = 0;
  virtual void destroyStream(StreamHandle stream) = 0;
  /// Waits for everything on `stream`, and says what of it failed.
  virtual Expected<void> synchronize(StreamHandle stream) = 0;
  /// Waits for everything on the device.
  virtual Expected<void> finish() = 0;
  virtual Expected<EventHandle> createEvent() = 0;
  virtual void destroyEvent(EventHandle event) = 0;
  /// The event stands for everything on `stream` so far.
  virtual Expected<void> record(EventHandle event, StreamHandle stream) = 0;
  /// What comes on `stream` from here on waits for `event`; the host does not.
  virtual Expected<void> wait(StreamHandle stream, EventHandle event) = 0;
  virtual Expected<void> synchronizeEvent(EventHandle event) = 0;
  virtual Expected<bool> isDone(EventHandle event) = 0;
  /// Milliseconds between two events that are done.
  virtual Expected<double> elapsedMs(EventHandle from, EventHandle to) = 0;
};

/// A tensor where it lies on a device, as a caller of `run` gives it.
struct TensorView {
  DeviceMemory memory = 0; ///< Of the element at [0, 0, ...].
  DType dtype = DType::F32;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides = {}; ///< In elements; empty means dense and row-major.
  const Device *device = nullptr;        ///< Where it lies; null if the caller does not say.
};

/// Its strides, row-major ones filled in.
inline std::vector<int64_t> stridesOf(const TensorView &view) {
  return view.strides.empty() ? rowMajorStrides(view.shape) : std::vector(view.strides.begin(), view.strides.end());
}

} // namespace minic
