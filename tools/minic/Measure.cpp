#include "Measure.h"

#include "minic/Runtime/CudaDevice.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>

namespace minic::cli {

namespace {

using Clock = std::chrono::steady_clock;
using Body = std::function<Expected<void>()>;

constexpr int runsPerGraph = 20, maxRepeats = 2000;

double msSince(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// How often something that takes `eachMs` fits into `spanMs`.
int countFor(double spanMs, double eachMs) { return int(std::clamp(spanMs / std::max(eachMs, 1e-4), 1.0, double(maxRepeats))); }

/// More than the L2 cache holds, to be overwritten.
Expected<Buffer> makeFlusher(const Subject &subject) {
  auto *gpu = dynamic_cast<CudaDevice *>(subject.executable->device().get());
  int64_t l2 = gpu ? gpu->properties().l2Bytes : 0;
  return Buffer::allocate(subject.stream, DType::I32, {std::max<int64_t>(l2, int64_t(64) << 20) * 2 / 4});
}

/// The median time between events around `body`, with `between` before each.
Expected<double> timeOnDevice(const Subject &subject, const Body &body, const Body &between, const MeasureOptions &options) {
  const std::shared_ptr<Device> &device = subject.executable->device();
  auto record = [&](std::vector<std::shared_ptr<Event>> &events) -> Expected<void> {
    auto event = Event::create(device);
    if (!event)
      return event.takeErrors();
    events.push_back(std::move(*event));
    return events.back()->record(*subject.stream);
  };
  auto repeat = [&](int count, std::vector<double> &times) -> Expected<void> {
    std::vector<std::shared_ptr<Event>> events;
    for (int i = 0; i < count; ++i) // No waiting in between: the device stays busy, and the host's time hides behind it.
      for (const Body &step : {between, Body([&] { return record(events); }), body, Body([&] { return record(events); })})
        if (auto done = step(); !done)
          return done.takeErrors();
    if (auto done = subject.stream->synchronize(); !done)
      return done.takeErrors();
    for (size_t i = 0; i < events.size(); i += 2) {
      auto time = events[i + 1]->msSince(*events[i]);
      if (!time)
        return time.takeErrors();
      times.push_back(*time);
    }
    return {};
  };
  std::vector<double> first, warm, times;
  if (auto done = repeat(5, first); !done)
    return done.takeErrors();
  double each = median(first);
  if (auto done = repeat(countFor(options.warmupMs, each), warm); !done)
    return done.takeErrors();
  if (auto done = repeat(countFor(options.repeatMs, each), times); !done)
    return done.takeErrors();
  return median(times);
}

/// The median of the host's time for `body`; what it enqueued is waited for outside of it, 50 calls at a time.
Expected<double> timeOnHost(const Subject &subject, const Body &body, const MeasureOptions &options) {
  std::vector<double> times;
  auto begin = Clock::now();
  while (times.empty() || (msSince(begin) < options.warmupMs + options.repeatMs && times.size() < maxRepeats)) {
    auto start = Clock::now();
    if (auto done = body(); !done)
      return done.takeErrors();
    times.push_back(msSince(start));
    if (times.size() % 50 == 0)
      if (auto done = subject.stream->synchronize(); !done)
        return done.takeErrors();
  }
  if (auto done = subject.stream->synchronize(); !done)
    return done.takeErrors();
  return median(std::move(times));
}

} // namespace

Expected<Subject> Subject::create(std::string name, std::shared_ptr<Executable> executable, std::span<const HostTensor> inputs) {
  Subject subject;
  subject.name = std::move(name);
  auto stream = Stream::create(executable->device());
  if (!stream)
    return stream.takeErrors();
  subject.stream = std::move(*stream);
  for (const HostTensor &input : inputs) {
    auto buffer = Buffer::upload(subject.stream, input);
    if (!buffer)
      return buffer.takeErrors();
    subject.inputs.push_back(std::move(*buffer));
  }
  for (const Buffer &buffer : subject.inputs)
    subject.inputViews.push_back(buffer.view());
  if (auto done = subject.stream->synchronize(); !done)
    return done.takeErrors();
  auto start = Clock::now();
  auto results = executable->run(subject.stream, subject.inputViews);
  if (!results)
    return results.takeErrors();
  if (auto done = subject.stream->synchronize(); !done)
    return done.takeErrors();
  subject.firstCallMs = msSince(start);
  subject.results = std::move(*results);
  for (const Buffer &buffer : subject.results)
    subject.resultViews.push_back(buffer.view());
  subject.executable = std::move(executable);
  return subject;
}

Expected<double> measureOnce(const Subject &subject, How how, const MeasureOptions &options) {
  Body run = [&] { return subject.run(); };
  Body nothing = [] { return Expected<void>(); };
  switch (how) {
  case How::Cold: {
    auto flusher = makeFlusher(subject);
    if (!flusher)
      return flusher.takeErrors();
    Device &device = subject.stream->device();
    Body flush = [&] { return device.poison(flusher->memory(), flusher->bytes(), subject.stream->handle()); };
    return timeOnDevice(subject, run, flush, options);
  }
  case How::Warm:
    return timeOnDevice(subject, run, nothing, options);
  case How::Graph: {
    auto captured = subject.executable->capture(subject.inputViews, subject.resultViews, runsPerGraph);
    if (!captured)
      return captured.takeErrors();
    auto time = timeOnDevice(subject, [&] { return captured->launch(*subject.stream); }, nothing, options);
    if (!time)
      return time.takeErrors();
    return *time / runsPerGraph;
  }
  case How::Call:
    return timeOnHost(subject, run, options);
  case How::Wait:
    return timeOnHost(
        subject,
        [&]() -> Expected<void> {
          if (auto done = subject.run(); !done)
            return done.takeErrors();
          return subject.stream->synchronize();
        },
        options);
  }
  return 0.0;
}

Expected<std::vector<std::array<double, numHows>>> measure(std::span<const Subject> subjects, const MeasureOptions &options) {
  std::vector<std::array<std::vector<double>, numHows>> rounds(subjects.size());
  std::vector<size_t> order(subjects.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::mt19937_64 random(options.seed);
  for (int round = 0; round < options.rounds; ++round)
    for (size_t how = 0; how < numHows; ++how) {
      std::ranges::shuffle(order, random);
      for (size_t i : order) {
        auto time = measureOnce(subjects[i], How(how), options);
        if (!time)
          return time.takeErrors();
        rounds[i][how].push_back(*time);
      }
    }
  std::vector<std::array<double, numHows>> times(subjects.size());
  for (size_t i = 0; i < subjects.size(); ++i)
    for (size_t how = 0; how < numHows; ++how)
      times[i][how] = median(rounds[i][how]);
  return times;
}

} // namespace minic::cli
