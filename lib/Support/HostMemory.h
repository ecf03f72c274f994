// Whether the host can hold so many bytes: asked before a size that a user chose is allocated.
#pragma once

#include <cstdint>

namespace minic {

/// False if the machine has less memory than this, or refuses to promise it now.
bool fitsHostMemory(int64_t bytes);

} // namespace minic
