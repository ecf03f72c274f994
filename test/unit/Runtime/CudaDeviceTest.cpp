#include "minic/Runtime/CudaDevice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace minic;
using Kind = PlanStep::Kind;

namespace {

/// y[i] = x[i] + x[i] for i < n, 32 threads per CTA; `bad` stores far outside any buffer.
std::string doubleKernel(const std::string &name, bool bad = false) {
  return ".version 7.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry " +
         name +
         "(.param .u64 x, .param .u64 y, .param .u32 n) {\n"
         "  .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f; .reg .b64 %d<5>;\n"
         "  ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.u32 %r0, [n];\n"
         "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 32, %r2;\n"
         "  setp.ge.s32 %p, %r3, %r0; @%p ret;\n"
         "  mul.wide.s32 %d2, %r3, 4; add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2;\n" +
         std::string(bad ? "  mov.u64 %d4, 64;\n" : "") +
         "  ld.global.f32 %f, [%d3]; add.f32 %f, %f, %f; st.global.f32 [%d4], %f; ret;\n}\n";
}

const DimExpr n = DimExpr::name("N");

Artifact doubling(std::string ptx, std::string name = "twice") {
  Artifact artifact;
  artifact.kernels = {{.name = name, .ptx = std::move(ptx), .params = std::vector<KernelParam>(2), .dims = {"N"}, .threads = 32}};
  Plan &plan = artifact.plan;
  plan.name = name;
  plan.inputs = {{"x", DType::F32, {n}}};
  plan.results = {{"y", DType::F32, {n}}};
  plan.buffers = {{{"x", DType::F32, {n}}}, {{"y", DType::F32, {n}}}};
  plan.steps = {{.kind = Kind::Alloc, .result = 1},
                {.kind = Kind::Launch, .operands = {0, 1}, .kernel = 0, .grid = {DimExpr::ceilDiv(n, 32)}}};
  plan.resultBuffers = {1};
  return artifact;
}

HostTensor iota(int64_t size) {
  HostTensor tensor(DType::F32, {size});
  fillIota(tensor);
  return tensor;
}

/// Opens the device where there is one; a fault makes a context unusable, so such tests run in a child.
class Cuda : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!cudaAvailable(why))
      GTEST_SKIP() << why;
    auto opened = CudaDevice::create(0);
    ASSERT_TRUE(opened) << opened.errors().front().message;
    device = std::move(*opened);
  }
  Expected<std::vector<HostTensor>> run(const Artifact &artifact, int64_t size) {
    std::vector<HostTensor> inputs;
    inputs.push_back(iota(size));
    return runPlan(artifact, *device, inputs, {});
  }
  std::unique_ptr<CudaDevice> device;
};

TEST(CudaAvailable, NeverAborts) {
  std::string why = "unset";
  bool available = cudaAvailable(why);
  EXPECT_EQ(available, why.empty()) << why;
  EXPECT_EQ(why.find('\n'), std::string::npos);
  auto device = CudaDevice::create(0);
  EXPECT_EQ(bool(device), available);
  if (!device) {
    ErrorCode code = device.errors().front().code;
    EXPECT_TRUE(code == ErrorCode::NoDriver || code == ErrorCode::NoDevice) << device.errors().front().message;
  }
}

TEST_F(Cuda, SaysWhatItIs) {
  EXPECT_FALSE(device->name().empty());
  EXPECT_GE(device->computeCapability(), 50);
  EXPECT_GE(device->driverVersion(), 11000);
  EXPECT_GT(device->multiprocessors(), 0);
  auto none = CudaDevice::create(1000);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.errors().front().code, ErrorCode::NoDevice);
  EXPECT_FALSE(CudaDevice::create(-1));
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

TEST_F(Cuda, CopiesOnTheDevice) {
  std::vector<std::byte> bytes(1000), back(1000);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = std::byte(i * 7);
  auto a = device->allocate(1000), b = device->allocate(1000);
  ASSERT_TRUE(a && b);
  ASSERT_TRUE(device->copyFromHost(*a, bytes));
  ASSERT_TRUE(device->copy(*b, *a, 1000));
  ASSERT_TRUE(device->copyToHost(back, *b));
  EXPECT_EQ(bytes, back);
  ASSERT_TRUE(device->copyFromHost(*a, {}));
  ASSERT_TRUE(device->copyToHost({}, *a));
  device->release(*a);
  device->release(*b);
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
  auto from = device->allocate(count * 4), to = device->allocate(count * 4);
  ASSERT_TRUE(from && to);
  EXPECT_EQ(*from % 256, 0u);
  Artifact artifact = doubling(doubleKernel("twice"));
  std::vector<float> host(count);
  for (int round = 0; round < 200; ++round) {
    std::ranges::fill(host, float(round));
    ASSERT_TRUE(device->copyFromHost(*from, std::as_bytes(std::span(host))));
    const int64_t grid[] = {count / 32};
    const DeviceMemory buffers[] = {*from, *to};
    ASSERT_TRUE(device->launch(artifact, 0, grid, buffers, {{"N", count}}));
    std::ranges::fill(host, -1.0f);
    ASSERT_TRUE(device->copyToHost(std::as_writable_bytes(std::span(host)), *to));
    ASSERT_TRUE(std::ranges::all_of(host, [&](float value) { return value == 2.0f * float(round); })) << round;
  }
  // Release right after a launch that reads the memory.
  const int64_t grid[] = {count / 32};
  const DeviceMemory buffers[] = {*from, *to};
  ASSERT_TRUE(device->launch(artifact, 0, grid, buffers, {{"N", count}}));
  device->release(*from);
  EXPECT_TRUE(device->synchronize());
  device->release(*to);
}

TEST_F(Cuda, OutOfMemoryIsAnErrorAndNothingElse) {
  auto memory = device->allocate(int64_t(10) << 40);
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
  const DeviceMemory buffers[] = {0, 0};
  const int64_t tooMany[] = {65536, 32768};
  auto done = device->launch(artifact, 0, tooMany, buffers, {{"N", 0}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.errors().front().code, ErrorCode::ResourceLimit);
  EXPECT_NE(done.errors().front().message.find("'twice'"), std::string::npos);
  artifact.kernels[0].threads = 1025;
  const int64_t one[] = {1};
  EXPECT_FALSE(device->launch(artifact, 0, one, buffers, {{"N", 0}}));
  artifact.kernels[0].threads = 32;
  EXPECT_FALSE(device->launch(artifact, 0, one, buffers, {}));
  EXPECT_TRUE(device->launch(artifact, 0, one, buffers, {{"N", 0}}));
  EXPECT_TRUE(device->synchronize());
}

TEST_F(Cuda, MeasuresTime) {
  Artifact artifact = doubling(doubleKernel("twice"));
  auto instance = PlanInstance::create(artifact, *device, {{"N", 1 << 24}});
  ASSERT_TRUE(instance);
  int runs = 0;
  auto body = [&] { return ++runs, instance->run(); };
  auto times = device->timesMs(body, 5, 2);
  ASSERT_TRUE(times);
  EXPECT_EQ(times->size(), 5u);
  EXPECT_EQ(runs, 7);
  auto median = device->timeMs(body, 4);
  ASSERT_TRUE(median);
  EXPECT_GT(*median, 0.001); // 128 MiB in less than a microsecond is more than any memory gives.
  EXPECT_LT(*median, 1000);
  auto failing = device->timesMs([&]() -> Expected<void> { return Diagnostic{.code = ErrorCode::CudaError, .message = "no"}; }, 3);
  EXPECT_FALSE(failing);
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
  auto memory = device->allocate(16);
  ASSERT_TRUE(memory);
  auto results = run(doubling(doubleKernel("culprit", true), "culprit"), 10);
  ASSERT_FALSE(results);
  std::string first = results.errors().front().message;
  EXPECT_NE(first.find("kernel 'culprit' failed: CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << first;
  auto again = device->allocate(16);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.errors().front().message, first);
  auto done = device->synchronize();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.errors().front().message, first);
  device->release(*memory);
}

TEST_F(Cuda, ForkedChildGetsAnError) {
  pid_t child = fork();
  if (child == 0) {
    auto done = device->synchronize();
    bool said = !done && done.errors().front().message.find("fork") != std::string::npos;
    bool opened = bool(CudaDevice::create(0));
    _exit(said && !opened ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(device->synchronize());
}

} // namespace
