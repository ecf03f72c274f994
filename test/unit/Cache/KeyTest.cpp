#include "minic/Cache/CacheKey.h"
#include "minic/Support/Checksum.h"

#include <gtest/gtest.h>

#include <set>

using namespace minic;

namespace {

TEST(CacheKey, HasItsFieldsInOrder) {
  CacheKey key("cubin");
  key.add("ptx", "mov").add("driver", "13.0");
  std::vector<CacheKey::Field> expected = {{"kind", "cubin"}, {"ptx", "mov"}, {"driver", "13.0"}};
  EXPECT_EQ(key.fields(), expected);
  EXPECT_EQ(CacheKey::parse(key.bytes()), expected);
}

TEST(CacheKey, IsNamedByAHashOfItsBytes) {
  CacheKey key("a");
  // u32 length of the name, u64 length of the text, both.
  std::string bytes("\x04\0\0\0\x01\0\0\0\0\0\0\0kinda", 17);
  EXPECT_EQ(key.bytes(), bytes);
  EXPECT_EQ(key.name(), checksumText(bytes));
  EXPECT_EQ(key.name().size(), 32u);
  // XXH3 with 128 bits of nothing, from xxHash's own documentation and `xxh128sum /dev/null`.
  EXPECT_EQ(checksumText(""), "99aa06d3014798d86001c324468d497f");
}

TEST(CacheKey, KeepsFieldsApart) {
  auto key = [](std::vector<CacheKey::Field> fields) {
    CacheKey key("k");
    for (auto &[name, text] : fields)
      key.add(name, text);
    return key;
  };
  std::vector<CacheKey> keys = {
      key({}),
      key({{"a", ""}}),
      key({{"a", "b"}}),
      key({{"ab", ""}}),
      key({{"", "ab"}}),
      key({{"a", "b"}, {"c", "d"}}),
      key({{"c", "d"}, {"a", "b"}}),
      key({{"a", std::string("b\0", 2)}}),
      key({{"a", "bc"}, {"", "d"}}),
      key({{"a", "b\n"}}),
  };
  std::set<std::string> names, bytes;
  for (const CacheKey &each : keys) {
    names.insert(each.name());
    bytes.insert(each.bytes());
    EXPECT_EQ(CacheKey::parse(each.bytes()), each.fields());
  }
  EXPECT_EQ(names.size(), keys.size());
  EXPECT_EQ(bytes.size(), keys.size());
}

TEST(CacheKey, ParseRefusesWhatIsCutOff) {
  CacheKey key("artifact");
  key.add("ir", "text");
  std::string bytes = key.bytes();
  size_t first = 12 + std::string("kindartifact").size();
  for (size_t size = 1; size < bytes.size(); ++size)
    EXPECT_EQ(CacheKey::parse(bytes.substr(0, size)).size(), size == first ? 1u : 0u) << size;
  EXPECT_TRUE(CacheKey::parse(std::string(12, '\xff')).empty());
}

} // namespace
