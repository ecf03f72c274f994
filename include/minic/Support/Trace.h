// Where time went, as the Chrome trace format has it (Perfetto and chrome://tracing show it): stretches of time on tracks.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace minic {

/// Callable from several threads at a time.
class Trace {
public:
  using Clock = std::chrono::steady_clock;
  using Args = std::vector<std::pair<std::string, std::string>>; ///< What a stretch is about: names and values.

  Trace() { threadTrack(); } // Who makes it is the main thread.

  /// A track beside the host's threads, by its name: a device.
  int deviceTrack(const std::string &name);
  /// The calling thread's.
  int threadTrack();
  void add(int track, std::string name, Clock::time_point start, Clock::time_point end, Args args = {});
  /// The trace as JSON: an object with `traceEvents`, in order of their starts, and the metadata that names tracks.
  std::string json() const;

  /// A stretch of the calling thread's, from here to the end of the block. Nothing without a trace.
  class Span {
  public:
    Span(Trace *trace, std::string name, Args args = {});
    ~Span();
    Span(const Span &) = delete;

  private:
    Trace *trace;
    std::string name;
    Args args;
    Clock::time_point start;
  };

private:
  struct Event {
    int track;
    std::string name;
    double start, end; ///< In microseconds since the trace began.
    Args args;
  };
  struct Track {
    std::string name;
    bool isDevice;
  };
  double since(Clock::time_point time) const;
  int addTrack(std::string name, bool isDevice);

  const Clock::time_point began = Clock::now();
  mutable std::mutex mutex; // Of what follows.
  std::vector<Event> events;
  std::vector<Track> tracks;
  std::map<std::thread::id, int> threads;
  std::map<std::string, int> devices;
};

} // namespace minic
