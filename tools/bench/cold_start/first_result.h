// What the programs of cold_start.py share: errors, clocks, one run from .npy files to a .npy file.
#pragma once

#include <minic/Runtime/Executable.h>
#include <minic/Support/HostTensor.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace minic {

inline void check(Expected<void> done) {
  if (done)
    return;
  std::fputs(renderDiagnostics(done.errors(), nullptr).c_str(), stderr);
  std::exit(1);
}

template <typename T> T check(Expected<T> value) {
  if (!value)
    check(Expected<void>(value.takeErrors()));
  return std::move(*value);
}

/// What was done when, by CLOCK_MONOTONIC.
class Clock {
public:
  Clock() { mark("start"); }
  void mark(const char *what) {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    char mark[64];
    std::snprintf(mark, sizeof mark, "%s\"%s\": %.6f", text.empty() ? "" : ", ", what,
                  double(time.tv_sec) + 1e-9 * double(time.tv_nsec));
    text += mark;
  }
  void print() const { std::printf("{%s}\n", text.c_str()); }

private:
  std::string text;
};

/// Reads FOLDER/<input>.npy, runs, takes the clock, and writes the result.
inline void firstResult(const Executable &executable, const std::string &folder, const std::string &path, Clock &clock) {
  std::vector<HostTensor> inputs;
  for (const TensorSpec &input : executable.inputs())
    inputs.push_back(check(readNpy(folder + "/" + input.name + ".npy", input.dtype)));
  auto results = check(executable.run(inputs));
  clock.mark("result");
  check(writeNpy(path, results.front()));
  clock.print();
}

} // namespace minic
