// Whatever stands in an entry's file, `get` gives the value that was put, or nothing.
#include "CacheTest.h"

namespace minic {
namespace {

class DamageTest : public CacheTest {
protected:
  DamageTest() : store(open()) {
    store->put(key("graph @g"), "the value", "g");
    good = readBytes(fileOf(key("graph @g")));
  }
  /// What `get` makes of a file with these bytes.
  std::optional<std::string> getFrom(std::string_view bytes) {
    writeBytes(fileOf(key("graph @g")), bytes);
    return store->get(key("graph @g"));
  }
  bool isThere() const { return std::filesystem::exists(fileOf(key("graph @g"))); }

  std::unique_ptr<CacheStore> store;
  std::string good;
};

TEST_F(DamageTest, OfAnyByteIsFound) {
  uint64_t damaged = 0;
  for (size_t at = 0; at < good.size(); ++at)
    for (int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[at] = char(bytes[at] ^ flip);
      EXPECT_FALSE(getFrom(bytes)) << at;
      bool otherFormat = at >= 8 && at < 12;
      damaged += !otherFormat;
      EXPECT_EQ(isThere(), otherFormat) << at;
      EXPECT_EQ(store->info().damaged, damaged) << at;
    }
  EXPECT_EQ(getFrom(good), "the value");
}

TEST_F(DamageTest, TruncatedAnywhereIsFound) {
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(getFrom(good.substr(0, size))) << size;
    EXPECT_FALSE(isThere()) << size;
  }
  EXPECT_EQ(store->info().damaged, good.size());
}

TEST_F(DamageTest, LongerIsFound) {
  EXPECT_FALSE(getFrom(good + std::string(1, '\0')));
  EXPECT_FALSE(getFrom(good + good));
}

TEST_F(DamageTest, SizesAreBoundedByTheFile) {
  // Sizes of the file, of the key and of the description, each as large as it gets.
  for (size_t at : {16, 24, 32}) {
    std::string bytes = good;
    for (size_t i = 0; i < 8; ++i)
      bytes[at + i] = '\xff';
    EXPECT_FALSE(getFrom(bytes)) << at;
    EXPECT_FALSE(isThere()) << at;
    writeBytes(fileOf(key("graph @g")), bytes);
    ASSERT_EQ(store->list().size(), 1u);
    EXPECT_EQ(store->list()[0].state, CacheEntry::Damaged);
  }
}

TEST_F(DamageTest, AHugeFileIsNotRead) {
  // A good entry and 1 TiB of nothing behind it.
  writeBytes(fileOf(key("graph @g")), good);
  if (truncate(fileOf(key("graph @g")).c_str(), off_t(1) << 40) != 0)
    GTEST_SKIP() << "the file system has no such files";
  EXPECT_FALSE(store->get(key("graph @g")));
}

TEST_F(DamageTest, IsReportedOnceAndRebuilt) {
  std::string bytes = good;
  bytes.back() ^= 1;
  EXPECT_FALSE(getFrom(bytes));
  EXPECT_FALSE(store->get(key("graph @g")));
  EXPECT_EQ(notices.size(), 1u) << allNotices();
  EXPECT_EQ(notices[0], "warning: the cache's entry '" + fileOf(key("graph @g")).string() +
                            "' is damaged: its checksum is not that of its bytes [E0909]\n"
                            "fix: none needed: it was removed, and is made again\n");
  EXPECT_TRUE(store->put(key("graph @g"), "the value"));
  EXPECT_EQ(store->get(key("graph @g")), "the value");
}

TEST_F(DamageTest, AnotherFormatIsAMissAndStays) {
  std::string bytes = good;
  bytes[8] = 2;
  EXPECT_FALSE(getFrom(bytes));
  EXPECT_TRUE(isThere());
  EXPECT_TRUE(notices.empty()) << allNotices();
  EXPECT_EQ(store->info().damaged, 0u);
  EXPECT_EQ(store->list()[0].state, CacheEntry::OtherFormat);
  CacheCheck check = store->verify();
  EXPECT_EQ(check.otherFormat, 1u);
  EXPECT_TRUE(isThere());
  store->put(key("graph @g"), "the value");
  EXPECT_EQ(store->get(key("graph @g")), "the value");
}

TEST_F(DamageTest, AnEntryUnderAnotherNameIsAMiss) {
  std::filesystem::copy_file(fileOf(key("graph @g")), fileOf(key("graph @h")));
  EXPECT_FALSE(store->get(key("graph @h")));
  EXPECT_EQ(store->get(key("graph @g")), "the value");
}

TEST_F(DamageTest, LinksAreNotFollowed) {
  auto elsewhere = base / "elsewhere";
  std::filesystem::rename(fileOf(key("graph @g")), elsewhere);
  std::filesystem::create_symlink(elsewhere, fileOf(key("graph @g")));
  EXPECT_FALSE(store->get(key("graph @g")));
  EXPECT_NE(allNotices().find("cannot be read: it is a symbolic link"), std::string::npos) << allNotices();
  EXPECT_TRUE(store->put(key("graph @g"), "new"));
  EXPECT_EQ(store->get(key("graph @g")), "new");
  EXPECT_FALSE(std::filesystem::is_symlink(fileOf(key("graph @g"))));
  EXPECT_EQ(readBytes(elsewhere), good);
}

TEST_F(DamageTest, WhatIsNoFileIsAMiss) {
  std::filesystem::remove(fileOf(key("graph @g")));
  ASSERT_EQ(mkfifo(fileOf(key("graph @g")).c_str(), 0600), 0);
  EXPECT_FALSE(store->get(key("graph @g")));
  std::filesystem::remove(fileOf(key("graph @g")));
  std::filesystem::create_directory(fileOf(key("graph @g")));
  EXPECT_FALSE(store->get(key("graph @g")));
  EXPECT_FALSE(store->put(key("graph @g"), "the value"));
  EXPECT_EQ(files().size(), 1u) << "what was written must not stay";
  EXPECT_NE(allNotices().find("cannot be read: it is no regular file"), std::string::npos) << allNotices();
}

} // namespace
} // namespace minic
