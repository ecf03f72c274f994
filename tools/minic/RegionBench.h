// A fusion region on a device with tensors to run on: compiles, checks and times schedules for it.
#pragma once

#include "Difference.h"
#include "Execution.h"
#include "Measure.h"

#include "minic/Driver/FusedRegions.h"
#include "minic/Driver/ScheduleSearch.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace minic::cli {

struct RegionBenchOptions {
  CompileOptions compile;
  ToleranceFlags tolerance;
  How how = How::Cold; ///< Of a GPU; the interpreter's times are those of one run.
  unsigned jobs = 1;
  bool oracle = false; ///< Check against f64 even where that takes long.
};

class RegionBench {
public:
  /// Computes the region's operands from the graph's inputs, and what the region makes of them.
  static Expected<std::unique_ptr<RegionBench>> create(const OpenedDevice &opened, const FusedRegion &region,
                                                       std::span<const HostTensor> graphInputs, const RegionBenchOptions &options);
  ~RegionBench() { stop(); }

  /// Begins to make ready all `schedules` on several threads: to compile them, run each once into memory that is wrong everywhere,
  /// and compare with the reference.
  void start(std::vector<Schedule> schedules);
  /// Waits until a schedule is ready.
  Verdict check(size_t schedule);
  /// Microseconds: a median of few launches.
  Expected<double> time(size_t schedule) const;
  /// Waits for what is being made ready and gives up the rest.
  void stop();

  const std::string &checkedAgainst() const { return yardstick; }

private:
  RegionBench(const OpenedDevice &opened, const FusedRegion &region, const RegionBenchOptions &options)
      : opened(opened), region(region), options(options) {}
  Expected<void> makeTensors(std::span<const HostTensor> graphInputs);
  Expected<void> makeReference(const std::vector<HostTensor> &inputs);
  Expected<std::vector<HostTensor>> runOnce(const std::string &text, std::span<const HostTensor> inputs, bool eager) const;
  Verdict makeReady(size_t schedule);
  Expected<std::shared_ptr<Executable>> compile(const Schedule &schedule) const;
  Expected<std::vector<HostTensor>> runPoisoned(const Executable &executable);
  void work();

  const OpenedDevice &opened;
  const FusedRegion &region;
  RegionBenchOptions options;
  std::string yardstick;
  std::vector<HostTensor> reference;

  std::shared_ptr<Stream> stream;
  std::vector<Buffer> inputs, results; ///< Shared by all schedules.
  std::vector<TensorView> inputViews, resultViews;
  std::mutex running; ///< Held while the results are in use.

  std::vector<Schedule> schedules;
  std::vector<std::shared_ptr<Executable>> executables; ///< Of those that are ready.
  std::vector<std::optional<Verdict>> verdicts;
  std::vector<std::thread> workers;
  std::atomic<size_t> next = 0;
  std::atomic<bool> stopping = false;
  std::mutex mutex; ///< Of `executables` and `verdicts`.
  std::condition_variable ready;
};

} // namespace minic::cli
