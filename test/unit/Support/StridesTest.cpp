#include "minic/Support/Strides.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

using namespace minic;

namespace {

using Ints = std::vector<int64_t>;

/// The bytes of each element, one element after the other.
std::vector<std::vector<int64_t>> bytesOf(int64_t address, int64_t elementBytes, const Ints &shape, const Ints &strides) {
  std::vector<int64_t> addresses = {address};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<int64_t> next;
    for (int64_t base : addresses)
      for (int64_t i = 0; i < shape[axis]; ++i)
        next.push_back(base + i * strides[axis] * elementBytes);
    addresses = next;
  }
  std::vector<std::vector<int64_t>> elements;
  for (int64_t at : addresses) {
    elements.emplace_back();
    for (int64_t i = 0; i < elementBytes; ++i)
      elements.back().push_back(at + i);
  }
  return elements;
}

TEST(Strides, SpanOfElements) {
  auto span = [](const Ints &shape, const Ints &strides) {
    auto found = elementSpan(shape, strides);
    return found ? std::pair(found->lowest, found->end) : std::pair<int64_t, int64_t>(-1, -1);
  };
  EXPECT_EQ(span({}, {}), std::pair(int64_t(0), int64_t(1)));
  EXPECT_EQ(span({2, 3}, {3, 1}), std::pair(int64_t(0), int64_t(6)));
  EXPECT_EQ(span({2, 3}, {-8, 2}), std::pair(int64_t(-8), int64_t(5)));
  EXPECT_EQ(span({2, 0}, {5, 5}), std::pair(int64_t(0), int64_t(0)));
  EXPECT_EQ(span({1, 1}, {INT64_MAX, INT64_MIN}), std::pair(int64_t(0), int64_t(1)));
  EXPECT_EQ(span({3}, {INT64_MAX}), std::pair(int64_t(-1), int64_t(-1)));
  EXPECT_EQ(span({2, 2}, {INT64_MAX, 1}), std::pair(int64_t(-1), int64_t(-1)));
}

TEST(Strides, RowMajor) {
  EXPECT_TRUE(isRowMajor(Ints{2, 3}, Ints{3, 1}));
  EXPECT_TRUE(isRowMajor(Ints{2, 3}, Ints{}));
  EXPECT_TRUE(isRowMajor(Ints{2, 1, 3}, Ints{3, -77, 1}));
  EXPECT_TRUE(isRowMajor(Ints{0, 3}, Ints{7, 7}));
  EXPECT_FALSE(isRowMajor(Ints{2, 3}, Ints{1, 2}));
  EXPECT_FALSE(isRowMajor(Ints{2, 3}, Ints{4, 1}));
  EXPECT_FALSE(isRowMajor(Ints{2}, Ints{0}));
}

/// Against all elements one by one.
TEST(Strides, OverlapOfRandomTensors) {
  std::mt19937 random(7);
  auto below = [&](int64_t limit) { return int64_t(random() % uint64_t(limit)); };
  std::map<std::pair<bool, bool>, int> seen;
  for (int trial = 0; trial < 3000; ++trial) {
    Ints shapes[2], strides[2];
    int64_t bytes[2], addresses[2];
    for (int t = 0; t < 2; ++t) {
      for (int64_t axis = below(4); axis > 0; --axis) {
        shapes[t].push_back(below(20) ? 1 + below(4) : 0);
        strides[t].push_back(below(25) - 8);
      }
      bytes[t] = int64_t(1) << below(4);
      addresses[t] = 4096 + below(60);
    }
    auto a = bytesOf(addresses[0], bytes[0], shapes[0], strides[0]), b = bytesOf(addresses[1], bytes[1], shapes[1], strides[1]);
    std::set<int64_t> all;
    bool self = false, meet = false;
    for (const auto &element : a)
      for (int64_t byte : element)
        self |= !all.insert(byte).second;
    for (const auto &element : b)
      for (int64_t byte : element)
        meet |= all.count(byte) != 0;
    StridedMemory first{uint64_t(addresses[0]), bytes[0], shapes[0], strides[0]};
    StridedMemory second{uint64_t(addresses[1]), bytes[1], shapes[1], strides[1]};
    ASSERT_EQ(overlapsItself(first), self) << trial;
    ASSERT_EQ(overlap(first, second), meet) << trial;
    ASSERT_EQ(overlap(second, first), meet) << trial;
    ++seen[{self, meet}];
  }
  EXPECT_EQ(seen.size(), 4u); // All cases came up.
}

TEST(Strides, OverlapOfLargeTensors) {
  // Columns of one matrix, and a matrix beside another in the same rows.
  Ints shape = {1 << 20, 1 << 10}, wide = {1 << 11, 1};
  StridedMemory left{0, 2, shape, wide}, right{2 << 10, 2, shape, wide}, across{2047, 2, shape, wide};
  EXPECT_FALSE(overlapsItself(left));
  EXPECT_FALSE(overlap(left, right));
  EXPECT_TRUE(overlap(left, across));
  Ints columns = {1 << 20, 64}, apart = {128, 2};
  EXPECT_FALSE(overlap({0, 4, columns, apart}, {4, 4, columns, apart}));
  EXPECT_TRUE(overlap({0, 4, columns, apart}, {8, 4, columns, apart}));
}

} // namespace
