// What a CpuDevice holds. Private to lib/Interp.
#pragma once

#include "Cta.h"
#include "minic/Interp/CpuDevice.h"

#include <mutex>
#include <vector>

namespace minic {

inline Diagnostic deviceError(ErrorCode code, std::string message) { return {.code = code, .message = std::move(message)}; }

/// The module of an artifact's text.
struct ParsedText {
  Context context;
  std::unique_ptr<Module> module;
};

struct CpuDevice::Impl {
  using Work = std::function<Expected<void>()>;
  static constexpr DeviceMemory alignment = 256; ///< Of allocations, as of those of CUDA.

  Module *module; ///< Null: kernels come from the artifacts' texts.
  CpuOptions options;
  std::mutex mutex;                                  ///< One call at a time; a launch brings its own threads.
  std::map<DeviceMemory, interp::Allocation> memory; ///< By address. Addresses stand for memory; they are none of the host.
  DeviceMemory next = alignment;                     ///< Never used again after release, so that a stale address is found out.
  int64_t total = 0;
  std::vector<LaunchTraffic> traffic;
  uintptr_t lastStream = 0;
  std::map<StreamHandle, std::vector<Work>> captures; ///< Streams that record instead of working.
  std::map<std::string, std::weak_ptr<ParsedText>> texts;

  /// Does `work` now, or records it if the stream is being captured.
  Expected<void> order(StreamHandle stream, Work work);
  /// Memory at an address within an allocation.
  struct Place {
    interp::Allocation *allocation;
    int64_t offset;
    std::byte *data() const { return allocation->data.get() + offset; }
    uint8_t *defined() const { return allocation->defined.get() + offset; }
  };
  /// `bytes` of one allocation from `address` on.
  Expected<Place> find(DeviceMemory address, int64_t bytes);
  /// The allocation that `address` lies in, or past the end of, and where it starts; null if there is none.
  std::pair<DeviceMemory, interp::Allocation *> allocationAt(DeviceMemory address);
  /// The kernel's function, and what keeps it alive (null where the caller does).
  Expected<const Function *> findKernel(const Artifact &artifact, const std::string &name, std::shared_ptr<ParsedText> &keeper);
  Expected<void> launch(const interp::PreparedKernel &kernel, const std::vector<int64_t> &grid, uint64_t programs,
                        std::span<const DeviceMemory> buffers);
  /// A kernel that is PTX: the custom op that it computes is evaluated.
  Expected<std::unique_ptr<PreparedLaunch>> prepareReference(const Operation &ptx, std::shared_ptr<ParsedText> keeper,
                                                             const DimBindings &dims);
  Expected<void> multiply(const MatmulProblem &problem, std::span<const DeviceMemory> buffers);

private:
  Expected<void> bindBuffers(interp::LaunchState &state, std::span<const DeviceMemory> buffers);
  void runPrograms(interp::LaunchState &state, uint64_t programs, std::vector<std::vector<BufferTraffic>> &issued);
  void addTraffic(const interp::LaunchState &state, std::span<const std::vector<BufferTraffic>> issued);
};

} // namespace minic
