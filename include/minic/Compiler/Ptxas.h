// The assembler of the CUDA toolkit, if it is installed.
#pragma once

#include "minic/Support/Expected.h"

#include <string>

namespace minic {

/// The path of `ptxas`, from PATH or from the toolkit's usual place. MissingTool if there is none.
Expected<std::string> findPtxas();
/// The cubin of a PTX module for `target`. MissingTool without a ptxas, BackendFailed with its words if it refuses the text.
Expected<std::string> assemblePtx(const std::string &ptx, const std::string &target);

} // namespace minic
