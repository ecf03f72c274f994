// Kernels at the masked level: every access is checked or in bounds, and what padded lanes hold matters.
#include "InterpTest.h"

#include <cmath>
#include <limits>

using namespace minic;
using namespace minic::test;

namespace {

/// A tile of 4 at 4 of a buffer of 6, `body` makes a tile<1xf32> %r of it.
std::string masked(const std::string &load, const std::string &body) {
  return R"(
    kernel @m(%x: buffer<6xf32>, %y: buffer<1xf32>) at masked {
      %i = constant 4 : index
      %zero = constant 0 : index
      %a = load %x, %i, )" +
         load + R"( : tile<4xf32>
      )" +
         body + R"(
      store %r, %y, %zero, mask = []
      return
    }
  )";
}

Outcome run(const std::string &text) {
  return runKernel(text, {1}, {tensor({6}, {0, 0, 0, 0, -3, -5})}, {HostTensor(DType::F32, {1})});
}

TEST(Masked, FillIsWhatPaddedLanesHold) {
  Outcome right = run(masked("mask = [0], fill = -inf", "%r = reduce max %a, axes = [0] : tile<1xf32>"));
  ASSERT_EQ(right.error, "");
  EXPECT_EQ(right.outputs[0].get(0), -3);
  Outcome wrong = run(masked("mask = [0], fill = 0.0", "%r = reduce max %a, axes = [0], padding = unchecked : tile<1xf32>"));
  ASSERT_EQ(wrong.error, "");
  EXPECT_EQ(wrong.outputs[0].get(0), 0);
  EXPECT_EQ(right.traffic.buffers[0].issuedRead, 8) << "lanes outside are not read";
}

TEST(Masked, UndefinedLanesAreCaughtWhereTheyAreUsed) {
  Outcome reduced = run(masked("mask = [0]", "%r = reduce max %a, axes = [0], padding = unchecked : tile<1xf32>"));
  EXPECT_EQ(reduced.code, ErrorCode::UndefinedRead) << reduced.error;
  EXPECT_TRUE(has(reduced.error, "an undefined lane of 'a', at [2], is reduced")) << reduced.error;
  // Through arithmetic.
  Outcome carried = run(masked("mask = [0]", R"(%one = constant 1.0 : tile<4xf32>
      %b = add %a, %one : tile<4xf32>
      %r = reduce sum %b, axes = [0], padding = unchecked : tile<1xf32>)"));
  EXPECT_EQ(carried.code, ErrorCode::UndefinedRead) << carried.error;
  // A select that does not choose them lets them go.
  Outcome selected = run(masked("mask = [0]", R"(%in = in_bounds %i, axis = 0, size = 6 : tile<4xi1>
      %low = constant -inf : tile<4xf32>
      %b = select %in, %a, %low : tile<4xf32>
      %r = reduce max %b, axes = [0] : tile<1xf32>)"));
  ASSERT_EQ(selected.error, "");
  EXPECT_EQ(selected.outputs[0].get(0), -3);
}

TEST(Masked, UndefinedLanesAreCaughtInStores) {
  const std::string head = R"(
    kernel @m(%x: buffer<6xf32>, %y: buffer<8xf32>) at masked {
      %i = constant 4 : index
      %a = load %x, %i, mask = [0] : tile<4xf32>
  )";
  Outcome out = runKernel(head + "store %a, %y, %i, mask = []\n return\n }", {1}, {iota(6)}, {HostTensor(DType::F32, {8})});
  EXPECT_EQ(out.code, ErrorCode::UndefinedRead);
  EXPECT_TRUE(has(out.error, "stored to 'y' at [6]")) << out.error;
}

TEST(Masked, AccessOutOfBounds) {
  Outcome out = run(masked("mask = []", "%r = reduce max %a, axes = [0] : tile<1xf32>"));
  EXPECT_EQ(out.code, ErrorCode::OutOfBounds);
  EXPECT_TRUE(has(out.error, "kernel 'm', program (0): an access to 'x' at [6] is outside its shape 6xf32")) << out.error;
  EXPECT_TRUE(has(out.error, "load %x")) << out.error;
  for (const char *index : {"-1", "9223372036854775807", "-9223372036854775808"}) {
    std::string text = masked("mask = []", "%r = reduce max %a, axes = [0] : tile<1xf32>");
    text.replace(text.find("constant 4"), 10, std::string("constant ") + index);
    EXPECT_EQ(run(text).code, ErrorCode::OutOfBounds) << index;
  }
}

TEST(Masked, DroppedLanesAreNoAccess) {
  // Axis 1 is past the end, but axis 0 drops every lane before.
  Outcome out = runKernel(R"(
    kernel @m(%x: buffer<2x2xf32>, %y: buffer<4xf32>) at masked {
      %two = constant 2 : index
      %zero = constant 0 : index
      %a = load %x, %two, %two, mask = [0], fill = 7.0 : tile<2x2xf32>
      %r = reduce max %a, axes = [0] : tile<1x2xf32>
      store %r, %y, %zero, dims = [1], mask = []
      store %r, %y, %two, dims = [1], mask = []
      return
    }
  )",
                          {1}, {tensor({2, 2}, {1, 2, 3, 4})}, {HostTensor(DType::F32, {4})});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(numbers(out.outputs[0]), (std::vector<double>{7, 7, 7, 7}));
}

TEST(Masked, TransposedAccess) {
  Outcome out = runKernel(R"(
    kernel @t(%x: buffer<2x3xf32>, %y: buffer<3x2xf32>) at masked {
      %zero = constant 0 : index
      %a = load %x, %zero, %zero, dims = [1, 0], mask = [0, 1], fill = 0.0 : tile<4x2xf32>
      store %a, %y, %zero, %zero, mask = [0]
      return
    }
  )",
                          {1}, {tensor({2, 3}, {1, 2, 3, 4, 5, 6})}, {HostTensor(DType::F32, {3, 2})});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(numbers(out.outputs[0]), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

std::string softmax(const std::string &fill, const std::string &unchecked) {
  return R"(
    kernel @softmax(%x: buffer<MxNxf32>, %y: buffer<MxNxf32>) at masked {
      %p = program_id grid = [M] : index
      %zero = constant 0 : index
      %v = load %x, %p, %zero, mask = [1], fill = )" +
         fill + R"( : tile<1x1024xf32>
      %m = reduce max %v, axes = [1])" +
         unchecked + R"( : tile<1x1xf32>
      %mb = broadcast %m : tile<1x1024xf32>
      %z = sub %v, %mb : tile<1x1024xf32>
      %e = exp %z : tile<1x1024xf32>
      %s = reduce sum %e, axes = [1])" +
         unchecked + R"( : tile<1x1xf32>
      %sb = broadcast %s : tile<1x1024xf32>
      %q = div %e, %sb : tile<1x1024xf32>
      store %q, %y, %p, %zero, mask = [1]
      return
    }
  )";
}

TEST(Masked, SoftmaxWithTheRightAndTheWrongPadding) {
  HostTensor x(DType::F32, {3, 781});
  for (int64_t i = 0; i < x.numElements(); ++i)
    x.set(i, -1);
  auto run = [&](const std::string &text) {
    return runKernel(text, {3}, {x}, {HostTensor(DType::F32, {3, 781})}, {{"M", 3}, {"N", 781}});
  };
  Outcome right = run(softmax("-inf", ", padding = unchecked")), wrong = run(softmax("0.0", ", padding = unchecked"));
  ASSERT_EQ(right.error, "");
  ASSERT_EQ(wrong.error, "");
  double rightSum = 0, wrongSum = 0;
  for (int64_t i = 0; i < 781; ++i) {
    EXPECT_NEAR(right.outputs[0].get(781 + i), 1.0 / 781, 1e-10);
    EXPECT_NEAR(wrong.outputs[0].get(781 + i), 0.000693701, 5e-10);
    rightSum += right.outputs[0].get(781 + i);
    wrongSum += wrong.outputs[0].get(781 + i);
  }
  EXPECT_NEAR(rightSum, 1, 2.4e-7);
  EXPECT_NEAR(wrongSum, 0.541780772, 1e-7);
}

} // namespace
