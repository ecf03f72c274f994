// Tensors, the words that name inputs, and the documented formula of `random:SEED`.
#include "minic/Support/HostTensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <unistd.h>

using namespace minic;

namespace {

constexpr int64_t greatest = std::numeric_limits<int64_t>::max();

TEST(HostTensor, Sizes) {
  auto bytes = [](DType t, std::vector<int64_t> shape) { return HostTensor::checkedBytes(t, shape); };
  EXPECT_EQ(bytes(DType::F32, {}), 4);
  EXPECT_EQ(bytes(DType::F32, {2, 3}), 24);
  EXPECT_EQ(bytes(DType::F32, {2, 0, 3}), 0);
  EXPECT_EQ(bytes(DType::F32, {-1}), std::nullopt);
  EXPECT_EQ(bytes(DType::F32, {0, -1}), std::nullopt);
  EXPECT_EQ(bytes(DType::F32, {greatest}), std::nullopt);
  EXPECT_EQ(bytes(DType::I1, {greatest}), greatest);
  EXPECT_EQ(bytes(DType::I1, {int64_t(1) << 32, int64_t(1) << 31}), std::nullopt);
  HostTensor empty(DType::F32, {3, 0});
  EXPECT_EQ(empty.numElements(), 0);
  EXPECT_TRUE(empty.bytes().empty());
  EXPECT_EQ(HostTensor(DType::F32, {}).numElements(), 1);
  EXPECT_EQ(shapeString(DType::F32, {}), "f32");
  std::vector<int64_t> shape = {2, 3};
  EXPECT_EQ(shapeString(DType::BF16, shape), "2x3xbf16");
}

TEST(HostTensor, SetRoundsAndSaturates) {
  HostTensor i32(DType::I32, {1}), i64(DType::I64, {1}), i1(DType::I1, {1}), f16(DType::F16, {1});
  auto set = [](HostTensor &tensor, double value) { return tensor.set(0, value), tensor.get(0); };
  EXPECT_EQ(set(i32, NAN), 0);
  EXPECT_EQ(set(i32, INFINITY), 2147483647);
  EXPECT_EQ(set(i32, -INFINITY), -2147483648.0);
  EXPECT_EQ(set(i32, 3e9), 2147483647);
  EXPECT_EQ(set(i32, -3e9), -2147483648.0);
  EXPECT_EQ(set(i32, 2147483647.5), 2147483647);
  EXPECT_EQ(set(i32, 1.9), 1);
  EXPECT_EQ(set(i32, -1.9), -1);
  set(i64, 1e300);
  EXPECT_EQ(i64.as<int64_t>()[0], greatest);
  set(i64, -1e300);
  EXPECT_EQ(i64.as<int64_t>()[0], -greatest - 1);
  EXPECT_EQ(set(i1, 0.5), 1);
  EXPECT_EQ(set(f16, 1e6), INFINITY);
  EXPECT_EQ(set(f16, 1 + 0x1p-11), 1);
}

/// The three lines of the documentation, written anew: splitmix64's state after i + 1 steps from the seed, and its output.
uint64_t documented(uint64_t seed, uint64_t i) {
  uint64_t state = seed;
  for (uint64_t step = 0; step <= i; ++step)
    state += 0x9E3779B97F4A7C15ull;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

TEST(Random, FollowsTheDocumentedFormula) {
  // The first outputs of splitmix64 for seed 1234567, as its author's program gives them.
  EXPECT_EQ(documented(1234567, 0), 6457827717110365317ull);
  EXPECT_EQ(documented(1234567, 1), 3203168211198807973ull);
  constexpr int64_t count = 500;
  for (uint64_t seed : {uint64_t(0), uint64_t(7), ~uint64_t(0)}) {
    for (DType t : {DType::F64, DType::F32, DType::F16, DType::BF16}) {
      HostTensor tensor(t, {count});
      fillRandom(tensor, seed);
      for (int64_t i = 0; i < count; ++i) {
        double exact = double(documented(seed, uint64_t(i)) >> 11) / 4503599627370496.0 - 1;
        ASSERT_EQ(tensor.get(i), roundToDType(exact, t));
      }
    }
    HostTensor i32(DType::I32, {count}), i64(DType::I64, {count}), i1(DType::I1, {count});
    for (HostTensor *tensor : {&i32, &i64, &i1})
      fillRandom(*tensor, seed);
    for (int64_t i = 0; i < count; ++i) {
      uint64_t bits = documented(seed, uint64_t(i));
      int64_t integer = int64_t((bits >> 33) % 201) - 100;
      ASSERT_EQ(i32.as<int32_t>()[i], integer);
      ASSERT_EQ(i64.as<int64_t>()[i], integer);
      ASSERT_EQ(i1.as<uint8_t>()[i], bits >> 63);
    }
  }
}

TEST(Random, ShapeDoesNotMatter) {
  HostTensor a(DType::F32, {6}), b(DType::F32, {2, 3});
  fillRandom(a, 7);
  fillRandom(b, 7);
  EXPECT_TRUE(std::ranges::equal(a.bytes(), b.bytes()));
}

std::string inputText(std::string_view spec, DType t, std::vector<int64_t> shape) {
  auto tensor = makeInput("x", spec, t, shape);
  return tensor ? tensorText(*tensor) : std::string(errorCodeName(tensor.errors().front().code));
}

TEST(InputWords, BadOnes) {
  for (const char *spec : {"random:", "random:x", "random:-1", "random:1.5", "random:18446744073709551616", "const:", "const:x",
                           "const:1 2", "const:[1]", "[1,2]", "[[1]]", "1"})
    EXPECT_EQ(inputText(spec, DType::F32, {1}), "E0602") << spec;
  EXPECT_EQ(inputText("const:1.5", DType::I32, {1}), "E0602");
  for (const char *spec : {"no-such-file.npy", "", "randm:7", "iota2", "/"})
    EXPECT_EQ(inputText(spec, DType::F32, {1}), "E0108") << spec;
  EXPECT_EQ(inputText("random", DType::F32, {greatest, 2}), "E0606");
  EXPECT_EQ(inputText("random", DType::F32, {int64_t(1) << 50}), "E0606");
  auto tensor = makeInput("weights", "[1, 2]", DType::F32, std::vector<int64_t>{3});
  ASSERT_FALSE(tensor);
  EXPECT_EQ(tensor.errors().front().message, "input 'weights' has shape 2xf32, expected 3xf32");
}

TEST(InputWords, FilesFixTheShape) {
  auto shape = [](std::string_view spec) { return *inputShape("x", spec, DType::F32); };
  EXPECT_EQ(shape("iota"), std::nullopt);
  EXPECT_EQ(shape("random:7"), std::nullopt);
  EXPECT_EQ(shape("const:1"), std::nullopt);
  EXPECT_EQ(shape("[[1,2,3]]"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(shape("4"), std::vector<int64_t>());
  auto path = std::filesystem::temp_directory_path() / ("minic-shape-" + std::to_string(getpid()) + ".npy");
  ASSERT_TRUE(writeNpy(path, HostTensor(DType::F32, {5, 7})));
  EXPECT_EQ(shape(path.string()), (std::vector<int64_t>{5, 7}));
  auto tensor = makeInput("x", path.string(), DType::F64, std::vector<int64_t>{5, 7});
  ASSERT_FALSE(tensor); // f32 in the file, f64 wanted.
  EXPECT_EQ(tensor.errors().front().code, ErrorCode::BadInput);
  std::filesystem::remove(path);
  EXPECT_FALSE(inputShape("x", path.string(), DType::F32));
}

} // namespace
