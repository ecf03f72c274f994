#include "FakeDevice.h"

using namespace minic;
using minic::test::FakeDevice;
using Kind = PlanStep::Kind;

namespace {

const DimExpr n = DimExpr::name("N"), m = DimExpr::name("M");

TensorSpec spec(std::string name, std::vector<DimExpr> shape, DType dtype = DType::F32) { return {name, dtype, std::move(shape)}; }

std::vector<std::byte> bytesOf(std::vector<float> values) {
  auto *begin = reinterpret_cast<const std::byte *>(values.data());
  return {begin, begin + values.size() * sizeof(float)};
}

HostTensor floats(std::vector<int64_t> shape, std::vector<float> values) {
  HostTensor tensor(DType::F32, std::move(shape));
  std::ranges::copy(bytesOf(std::move(values)), tensor.bytes().begin());
  return tensor;
}

/// y = x + c, where c is the constant [10, 20, 30, 40], through a temporary of 4 elements seen as 2x2 and a copy of x.
Artifact addConstant() {
  Artifact artifact;
  artifact.kernels = {{.name = "add", .params = std::vector<KernelParam>(3), .dims = {DimExpr::name("N")}, .threads = 32}};
  Plan &plan = artifact.plans.emplace_back();
  plan.name = "g";
  plan.inputs = {spec("x", {n})};
  plan.results = {spec("y", {n})};
  plan.buffers = {{spec("x", {n})}, {spec("c", {4})}, {spec("copy", {n})}, {spec("square", {2, 2})}, {spec("row", {DimExpr(4)})},
                  {spec("y", {n})}};
  artifact.constants = {bytesOf({10, 20, 30, 40})};
  plan.steps = {{.kind = Kind::Constant, .result = 1, .constant = 0},
                {.kind = Kind::Copy, .result = 2, .operands = {0}},
                {.kind = Kind::Alloc, .result = 3},
                {.kind = Kind::View, .result = 4, .operands = {3}},
                {.kind = Kind::Launch, .operands = {2, 1, 4}, .kernel = 0, .grid = {DimExpr::ceilDiv(n, 2), DimExpr(1)}},
                {.kind = Kind::Alloc, .result = 5},
                {.kind = Kind::Launch, .operands = {3, 2, 5}, .kernel = 0, .grid = {n}}};
  plan.resultBuffers = {5};
  return artifact;
}

/// The third buffer gets the sum of the first two.
void addKernel(FakeDevice &device, const FakeDevice::Launch &launch) {
  for (int64_t i = 0; i < launch.dims.at("N"); ++i)
    device.floats(launch.buffers[2])[i] = device.floats(launch.buffers[0])[i] + device.floats(launch.buffers[1])[i];
}

TEST(RunPlan, WalksEveryKindOfStep) {
  Artifact artifact = addConstant();
  FakeDevice device;
  device.kernel = addKernel;
  std::vector<HostTensor> inputs = {floats({4}, {1, 2, 3, 4})};
  auto results = runPlan(artifact, device, inputs, {});
  ASSERT_TRUE(results) << results.errors().front().message;
  ASSERT_EQ(results->size(), 1u);
  // x + c, and x once more.
  EXPECT_EQ(tensorText(results->front()), "[12, 24, 36, 48]");
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_EQ(device.launches[0].grid, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(device.launches[1].grid, (std::vector<int64_t>{4}));
  EXPECT_EQ(device.launches[0].dims.at("N"), 4);
  // A view is the memory of its operand.
  EXPECT_EQ(device.launches[0].buffers[2], device.launches[1].buffers[0]);
  EXPECT_EQ(device.allocations, 5);
  EXPECT_EQ(device.releases, 5);
  EXPECT_TRUE(device.live.empty());
  // The input, and the constant; the caller's tensor is as it was.
  EXPECT_EQ(device.uploads, 2);
  EXPECT_EQ(tensorText(inputs[0]), "[1, 2, 3, 4]");
}

TEST(RunPlan, EveryFailureReleasesEverything) {
  Artifact artifact = addConstant();
  std::vector<HostTensor> inputs = {floats({4}, {1, 2, 3, 4})};
  FakeDevice whole;
  whole.kernel = addKernel;
  ASSERT_TRUE(runPlan(artifact, whole, inputs, {}));
  ASSERT_GT(whole.calls, 10);
  int calls = whole.calls;
  for (int call = 0; call < calls; ++call) {
    FakeDevice device;
    device.kernel = addKernel;
    device.failAfter = call;
    auto results = runPlan(artifact, device, inputs, {});
    ASSERT_FALSE(results) << call;
    EXPECT_EQ(results.errors().front().message, "told to fail");
    EXPECT_EQ(device.releases, device.allocations.load()) << call;
    EXPECT_TRUE(device.live.empty()) << call;
  }
}

TEST(RunPlan, AllocationFailureSaysForWhat) {
  FakeDevice device;
  device.failAfter = 5; // After the constant's memory, bytes and wait, and two launches made ready.
  std::vector<HostTensor> inputs = {floats({4}, {1, 2, 3, 4})};
  auto results = runPlan(addConstant(), device, inputs, {});
  ASSERT_FALSE(results);
  ASSERT_EQ(results.errors().front().notes.size(), 1u);
  EXPECT_EQ(results.errors().front().notes[0].message, "while allocating 16 bytes for 'x' of 'g'");
}

/// y = f(x), both of shape MxN.
Artifact unary(std::vector<DimExpr> grid) {
  Artifact artifact;
  artifact.kernels = {
      {.name = "neg", .params = std::vector<KernelParam>(2), .dims = {DimExpr::name("M"), DimExpr::name("N")}, .threads = 32}};
  Plan &plan = artifact.plans.emplace_back();
  plan.name = "neg";
  plan.inputs = {spec("x", {m, n})};
  plan.results = {spec("y", {m, n})};
  plan.buffers = {{spec("x", {m, n})}, {spec("y", {m, n})}};
  plan.steps = {{.kind = Kind::Alloc, .result = 1},
                {.kind = Kind::Launch, .operands = {0, 1}, .kernel = 0, .grid = std::move(grid)}};
  plan.resultBuffers = {1};
  return artifact;
}

TEST(RunPlan, NoProgramsNoLaunch) {
  FakeDevice device;
  bool called = false;
  std::vector<HostTensor> inputs = {HostTensor(DType::F32, {0, 7})};
  auto results = runPlan(unary({DimExpr::ceilDiv(m, 128), n}), device, inputs, {},
                         {.onLaunch = [&](const PlanStep &, bool) { called = true; }});
  ASSERT_TRUE(results);
  EXPECT_EQ(results->front().shape(), (std::vector<int64_t>{0, 7}));
  EXPECT_TRUE(device.launches.empty());
  EXPECT_FALSE(called);
  EXPECT_EQ(device.downloads, 0);
  EXPECT_EQ(device.releases, 2);
}

TEST(RunPlan, EmptyGridListIsOneProgram) {
  FakeDevice device;
  std::vector<HostTensor> inputs = {HostTensor(DType::F32, {0, 7})};
  ASSERT_TRUE(runPlan(unary({}), device, inputs, {}));
  // Buffers without elements still have addresses of their own.
  ASSERT_EQ(device.launches.size(), 1u);
  EXPECT_NE(device.launches[0].buffers[0], device.launches[0].buffers[1]);
}

TEST(RunPlan, CallbacksStandAroundTheLaunch) {
  FakeDevice device;
  std::string order;
  device.kernel = [&](FakeDevice &, const FakeDevice::Launch &) { order += "k"; };
  std::vector<HostTensor> inputs = {HostTensor(DType::F32, {2, 2})};
  WalkOptions options;
  options.onLaunch = [&](const PlanStep &step, bool before) {
    EXPECT_EQ(step.kernel, 0);
    order += before ? "b" : "a";
  };
  ASSERT_TRUE(runPlan(unary({m}), device, inputs, {}, options));
  EXPECT_EQ(order, "bka");
}

TEST(RunPlan, PoisonFillsFreshMemory) {
  FakeDevice device;
  std::vector<HostTensor> inputs = {HostTensor(DType::F32, {2, 2})};
  auto results = runPlan(unary({m}), device, inputs, {}, {.poison = true});
  ASSERT_TRUE(results);
  EXPECT_EQ(tensorText(results->front()), "[[nan, nan], [nan, nan]]"); // The kernel wrote nothing.
}

TEST(RunPlan, LimitsOfLaunches) {
  Artifact artifact = unary({m});
  FakeDevice device;
  // Without the buffers' sizes in the way.
  artifact.plans[0].inputs = {};
  artifact.plans[0].buffers = {{spec("a", {1})}, {spec("y", {1})}};
  artifact.plans[0].results = {spec("y", {1})};
  artifact.plans[0].steps.insert(artifact.plans[0].steps.begin(), {.kind = Kind::Alloc, .result = 0});
  auto message = [&](DimBindings dims) {
    auto results = runPlan(artifact, device, {}, dims);
    return results ? "" : results.errors().front().message;
  };
  EXPECT_EQ(message({{"M", 1}, {"N", 2147483647}}), "");
  EXPECT_EQ(message({{"M", 1}, {"N", 2147483648}}), "dimension 'N' of kernel 'neg' is 2147483648, the limit is 2147483647");
  EXPECT_EQ(message({{"M", 1}}), "the size N of kernel 'neg' is unbound or does not fit int64");
  artifact.plans[0].steps.back().grid = {int64_t(1) << 32, int64_t(1) << 32};
  EXPECT_EQ(message({{"M", 1}, {"N", 1}}), "the grid of kernel 'neg' has more than 2^63 programs");
  EXPECT_TRUE(device.live.empty());
}

TEST(RunPlan, SizesThatOverflow) {
  FakeDevice device;
  Artifact artifact = unary({m});
  artifact.plans[0].buffers[1].spec.shape = {m, m, m, m, m, n};
  std::vector<HostTensor> inputs = {HostTensor(DType::F32, {1 << 13, 1})};
  auto results = runPlan(artifact, device, inputs, {});
  ASSERT_FALSE(results);
  EXPECT_EQ(results.errors().front().code, ErrorCode::TooLarge);
  EXPECT_EQ(device.calls, 0);
}

TEST(RunPlan, DamagedPlansAreRefused) {
  auto refused = [](auto damage) {
    Artifact artifact = addConstant();
    damage(artifact);
    FakeDevice device;
    std::vector<HostTensor> inputs = {floats({4}, {1, 2, 3, 4})};
    auto results = runPlan(artifact, device, inputs, {});
    EXPECT_TRUE(device.live.empty());
    return !results && results.errors().front().code == ErrorCode::BadStructure;
  };
  EXPECT_FALSE(refused([](Artifact &) {}));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[4].kernel = 1; }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[4].kernel = -1; }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[4].operands[0] = 6; }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[4].operands[0] = -1; }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[4].operands[0] = 5; })); // Not allocated yet.
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[4].operands.pop_back(); }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[3].operands.clear(); }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[5].result = 3; })); // Allocated twice.
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].steps[5].result = 0; })); // An input.
  EXPECT_TRUE(refused([](Artifact &a) { a.constants[0].pop_back(); }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].buffers[4].spec.shape = {5}; })); // A view larger than its memory.
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].buffers[2].spec.shape = {3}; }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].resultBuffers = {0}; }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].resultBuffers = {}; }));
  EXPECT_TRUE(refused([](Artifact &a) { a.plans[0].results[0].shape = {3}; }));
}

std::shared_ptr<const PreparedPlan> preparePlan(const Artifact &artifact, Device &device, DimBindings dims) {
  auto constants = PlanConstants::create(artifact, device);
  EXPECT_TRUE(constants);
  auto plan = PreparedPlan::create(artifact, device, {.dims = std::move(dims)}, *constants);
  EXPECT_TRUE(plan) << plan.errors().front().message;
  return plan ? *plan : nullptr;
}

/// Whether the device cuts one allocation into temporaries or takes each by itself, the plan is the same.
class PreparedPlans : public testing::TestWithParam<bool> {};

TEST_P(PreparedPlans, RunManyTimesOnTheCallersMemory) {
  Artifact artifact = addConstant();
  FakeDevice device;
  device.kernel = addKernel;
  device.addressable = GetParam();
  {
    auto plan = preparePlan(artifact, device, {{"N", 4}});
    EXPECT_EQ(plan->peakBytes(), 5 * 16); // The view owns nothing.
    EXPECT_EQ(plan->launches(), 2);
    EXPECT_EQ(device.prepared, 2);
    alignas(256) float x[4], y[4];
    for (float start : {1.0f, 5.0f}) {
      std::ranges::fill(x, start);
      auto workspace = plan->allocate(nullptr);
      ASSERT_TRUE(workspace);
      const DeviceMemory in[] = {DeviceMemory(x)}, out[] = {DeviceMemory(y)};
      ASSERT_TRUE(plan->enqueue(nullptr, in, out, *workspace));
      EXPECT_EQ(y[0], 2 * start + 10);
      EXPECT_EQ(y[3], 2 * start + 40);
      EXPECT_EQ(x[0], start);
    }
    // The constant once, and the two temporaries of each run.
    EXPECT_EQ(device.allocations, GetParam() ? 3 : 5);
    EXPECT_EQ(device.prepared, 2);
    EXPECT_EQ(device.live.size(), 1u);
  }
  EXPECT_TRUE(device.live.empty());
  EXPECT_EQ(device.finished, 1); // Before the constant goes: other streams may read it.
}
INSTANTIATE_TEST_SUITE_P(, PreparedPlans, testing::Bool(),
                         [](const auto &addressable) { return addressable.param ? "InOneAllocation" : "OneByOne"; });

TEST(PreparedPlan, TemporariesDoNotOverlap) {
  Artifact artifact = addConstant();
  FakeDevice device;
  device.addressable = true;
  auto plan = preparePlan(artifact, device, {{"N", 4}});
  auto workspace = plan->allocate(nullptr);
  alignas(256) float x[4] = {}, y[4];
  const DeviceMemory in[] = {DeviceMemory(x)}, out[] = {DeviceMemory(y)};
  ASSERT_TRUE(plan->enqueue(nullptr, in, out, *workspace));
  DeviceMemory copied = device.launches[0].buffers[0], square = device.launches[0].buffers[2];
  EXPECT_GE(std::max(copied, square) - std::min(copied, square), 16u);
  EXPECT_EQ(copied % 256, 0u);
  EXPECT_EQ(square % 256, 0u);
}

TEST(PreparedPlan, ResultsThatAreConstantsInputsOrPartsAreCopied) {
  Artifact artifact;
  Plan &plan = artifact.plans.emplace_back();
  plan.name = "g";
  plan.inputs = {spec("x", {2})};
  plan.buffers = {{spec("x", {2})}, {spec("c", {2})}, {spec("v", {2})}, {spec("large", {4})}, {spec("part", {2})}};
  artifact.constants = {bytesOf({7, 8})};
  plan.steps = {{.kind = Kind::Constant, .result = 1, .constant = 0},
                {.kind = Kind::View, .result = 2, .operands = {0}},
                {.kind = Kind::Alloc, .result = 3},
                {.kind = Kind::View, .result = 4, .operands = {3}}};
  plan.results = {spec("a", {2}), spec("b", {2}), spec("p", {2})};
  plan.resultBuffers = {1, 2, 4};
  FakeDevice device;
  std::vector<HostTensor> inputs = {floats({2}, {1, 2})};
  auto results = runPlan(artifact, device, inputs);
  ASSERT_TRUE(results) << results.errors().front().message;
  EXPECT_EQ(tensorText((*results)[0]), "[7, 8]");
  EXPECT_EQ(tensorText((*results)[1]), "[1, 2]");
  EXPECT_EQ(device.copies, 3);
}

TEST(PreparedPlan, NeedsEveryDim) {
  FakeDevice device;
  Artifact artifact = addConstant();
  auto constants = PlanConstants::create(artifact, device);
  ASSERT_TRUE(constants);
  auto made = PreparedPlan::create(artifact, device, {}, *constants);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.errors().front().code, ErrorCode::UnboundDim);
}

} // namespace
