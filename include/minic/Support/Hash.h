// FNV-1a, for identities that must be equal in every process (never for security).
#pragma once

#include <cstdint>
#include <string_view>

namespace minic {

inline uint64_t stableHash(std::string_view bytes, uint64_t seed = 0xcbf29ce484222325ull) {
  for (unsigned char c : bytes)
    seed = (seed ^ c) * 0x100000001b3ull;
  return seed;
}

} // namespace minic
