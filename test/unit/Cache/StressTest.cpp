// Processes of threads in one directory, some of them killed. MINIC_STRESS_ROUNDS makes it longer.
#include "CacheTest.h"

#include <atomic>
#include <csignal>
#include <random>
#include <thread>

namespace minic {
namespace {

constexpr int processes = 10, threads = 8;
constexpr uint64_t limit = 150000; // About half of all values, so there is always something to put and to remove.

/// What everybody puts under a key: so whoever gets something else got something wrong.
std::string valueOf(int number) {
  return std::string(size_t(200 + number * 97 % 9000), char('a' + number % 26)) + std::to_string(number);
}

CacheKey keyOf(int number) {
  CacheKey key("artifact");
  key.add("ir", "graph @g" + std::to_string(number) + "\n" + std::string(size_t(number * 13 % 700), '.')).add("target", "sm_90a");
  return key;
}

/// One thread's part of a round: 0, or what went wrong.
int work(CacheStore &store, uint64_t seed) {
  std::minstd_rand random(uint32_t(seed * 2654435761u + 1));
  for (int step = 0; step < 4; ++step) {
    int number = int(random() % 60);
    auto value = store.get(keyOf(number));
    if (value && *value != valueOf(number))
      return 2;
    if (!value && !store.put(keyOf(number), valueOf(number)))
      return 3;
    if (random() % 200 == 0)
      store.verify();
  }
  return 0;
}

class StressTest : public CacheTest {
protected:
  /// Makes what the killed were writing old, so that later writers remove it; how many there are.
  size_t ageLeftovers() {
    size_t leftovers = 0;
    for (const std::string &file : files())
      if (file.ends_with(".part")) {
        setTime(directory / file, Clock::now() - std::chrono::hours(2));
        ++leftovers;
      }
    return leftovers;
  }

  /// The process of a round; its exit code is what went wrong.
  [[noreturn]] void runProcess(uint64_t seed) {
    // Slow writers, so that some are killed while they write.
    auto write = [](int file, const void *bytes, size_t size) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      return ::write(file, bytes, std::min<size_t>(size, 2000));
    };
    auto store = CacheStore::open({.directory = directory.string(), .limit = limit, .hooks = {.write = write}});
    if (!store)
      _exit(4);
    std::atomic<int> failure = 0;
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; ++thread)
      running.emplace_back([&, thread] {
        if (int code = work(**store, seed * threads + uint64_t(thread)))
          failure = code;
      });
    for (std::thread &thread : running)
      thread.join();
    if ((*store)->info().damaged != 0)
      failure = 5;
    _exit(failure);
  }
};

TEST_F(StressTest, ProcessesOfThreadsSomeKilled) {
  const char *wanted = std::getenv("MINIC_STRESS_ROUNDS");
  int rounds = wanted ? std::atoi(wanted) : 200;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::minstd_rand random(7);
  int done = 0, killed = 0, finished = 0;
  size_t leftovers = 0;
  for (; done < rounds && (wanted || std::chrono::steady_clock::now() < end); ++done) {
    std::vector<pid_t> children;
    for (int process = 0; process < processes; ++process) {
      if (children.emplace_back(fork()); children.back() == 0)
        runProcess(uint64_t(done * processes + process));
      // About three of ten die early, most of them at work.
      if (random() % 10 < 3) {
        std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 4000));
        kill(children.back(), SIGKILL);
      }
    }
    for (pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      bool isKilled = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      ASSERT_TRUE(isKilled || status == 0) << "exit code " << WEXITSTATUS(status) << " in round " << done
                                           << "; 2: a wrong value, 3: not kept, 4: not opened, 5: damaged";
      (isKilled ? killed : finished) += 1;
    }
    leftovers += ageLeftovers();
  }

  // Nothing is damaged, nothing is left but entries and what the killed were writing, and a later writer makes all as it should be.
  auto store = open(options(limit));
  EXPECT_TRUE(store->verify().damaged.empty());
  for (const std::string &file : files())
    EXPECT_TRUE(file.ends_with(".part") || file.ends_with(".entry")) << file;
  EXPECT_TRUE(store->put(keyOf(0), valueOf(0)));
  EXPECT_EQ(store->info().entries, files().size());
  EXPECT_LE(bytesOfAll(), limit);
  std::printf("%d rounds, %d processes killed, %d finished, %zu leftovers, %zu entries\n", done, killed, finished, leftovers,
              files().size());
  EXPECT_GT(done, 0);
}

} // namespace
} // namespace minic
