// PTX and cubins as the driver takes them: loading, linking, and what it has to say about both.
#pragma once

#include "DriverApi.h"
#include "minic/Artifact/Artifact.h"

#include <array>
#include <string>
#include <vector>

namespace minic::cuda {

/// What the driver says while it compiles, links or loads. The options point into this.
class JitLog {
public:
  JitLog();
  JitLog(const JitLog &) = delete;

  std::array<int, 4> options;
  std::array<void *, 4> values;
  /// `what`, then what the result and the logs say, and which line of the graph the kernel's line is from that they name.
  Diagnostic error(const DriverApi &api, CuResult result, const KernelCode &kernel, const std::string &what) const;

private:
  std::vector<char> info, errors;
};

/// Loads PTX or a cubin.
CuResult loadCode(const DriverApi &api, const std::string &code, JitLog &log, CuModule &module);

/// What a cubin is made for: the number of a compute capability (90), and whether it may use what only that one has ("sm_90a").
struct CubinTarget {
  int capability = 0;
  bool accelerated = false;
};
/// Makes a cubin of PTX by the driver's linker.
CuResult linkPtx(const DriverApi &api, const std::string &ptx, CubinTarget target, JitLog &log, std::string &cubin);

} // namespace minic::cuda
