// The bytes of an entry (docs/cache.md): header, key, description, their checksum, value, the checksum of all of it.
#pragma once

#include "minic/Cache/CacheStore.h"

namespace minic {

inline constexpr uint32_t entryFormat = 1;
inline constexpr size_t entryHeaderSize = 40;

std::string encodeEntry(std::string_view key, std::string_view description, std::string_view value);

/// Views into the bytes that were decoded; those of a readable entry alone mean something.
struct DecodedEntry {
  CacheEntry::State state = CacheEntry::Readable;
  std::string fault = {}; ///< Of a damaged one: "its ...".
  std::string_view key = {}, description = {}, value = {};
};

/// What has to be read after the header before `decodeHead` can be called. It is less than the size of the file, whatever the
/// header says.
struct HeadExtent {
  CacheEntry::State state = CacheEntry::Readable;
  std::string fault = {};
  uint64_t keySize = 0, descriptionSize = 0;
  uint64_t size() const; ///< With the header and the checksum.
};
/// `bytes` begins with the header, unless the file is shorter.
HeadExtent decodeHeader(std::string_view bytes, uint64_t fileSize);
/// Checks and gives key and description; `bytes` is the head. No value.
DecodedEntry decodeHead(std::string_view bytes, uint64_t fileSize);
/// Checks and gives everything.
DecodedEntry decodeEntry(std::string_view bytes);

} // namespace minic
