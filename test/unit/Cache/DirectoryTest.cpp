// Where the cache is, and which directories are refused.
#include "CacheTest.h"

#include <sys/mount.h>

namespace minic {
namespace {

class DirectoryTest : public CacheTest {
protected:
  Variable noDirectory{"MINIC_CACHE_DIR", nullptr}, noXdg{"XDG_CACHE_HOME", nullptr}, noSize{"MINIC_CACHE_SIZE", nullptr};

  std::string opened() {
    auto store = CacheStore::open({});
    return store ? (*store)->directory() : renderDiagnostics(store.errors(), nullptr);
  }
  std::string refusal() {
    auto store = CacheStore::open({.directory = directory.string()});
    return store ? "" : renderDiagnostics(store.errors(), nullptr);
  }
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(DirectoryTest, ComesFromTheEnvironment) {
  std::string home = base / "home", xdg = base / "xdg", own = base / "own";
  Variable homeIs("HOME", home.c_str());
  EXPECT_EQ(opened(), home + "/.cache/minic");
  EXPECT_EQ(std::filesystem::status(home).permissions(), std::filesystem::perms::owner_all);
  Variable xdgIs("XDG_CACHE_HOME", xdg.c_str());
  EXPECT_EQ(opened(), xdg + "/minic");
  Variable directoryIs("MINIC_CACHE_DIR", (own + "//a/./").c_str());
  EXPECT_EQ(opened(), own + "/a");
  Variable empty("MINIC_CACHE_DIR", "");
  EXPECT_EQ(opened(), xdg + "/minic");
}

TEST_F(DirectoryTest, ARelativeXdgPathIsIgnored) {
  std::string home = base / "home";
  Variable homeIs("HOME", home.c_str()), xdgIs("XDG_CACHE_HOME", "cache");
  EXPECT_EQ(opened(), home + "/.cache/minic");
}

TEST_F(DirectoryTest, NoHomeIsRefused) {
  Variable homeIs("HOME", nullptr);
  EXPECT_EQ(opened(), "error: there is no place for the cache: HOME is not set [E0908]\n"
                      "fix: set MINIC_CACHE_DIR to a directory of your own\n");
  Variable relative("HOME", "here");
  EXPECT_HAS(opened(), "HOME is 'here', which is relative [E0908]");
}

TEST_F(DirectoryTest, ALimitComesFromTheEnvironment) {
  auto limit = [&](const char *text) {
    Variable size("MINIC_CACHE_SIZE", text);
    auto store = CacheStore::open({.directory = directory.string()});
    return store ? (*store)->info().limit : 0;
  };
  EXPECT_EQ(limit(nullptr), uint64_t(1) << 30);
  EXPECT_EQ(limit(""), uint64_t(1) << 30);
  EXPECT_EQ(limit("1000"), 1000u);
  EXPECT_EQ(limit("3K"), 3072u);
  EXPECT_EQ(limit("512M"), uint64_t(512) << 20);
  EXPECT_EQ(limit("2G"), uint64_t(2) << 30);
  for (const char *bad : {"0", "K", "-1", "1.5G", "10X", "1GB", " 1G", "1G ", "99999999999G", "18446744073709551616"})
    EXPECT_EQ(limit(bad), 0u) << bad;
  Variable size("MINIC_CACHE_SIZE", "lots");
  EXPECT_HAS(refusal(), "MINIC_CACHE_SIZE is `lots`, expected a number of bytes");
  EXPECT_HAS(refusal(), "[E1001]");
}

TEST_F(DirectoryTest, WhatIsNoDirectoryIsRefused) {
  writeBytes(directory, "text");
  EXPECT_HAS(refusal(), "cache' is no directory, or is below a file [E0908]");
  directory /= "below";
  EXPECT_HAS(refusal(), "is no directory, or is below a file");
  EXPECT_EQ(readBytes(directory.parent_path()), "text");
}

TEST_F(DirectoryTest, WhatOthersMayWriteIsRefused) {
  std::filesystem::create_directory(directory);
  for (mode_t mode : {0770, 0707, 0777, 01777}) {
    ASSERT_EQ(chmod(directory.c_str(), mode), 0);
    EXPECT_HAS(refusal(), "can be written by other users [E0908]\nfix: `chmod go-w '" + directory.string());
  }
  ASSERT_EQ(chmod(directory.c_str(), 0755), 0);
  EXPECT_EQ(refusal(), "");
}

TEST_F(DirectoryTest, AnotherUsersIsRefused) {
  std::filesystem::create_directory(directory);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(directory.c_str(), 12345, gid_t(-1)), 0);
  } else {
    directory = "/usr";
  }
  EXPECT_HAS(refusal(),
             geteuid() == 0 ? "belongs to user 12345, and this is user 0 [E0908]" : "belongs to user 0, and this is user");
}

TEST_F(DirectoryTest, ALinkToADirectoryIsFollowed) {
  std::filesystem::create_directory(base / "real");
  ASSERT_EQ(chmod((base / "real").c_str(), 0700), 0);
  std::filesystem::create_symlink(base / "real", directory);
  open()->put(key("a"), "value");
  EXPECT_TRUE(std::filesystem::exists(base / "real" / (key("a").name() + ".entry")));
  std::filesystem::remove(directory);
  std::filesystem::create_symlink(directory, directory);
  EXPECT_HAS(refusal(), "cannot be opened: Too many levels of symbolic links");
}

TEST_F(DirectoryTest, WhatCannotBeMadeIsRefused) {
  std::filesystem::create_directory(base / "closed");
  ASSERT_EQ(chmod((base / "closed").c_str(), 0500), 0);
  giveToUser(base);
  giveToUser(base / "closed");
  directory = base / "closed" / "a" / "cache";
  EXPECT_HAS(inChild([&] { return refusal(); }, true), "cannot be made: Permission denied [E0908]\nfix: set MINIC_CACHE_DIR");
  // Not even root makes a directory there.
  directory = "/proc/minic/cache";
  EXPECT_HAS(refusal(), "cannot be made: No such file or directory [E0908]");
}

TEST_F(DirectoryTest, WhatCannotBeReadIsRefused) {
  std::filesystem::create_directory(directory);
  giveToUser(base);
  giveToUser(directory);
  ASSERT_EQ(chmod(directory.c_str(), 0300), 0);
  EXPECT_HAS(inChild([&] { return refusal(); }, true), "cannot be opened: Permission denied");
  ASSERT_EQ(chmod(directory.c_str(), 0600), 0);
  EXPECT_HAS(inChild([&] { return refusal(); }, true), "cannot be read by its owner [E0908]\nfix: `chmod u+rwx");
}

/// Reads and writes in a directory that may be read alone; what came of it and how often it was said.
std::string useReadOnly(CacheStore &store, const CacheKey &there, const CacheKey &other, const std::vector<std::string> &notices) {
  std::string text = store.get(there).value_or("no value");
  text += store.put(other, "value") ? ", kept" : ", not kept";
  text += store.info().writable ? ", writable" : ", read-only";
  return text + ", notices: " + std::to_string(notices.size()) + " " + (notices.empty() ? "" : notices.front());
}

TEST_F(DirectoryTest, AReadOnlyOneIsServed) {
  open()->put(key("a"), "value");
  for (const auto &path : {base, directory, fileOf(key("a"))})
    giveToUser(path);
  ASSERT_EQ(chmod(directory.c_str(), 0500), 0);
  std::string said = inChild(
      [&] {
        auto store = open();
        auto again = open();
        return useReadOnly(*store, key("a"), key("b"), notices);
      },
      true);
  EXPECT_HAS(said, "value, not kept, read-only, notices: 1 warning: the cache's directory '");
  EXPECT_HAS(said, "is read-only: what it has is used, and nothing is kept [E0908]\nfix: `chmod u+w");
}

TEST_F(DirectoryTest, AReadOnlyFileSystemIsServed) {
  std::string said = inChild([&]() -> std::string {
    if (!mountTmpfs(base, "size=1m"))
      return "no mounts";
    open()->put(key("a"), "value");
    if (mount("minic", base.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) != 0)
      return "no mounts";
    return useReadOnly(*open(), key("a"), key("b"), notices);
  });
  if (said == "no mounts")
    GTEST_SKIP() << "this process may not mount a file system";
  EXPECT_HAS(said, "value, not kept, read-only, notices: 1");
  EXPECT_HAS(said, "is on a read-only file system: what it has is used, and nothing is kept [E0908]\nfix: set MINIC_CACHE_DIR");
}

TEST_F(DirectoryTest, WhatIsRefusedIsOneNotice) {
  writeBytes(directory, "text");
  EXPECT_EQ(CacheStore::openIfUsable(options()), nullptr);
  EXPECT_EQ(CacheStore::openIfUsable(options()), nullptr);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_HAS(notices[0], "warning: the cache's directory");
  EXPECT_HAS(notices[0], "; nothing is cached [E0908]");
  std::filesystem::remove(directory);
  EXPECT_NE(CacheStore::openIfUsable(options()), nullptr);
}

} // namespace
} // namespace minic
