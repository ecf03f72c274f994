// The assembler of the CUDA toolkit, if it is installed.
#pragma once

#include "minic/Support/Expected.h"

#include <cstdint>
#include <string>
#include <vector>

namespace minic {

/// The path of `ptxas`, from PATH or from the toolkit's usual place. MissingTool if there is none.
Expected<std::string> findPtxas();
/// The cubin of a PTX module for `target`. MissingTool without a ptxas, BackendFailed with its words if it refuses the text.
Expected<std::string> assemblePtx(const std::string &ptx, const std::string &target);

/// What a kernel takes, as `ptxas -v` says.
struct PtxasUsage {
  std::string kernel;
  int64_t registers = 0;                   ///< Of a thread.
  int64_t spillStores = 0, spillLoads = 0; ///< Bytes of a thread.
};
/// Of each kernel of a PTX module. Errors as `assemblePtx`.
Expected<std::vector<PtxasUsage>> usageOfPtx(const std::string &ptx, const std::string &target);

/// What `ptxas` says of itself.
struct PtxasInfo {
  std::string path;
  int cuda = 0;                     ///< 13000 for CUDA 13.0; 0 if it does not say.
  std::vector<std::string> targets; ///< Those of minic's that it knows.
};
Expected<PtxasInfo> describePtxas();

} // namespace minic
