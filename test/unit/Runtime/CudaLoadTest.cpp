// Executables under load on a GPU: many threads and streams, and what a run costs the host.
#include "CudaTest.h"

#include "../../../lib/Runtime/DriverApi.h"

#include <algorithm>
#include <chrono>
#include <thread>

using namespace minic;
using namespace minic::test;

namespace {

/// y = 2^count * x through `count` kernels and count - 1 temporaries.
Artifact chain(int count) {
  Artifact artifact = doubling(doubleKernel("twice"));
  Plan &plan = artifact.plans[0];
  plan.steps.clear();
  plan.buffers.resize(1);
  for (int i = 1; i <= count; ++i) {
    plan.buffers.push_back({{"", DType::F32, {n}}});
    plan.steps.push_back({.kind = PlanStep::Kind::Alloc, .result = i});
    plan.steps.push_back({.kind = PlanStep::Kind::Launch, .operands = {i - 1, i}, .kernel = 0, .grid = {DimExpr::ceilDiv(n, 32)}});
  }
  plan.resultBuffers = {count};
  return artifact;
}

/// 8 threads with 4 streams each run executables of 1 to 4 kernels on changing shapes, 10,000 times together.
TEST_F(Cuda, ManyThreadsAndStreams) {
  std::vector<std::shared_ptr<Executable>> executables;
  for (int count = 1; count <= 4; ++count)
    executables.push_back(*Executable::load(std::make_shared<Artifact>(chain(count)), device));
  std::atomic<int> wrong = 0;
  auto work = [&](int thread, int runs) {
    std::vector<std::shared_ptr<Stream>> streams;
    for (int s = 0; s < 4; ++s)
      streams.push_back(*Stream::create(device));
    std::vector<std::pair<Buffer, double>> pending; // A result and its factor.
    for (int i = 0; i < runs; ++i) {
      int count = (thread + i) % 4;
      const std::shared_ptr<Stream> &stream = streams[size_t(i % 4)];
      auto x = Buffer::upload(stream, iota(1 + (thread * 131 + i * 17) % 5000));
      if (!x) {
        ++wrong;
        return;
      }
      const TensorView in[] = {x->view()};
      auto y = executables[size_t(count)]->run(stream, in);
      if (!y) {
        ++wrong;
        return;
      }
      pending.emplace_back(std::move(y->front()), double(2 << count));
      if (pending.size() < 16) // Many runs are under way before one is looked at.
        continue;
      for (auto &[result, factor] : pending) {
        auto values = result.download();
        for (int64_t k = 0; values && k < values->numElements(); ++k)
          wrong += values->get(k) != factor * double(k);
        wrong += !values;
      }
      pending.clear();
    }
  };
  auto together = [&](int runs) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back(work, t, runs);
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_TRUE(device->finish());
  };
  auto hostBytes = [] {
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT_EQ(fscanf(file, "%ld %ld", &pages, &resident), 2);
    fclose(file);
    return resident * 4096;
  };
  together(250); // Everything that is kept is there.
  int64_t freeBefore = *device->freeBytes(), hostBefore = hostBytes();
  together(1250);
  EXPECT_EQ(wrong, 0);
  int64_t device_growth = freeBefore - *device->freeBytes(), host_growth = hostBytes() - hostBefore;
  std::printf("10000 runs: device memory grew by %lld bytes, host memory by %lld\n", (long long)device_growth,
              (long long)host_growth);
  EXPECT_LE(device_growth, int64_t(64) << 20); // The pool takes memory in pieces of 32 MiB.
  EXPECT_LE(host_growth, int64_t(16) << 20);
}

/// What `run` adds to the driver's own launch of the same kernel: rounds of each in turn.
TEST_F(Cuda, RunAddsLittleToALaunch) {
  using Clock = std::chrono::steady_clock;
  constexpr int rounds = 20, launches = 1000;
  Artifact artifact = doubling(doubleKernel("twice"));
  auto executable = *Executable::load(std::make_shared<Artifact>(artifact), device);
  auto stream = *Stream::create(device);
  auto x = Buffer::upload(stream, iota(1024)), y = Buffer::allocate(stream, DType::F32, {1024});
  ASSERT_TRUE(x && y);
  const TensorView in[] = {x->view()}, out[] = {y->view()};

  auto api = *cuda::DriverApi::open();
  cuda::CuContext context = nullptr;
  cuda::CuModule module = nullptr;
  cuda::CuFunction function = nullptr;
  ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&context, 0), cuda::success);
  ASSERT_EQ(api.cuCtxPushCurrent_v2(context), cuda::success);
  ASSERT_EQ(api.cuModuleLoadDataEx(&module, artifact.kernels[0].ptx.c_str(), 0, nullptr, nullptr), cuda::success);
  ASSERT_EQ(api.cuModuleGetFunction(&function, module, "twice"), cuda::success);
  auto *order = static_cast<cuda::CuStream>(stream->handle());
  auto bare = [&] {
    cuda::CuPointer from = x->memory(), to = y->memory();
    int32_t size = 1024;
    void *parameters[] = {&from, &to, &size};
    return api.cuLaunchKernel(function, 32, 1, 1, 32, 1, 1, 0, order, parameters, nullptr) == cuda::success;
  };
  auto ours = [&] { return bool(executable->run(*stream, in, out)); };
  auto time = [&](auto &&launch) {
    bool good = true;
    auto start = Clock::now();
    for (int i = 0; i < launches; ++i)
      good &= launch();
    double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count() / launches;
    EXPECT_TRUE(good);
    EXPECT_TRUE(stream->synchronize());
    return us;
  };
  time(bare);
  time(ours);
  std::vector<double> added, floor;
  for (int round = 0; round < rounds; ++round) {
    double first = time(bare), second = time(ours);
    floor.push_back(first);
    added.push_back(second - first);
  }
  std::ranges::sort(added);
  std::ranges::sort(floor);
  double median = (added[rounds / 2 - 1] + added[rounds / 2]) / 2;
  std::printf("cuLaunchKernel %.3f us; Executable::run adds %.3f us (median of %d rounds, least %.3f, most %.3f)\n",
              floor[rounds / 2], median, rounds, added.front(), added.back());
#ifdef NDEBUG // Checked containers cost more.
  EXPECT_LE(median, 0.4);
#endif
  cuda::CuContext popped = nullptr;
  api.cuModuleUnload(module);
  api.cuCtxPopCurrent_v2(&popped);
  api.cuDevicePrimaryCtxRelease_v2(0);
}

} // namespace
