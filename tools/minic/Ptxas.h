// The assembler of the CUDA toolkit, if it is installed.
#pragma once

#include "minic/Support/Expected.h"

#include <string>

namespace minic::cli {

/// The cubin of a PTX module for `target`, made by `ptxas` from PATH or from the toolkit's usual place. MissingTool if there is
/// none, BackendFailed with the assembler's words if it refuses the text.
Expected<std::string> assemblePtx(const std::string &ptx, const std::string &target);

} // namespace minic::cli
