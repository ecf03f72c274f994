// What cannot be written is dropped, said once, and leaves nothing behind.
#include "CacheTest.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/resource.h>

namespace minic {
namespace {

class FullDiskTest : public CacheTest {
protected:
  /// A store whose writes go through `write`, which may fail.
  std::unique_ptr<CacheStore> openWith(decltype(CacheHooks::write) write) {
    CacheOptions faulty = options();
    faulty.hooks.write = std::move(write);
    return open(std::move(faulty));
  }
};

TEST_F(FullDiskTest, AFailedWriteDropsTheEntry) {
  for (int error : {ENOSPC, EDQUOT, EIO, EFBIG}) {
    notices.clear();
    auto store = openWith([&](int, const void *, size_t) -> ssize_t {
      errno = error;
      return -1;
    });
    EXPECT_FALSE(store->put(key("a"), "value"));
    EXPECT_FALSE(store->put(key("b"), "value"));
    EXPECT_FALSE(store->get(key("a")));
    EXPECT_TRUE(files().empty());
    EXPECT_EQ(store->info().dropped, 2u);
    ASSERT_EQ(notices.size(), 1u) << allNotices();
    EXPECT_NE(notices[0].find(std::string(std::strerror(error)) + "; entries are not kept [E0908]"), std::string::npos)
        << notices[0];
  }
}

TEST_F(FullDiskTest, AWriteThatEndsEarlyGoesOn) {
  auto store = openWith([](int file, const void *bytes, size_t size) { return ::write(file, bytes, std::min<size_t>(size, 7)); });
  EXPECT_TRUE(store->put(key("a"), "a value of some length"));
  EXPECT_EQ(open()->get(key("a")), "a value of some length");
}

TEST_F(FullDiskTest, AnInterruptedWriteGoesOn) {
  int calls = 0;
  auto store = openWith([&](int file, const void *bytes, size_t size) -> ssize_t {
    if (++calls % 2) {
      errno = EINTR;
      return -1;
    }
    return ::write(file, bytes, std::min<size_t>(size, 16));
  });
  EXPECT_TRUE(store->put(key("a"), "value"));
  EXPECT_EQ(open()->get(key("a")), "value");
}

TEST_F(FullDiskTest, AWriterThatFailsHalfwayLeavesTheOldEntry) {
  open()->put(key("a"), "old");
  size_t room = 0;
  for (size_t limit : {0, 1, 10, 39, 40, 100}) {
    room = limit;
    auto store = openWith([&](int file, const void *bytes, size_t size) -> ssize_t {
      if (room == 0) {
        errno = ENOSPC;
        return -1;
      }
      ssize_t count = ::write(file, bytes, std::min(size, room));
      room -= size_t(count);
      return count;
    });
    EXPECT_FALSE(store->put(key("a"), "new"));
    EXPECT_EQ(store->get(key("a")), "old");
    EXPECT_EQ(files().size(), 1u);
  }
}

TEST_F(FullDiskTest, TheSystemsLimitOfFileSizes) {
  std::string said = inChild([&]() -> std::string {
    signal(SIGXFSZ, SIG_IGN);
    rlimit small{.rlim_cur = 1000, .rlim_max = 1000};
    if (setrlimit(RLIMIT_FSIZE, &small) != 0)
      return "no limits";
    auto store = open();
    std::string text = store->put(key("a"), std::string(2000, 'x')) ? "kept" : "dropped";
    text += store->put(key("b"), "value") && store->get(key("b")) == "value" ? ", kept" : ", dropped";
    return text + ", files: " + std::to_string(files().size()) + ", notices: " + std::to_string(notices.size());
  });
  if (said == "no limits")
    GTEST_SKIP() << "this process may not set limits";
  EXPECT_EQ(said, "dropped, kept, files: 1, notices: 1");
}

TEST_F(FullDiskTest, AFileSystemThatIsFull) {
  std::string said = inChild([&]() -> std::string {
    if (!mountTmpfs(base, "size=64k"))
      return "no mounts";
    auto store = open();
    int kept = 0;
    for (int i = 0; i < 40; ++i)
      kept += store->put(key(std::to_string(i)), std::string(6000, 'x'));
    int found = 0, wrong = 0;
    for (int i = 0; i < 40; ++i)
      if (auto value = store->get(key(std::to_string(i)))) {
        ++found;
        wrong += *value != std::string(6000, 'x');
      }
    CacheCheck check = store->verify();
    bool same = kept == found && kept > 0 && kept < 40 && check.good == uint64_t(kept) && check.damaged.empty();
    std::string text =
        same ? "those that were kept are there" : std::to_string(kept) + " kept, " + std::to_string(found) + " found";
    return text + ", wrong: " + std::to_string(wrong) + ", notices: " + std::to_string(notices.size()) +
           ", files: " + (files().size() == size_t(kept) ? "entries alone" : "others") + ", " + allNotices();
  });
  if (said == "no mounts")
    GTEST_SKIP() << "this process may not mount a file system";
  EXPECT_NE(said.find("those that were kept are there, wrong: 0, notices: 1, files: entries alone, "), std::string::npos) << said;
  EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
}

} // namespace
} // namespace minic
