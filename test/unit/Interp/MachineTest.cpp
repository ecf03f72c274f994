// Kernels at the machine level: layouts, shared memory and its races, reductions by parts.
#include "InterpTest.h"

#include <cmath>

using namespace minic;
using namespace minic::test;

namespace {

/// The elements of a tile change their owners through shared memory.
std::string exchange(const std::string &between) {
  return R"(
    #lanes = layout<reg = [0:2@1], lane = [0:32@2], warp = [0:2@64]>
    #warps = layout<reg = [0:2@64], lane = [0:32@1], warp = [0:2@32]>
    kernel @k(%x: buffer<128xf32>, %y: buffer<128xf32>) at machine, threads = 64 {
      %zero = constant 0 : index
      %s = alloc_shared : smem<128xf32>
      %a = load %x, %zero, mask = [], vec = 2 : tile<128xf32, #lanes>
      shared_store %a, %s
      )" +
         between + R"(
      %b = shared_load %s : tile<128xf32, #warps>
      store %b, %y, %zero, mask = [], vec = 1
      return
    }
  )";
}

TEST(Machine, SharedMemoryNeedsABarrier) {
  Outcome fine = runKernel(exchange("barrier"), {1}, {iota(128)}, {HostTensor(DType::F32, {128})});
  ASSERT_EQ(fine.error, "");
  EXPECT_EQ(numbers(fine.outputs[0]), numbers(iota(128)));
  EXPECT_EQ(fine.traffic.total().issuedRead, 512);
  Outcome race = runKernel(exchange(""), {1}, {iota(128)}, {HostTensor(DType::F32, {128})});
  EXPECT_EQ(race.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(race.error, "first: shared_store")) << race.error;
  EXPECT_TRUE(has(race.error, "shared_load")) << race.error;
}

TEST(Machine, OwnElementsNeedNoBarrier) {
  std::string text = exchange("");
  text.replace(text.find("tile<128xf32, #warps>"), 21, "tile<128xf32, #lanes>");
  Outcome out = runKernel(text, {1}, {iota(128)}, {HostTensor(DType::F32, {128})});
  EXPECT_EQ(out.error, "");
}

TEST(Machine, WriteAfterReadIsARace) {
  Outcome out = runKernel(exchange("barrier\n %c = shared_load %s : tile<128xf32, #warps>\n shared_store %a, %s\n barrier\n"), {1},
                          {iota(128)}, {HostTensor(DType::F32, {128})});
  EXPECT_EQ(out.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(out.error, "first: %c = shared_load")) << out.error;
}

TEST(Machine, SharedMemoryThatNothingWrote) {
  std::string text = exchange("barrier");
  text.erase(text.find("shared_store %a, %s"), 19);
  Outcome out = runKernel(text, {1}, {iota(128)}, {HostTensor(DType::F32, {128})});
  EXPECT_EQ(out.code, ErrorCode::UndefinedRead) << out.error;
}

TEST(Machine, ElementStoredByTwoThreads) {
  Outcome out = runKernel(R"(
    #l = layout<reg = [0:2@1], lane = [0:32@2], warp = []>
    #r = layout<reg = [0:2@32], lane = [0:32@1], warp = []>
    kernel @k(%x: buffer<64xf32>, %y: buffer<64xf32>) at machine, threads = 32 {
      %zero = constant 0 : index
      %a = load %x, %zero, mask = [], vec = 2 : tile<64xf32, #l>
      %b = load %x, %zero, mask = [], vec = 1 : tile<64xf32, #r>
      store %a, %y, %zero, mask = [], vec = 2
      store %b, %y, %zero, mask = [], vec = 1
      return
    }
  )",
                          {1}, {iota(64)}, {HostTensor(DType::F32, {64})});
  EXPECT_EQ(out.code, ErrorCode::LostStore);
  EXPECT_TRUE(has(out.error, "'y' at [1] is stored twice, by threads 0 and 1 of program (0)")) << out.error;
}

/// Sums 128 numbers: a thread's own, then over the lanes, then the two warps' through shared memory.
const std::string sum = R"(
  #l = layout<reg = [0:2@1], lane = [0:32@2], warp = [0:2@64]>
  #lane = layout<reg = [], lane = [0:32@1], warp = [0:2@32]>
  #warp = layout<reg = [], lane = [_:32], warp = [0:2@1]>
  #all = layout<reg = [0:2@1], lane = [_:32], warp = [_:2]>
  #one = layout<reg = [], lane = [_:32], warp = [_:2]>
  kernel @sum(%x: buffer<128xf32>, %y: buffer<1xf32>) at machine, threads = 64 {
    %zero = constant 0 : index
    %a = load %x, %zero, mask = [], vec = 2 : tile<128xf32, #l>
    %b = reduce sum %a, axes = [0], over = reg : tile<64xf32, #lane>
    %c = reduce sum %b, axes = [0], over = lane : tile<2xf32, #warp>
    %s = alloc_shared : smem<2xf32>
    shared_store %c, %s
    barrier
    %d = shared_load %s : tile<2xf32, #all>
    %e = reduce sum %d, axes = [0], over = reg : tile<1xf32, #one>
    store %e, %y, %zero, mask = [], vec = 1
    return
  }
)";

TEST(Machine, ReducesByParts) {
  Outcome out = runKernel(sum, {1}, {iota(128)}, {HostTensor(DType::F32, {1})});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(out.outputs[0].get(0), 8128);
}

TEST(Machine, PartsAgreeWithTheTileLevelBitForBit) {
  HostTensor x(DType::F32, {128});
  const std::string tile = R"(
    kernel @sum(%x: buffer<128xf32>, %y: buffer<1xf32>) at tile, schedule = #rows<block = [128], warps = [2], lanes = [32], vec = 2> {
      %zero = constant 0 : index
      %a = load %x, %zero : tile<128xf32>
      %b = reduce sum %a, axes = [0] : tile<1xf32>
      store %b, %y, %zero
      return
    }
  )";
  for (uint64_t seed = 1; seed < 20; ++seed) {
    fillRandom(x, seed);
    Outcome byTile = runKernel(tile, {1}, {x}, {HostTensor(DType::F32, {1})});
    Outcome byParts = runKernel(sum, {1}, {x}, {HostTensor(DType::F32, {1})});
    ASSERT_EQ(byTile.error, "");
    ASSERT_EQ(byParts.error, "");
    EXPECT_EQ(byTile.outputs[0].get(0), byParts.outputs[0].get(0)) << seed;
  }
}

TEST(Machine, WarpsWithLowStrides) {
  // Elements of a lane pair are 2 apart in memory order, warps alternate: what is left after `over = reg` is numbered lanes first.
  Outcome out = runKernel(R"(
    #l = layout<reg = [0:2@64], lane = [0:32@2], warp = [0:2@1]>
    #lane = layout<reg = [], lane = [0:32@1], warp = [0:2@32]>
    kernel @k(%x: buffer<128xf32>, %y: buffer<64xf32>) at machine, threads = 64 {
      %zero = constant 0 : index
      %a = load %x, %zero, mask = [], vec = 1 : tile<128xf32, #l>
      %b = reduce sum %a, axes = [0], over = reg : tile<64xf32, #lane>
      store %b, %y, %zero, mask = [], vec = 1
      return
    }
  )",
                          {1}, {iota(128)}, {HostTensor(DType::F32, {64})});
  ASSERT_EQ(out.error, "");
  for (int64_t lane = 0; lane < 32; ++lane)
    for (int64_t warp = 0; warp < 2; ++warp)
      EXPECT_EQ(out.outputs[0].get(lane + 32 * warp), double(2 * (2 * lane + warp) + 64));
}

TEST(Machine, VectorAccess) {
  auto text = [](const std::string &columns, const std::string &start, const std::string &mask) {
    return R"(
      #l = layout<reg = [1:4@1], lane = [0:32@1], warp = []>
      kernel @k(%x: buffer<32x)" +
           columns + R"(xf32>, %y: buffer<32x4xf32>) at machine, threads = 32 {
        %zero = constant 0 : index
        %c = constant )" +
           start + R"( : index
        %a = load %x, %zero, %c, mask = )" +
           mask + R"(, vec = 4 : tile<32x4xf32, #l>
        store %a, %y, %zero, %zero, mask = [], vec = 4
        return
      }
    )";
  };
  auto run = [&](int64_t columns, const std::string &start, const std::string &mask = "[]") {
    HostTensor x(DType::F32, {32, columns});
    fillIota(x);
    return runKernel(text(std::to_string(columns), start, mask), {1}, {x}, {HostTensor(DType::F32, {32, 4})});
  };
  EXPECT_EQ(run(8, "4").error, "");
  Outcome start = run(8, "2"), row = run(6, "0"), edge = run(8, "6", "[1], fill = 0.0");
  EXPECT_EQ(start.code, ErrorCode::OutOfBounds);
  EXPECT_TRUE(has(start.error, "their address is not a multiple")) << start.error;
  EXPECT_TRUE(has(row.error, "their address is not a multiple")) << row.error;
  EXPECT_TRUE(has(edge.error, "only some of them are in bounds")) << edge.error;
}

/// y = x w for 16 x 8 by 8 x 32 with operands in shared memory.
std::string product(const std::string &beforeDot) {
  return R"(
    #a = layout<reg = [2:4@1], lane = [2:2@4, 0:16@1], warp = []>
    #b = layout<reg = [1:4@1, 2:2@4], lane = [1:8@4, 2:4@1], warp = []>
    #c = layout<reg = [1:4@1, 0:4@4], lane = [1:8@4, 0:4@1], warp = []>
    kernel @mm(%x: buffer<16x8xf32>, %w: buffer<8x32xf32>, %y: buffer<16x32xf32>) at machine, threads = 32 {
      %zero = constant 0 : index
      %xs = alloc_shared : smem<16x1x8xf32, strides = [1, 1, 17]>
      %ws = alloc_shared : smem<1x32x8xf32, strides = [1, 1, 32]>
      %x0 = load %x, %zero, %zero, dims = [0, 2], mask = [], vec = 4 : tile<16x1x8xf32, #a>
      %w0 = load %w, %zero, %zero, dims = [2, 1], mask = [], vec = 4 : tile<1x32x8xf32, #b>
      shared_store %x0, %xs
      shared_store %w0, %ws
      )" +
         beforeDot + R"(
      %acc = constant 0.0 : tile<16x32x1xf32, #c>
      %d = dot %xs, %ws, %acc, axes = [2] : tile<16x32x1xf32, #c>
      store %d, %y, %zero, %zero, dims = [0, 1], mask = [], vec = 4
      return
    }
  )";
}

TEST(Machine, DotReadsSharedMemory) {
  HostTensor x(DType::F32, {16, 8}), w(DType::F32, {8, 32});
  fillRandom(x, 3);
  fillRandom(w, 4);
  Outcome out = runKernel(product("barrier"), {1}, {x, w}, {HostTensor(DType::F32, {16, 32})});
  ASSERT_EQ(out.error, "");
  for (int64_t m = 0; m < 16; ++m)
    for (int64_t n = 0; n < 32; ++n) {
      float expected = 0;
      for (int64_t k = 0; k < 8; ++k)
        expected = std::fma(float(x.get(m * 8 + k)), float(w.get(k * 32 + n)), expected);
      EXPECT_EQ(out.outputs[0].get(m * 32 + n), expected);
    }
  Outcome race = runKernel(product(""), {1}, {x, w}, {HostTensor(DType::F32, {16, 32})});
  EXPECT_EQ(race.code, ErrorCode::SharedRace) << race.error;
  EXPECT_TRUE(has(race.error, "dot %xs, %ws, %acc")) << race.error;
}

} // namespace
