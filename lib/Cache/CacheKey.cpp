#include "minic/Cache/CacheKey.h"

#include "minic/Support/Checksum.h"
#include "minic/Support/LittleEndian.h"

#include <algorithm>
#include <cassert>

namespace minic {

CacheKey::CacheKey(std::string kind) { add("kind", std::move(kind)); }

CacheKey &CacheKey::add(std::string name, std::string text) {
  assert(std::ranges::none_of(list, [&](const Field &field) { return field.name == name; }) && "a field stands once");
  list.push_back({std::move(name), std::move(text)});
  return *this;
}

std::string CacheKey::bytes() const {
  std::string bytes;
  for (const Field &field : list) {
    appendLittleEndian(bytes, field.name.size(), 4);
    appendLittleEndian(bytes, field.text.size(), 8);
    bytes += field.name;
    bytes += field.text;
  }
  return bytes;
}

std::string CacheKey::name() const { return checksumText(bytes()); }

std::vector<CacheKey::Field> CacheKey::parse(std::string_view bytes) {
  constexpr size_t lengths = 12;
  std::vector<Field> fields;
  while (!bytes.empty()) {
    if (bytes.size() < lengths)
      return {};
    uint64_t name = readLittleEndian(bytes, 0, 4), text = readLittleEndian(bytes, 4, 8);
    bytes.remove_prefix(lengths);
    if (name > bytes.size() || text > bytes.size() - name)
      return {};
    fields.push_back({std::string(bytes.substr(0, name)), std::string(bytes.substr(name, text))});
    bytes.remove_prefix(name + text);
  }
  return fields;
}

} // namespace minic
