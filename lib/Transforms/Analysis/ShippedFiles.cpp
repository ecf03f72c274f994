#include "ScheduleFile.h"

namespace minic {

std::span<const ShippedFile> shippedFiles() {
  static constexpr ShippedFile files[] = {
#include "ShippedFiles.inc"
  };
  return files;
}

} // namespace minic
