// The layouts of mma's operands against the instruction's own numbering (PTX ISA, "Matrix Fragments for mma.m16n8k8").
#include "minic/IR/SharedLayout.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

using namespace minic;

namespace {

using Place = std::array<int64_t, 2>;

Place placeOf(const Layout &layout, int64_t reg, int64_t lane, int64_t warp) {
  Place place{0, 0};
  layout.addRegister(reg, place);
  layout.addThread(lane, warp, place);
  return place;
}

/// Tilings of tf32, of warps with whole fragments of b and with halves.
std::vector<MmaTiling> tilings() {
  std::vector<MmaTiling> result;
  for (auto [rows, columns, warpsM, warpsN] :
       {std::array<int64_t, 4>{128, 256, 2, 4}, {64, 64, 2, 2}, {32, 64, 1, 4}, {16, 32, 1, 4}, {128, 64, 4, 1}, {32, 128, 2, 2}})
    result.push_back({DType::F32, rows, columns, warpsM, warpsN});
  return result;
}

std::string nameOf(const MmaTiling &t) {
  return std::to_string(t.rows) + "x" + std::to_string(t.columns) + " by " + std::to_string(t.warpsM) + "x" +
         std::to_string(t.warpsN);
}

TEST(MmaTiling, CoversTiles) {
  for (const MmaTiling &t : tilings()) {
    SCOPED_TRACE(nameOf(t));
    EXPECT_TRUE(layoutCovers(t.a(), std::array{t.rows, t.depth()}));
    EXPECT_TRUE(layoutCovers(t.b(), std::array{t.depth(), t.columns}));
    EXPECT_TRUE(layoutCovers(t.accumulators(), std::array{t.rows, t.columns}));
    auto [partRows, partColumns] = t.part();
    EXPECT_TRUE(layoutCovers(t.accumulators(partRows, partColumns), std::array{partRows, partColumns}));
    EXPECT_EQ(t.rows % partRows, 0);
    EXPECT_EQ(t.columns % partColumns, 0);
  }
}

// Registers 0 to 3 of a hold rows g, g + 8, g, g + 8 and k q, q, q + 4, q + 4 of the instruction's 16x8; 0 and 1 of b k q and q + 4
// of its 8x8, column g; those of the sums rows g, g, g + 8, g + 8 and columns 2q, 2q + 1, where lane l = 4g + q. So which of its
// rows an instruction calls g, a and the sums must agree on, and so on for columns and k.
TEST(MmaTiling, AgreesWithTheInstruction) {
  for (const MmaTiling &t : tilings()) {
    SCOPED_TRACE(nameOf(t));
    Layout a = t.a(), b = t.b(), sums = t.accumulators();
    int64_t fragmentsOfA = a.numRegs() / 4, fragmentsOfB = b.numRegs() / 2;
    ASSERT_EQ(sums.numRegs(), fragmentsOfA * fragmentsOfB * 4);
    for (int64_t warp = 0; warp < t.warpsM * t.warpsN; ++warp)
      for (int64_t fa = 0; fa < fragmentsOfA; ++fa)
        for (int64_t fb = 0; fb < fragmentsOfB; ++fb)
          for (int64_t lane = 0; lane < 32; ++lane)
            for (int64_t r = 0; r < 4; ++r) {
              int64_t g = lane / 4, q = lane % 4, column = 2 * q + r % 2;
              Place sum = placeOf(sums, (fa * fragmentsOfB + fb) * 4 + r, lane, warp);
              for (int64_t k = 0; k < 8; ++k) {
                Place left = placeOf(a, fa * 4 + r / 2 + 2 * (k / 4), 4 * g + k % 4, warp);
                Place right = placeOf(b, fb * 2 + k / 4, 4 * column + k % 4, warp);
                ASSERT_EQ(left[0], sum[0]);
                ASSERT_EQ(right[1], sum[1]);
                ASSERT_EQ(left[1], right[0]);
              }
            }
  }
}

} // namespace
