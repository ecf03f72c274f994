// A plan that calls a library: what its device is asked for, and the memory that the library works in.
#include "FakeDevice.h"

using namespace minic;
using minic::test::FakeDevice;
using Kind = PlanStep::Kind;

namespace {

const DimExpr b = DimExpr::name("B"), m = DimExpr::name("M"), n = DimExpr::name("N"), k = DimExpr::name("K");

/// y = x w^T + c and z = y y^T, of batches.
Artifact twoProducts() {
  Artifact artifact{.numerics = "default"};
  Plan &plan = artifact.plans.emplace_back();
  plan.name = "g";
  plan.inputs = {{"x", DType::BF16, {b, m, k}}, {"w", DType::BF16, {n, k}}, {"c", DType::BF16, {n}}};
  plan.results = {{"z", DType::F32, {b, m, m}}};
  plan.buffers = {{plan.inputs[0]}, {plan.inputs[1]}, {plan.inputs[2]}, {{"y", DType::BF16, {b, m, n}}}, {plan.results[0]}};
  plan.steps = {{.kind = Kind::Alloc, .result = 3},
                {.kind = Kind::LibraryCall, .operands = {0, 1, 2, 3}, .matmul = {false, true, MatmulEpilogue::Bias}},
                {.kind = Kind::Alloc, .result = 4},
                {.kind = Kind::LibraryCall, .operands = {3, 3, 4}, .matmul = {false, true, MatmulEpilogue::None}}};
  plan.resultBuffers = {4};
  return artifact;
}

std::vector<HostTensor> inputs(int64_t batches, int64_t rows) {
  return {HostTensor(DType::BF16, {batches, rows, 3}), HostTensor(DType::BF16, {5, 3}), HostTensor(DType::BF16, {5})};
}

TEST(LibraryCall, DeviceIsAskedForTheSizes) {
  FakeDevice device;
  ASSERT_TRUE(runPlan(twoProducts(), device, inputs(2, 4)));
  ASSERT_EQ(device.problems.size(), 2u);
  const MatmulProblem &first = device.problems[0], &second = device.problems[1];
  EXPECT_EQ(first.call, (MatmulCall{false, true, MatmulEpilogue::Bias}));
  EXPECT_EQ((std::vector{first.batches, first.rows, first.columns, first.depth}), (std::vector<int64_t>{2, 4, 5, 3}));
  EXPECT_TRUE(!first.lhsRepeats && first.rhsRepeats);
  EXPECT_EQ(first.operand, DType::BF16);
  EXPECT_EQ(first.result, DType::BF16);
  EXPECT_EQ(first.name, "'y' of 'g'");
  EXPECT_EQ((std::vector{second.batches, second.rows, second.columns, second.depth}), (std::vector<int64_t>{2, 4, 4, 5}));
  EXPECT_TRUE(!second.lhsRepeats && !second.rhsRepeats);
  EXPECT_EQ(second.result, DType::F32);
  ASSERT_EQ(device.launches.size(), 2u);
  EXPECT_EQ(device.launches[0].buffers.size(), 4u);
  EXPECT_EQ(device.launches[1].buffers.size(), 3u);
  EXPECT_EQ(device.launches[0].buffers[3], device.launches[1].buffers[0]);
}

TEST(LibraryCall, WorkspaceIsATemporaryThatCallsShare) {
  for (bool addressable : {false, true}) {
    FakeDevice device;
    device.addressable = addressable;
    device.matmulWorkspace = 1000;
    ASSERT_TRUE(runPlan(twoProducts(), device, inputs(2, 4)));
    ASSERT_EQ(device.launches.size(), 2u);
    ASSERT_EQ(device.launches[0].buffers.size(), 5u);
    ASSERT_EQ(device.launches[1].buffers.size(), 4u);
    DeviceMemory workspace = device.launches[0].buffers[4], y = device.launches[0].buffers[3];
    EXPECT_EQ(device.launches[1].buffers[3], workspace);
    EXPECT_NE(workspace, y);
    if (addressable) { // One allocation: y, then the workspace.
      EXPECT_EQ(workspace - y, 256u);
    }
    EXPECT_TRUE(device.live.empty());
  }
}

TEST(LibraryCall, PeakCountsTheWorkspace) {
  FakeDevice device;
  Artifact artifact = twoProducts();
  std::vector<int64_t> peaks;
  for (int64_t bytes : {0, 1000}) {
    device.matmulWorkspace = bytes;
    auto choice = choosePlan(artifact, viewsOf(inputs(2, 4)));
    ASSERT_TRUE(choice);
    auto plan = PreparedPlan::create(artifact, device, *choice, *PlanConstants::create(artifact, device));
    ASSERT_TRUE(plan);
    EXPECT_EQ((*plan)->launches(), 2);
    peaks.push_back((*plan)->peakBytes());
  }
  EXPECT_EQ(peaks[1], peaks[0] + 1000);
}

TEST(LibraryCall, EmptyResultsAskForNothing) {
  for (auto [batches, rows] : {std::pair(0, 4), {2, 0}}) {
    FakeDevice device;
    ASSERT_TRUE(runPlan(twoProducts(), device, inputs(batches, rows)));
    EXPECT_TRUE(device.problems.empty());
    EXPECT_TRUE(device.launches.empty());
  }
}

TEST(LibraryCall, EveryFailureReleasesEverything) {
  FakeDevice whole;
  ASSERT_TRUE(runPlan(twoProducts(), whole, inputs(2, 4)));
  for (int call = 0; call < whole.calls; ++call) {
    FakeDevice device;
    device.failAfter = call;
    device.matmulWorkspace = 1000;
    ASSERT_FALSE(runPlan(twoProducts(), device, inputs(2, 4))) << call;
    EXPECT_TRUE(device.live.empty()) << call;
  }
}

TEST(LibraryCall, FaultsOfOperands) {
  auto operands = [](std::vector<DimExpr> lhs, std::vector<DimExpr> rhs, std::vector<DimExpr> result) {
    return std::vector<MatmulOperand>{{DType::F32, std::move(lhs)}, {DType::F32, std::move(rhs)}, {DType::F32, std::move(result)}};
  };
  auto fault = [](const MatmulCall &call, std::vector<MatmulOperand> list) { return matmulCallFault(call, list).value_or("none"); };
  EXPECT_EQ(fault({}, operands({m, k}, {k, n}, {m, n})), "none");
  EXPECT_EQ(fault({true, true}, operands({k, m}, {n, k}, {m, n})), "none");
  EXPECT_EQ(fault({}, operands({b, m, k}, {k, n}, {b, m, n})), "none");
  EXPECT_EQ(fault({}, operands({m, k}, {n, k}, {m, n})), "has different sizes of the contracted axis: K and N");
  EXPECT_EQ(fault({}, operands({n, k}, {k, n}, {m, n})), "has different sizes of rows: N and M");
  EXPECT_EQ(fault({}, operands({m, k}, {k, m}, {m, n})), "has different sizes of columns: M and N");
  EXPECT_EQ(fault({}, operands({n, m, k}, {b, k, n}, {b, m, n})), "has other batches in lhs than in its result");
  EXPECT_EQ(fault({}, operands({k}, {k, n}, {m, n})), "needs matrices, with as many axes before them as its result has, or none");
  EXPECT_EQ(fault({}, operands({b, m, k}, {k, n}, {m, n})),
            "needs matrices, with as many axes before them as its result has, or none");
  EXPECT_EQ(fault({false, false, MatmulEpilogue::Bias}, operands({m, k}, {k, n}, {m, n})),
            "takes 4 operands (lhs, rhs, bias, result), not 3");
  std::vector<MatmulOperand> biased = operands({m, k}, {k, n}, {m, n});
  biased.insert(biased.begin() + 2, {DType::F32, {m}});
  EXPECT_EQ(fault({false, false, MatmulEpilogue::Bias}, biased), "needs a bias of N elements of f32");
  std::vector<MatmulOperand> mixed = operands({m, k}, {k, n}, {m, n});
  mixed[1].dtype = DType::F64;
  EXPECT_EQ(fault({}, mixed), "does not multiply f32 by f64 to f32");
  for (auto [operand, result, good] : {std::tuple(DType::F16, DType::F16, true),
                                       {DType::BF16, DType::F32, true},
                                       {DType::F64, DType::F64, true},
                                       {DType::F16, DType::BF16, false},
                                       {DType::F32, DType::BF16, false},
                                       {DType::I32, DType::I32, false}})
    EXPECT_EQ(hasLibraryMatmul(operand, result), good) << dtypeName(operand) << " to " << dtypeName(result);
}

} // namespace
