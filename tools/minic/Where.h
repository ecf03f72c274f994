// minic explain --where: which op a line of any level is from.
#pragma once

#include "Common.h"

namespace minic::cli {

/// `place` is `ptx:57`. Prints and gives the exit code.
int explainWhere(const std::string &place, const ModuleFlags &flags);

} // namespace minic::cli
