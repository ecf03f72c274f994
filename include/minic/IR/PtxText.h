// The few things that minic reads in PTX which it is given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// What `.target` says first, such as "sm_80"; empty if the text has none.
std::string ptxTarget(std::string_view text);

/// A kernel of a PTX text.
struct PtxEntry {
  std::string name;
  uint32_t line = 0;           ///< Of its name.
  std::vector<int64_t> params; ///< The bytes of each.
};
std::vector<PtxEntry> ptxEntries(std::string_view text);

} // namespace minic
