#include "CacheTest.h"

#include "minic/Cache/CacheUse.h"

#include <atomic>
#include <thread>

namespace minic {
namespace {

TEST_F(CacheTest, GivesWhatWasPut) {
  auto store = open();
  EXPECT_FALSE(store->get(key("a")));
  EXPECT_TRUE(store->put(key("a"), "value of a"));
  EXPECT_EQ(store->get(key("a")), "value of a");
  EXPECT_FALSE(store->get(key("b")));
  EXPECT_FALSE(store->get(key("a", "sm_80")));
  CacheInfo info = store->info();
  EXPECT_EQ(info.hits, 1u);
  EXPECT_EQ(info.misses, 3u);
  EXPECT_EQ(info.kept, 1u);
  EXPECT_EQ(info.dropped + info.damaged + info.evicted, 0u);
  EXPECT_TRUE(notices.empty()) << allNotices();
}

TEST_F(CacheTest, KeepsForOtherStores) {
  open()->put(key("a"), "value");
  EXPECT_EQ(open()->get(key("a")), "value");
  EXPECT_EQ(inChild([&] { return open()->get(key("a")).value_or("none"); }), "value");
}

TEST_F(CacheTest, TakesAnyBytesAndSizes) {
  auto store = open();
  std::string all(256, '\0');
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = char(i);
  const std::vector<std::string> values = {"", std::string("\0", 1), all, std::string(3 << 20, 'x')};
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(store->put(key(all + std::to_string(i)), values[i]));
    EXPECT_EQ(store->get(key(all + std::to_string(i))), values[i]);
  }
}

TEST_F(CacheTest, ReplacesAValue) {
  auto store = open();
  store->put(key("a"), "one");
  store->put(key("a"), "two");
  EXPECT_EQ(store->get(key("a")), "two");
  EXPECT_EQ(files(), std::vector<std::string>{key("a").name() + ".entry"});
}

TEST_F(CacheTest, FilesAreForTheirUserAlone) {
  mode_t before = umask(0);
  open()->put(key("a"), "value");
  umask(before);
  EXPECT_EQ(std::filesystem::status(directory).permissions(), std::filesystem::perms::owner_all);
  EXPECT_EQ(std::filesystem::status(fileOf(key("a"))).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(CacheTest, ACollisionIsAMiss) {
  CacheOptions same = options();
  same.hooks.nameOf = [](std::string_view) { return std::string(32, '0'); };
  auto store = open(std::move(same));
  store->put(key("a"), "value of a");
  EXPECT_FALSE(store->get(key("b")));
  EXPECT_EQ(store->get(key("a")), "value of a");
  store->put(key("b"), "value of b");
  EXPECT_EQ(store->get(key("b")), "value of b");
  EXPECT_FALSE(store->get(key("a")));
  EXPECT_EQ(store->info().damaged, 0u);
  EXPECT_TRUE(notices.empty()) << allNotices();
}

TEST_F(CacheTest, ThreadsShareAStore) {
  auto store = open();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 8; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 40; ++i) {
        std::string ir = std::to_string((i + thread) % 10);
        auto value = store->get(key(ir));
        wrong += value && *value != "value of " + ir;
        if (!value)
          wrong += !store->put(key(ir), "value of " + ir);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files().size(), 10u);
  CacheInfo info = store->info();
  EXPECT_EQ(info.hits + info.misses, 320u);
}

TEST_F(CacheTest, AReaderSeesOldOrNewWhileAnotherProcessWrites) {
  std::string one(200000, '1'), two(150000, '2');
  auto store = open();
  store->put(key("a"), one);
  pid_t writer = fork();
  if (writer == 0) {
    auto mine = open();
    for (int i = 0; i < 200; ++i)
      mine->put(key("a"), i % 2 ? one : two);
    _exit(0);
  }
  int status = 0, reads = 0, wrong = 0;
  while (waitpid(writer, &status, WNOHANG) == 0) {
    auto value = store->get(key("a"));
    wrong += !value || (*value != one && *value != two);
    ++reads;
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(wrong, 0) << "of " << reads;
  EXPECT_EQ(store->info().damaged, 0u);
}

TEST_F(CacheTest, ADirectoryThatGoesAwayIsNoticedOnce) {
  auto store = open();
  store->put(key("a"), "value");
  std::filesystem::remove_all(directory);
  EXPECT_FALSE(store->get(key("a")));
  EXPECT_FALSE(store->put(key("a"), "value"));
  EXPECT_FALSE(store->put(key("b"), "value"));
  EXPECT_EQ(notices.size(), 1u) << allNotices();
  EXPECT_EQ(store->info().dropped, 2u);
  EXPECT_TRUE(store->list().empty());
}

TEST_F(CacheTest, WhatIsRejectedIsRemovedAndWasNoHit) {
  auto store = open();
  ASSERT_TRUE(store->put(key("a"), "one"));
  ASSERT_TRUE(store->get(key("a")));
  store->reject(key("a"), "is refused by the driver: for a test");
  CacheInfo info = store->info();
  EXPECT_EQ(info.entries, 0u);
  EXPECT_EQ(info.hits, 0u);
  EXPECT_EQ(info.misses, 1u);
  EXPECT_EQ(info.damaged, 1u);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("is refused by the driver: for a test"), std::string::npos) << notices[0];
  EXPECT_NE(notices[0].find("E0909"), std::string::npos) << notices[0];
  ASSERT_TRUE(store->put(key("a"), "two"));
  ASSERT_TRUE(store->get(key("a")));
  store->reject(key("a"), "is refused by the driver: again");
  EXPECT_EQ(notices.size(), 1u); // Once for an entry.
  EXPECT_FALSE(store->get(key("a")));
}

TEST_F(CacheTest, WordsOfUse) {
  std::string there = directory.string();
  auto off = openCache("off", {.directory = there});
  ASSERT_TRUE(off);
  EXPECT_EQ(off->store, nullptr);
  EXPECT_FALSE(std::filesystem::exists(directory));
  for (auto [word, policy] :
       {std::pair("on", CachePolicy::Use), {"refresh", CachePolicy::Refresh}, {"must-hit", CachePolicy::MustHit}}) {
    auto use = openCache(word, {.directory = there});
    ASSERT_TRUE(use) << word;
    EXPECT_NE(use->store, nullptr) << word;
    EXPECT_EQ(use->policy, policy) << word;
  }
  auto wrong = openCache("sometimes");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.errors().front().code, ErrorCode::BadFlag);
  // Where nothing may be compiled, no cache is an error; else it is a notice.
  writeBytes(base / "file", "");
  CacheOptions refused = options();
  refused.directory = (base / "file").string();
  EXPECT_FALSE(openCache("must-hit", refused));
  EXPECT_TRUE(notices.empty());
  auto without = openCache("on", refused);
  ASSERT_TRUE(without);
  EXPECT_EQ(without->store, nullptr);
  EXPECT_EQ(notices.size(), 1u);
}

} // namespace
} // namespace minic
