// The few things that minic reads in PTX which it is given.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace minic {

/// What `.target` says first, such as "sm_80"; empty if the text has none.
std::string ptxTarget(std::string_view text);
/// The parameters of `.entry` `entry`; nullopt if the text has no such entry.
std::optional<size_t> countPtxParams(std::string_view text, std::string_view entry);

} // namespace minic
