// The text form of tables of schedules.
#pragma once

#include "minic/Transforms/Analysis/ScheduleTable.h"

#include <span>
#include <string_view>

namespace minic {

inline constexpr std::string_view schedulesHeader = "minic schedules 2";

/// A file of lib/Transforms/Schedules, which the build puts into the library.
struct ShippedFile {
  std::string_view name, text;
};
std::span<const ShippedFile> shippedFiles();

} // namespace minic
