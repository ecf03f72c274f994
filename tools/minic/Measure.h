// Times of executables on a GPU, by the method of Triton's do_bench: warm up and repeat for a span of time, take medians.
#pragma once

#include "minic/Runtime/Executable.h"

#include <array>
#include <string>
#include <vector>

namespace minic::cli {

/// An executable with tensors to run on.
class Subject {
public:
  /// Uploads the inputs and runs once, which makes the results.
  static Expected<Subject> create(std::string name, std::shared_ptr<Executable> executable, std::span<const HostTensor> inputs);
  Expected<void> run() const { return executable->run(*stream, inputViews, resultViews); }

  std::string name;
  std::shared_ptr<Executable> executable;
  std::shared_ptr<Stream> stream;
  double firstCallMs = 0; ///< The first run, waited for: loads kernels.
  std::vector<Buffer> inputs, results;
  std::vector<TensorView> inputViews, resultViews;
};

/// What a time says.
enum class How : uint8_t {
  Cold,  ///< On the device, the L2 cache overwritten before: events around one run, which include its launches.
  Warm,  ///< The same without overwriting.
  Graph, ///< On the device, per run of 20 in a CUDA graph: no gaps between launches.
  Call,  ///< On the host: one call that enqueues, nothing waited for.
  Wait,  ///< On the host: one call and waiting for its end.
};
inline constexpr size_t numHows = 5;

struct MeasureOptions {
  double warmupMs = 25, repeatMs = 100;
  int rounds = 5;
  uint64_t seed = 1; ///< Of the order in each round.
};

/// Milliseconds: the median of one round.
Expected<double> measureOnce(const Subject &subject, How how, const MeasureOptions &options = {});
/// For each subject and each How, the median over rounds in which all subjects run in random order, so that clocks and heat are the
/// same for all.
Expected<std::vector<std::array<double, numHows>>> measure(std::span<const Subject> subjects, const MeasureOptions &options);

} // namespace minic::cli
