// A file whose size is known before it is read.
#pragma once

#include "minic/Support/Expected.h"

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace minic {

struct RegularFile {
  std::ifstream stream;
  uint64_t size = 0;
};

/// Errors: UnreadableFile, also for what has no size, such as a pipe.
Expected<RegularFile> openRegularFile(const std::filesystem::path &path);

} // namespace minic
