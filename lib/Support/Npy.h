// What the header of a .npy file says.
#pragma once

#include "minic/Support/HostTensor.h"

namespace minic {

/// The shape in a file's header, checked as `readNpy` checks it; the elements are not read.
Expected<std::vector<int64_t>> readNpyShape(const std::filesystem::path &path, DType expected);

} // namespace minic
