#include "EntryFormat.h"

#include "minic/Support/Checksum.h"
#include "minic/Support/LittleEndian.h"

namespace minic {
namespace {

/// As the magic of artifacts: no text, and damaged by whoever changes line ends.
constexpr std::string_view magic("\x89MNE\r\n\x1a\n", 8);
constexpr uint64_t smallestEntry = entryHeaderSize + 2 * checksumSize;

HeadExtent damaged(std::string fault) { return {.state = CacheEntry::Damaged, .fault = std::move(fault)}; }

} // namespace

uint64_t HeadExtent::size() const { return entryHeaderSize + keySize + descriptionSize + checksumSize; }

std::string encodeEntry(std::string_view key, std::string_view description, std::string_view value) {
  std::string bytes;
  uint64_t size = smallestEntry + key.size() + description.size() + value.size();
  bytes.reserve(size);
  bytes += magic;
  appendLittleEndian(bytes, entryFormat, 4);
  appendLittleEndian(bytes, 0, 4);
  appendLittleEndian(bytes, size, 8);
  appendLittleEndian(bytes, key.size(), 8);
  appendLittleEndian(bytes, description.size(), 8);
  bytes += key;
  bytes += description;
  bytes += checksum(bytes);
  bytes += value;
  bytes += checksum(bytes);
  return bytes;
}

HeadExtent decodeHeader(std::string_view bytes, uint64_t fileSize) {
  if (!bytes.starts_with(magic))
    return damaged("it does not begin as entries do");
  if (bytes.size() < 12)
    return damaged("it is cut off");
  if (readLittleEndian(bytes, 8, 4) != entryFormat)
    return {.state = CacheEntry::OtherFormat};
  if (fileSize < smallestEntry || bytes.size() < entryHeaderSize)
    return damaged("it is cut off");
  if (uint64_t size = readLittleEndian(bytes, 16, 8); size != fileSize)
    return damaged("it has " + std::to_string(fileSize) + " bytes where it says " + std::to_string(size));
  HeadExtent head{.keySize = readLittleEndian(bytes, 24, 8), .descriptionSize = readLittleEndian(bytes, 32, 8)};
  uint64_t room = fileSize - smallestEntry;
  if (head.keySize > room || head.descriptionSize > room - head.keySize)
    return damaged("its parts are larger than the file");
  return head;
}

DecodedEntry decodeHead(std::string_view bytes, uint64_t fileSize) {
  HeadExtent head = decodeHeader(bytes, fileSize);
  if (head.state != CacheEntry::Readable)
    return {.state = head.state, .fault = std::move(head.fault)};
  uint64_t checked = head.size() - checksumSize;
  if (bytes.size() < head.size() || bytes.substr(checked, checksumSize) != checksum(bytes.substr(0, checked)))
    return {.state = CacheEntry::Damaged, .fault = "the checksum of its key is not that of its bytes"};
  return {.key = bytes.substr(entryHeaderSize, head.keySize),
          .description = bytes.substr(entryHeaderSize + head.keySize, head.descriptionSize)};
}

DecodedEntry decodeEntry(std::string_view bytes) {
  DecodedEntry entry = decodeHead(bytes, bytes.size());
  if (entry.state != CacheEntry::Readable)
    return entry;
  std::string_view checked = bytes.substr(0, bytes.size() - checksumSize);
  if (bytes.substr(checked.size()) != checksum(checked))
    return {.state = CacheEntry::Damaged, .fault = "its checksum is not that of its bytes"};
  entry.value = checked.substr(entryHeaderSize + entry.key.size() + entry.description.size() + checksumSize);
  return entry;
}

} // namespace minic
