// Products of a library on the interpreter: by their meaning, and with its checks of memory.
#include "InterpTest.h"

using namespace minic;
using namespace minic::test;

namespace {

struct Fixture {
  CpuDevice device{CpuOptions{.countTraffic = true}};
  std::vector<DeviceMemory> buffers;

  void add(const HostTensor &values) {
    buffers.push_back(*device.allocate(int64_t(values.bytes().size()), nullptr));
    EXPECT_TRUE(device.copyFromHost(buffers.back(), values.bytes(), nullptr));
  }
  void addUndefined(int64_t bytes) { buffers.push_back(*device.allocate(bytes, nullptr)); }
  Expected<void> run(const MatmulProblem &problem) { return (*device.prepareMatmul(problem))->enqueue(nullptr, buffers); }
  std::vector<double> result(DType dtype, std::vector<int64_t> shape) {
    HostTensor tensor(dtype, std::move(shape));
    auto read = device.copyToHost(tensor.bytes(), buffers.back(), nullptr);
    EXPECT_TRUE(read) << read.errors().front().message;
    return numbers(tensor);
  }
};

TEST(LibraryCall, TransposesBatchesAndEpilogue) {
  Fixture fixture;
  // Two batches of [[1, 2, 3], [4, 5, 6]] and its negative, as columns; w^T = [[1, 0, -1], [2, 1, 0]].
  fixture.add(tensor({2, 3, 2}, {1, 4, 2, 5, 3, 6, -1, -4, -2, -5, -3, -6}));
  fixture.add(tensor({2, 3}, {1, 0, -1, 2, 1, 0}));
  fixture.add(tensor({2}, {1, -5}));
  fixture.addUndefined(2 * 2 * 2 * 4);
  MatmulProblem problem{
      .call = {true, true, MatmulEpilogue::Bias}, .batches = 2, .rows = 2, .columns = 2, .depth = 3, .rhsRepeats = true};
  ASSERT_TRUE(fixture.run(problem));
  // [[1-3, 2+2], [4-6, 8+5]] + [1, -5], and the negative of the product + [1, -5].
  EXPECT_EQ(fixture.result(DType::F32, {2, 2, 2}), (std::vector<double>{-1, -1, -1, 8, 3, -9, 3, -18}));
  std::vector<LaunchTraffic> traffic = fixture.device.takeTraffic();
  ASSERT_EQ(traffic.size(), 1u);
  EXPECT_EQ(traffic[0].total().distinctRead, 12 * 4 + 6 * 4 + 2 * 4);
  EXPECT_EQ(traffic[0].total().distinctWritten, 8 * 4);
}

/// 16-bit operands are multiplied exactly and summed in f32; the result rounds once.
TEST(LibraryCall, SumsOfNarrowTypesAreWide) {
  Fixture fixture;
  fixture.add(tensor({1, 3}, {256, 1, 1}, DType::BF16)); // 256 + 1 + 1 is 256 where each sum rounds to bf16.
  fixture.add(tensor({3, 1}, {1, 1, 1}, DType::BF16));
  fixture.addUndefined(2);
  MatmulProblem problem{.operand = DType::BF16, .result = DType::BF16, .depth = 3};
  ASSERT_TRUE(fixture.run(problem));
  EXPECT_EQ(fixture.result(DType::BF16, {1}), std::vector<double>{258});
}

TEST(LibraryCall, ChecksOfMemory) {
  Fixture undefined;
  undefined.addUndefined(16);
  undefined.add(tensor({2, 2}, {1, 2, 3, 4}));
  undefined.addUndefined(16);
  MatmulProblem problem{.rows = 2, .columns = 2, .depth = 2, .name = "'y' of 'f'"};
  auto read = undefined.run(problem);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.errors().front().code, ErrorCode::UndefinedRead);
  EXPECT_EQ(read.errors().front().message, "the library's product for 'y' of 'f' reads operand 0, and nothing defined all of it");

  Fixture outside;
  for (int i = 0; i < 2; ++i)
    outside.add(tensor({2, 2}, {1, 2, 3, 4}));
  outside.addUndefined(12);
  auto written = outside.run(problem);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.errors().front().code, ErrorCode::OutOfBounds);

  outside.buffers.pop_back();
  auto few = outside.run(problem);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.errors().front().code, ErrorCode::LaunchMismatch);
}

} // namespace
