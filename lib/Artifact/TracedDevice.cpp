#include "minic/Artifact/TracedDevice.h"

#include <mutex>

namespace minic {

namespace {

std::string joined(std::span<const int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : "x") + std::to_string(number);
  return text;
}

class TracedDevice;

/// What runs between two events.
struct Running {
  std::string name;
  Trace::Args args;
  EventHandle begin = nullptr, end = nullptr;
};

/// Adds events around what is enqueued by another launch.
class TracedLaunch final : public PreparedLaunch {
public:
  TracedLaunch(TracedDevice &device, std::unique_ptr<PreparedLaunch> launch, std::string name, Trace::Args args)
      : device(device), launch(std::move(launch)), name(std::move(name)), args(std::move(args)) {}
  Expected<void> enqueue(StreamHandle stream, std::span<const DeviceMemory> buffers) const override;
  int64_t workspaceBytes() const override { return launch->workspaceBytes(); }

private:
  TracedDevice &device;
  std::unique_ptr<PreparedLaunch> launch;
  std::string name;
  Trace::Args args;
};

class TracedGraph final : public ReplayableGraph {
public:
  TracedGraph(TracedDevice &device, std::unique_ptr<ReplayableGraph> graph) : device(device), graph(std::move(graph)) {}
  Expected<void> launch(StreamHandle stream) const override;

private:
  TracedDevice &device;
  std::unique_ptr<ReplayableGraph> graph;
};

class TracedDevice final : public Device {
public:
  TracedDevice(std::shared_ptr<Device> device, Trace &trace)
      : device(std::move(device)), trace(trace), track(trace.deviceTrack(this->device->model())) {}
  ~TracedDevice() override {
    (void)finish();
    for (const Running &running : waiting) { // The device is lost.
      device->destroyEvent(running.begin);
      device->destroyEvent(running.end);
    }
    if (origin)
      device->destroyEvent(origin);
  }

  std::string name() const override { return device->name(); }
  std::string model() const override { return device->model(); }
  int computeCapability() const override { return device->computeCapability(); }
  Expected<DeviceMemory> allocate(int64_t bytes, StreamHandle stream) override { return device->allocate(bytes, stream); }
  void release(DeviceMemory memory, StreamHandle stream) override { device->release(memory, stream); }
  bool isAddressable() const override { return device->isAddressable(); }
  std::optional<MemoryExtent> extentOf(DeviceMemory memory) override { return device->extentOf(memory); }
  Expected<void> copyFromHost(DeviceMemory to, std::span<const std::byte> from, StreamHandle stream) override {
    Trace::Span span(&trace, "copy to the device", {{"bytes", std::to_string(from.size())}});
    return device->copyFromHost(to, from, stream);
  }
  Expected<void> copyToHost(std::span<std::byte> to, DeviceMemory from, StreamHandle stream) override {
    Trace::Span span(&trace, "copy to the host", {{"bytes", std::to_string(to.size())}});
    return device->copyToHost(to, from, stream);
  }
  Expected<void> copy(DeviceMemory to, DeviceMemory from, int64_t bytes, StreamHandle stream) override {
    return device->copy(to, from, bytes, stream);
  }
  Expected<void> poison(DeviceMemory memory, int64_t bytes, StreamHandle stream) override {
    return device->poison(memory, bytes, stream);
  }

  Expected<std::unique_ptr<PreparedLaunch>> prepare(const Artifact &artifact, int kernel, std::span<const int64_t> grid,
                                                    const DimBindings &dims, std::span<const int64_t> strides) override {
    const KernelCode &code = artifact.kernels[size_t(kernel)];
    std::string ops;
    for (const std::string &op : code.ops)
      ops += (ops.empty() ? "" : ", ") + op;
    Trace::Args args = {{"kernel", code.name}, {"ops", ops}, {"grid", joined(grid)}, {"threads", std::to_string(code.threads)}};
    Trace::Span span(&trace, "load " + code.name, args);
    auto launch = device->prepare(artifact, kernel, grid, dims, strides);
    return launch ? wrap(std::move(*launch), code.name, std::move(args)) : std::move(launch);
  }
  Expected<std::unique_ptr<PreparedLaunch>> prepareMatmul(const MatmulProblem &problem) override {
    Trace::Span span(&trace, "load cublaslt");
    auto launch = device->prepareMatmul(problem);
    return launch ? wrap(std::move(*launch), "cublaslt", {}) : std::move(launch);
  }
  Expected<std::unique_ptr<ReplayableGraph>> capture(const std::function<Expected<void>(StreamHandle)> &body) override {
    Trace::Span span(&trace, "capture");
    capturing = true; // Events of a recording have no times.
    auto graph = device->capture(body);
    capturing = false;
    if (!graph)
      return graph;
    return std::unique_ptr<ReplayableGraph>(std::make_unique<TracedGraph>(*this, std::move(*graph)));
  }

  Expected<StreamHandle> createStream() override { return device->createStream(); }
  void destroyStream(StreamHandle stream) override { device->destroyStream(stream); }
  Expected<void> synchronize(StreamHandle stream) override {
    Expected<void> done = [&] {
      Trace::Span span(&trace, "wait for the device");
      return device->synchronize(stream);
    }();
    return done ? settle() : std::move(done);
  }
  Expected<void> finish() override {
    auto done = device->finish();
    return done ? settle() : std::move(done);
  }
  Expected<EventHandle> createEvent() override { return device->createEvent(); }
  void destroyEvent(EventHandle event) override { device->destroyEvent(event); }
  Expected<void> record(EventHandle event, StreamHandle stream) override { return device->record(event, stream); }
  Expected<void> wait(StreamHandle stream, EventHandle event) override { return device->wait(stream, event); }
  Expected<void> synchronizeEvent(EventHandle event) override { return device->synchronizeEvent(event); }
  Expected<bool> isDone(EventHandle event) override { return device->isDone(event); }
  Expected<double> elapsedMs(EventHandle from, EventHandle to) override { return device->elapsedMs(from, to); }

  /// Calls `enqueue` between two events, and notes the host's time.
  Expected<void> watch(const std::string &name, const Trace::Args &args, StreamHandle stream,
                       const std::function<Expected<void>()> &enqueue) {
    if (capturing)
      return enqueue();
    if (auto begun = calibrate(stream); !begun)
      return begun;
    Running running{name, args};
    running.args.emplace_back("timed by", "events around the launch");
    auto begin = device->createEvent();
    if (!begin)
      return begin.takeErrors();
    running.begin = *begin;
    auto end = device->createEvent();
    if (!end)
      return end.takeErrors();
    running.end = *end;
    if (auto done = device->record(running.begin, stream); !done)
      return done;
    Expected<void> done = [&] {
      Trace::Span span(&trace, "launch " + name, args);
      return enqueue();
    }();
    if (!done)
      return done;
    if (auto recorded = device->record(running.end, stream); !recorded)
      return recorded;
    std::lock_guard lock(mutex);
    waiting.push_back(std::move(running));
    return {};
  }

private:
  Expected<std::unique_ptr<PreparedLaunch>> wrap(std::unique_ptr<PreparedLaunch> launch, std::string name, Trace::Args args) {
    return std::unique_ptr<PreparedLaunch>(
        std::make_unique<TracedLaunch>(*this, std::move(launch), std::move(name), std::move(args)));
  }

  /// An event whose time on the host's clock is known: it is waited for, and the host looks at its clock.
  Expected<void> calibrate(StreamHandle stream) {
    std::lock_guard lock(mutex);
    if (origin)
      return {};
    auto event = device->createEvent();
    if (!event)
      return event.takeErrors();
    if (auto done = device->record(*event, stream); !done)
      return done;
    if (auto done = device->synchronizeEvent(*event); !done)
      return done;
    origin = *event;
    originTime = Trace::Clock::now();
    return {};
  }

  /// Takes the times of all that is done by now.
  Expected<void> settle() {
    std::lock_guard lock(mutex);
    auto timeOf = [&](EventHandle event) -> Expected<Trace::Clock::time_point> {
      auto milliseconds = device->elapsedMs(origin, event);
      if (!milliseconds)
        return milliseconds.takeErrors();
      return originTime +
             std::chrono::duration_cast<Trace::Clock::duration>(std::chrono::duration<double, std::milli>(*milliseconds));
    };
    for (Running &running : std::exchange(waiting, {})) {
      if (auto done = device->isDone(running.end); !done || !*done) { // On another stream.
        waiting.push_back(std::move(running));
        continue;
      }
      auto begin = timeOf(running.begin), end = timeOf(running.end);
      if (begin && end)
        trace.add(track, std::move(running.name), *begin, *end, std::move(running.args));
      device->destroyEvent(running.begin);
      device->destroyEvent(running.end);
    }
    return {};
  }

  std::shared_ptr<Device> device;
  Trace &trace;
  int track;
  static thread_local bool capturing;
  std::mutex mutex; ///< Of what follows.
  std::vector<Running> waiting;
  EventHandle origin = nullptr; ///< Null before the first launch.
  Trace::Clock::time_point originTime;
};

thread_local bool TracedDevice::capturing = false;

Expected<void> TracedLaunch::enqueue(StreamHandle stream, std::span<const DeviceMemory> buffers) const {
  return device.watch(name, args, stream, [&] { return launch->enqueue(stream, buffers); });
}

Expected<void> TracedGraph::launch(StreamHandle stream) const {
  return device.watch("graph", {}, stream, [&] { return graph->launch(stream); });
}

} // namespace

std::shared_ptr<Device> traced(std::shared_ptr<Device> device, Trace *trace) {
  return trace ? std::make_shared<TracedDevice>(std::move(device), *trace) : std::move(device);
}

} // namespace minic
