#include "minic/Support/Checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace minic {

std::string checksum(std::string_view bytes) {
  XXH128_canonical_t digest;
  static_assert(sizeof digest.digest == checksumSize);
  XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes.data(), bytes.size()));
  return {reinterpret_cast<const char *>(digest.digest), checksumSize};
}

std::string checksumText(std::string_view bytes) {
  std::string text;
  for (unsigned char byte : checksum(bytes)) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

} // namespace minic
