// Numbers in files: the least significant byte first, on any machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace minic {

/// Appends the low `width` bytes of a number.
inline void appendLittleEndian(std::string &bytes, uint64_t value, int width) {
  for (int i = 0; i < width; ++i)
    bytes += char(value >> (8 * i) & 0xff);
}

/// The number in `width` bytes from `offset` on, which must be there.
inline uint64_t readLittleEndian(std::string_view bytes, size_t offset, int width) {
  uint64_t value = 0;
  for (int i = 0; i < width; ++i)
    value |= uint64_t(static_cast<unsigned char>(bytes[offset + size_t(i)])) << (8 * i);
  return value;
}

} // namespace minic
