// A compiled graph on a device.
#pragma once

#include "minic/Artifact/PreparedPlan.h"
#include "minic/Runtime/Buffer.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace minic {

class Executable;

/// A run with its tensors fixed, recorded once: `launch` does it again with one call. It has temporaries of its own, so two
/// launches of one CapturedRun must not overlap, and it must outlive them.
class CapturedRun {
public:
  Expected<void> launch(const Stream &stream) const { return graph->launch(stream.handle()); }

private:
  friend class Executable;
  std::shared_ptr<const Executable> executable;
  std::shared_ptr<const PreparedPlan> plan;
  Workspace workspace;
  std::unique_ptr<ReplayableGraph> graph;
};

/// What became of shapes (with strides). A run looks for its shape once; so does who asks for the sizes of results.
struct ShapeCounts {
  uint64_t hits = 0, misses = 0; ///< It was ready, or was not.
  uint64_t evictions = 0;        ///< Forgotten to make room.
  uint64_t compilations = 0;     ///< By a ShapeCompiler.
  uint64_t kept = 0, limit = 0;  ///< How many are ready, and may be.
};

/// Makes code for inputs of these types and shapes alone; their memory is not looked at.
using ShapeCompiler = std::function<Expected<std::shared_ptr<const Artifact>>(std::span<const TensorView> inputs)>;

/// An artifact loaded on a device. Threads and streams may share it: a run changes nothing of it but the shapes that it knows.
class Executable : public std::enable_shared_from_this<Executable> {
public:
  /// `weights`: inputs by name that are uploaded here once and are no arguments of `run` any more.
  static Expected<std::shared_ptr<Executable>> load(std::shared_ptr<const Artifact> artifact, std::shared_ptr<Device> device,
                                                    const std::map<std::string, HostTensor> &weights = {});
  /// Waits for the device if it holds weights or constants.
  ~Executable();

  const Artifact &artifact() const;
  const std::shared_ptr<Device> &device() const;
  /// What `run` takes: the graph's inputs without the weights, in order.
  const std::vector<TensorSpec> &inputs() const;
  const std::vector<TensorSpec> &results() const { return artifact().signature().results; }
  /// The plan for these inputs: shapes of results, launches, memory. Of the inputs it looks at dtypes, shapes, strides and what
  /// their addresses are multiples of. What was used last is kept ready (`limitShapes`). `results` may be empty. Errors: NotCached
  /// where the shape is new and nothing may be compiled for it.
  Expected<std::shared_ptr<const PreparedPlan>> prepare(std::span<const TensorView> inputs,
                                                        std::span<const TensorView> results = {}) const;

  /// Enqueues one run. Errors name the tensor: number, type, shape, device, strides and alignment where the artifact has no plan
  /// for them, elements outside the allocation, overlap with a result. The tensors must stay until the stream has done the work.
  /// What fails on the device is said by the next call that waits.
  Expected<void> run(const Stream &stream, std::span<const TensorView> inputs, std::span<const TensorView> results) const;
  /// The same with results in fresh buffers.
  Expected<std::vector<Buffer>> run(const std::shared_ptr<Stream> &stream, std::span<const TensorView> inputs) const;
  /// From host memory to host memory, on the device's default stream; waits.
  Expected<std::vector<HostTensor>> run(std::span<const HostTensor> inputs) const;
  /// Records `runs` runs on these tensors, one after the other, without doing them. More than one is for measuring.
  Expected<CapturedRun> capture(std::span<const TensorView> inputs, std::span<const TensorView> results, int runs = 1) const;

  /// How many shapes are kept ready, with their strides: 64 at first, at least 1. The one used longest ago goes.
  void limitShapes(size_t limit);
  /// From now on each shape gets code of its own, made once. The artifact, which runs any shape, still says what is taken and
  /// given.
  void specialize(ShapeCompiler compiler);
  /// Whether `specialize`'s compiler may be asked; it may at first. What is ready still runs.
  void allowCompilation(bool allowed);
  ShapeCounts shapeCounts() const;

private:
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace minic
