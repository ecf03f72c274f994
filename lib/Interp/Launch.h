// What all programs of one launch share.
#pragma once

#include "Memory.h"

#include <mutex>

namespace minic::interp {

struct LaunchState {
  const PreparedKernel *kernel = nullptr;
  std::vector<int64_t> grid;
  std::vector<LaunchBuffer> buffers;

  /// The first error in program order, whatever the order in which programs run: a program after it need not run.
  std::atomic<uint64_t> firstBad = UINT64_MAX;
  bool isMoot(uint64_t program) const { return program > firstBad.load(std::memory_order_relaxed); }
  void report(uint64_t program, Diagnostic error);
  void report(const DoubleStore &error);
  /// After all programs: the error to give.
  std::optional<Diagnostic> finish() const;

private:
  std::mutex mutex;
  std::optional<Diagnostic> error; ///< Of program firstBad, unless `doubleStore` is of that program as well.
  std::optional<DoubleStore> doubleStore;
};

/// "program (1, 2)".
std::string programText(std::span<const int64_t> grid, uint64_t program);

} // namespace minic::interp
