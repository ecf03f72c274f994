// XXH3 with 128 bits, which tells whether bytes are those that were written (never for security).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace minic {

inline constexpr size_t checksumSize = 16;

/// XXH3 with 128 bits and seed 0, the most significant byte first, as `xxh128sum` prints it.
std::string checksum(std::string_view bytes);
/// The same in 32 hexadecimal digits.
std::string checksumText(std::string_view bytes);

} // namespace minic
