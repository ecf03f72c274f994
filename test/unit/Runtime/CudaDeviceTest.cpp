#include "CudaTest.h"

#include "../../../lib/Runtime/DriverApi.h"

#include <algorithm>
#include <cmath>
#include <dlfcn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace minic;
using namespace minic::test;

namespace {

TEST(CudaAvailable, NeverAborts) {
  std::string why = "unset";
  bool available = cudaAvailable(why);
  EXPECT_EQ(available, why.empty()) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos);
  auto client = Client::open();
  EXPECT_EQ(client && (*client)->deviceCount() > 0, available);
  if (!client) {
    ErrorCode code = client.errors().front().code;
    EXPECT_TRUE(code == ErrorCode::NoDriver || code == ErrorCode::NoDevice) << client.errors().front().message;
  }
}

TEST_F(Cuda, SaysWhatItIs) {
  const GpuProperties &properties = device->properties();
  EXPECT_EQ(device->name(), "cuda:0");
  EXPECT_FALSE(properties.model.empty());
  EXPECT_GE(properties.computeCapability, 50);
  EXPECT_GT(properties.multiprocessors, 0);
  EXPECT_GT(properties.l2Bytes, 0);
  EXPECT_GE(client->driverVersion(), 11040);
  auto free = device->freeBytes();
  ASSERT_TRUE(free);
  EXPECT_GT(*free, 0);
  EXPECT_LE(*free, properties.memoryBytes);
  for (int ordinal : {1000, -1}) {
    auto none = client->device(ordinal);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.errors().front().code, ErrorCode::NoDevice);
  }
  auto again = client->device(0);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, device); // One object for a device.
}

TEST_F(Cuda, RunsAPlan) {
  Artifact artifact = doubling(doubleKernel("twice"));
  for (int64_t size : {1, 31, 32, 33, 100000, 0}) {
    auto results = run(artifact, size);
    ASSERT_TRUE(results) << results.errors().front().message;
    for (int64_t i = 0; i < size; ++i)
      ASSERT_EQ(results->front().get(i), double(2 * i));
  }
}

TEST_F(Cuda, CopiesOfAllSizes) {
  // Less than a chunk of staging memory, exactly one, and many with a rest.
  for (size_t size : {size_t(0), size_t(1), size_t(1000), size_t(4) << 20, (size_t(100) << 20) + 13}) {
    std::vector<std::byte> bytes(size), back(size);
    for (size_t i = 0; i < size; ++i)
      bytes[i] = std::byte(i * 7 + i / 251);
    auto a = device->allocate(int64_t(size), nullptr), b = device->allocate(int64_t(size), nullptr);
    ASSERT_TRUE(a && b);
    EXPECT_EQ(*a % 256, 0u);
    ASSERT_TRUE(device->copyFromHost(*a, bytes, nullptr));
    ASSERT_TRUE(device->poison(*b, int64_t(size), nullptr));
    ASSERT_TRUE(device->copy(*b, *a, int64_t(size), nullptr));
    ASSERT_TRUE(device->copyToHost(back, *b, nullptr));
    EXPECT_TRUE(bytes == back) << size;
    ASSERT_TRUE(device->poison(*b, int64_t(size), nullptr));
    ASSERT_TRUE(device->copyToHost(back, *b, nullptr));
    EXPECT_TRUE(std::ranges::all_of(back, [](std::byte byte) { return byte == std::byte(0xff); }));
    device->release(*a, nullptr);
    device->release(*b, nullptr);
  }
}

TEST_F(Cuda, CopiesFromManyThreadsShareTheStaging) {
  // More threads than there are chunks, each holding one while it asks for the next.
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 24; ++t)
    threads.emplace_back([&, t] {
      auto stream = Stream::create(device);
      HostTensor tensor(DType::I32, {3 << 20});
      for (int round = 0; round < 3; ++round) {
        std::ranges::fill(std::span(tensor.as<int32_t>(), size_t(tensor.numElements())), t * 1000 + round);
        auto buffer = Buffer::upload(*stream, tensor);
        auto back = buffer ? buffer->download() : buffer.takeErrors();
        if (!back || !std::ranges::equal(back->bytes(), tensor.bytes()))
          ++wrong;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Cuda, SameNameWithOtherTextIsAnotherKernel) {
  Artifact artifact = doubling(doubleKernel("twice"));
  ASSERT_TRUE(run(artifact, 10));
  std::string &ptx = artifact.kernels[0].ptx;
  ptx.replace(ptx.find("add.f32"), 7, "mul.f32"); // The same length.
  auto results = run(artifact, 10);
  ASSERT_TRUE(results);
  EXPECT_EQ(results->front().get(9), 81);
}

TEST_F(Cuda, RunsFromAnotherThread) {
  Artifact artifact = doubling(doubleKernel("twice"));
  ASSERT_TRUE(run(artifact, 10));
  std::thread([&] {
    auto results = run(artifact, 10);
    ASSERT_TRUE(results) << results.errors().front().message;
    EXPECT_EQ(results->front().get(9), 18);
  }).join();
}

TEST_F(Cuda, HostBytesMayChangeAtOnce) {
  constexpr int64_t count = 1 << 20;
  auto stream = Stream::create(device);
  ASSERT_TRUE(stream);
  StreamHandle order = (*stream)->handle();
  auto from = device->allocate(count * 4, order), to = device->allocate(count * 4, order);
  ASSERT_TRUE(from && to);
  Artifact artifact = doubling(doubleKernel("twice"));
  const int64_t grid[] = {count / 32};
  const DeviceMemory buffers[] = {*from, *to};
  auto launch = device->prepare(artifact, 0, grid, {{"N", count}});
  ASSERT_TRUE(launch) << launch.errors().front().message;
  std::vector<float> host(count);
  for (int round = 0; round < 200; ++round) {
    std::ranges::fill(host, float(round));
    ASSERT_TRUE(device->copyFromHost(*from, std::as_bytes(std::span(host)), order));
    std::ranges::fill(host, -1.0f);
    ASSERT_TRUE((*launch)->enqueue(order, buffers));
    ASSERT_TRUE(device->copyToHost(std::as_writable_bytes(std::span(host)), *to, order));
    ASSERT_TRUE(std::ranges::all_of(host, [&](float value) { return value == 2.0f * float(round); })) << round;
  }
  // Released right after a launch that reads it: in the order of the stream.
  ASSERT_TRUE((*launch)->enqueue(order, buffers));
  device->release(*from, order);
  EXPECT_TRUE((*stream)->synchronize());
  device->release(*to, order);
}

TEST_F(Cuda, BuffersMayGoAtOnce) {
  constexpr int64_t count = 1 << 20;
  auto executable = Executable::load(std::make_shared<Artifact>(doubling(doubleKernel("twice"))), device);
  auto stream = Stream::create(device);
  ASSERT_TRUE(executable && stream);
  HostTensor host(DType::F32, {count});
  for (int round = 0; round < 100; ++round) {
    std::fill_n(host.as<float>(), count, float(round));
    auto y = Buffer::allocate(*stream, DType::F32, {count});
    ASSERT_TRUE(y);
    {
      auto x = Buffer::upload(*stream, host);
      ASSERT_TRUE(x);
      const TensorView in[] = {x->view()}, out[] = {y->view()};
      ASSERT_TRUE((*executable)->run(**stream, in, out));
    }
    // What takes the memory next comes after the launch.
    auto next = Buffer::allocate(*stream, DType::F32, {count});
    ASSERT_TRUE(next && device->poison(next->memory(), next->bytes(), (*stream)->handle()));
    auto back = y->download();
    ASSERT_TRUE(back);
    ASSERT_TRUE(std::all_of(back->as<float>(), back->as<float>() + count, [&](float v) { return v == 2.0f * float(round); }))
        << round;
  }
}

TEST_F(Cuda, RunsThatDoNotFitGiveBackWhatTheyTook) {
  const Artifact small = doubling(doubleKernel("twice"));
  constexpr int64_t size = 1 << 20;
  ASSERT_TRUE(run(small, size)); // Loads the kernel; memory stays in the pool.
  auto before = device->freeBytes();
  ASSERT_TRUE(before);
  Artifact large = small;
  large.plans[0].buffers.push_back({{"t", DType::F32, {n * DimExpr(int64_t(1) << 30)}}}); // 4 PiB.
  large.plans[0].steps.insert(large.plans[0].steps.begin() + 1, {.kind = PlanStep::Kind::Alloc, .result = 2});
  PlanStep second = large.plans[0].steps.back();
  second.operands = {1, 2};
  large.plans[0].steps.push_back(second);
  for (int round = 0; round < 3; ++round) {
    auto results = run(large, size);
    ASSERT_FALSE(results);
    EXPECT_EQ(results.errors().front().code, ErrorCode::OutOfMemory) << results.errors().front().message;
  }
  auto after = device->freeBytes();
  ASSERT_TRUE(after);
  EXPECT_GE(*after, *before - (int64_t(64) << 20));
  auto results = run(small, 10);
  ASSERT_TRUE(results) << results.errors().front().message;
  EXPECT_EQ(results->front().get(9), 18);
}

TEST_F(Cuda, OutOfMemoryIsAnErrorAndNothingElse) {
  auto memory = device->allocate(int64_t(10) << 40, nullptr);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.errors().front().code, ErrorCode::OutOfMemory);
  EXPECT_NE(memory.errors().front().message.find("10995116277760 bytes"), std::string::npos);
  EXPECT_TRUE(run(doubling(doubleKernel("twice")), 10));
}

TEST_F(Cuda, BadPtxBringsTheDriversLog) {
  auto results = run(doubling(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry twice() { nonsense; }\n"), 10);
  ASSERT_FALSE(results);
  const Diagnostic &error = results.errors().front();
  EXPECT_EQ(error.code, ErrorCode::CudaError);
  EXPECT_NE(error.message.find("cannot load kernel 'twice': CUDA_ERROR_INVALID_PTX"), std::string::npos) << error.message;
  ASSERT_FALSE(error.notes.empty());
  EXPECT_NE(error.notes[0].message.find("nonsense"), std::string::npos) << error.notes[0].message;
  // The entry has another name; a damaged artifact without code.
  EXPECT_FALSE(run(doubling(doubleKernel("other")), 10));
  EXPECT_FALSE(run(doubling(""), 10));
  EXPECT_TRUE(run(doubling(doubleKernel("twice")), 10));
}

TEST_F(Cuda, LaunchLimits) {
  Artifact artifact = doubling(doubleKernel("twice"));
  const int64_t tooMany[] = {65536, 32768}, one[] = {1};
  auto done = device->prepare(artifact, 0, tooMany, {{"N", 0}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.errors().front().code, ErrorCode::ResourceLimit);
  EXPECT_NE(done.errors().front().message.find("'twice'"), std::string::npos);
  artifact.kernels[0].threads = 1025;
  EXPECT_FALSE(device->prepare(artifact, 0, one, {{"N", 0}}));
  artifact.kernels[0].threads = 32;
  EXPECT_FALSE(device->prepare(artifact, 0, one, {}));
  EXPECT_TRUE(device->prepare(artifact, 0, one, {{"N", 0}}));
  for (const char *target : {"sm_50a", "sm_999"}) {
    artifact.target = target;
    auto other = device->prepare(artifact, 0, one, {{"N", 0}});
    ASSERT_FALSE(other);
    EXPECT_EQ(other.errors().front().code, ErrorCode::WrongDevice);
    EXPECT_NE(other.errors().front().message.find(target), std::string::npos);
  }
}

TEST_F(Cuda, EventsOrderStreamsAndMeasure) {
  auto a = Stream::create(device), b = Stream::create(device);
  auto start = Event::create(device), end = Event::create(device), idle = Event::create(device);
  ASSERT_TRUE(a && b && start && end && idle);
  EXPECT_FALSE((*end)->msSince(**idle)); // Neither is recorded.
  constexpr int64_t bytes = int64_t(1) << 28;
  auto memory = device->allocate(bytes, (*a)->handle());
  ASSERT_TRUE(memory);
  ASSERT_TRUE((*start)->record(**a));
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(device->poison(*memory, bytes, (*a)->handle()));
  ASSERT_TRUE((*end)->record(**a));
  ASSERT_TRUE((*end)->hold(**b));
  ASSERT_TRUE((*b)->synchronize());
  auto done = (*end)->isDone();
  ASSERT_TRUE(done);
  EXPECT_TRUE(*done); // b waited for it.
  auto time = (*end)->msSince(**start);
  ASSERT_TRUE(time);
  EXPECT_GT(*time, 0.1); // 5 GiB in 100 us is more than any memory takes.
  EXPECT_LT(*time, 10000);
  device->release(*memory, (*a)->handle());
}

TEST_F(Cuda, CapturedRunsReplay) {
  auto executable = Executable::load(std::make_shared<Artifact>(doubling(doubleKernel("twice"))), device);
  auto stream = Stream::create(device);
  ASSERT_TRUE(executable && stream);
  auto x = Buffer::upload(*stream, iota(1000)), y = Buffer::allocate(*stream, DType::F32, {1000});
  ASSERT_TRUE(x && y);
  const TensorView in[] = {x->view()}, out[] = {y->view()};
  ASSERT_TRUE(device->poison(y->memory(), y->bytes(), (*stream)->handle()));
  auto captured = (*executable)->capture(in, out);
  ASSERT_TRUE(captured) << captured.errors().front().message;
  EXPECT_TRUE(std::isnan(y->download()->get(1))); // Recorded, not run.
  for (int round = 0; round < 3; ++round)
    ASSERT_TRUE(captured->launch(**stream));
  EXPECT_EQ(y->download()->get(999), 1998);
}

TEST_F(Cuda, ForeignContextsStayCurrent) {
  auto api = cuda::DriverApi::open();
  ASSERT_TRUE(api);
  // A context of another library, current in this thread: it is after every call.
  cuda::CuContext foreign = nullptr, current = nullptr;
  auto create = reinterpret_cast<cuda::CuResult (*)(cuda::CuContext *, unsigned, cuda::CuDevice)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxCreate_v2"));
  ASSERT_EQ(create(&foreign, 0, 0), cuda::success);
  ASSERT_TRUE(run(doubling(doubleKernel("twice")), 10));
  ASSERT_EQ(api->cuCtxGetCurrent(&current), cuda::success);
  EXPECT_EQ(current, foreign);
  // And a device in that context.
  auto adopted = client->adopt(foreign);
  ASSERT_TRUE(adopted) << adopted.errors().front().message;
  std::vector<HostTensor> inputs = {iota(10)};
  cuda::CuContext popped = nullptr;
  ASSERT_EQ(api->cuCtxPopCurrent_v2(&popped), cuda::success);
  auto results = runPlan(doubling(doubleKernel("twice")), **adopted, inputs);
  ASSERT_TRUE(results) << results.errors().front().message;
  EXPECT_EQ(results->front().get(9), 18);
}

// Nothing is compiled or loaded on the second thread, so that alone makes the device's context current there.
TEST_F(Cuda, CachedKernelsRunInAnyContext) {
  auto api = cuda::DriverApi::open();
  ASSERT_TRUE(api);
  const Artifact artifact = doubling(doubleKernel("twice"));
  ASSERT_TRUE(run(artifact, 10));
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto create = reinterpret_cast<cuda::CuResult (*)(cuda::CuContext *, unsigned, cuda::CuDevice)>(dlsym(driver, "cuCtxCreate_v2"));
  auto destroy = reinterpret_cast<cuda::CuResult (*)(cuda::CuContext)>(dlsym(driver, "cuCtxDestroy_v2"));
  for (bool inForeign : {false, true})
    std::thread([&] {
      cuda::CuContext foreign = nullptr, current = nullptr;
      if (inForeign) {
        ASSERT_EQ(create(&foreign, 0, 0), cuda::success);
      }
      auto results = run(artifact, 10);
      ASSERT_TRUE(results) << results.errors().front().message;
      EXPECT_EQ(results->front().get(9), 18);
      ASSERT_EQ(api->cuCtxGetCurrent(&current), cuda::success);
      EXPECT_EQ(current, foreign);
      if (inForeign) {
        EXPECT_EQ(destroy(foreign), cuda::success);
      }
    }).join();
}

/// Runs `body` in a new process that opens the device itself, and gives its exit code.
int inNewProcess(const char *filter) {
  pid_t child = fork();
  if (child == 0) {
    setenv("MINIC_TEST_FAULT", "1", 1);
    execl("/proc/self/exe", "RuntimeTests", filter, nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Cuda, FaultNamesTheKernelAndIsRepeated) {
  if (!getenv("MINIC_TEST_FAULT")) {
    EXPECT_EQ(inNewProcess("--gtest_filter=Cuda.FaultNamesTheKernelAndIsRepeated"), 0);
    return;
  }
  auto memory = device->allocate(16, nullptr);
  ASSERT_TRUE(memory);
  Artifact artifact = doubling(doubleKernel("culprit", true), "culprit");
  artifact.kernels[0].ops = {"add at 3:8"};
  auto results = run(artifact, 10);
  ASSERT_FALSE(results);
  std::string first = results.errors().front().message;
  EXPECT_NE(first.find("kernel 'culprit' (add at 3:8) failed: CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << first;
  auto again = device->allocate(16, nullptr);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.errors().front().message, first);
  auto done = device->synchronize(nullptr);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.errors().front().message, first);
  device->release(*memory, nullptr);
}

TEST_F(Cuda, ForkedChildGetsAnError) {
  pid_t child = fork();
  if (child == 0) {
    auto done = device->synchronize(nullptr);
    bool said = !done && done.errors().front().message.find("fork") != std::string::npos;
    bool opened = bool(Client::open());
    _exit(said && !opened ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(device->synchronize(nullptr));
}

} // namespace
