// The cache stays within its limit, and keeps what was used last.
#include "CacheTest.h"

#include <atomic>
#include <thread>

namespace minic {
namespace {

using namespace std::chrono_literals;

class LimitTest : public CacheTest {
protected:
  /// A store whose time is `time`.
  std::unique_ptr<CacheStore> openAtTime(std::optional<uint64_t> limit = {}) {
    CacheOptions timed = options(limit);
    timed.hooks.clock = [this] { return time; };
    return open(std::move(timed));
  }
  std::string present(std::string_view names) {
    std::string found;
    for (char name : names)
      if (std::filesystem::exists(fileOf(key({name}))))
        found += name;
    return found;
  }
  static std::string value() { return std::string(1000, 'x'); }

  Clock::time_point time = Clock::from_time_t(Clock::to_time_t(Clock::now()));
};

TEST_F(LimitTest, TheLeastRecentlyUsedGoFirst) {
  uint64_t one = [&] {
    openAtTime()->put(key("0"), value());
    return bytesOfAll();
  }();
  auto store = openAtTime(one * 43 / 10); // Four are within 15/16 of it, three within 7/8.
  std::filesystem::remove(fileOf(key("0")));
  for (char name : std::string("abcd")) {
    store->put(key({name}), value());
    setTime(fileOf(key({name})), time - (1000s - name * 1s));
  }
  EXPECT_EQ(present("abcd"), "abcd");
  EXPECT_TRUE(store->get(key("a"))); // Used now, so b is the oldest.
  EXPECT_TRUE(store->put(key("e"), value()));
  EXPECT_EQ(present("abcde"), "ade");
  EXPECT_TRUE(store->put(key("f"), std::string(2000, 'x')));
  EXPECT_EQ(present("abcdef"), "ef");
  EXPECT_LE(bytesOfAll(), one * 43 / 10);
  EXPECT_EQ(store->info().evicted, 4u);
  EXPECT_TRUE(notices.empty()) << allNotices();
}

TEST_F(LimitTest, AHitIsWrittenDownOnceAMinute) {
  auto store = openAtTime();
  store->put(key("a"), value());
  auto file = fileOf(key("a"));
  setTime(file, time - 30s);
  store->get(key("a"));
  EXPECT_EQ(timeOf(file), time - 30s);
  setTime(file, time - 90s);
  store->get(key("a"));
  EXPECT_EQ(timeOf(file), time);
  setTime(file, time + 24h); // A clock was wrong.
  store->get(key("a"));
  EXPECT_EQ(timeOf(file), time);
  setTime(file, time - 90s);
  store->list();
  store->verify();
  EXPECT_EQ(timeOf(file), time - 90s) << "looking is no use";
}

TEST_F(LimitTest, WhatComesFromTheFutureGoesFirst) {
  auto store = openAtTime(3000);
  store->put(key("a"), value());
  store->put(key("b"), value());
  setTime(fileOf(key("a")), time - 500h);
  setTime(fileOf(key("b")), time + 500h);
  store->put(key("c"), value());
  EXPECT_EQ(present("abc"), "ac");
}

TEST_F(LimitTest, AnEntryLargerThanTheLimitIsNotKept) {
  auto store = openAtTime(3000);
  store->put(key("a"), value());
  EXPECT_FALSE(store->put(key("b"), std::string(3000, 'x')));
  EXPECT_EQ(present("ab"), "a");
  EXPECT_EQ(store->info().dropped, 1u);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("whose limit is 3000 [E0908]\nfix: set MINIC_CACHE_SIZE to more"), std::string::npos) << notices[0];
}

TEST_F(LimitTest, ASmallerLimitHoldsForWhatIsThere) {
  auto large = openAtTime();
  for (char name : std::string("abcdef"))
    large->put(key({name}), value());
  auto small = openAtTime(3000);
  EXPECT_TRUE(small->get(key("a")));
  small->put(key("g"), value());
  EXPECT_LE(bytesOfAll(), 3000u);
  EXPECT_EQ(present("g"), "g");
}

TEST_F(LimitTest, HoldsForManySmallEntriesOfWhichFewMakeRoom) {
  constexpr uint64_t limit = 1 << 20;
  auto store = openAtTime(limit);
  for (int i = 0; i < 6000; ++i) {
    ASSERT_TRUE(store->put(key(std::to_string(i)), "some value"));
    if (i % 250 == 0) {
      EXPECT_LE(bytesOfAll(), limit) << i;
    }
  }
  EXPECT_LE(bytesOfAll(), limit);
  EXPECT_GT(bytesOfAll(), limit / 4 * 3);
  EXPECT_TRUE(store->get(key("5999")));
}

TEST_F(LimitTest, LeftoversAreRemovedWhenTheyAreOld) {
  auto store = openAtTime(100000);
  store->put(key("a"), value());
  auto leftover = [&](char digit, Clock::duration age) {
    auto path = directory / (key("a").name() + "." + std::string(16, digit) + ".part");
    writeBytes(path, "half");
    setTime(path, time - age);
    return path;
  };
  auto old = leftover('0', 11min), young = leftover('1', 9min);
  store->put(key("b"), value());
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(young));
  time += 2min;
  EXPECT_EQ(store->verify().leftovers, 1u);
  EXPECT_FALSE(std::filesystem::exists(young));
}

TEST_F(LimitTest, OthersFilesAreNoEntries) {
  auto store = openAtTime(3000);
  std::string name(32, '0');
  std::vector<std::string> others = {
      "notes.txt", name, name + ".entry.bak", std::string(31, '0') + ".entry", std::string(32, 'X') + ".entry", name + ".0.part"};
  for (const std::string &other : others) {
    writeBytes(directory / other, std::string(5000, 'x'));
    setTime(directory / other, time - 1000h);
  }
  std::filesystem::create_directory(directory / (name + ".entry"));
  std::filesystem::create_symlink(directory / "notes.txt", directory / (std::string(32, '1') + ".entry"));
  EXPECT_TRUE(store->put(key("a"), value()));
  EXPECT_EQ(store->info().entries, 1u);
  EXPECT_EQ(store->list().size(), 1u);
  EXPECT_EQ(store->verify().good, 1u);
  ASSERT_TRUE(store->clear());
  EXPECT_EQ(files().size(), others.size() + 2);
}

TEST_F(LimitTest, HoldsUnderContention) {
  constexpr uint64_t limit = 20000;
  std::vector<pid_t> children;
  for (int process = 0; process < 4; ++process)
    if (children.emplace_back(fork()); children.back() == 0) {
      auto store = CacheStore::open({.directory = directory.string(), .limit = limit});
      std::atomic<int> wrong = !store;
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 4 && store; ++thread)
        threads.emplace_back([&, thread] {
          for (int i = 0; i < 40; ++i) {
            std::string ir = std::to_string((i * 7 + thread + process * 3) % 50), value(size_t(500 + i * 10), ir[0]);
            wrong += !(*store)->put(key(ir), value);
            auto found = (*store)->get(key(ir));
            wrong += found && found->find_first_not_of(ir[0]) != std::string::npos;
          }
        });
      for (std::thread &thread : threads)
        thread.join();
      _exit(wrong || (*store)->info().damaged ? 1 : 0);
    }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_LE(bytesOfAll(), limit);
  EXPECT_GT(bytesOfAll(), limit / 2);
  EXPECT_TRUE(open()->verify().damaged.empty());
}

} // namespace
} // namespace minic
