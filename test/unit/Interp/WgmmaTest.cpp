// Tensor cores: wgmma and its waits, stmatrix, tma_store and the fence between, and a pipelined product with roles.
#include "InterpTest.h"

#include <cmath>

using namespace minic;
using namespace minic::test;

namespace {

/// y = %d, which `product` makes from 64x64 matrices that tma brought: %xs and %ws; %x0 is x in registers.
std::string product(const std::string &product) {
  return R"(
    #a = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
    #acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
    kernel @k(%x: tensor_map<64x64xf16, box = [64, 64], #swizzle128>, %w: tensor_map<64x64xf16, box = [64, 64], #swizzle128>,
              %xb: buffer<64x64xf16>, %y: buffer<64x64xf32>) at machine, threads = 128 {
      %zero = constant 0 : index
      %no = compare gt %zero, %zero : i1
      %yes = compare eq %zero, %zero : i1
      %xs = alloc_shared : smem<64x64xf16, #swizzle128>
      %ws = alloc_shared : smem<64x64xf16, #swizzle128>
      %b = mbarrier_init count = 1 : mbarrier<1>
      barrier
      mbarrier_expect %b, %zero, bytes = 16384
      tma_load %x, %xs, %b, %zero, %zero, %zero
      tma_load %w, %ws, %b, %zero, %zero, %zero
      %x0 = load %xb, %zero, %zero, mask = [], vec = 1 : tile<64x64xf16, #a>
      %u = undefined : inflight<tile<64x64xf32, #acc>>
      mbarrier_wait %b, %zero
      )" +
         product + R"(
      store %d, %y, %zero, %zero, mask = [], vec = 1
      return
    }
  )";
}

constexpr std::string_view inflight = "inflight<tile<64x64xf32, #acc>>", accumulators = "tile<64x64xf32, #acc>";

/// Runs the text and compares with x w (x w^T), `times` times.
void expectProduct(const std::string &text, bool transposed, int times) {
  HostTensor x = random(DType::F16, {64, 64}, 5), w = random(DType::F16, {64, 64}, 6);
  Outcome out = runKernel(text, {1}, {x, w, x}, {HostTensor(DType::F32, {64, 64})});
  ASSERT_EQ(out.error, "") << text;
  for (int64_t m = 0; m < 64; ++m)
    for (int64_t n = 0; n < 64; ++n) {
      double expected = 0;
      for (int64_t k = 0; k < 64; ++k)
        expected += x.get(m * 64 + k) * w.get(transposed ? n * 64 + k : k * 64 + n);
      EXPECT_NEAR(out.outputs[0].get(m * 64 + n), times * expected, 1e-4);
    }
}

Outcome runProduct(const std::string &steps) {
  HostTensor x = random(DType::F16, {64, 64}, 5), w = random(DType::F16, {64, 64}, 6);
  return runKernel(product(steps), {1}, {x, w, x}, {HostTensor(DType::F32, {64, 64})});
}

std::string steps(const std::string &text) {
  std::string result = text;
  for (auto [from, to] : {std::pair("INFLIGHT", inflight), std::pair("TILE", accumulators)})
    for (size_t at; (at = result.find(from)) != std::string::npos;)
      result.replace(at, std::string_view(from).size(), to);
  return result;
}

TEST(Wgmma, MultipliesSharedMemory) {
  for (bool transposed : {false, true}) {
    std::string form = transposed ? "nt" : "nn";
    expectProduct(product(steps("%f = wgmma " + form + " %xs, %ws : INFLIGHT\n %d = wgmma_wait %f, pending = 0 : TILE")),
                  transposed, 1);
    expectProduct(product(steps("%f = wgmma " + form + " %x0, %ws : INFLIGHT\n %d = wgmma_wait %f, pending = 0 : TILE")),
                  transposed, 1);
  }
}

TEST(Wgmma, AccumulatesWhereItIsTold) {
  auto chain = [](const std::string &second) {
    return product(steps("%f = wgmma nn %xs, %ws : INFLIGHT\n %g = wgmma nn %xs, %ws, " + second +
                         " : INFLIGHT\n %d = wgmma_wait %g, pending = 0 : TILE"));
  };
  expectProduct(chain("%f"), false, 2);
  expectProduct(chain("%f, %yes"), false, 2);
  expectProduct(chain("%f, %no"), false, 1);
  expectProduct(product(steps("%f = wgmma nn %xs, %ws, %u, %no : INFLIGHT\n %d = wgmma_wait %f, pending = 0 : TILE")), false, 1);
}

TEST(Wgmma, AccumulatesOntoATile) {
  Outcome out = runProduct(steps("%tens = constant 10.0 : TILE\n %f = wgmma nn %xs, %ws, %tens : INFLIGHT\n"
                                 " %d = wgmma_wait %f, pending = 0 : TILE"));
  ASSERT_EQ(out.error, "");
  Outcome plain = runProduct(steps("%f = wgmma nn %xs, %ws : INFLIGHT\n %d = wgmma_wait %f, pending = 0 : TILE"));
  for (int64_t i = 0; i < 64 * 64; ++i)
    EXPECT_NEAR(out.outputs[0].get(i), plain.outputs[0].get(i) + 10, 1e-4);
}

TEST(Wgmma, UndefinedAccumulators) {
  Outcome out = runProduct(steps("%f = wgmma nn %xs, %ws, %u, %yes : INFLIGHT\n %d = wgmma_wait %f, pending = 0 : TILE"));
  EXPECT_EQ(out.code, ErrorCode::UndefinedRead) << out.error;
  EXPECT_TRUE(has(out.error, "the accumulators of a wgmma are undefined")) << out.error;
}

TEST(Wgmma, OperandsMustNotChangeInFlight) {
  const std::string start = "%f = wgmma nn %xs, %ws : INFLIGHT\n", wait = "%d = wgmma_wait %f, pending = 0 : TILE\n";
  const std::string change = "barrier\n shared_store %x0, %xs\n";
  Outcome early = runProduct(steps(start + change + wait));
  EXPECT_EQ(early.code, ErrorCode::SharedRace) << early.error;
  EXPECT_TRUE(has(early.error, "is overwritten while a wgmma in flight still reads it")) << early.error;
  EXPECT_TRUE(has(early.error, "first: %f = wgmma nn")) << early.error;
  // A wait that leaves the latest group in flight does not help.
  Outcome pending =
      runProduct(steps(start + "%e = wgmma_wait %f, pending = 1 : INFLIGHT\n" + change + "%d = wgmma_wait %e, pending = 0 : TILE"));
  EXPECT_TRUE(has(pending.error, "is overwritten while a wgmma in flight still reads it")) << pending.error;
  EXPECT_EQ(runProduct(steps(start + wait + change)).error, "");
  Outcome unordered = runProduct(steps(start + wait + "shared_store %x0, %xs"));
  EXPECT_EQ(unordered.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(unordered.error, "no barrier is between")) << unordered.error;
}

TEST(Wgmma, StoresAreSeenBehindAFence) {
  const std::string text = "barrier\n shared_store %x0, %xs\n FENCE %f = wgmma nn %xs, %ws : INFLIGHT\n"
                           " %d = wgmma_wait %f, pending = 0 : TILE";
  auto between = [&](const std::string &fence) { return steps(replaced(text, "FENCE", fence)); };
  expectProduct(product(between("fence_async\n barrier\n")), false, 1);
  Outcome unfenced = runProduct(between("barrier\n")), late = runProduct(between("barrier\n fence_async\n"));
  Outcome unordered = runProduct(between("fence_async\n"));
  EXPECT_EQ(unfenced.code, ErrorCode::UndefinedRead);
  EXPECT_TRUE(has(unfenced.error, "may not see without a fence_async")) << unfenced.error;
  EXPECT_TRUE(has(late.error, "may not see without a fence_async")) << late.error;
  EXPECT_EQ(unordered.code, ErrorCode::SharedRace) << unordered.error;
}

//===-- Other element types ---------------------------------------------------------------------------------------------------===//

/// y = start + x w^T, from matrices of 64 rows of K; `rounds`: the maps round f32.
std::string typedProduct(DType dtype, const std::string &start, bool rounds = false) {
  std::string type(dtypeName(dtype)), k = std::to_string(128 / dtypeBytes(dtype)), sum = isInteger(dtype) ? "i32" : "f32";
  std::string map = "tensor_map<64x" + k + "x" + type + ", box = [64, " + k + "], #swizzle128" + (rounds ? ", tf32>" : ">");
  std::string memory = "smem<64x" + k + "x" + type + ", #swizzle128>", tile = "tile<64x64x" + sum + ", #acc>";
  return R"(
    #acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
    kernel @k(%x: )" +
         map + ", %w: " + map + ", %y: buffer<64x64x" + sum + R"(>) at machine, threads = 128 {
      %zero = constant 0 : index
      %xs = alloc_shared : )" +
         memory + "\n      %ws = alloc_shared : " + memory + R"(
      %b = mbarrier_init count = 1 : mbarrier<1>
      barrier
      mbarrier_expect %b, %zero, bytes = 16384
      tma_load %x, %xs, %b, %zero, %zero, %zero
      tma_load %w, %ws, %b, %zero, %zero, %zero
      mbarrier_wait %b, %zero
      %start = constant )" +
         start + " : " + tile + "\n      %f = wgmma nt %xs, %ws, %start : inflight<" + tile +
         ">\n      %d = wgmma_wait %f, pending = 0 : " + tile + R"(
      store %d, %y, %zero, %zero, mask = [], vec = 1
      return
    }
  )";
}

TEST(Wgmma, SeesTheUpperBitsOfF32) {
  HostTensor x = random(DType::F32, {64, 32}, 5), w = random(DType::F32, {64, 32}, 6);
  for (bool rounds : {false, true}) {
    Outcome out = runKernel(typedProduct(DType::F32, "0.0", rounds), {1}, {x, w}, {HostTensor(DType::F32, {64, 64})});
    ASSERT_EQ(out.error, "");
    auto seen = [&](double value) { // 11 bits: rounded by the map, else cut off.
      int exponent;
      double scaled = std::ldexp(std::frexp(value, &exponent), 11);
      return std::ldexp(rounds ? std::nearbyint(scaled) : std::trunc(scaled), exponent - 11);
    };
    for (int64_t m = 0; m < 64; ++m)
      for (int64_t n = 0; n < 64; ++n) {
        double expected = 0, size = 0;
        for (int64_t k = 0; k < 32; ++k) {
          double product = seen(x.get(m * 32 + k)) * seen(w.get(n * 32 + k));
          expected += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(out.outputs[0].get(m * 64 + n), expected, 32 * 0x1p-24 * size) << m << ", " << n;
      }
  }
}

TEST(Wgmma, IntegersWrap) {
  for (DType dtype : {DType::I8, DType::U8}) {
    HostTensor x(dtype, {64, 128}), w(dtype, {64, 128});
    for (int64_t i = 0; i < 64 * 128; ++i) {
      int64_t least = dtype == DType::I8 ? -128 : 0;
      x.set(i, double(least + i * 37 % 256));
      w.set(i, double(least + i * 101 % 256));
    }
    Outcome out = runKernel(typedProduct(dtype, "2147483647"), {1}, {x, w}, {HostTensor(DType::I32, {64, 64})});
    ASSERT_EQ(out.error, "");
    for (int64_t m = 0; m < 64; ++m)
      for (int64_t n = 0; n < 64; ++n) {
        int64_t sum = 2147483647;
        for (int64_t k = 0; k < 128; ++k)
          sum += int64_t(x.get(m * 128 + k) * w.get(n * 128 + k));
        ASSERT_EQ(out.outputs[0].get(m * 64 + n), double(int32_t(uint32_t(sum)))) << m << ", " << n;
      }
  }
}

TEST(Wgmma, Float8) {
  for (DType dtype : {DType::F8E4M3, DType::F8E5M2}) {
    HostTensor x = random(dtype, {64, 128}, 5), w = random(dtype, {64, 128}, 6);
    Outcome out = runKernel(typedProduct(dtype, "10.0"), {1}, {x, w}, {HostTensor(DType::F32, {64, 64})});
    ASSERT_EQ(out.error, "");
    for (int64_t m = 0; m < 64; ++m)
      for (int64_t n = 0; n < 64; ++n) {
        double expected = 10, size = 10;
        for (int64_t k = 0; k < 128; ++k) {
          double product = x.get(m * 128 + k) * w.get(n * 128 + k);
          expected += product;
          size += std::abs(product);
        }
        ASSERT_NEAR(out.outputs[0].get(m * 64 + n), expected, 128 * 0x1p-24 * size) << m << ", " << n;
      }
  }
}

//===-- stmatrix, tma_store -------------------------------------------------------------------------------------------------===//

/// y = x through stmatrix and tma_store, a 64x128 tile that goes as two boxes of a view.
const std::string copy = R"(
  #a = layout<reg = [1:2@1, 0:2@8, 1:16@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
  #half = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
  kernel @k(%x: buffer<64x128xbf16>, %y: tensor_map<60x128xbf16, box = [64, 64], #swizzle128>) at machine, threads = 128 {
    %zero = constant 0 : index
    %half = constant 64 : index
    %s = alloc_shared : smem<64x128xbf16, #swizzle128>
    %tile = load %x, %zero, %zero, mask = [], vec = 1 : tile<64x128xbf16, #a>
    %left = extract_tile %tile, %zero, %zero : tile<64x64xbf16, #half>
    %right = extract_tile %tile, %zero, %half : tile<64x64xbf16, #half>
    %s0 = shared_view %s, %zero, %zero : smem<64x64xbf16, #swizzle128>
    %s1 = shared_view %s, %zero, %half : smem<64x64xbf16, #swizzle128>
    stmatrix %left, %s0
    stmatrix %right, %s1
    fence_async
    barrier // after the fence
    tma_store %s0, %y, %zero, %zero
    tma_store %s1, %y, %zero, %half
    tma_store_wait pending = 0
    return
  }
)";

Outcome runCopy(const std::string &text) {
  return runKernel(text, {1}, {random(DType::BF16, {64, 128}, 8)}, {HostTensor(DType::BF16, {60, 128})});
}

TEST(Wgmma, StmatrixAndTmaStore) {
  Outcome out = runCopy(copy);
  ASSERT_EQ(out.error, "");
  std::vector<double> x = numbers(random(DType::BF16, {64, 128}, 8));
  x.resize(60 * 128); // Rows outside are dropped.
  EXPECT_EQ(numbers(out.outputs[0]), x);
  EXPECT_EQ(out.traffic.total().issuedWritten, 60 * 128 * 2);
}

TEST(Wgmma, TmaStoreNeedsFenceAndBarrier) {
  Outcome unfenced = runCopy(replaced(copy, "fence_async\n", "\n"));
  EXPECT_EQ(unfenced.code, ErrorCode::UndefinedRead);
  EXPECT_TRUE(has(unfenced.error, "which tma_store may not see without a fence_async")) << unfenced.error;
  Outcome unordered = runCopy(replaced(copy, "barrier // after the fence", ""));
  EXPECT_EQ(unordered.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(unordered.error, "first: stmatrix")) << unordered.error;
}

TEST(Wgmma, TmaStoreKeepsItsMemory) {
  auto reuse = [](const std::string &before) {
    return runCopy(replaced(copy, "tma_store_wait pending = 0", before + " stmatrix %left, %s1\n tma_store_wait pending = 0"));
  };
  Outcome early = reuse("tma_store_wait pending = 1\n barrier\n"), unordered = reuse("tma_store_wait pending = 0\n");
  EXPECT_EQ(early.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(early.error, "is overwritten while a tma_store in flight still reads it")) << early.error;
  EXPECT_EQ(unordered.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(unordered.error, "no barrier is between")) << unordered.error;
  EXPECT_EQ(reuse("tma_store_wait pending = 0\n barrier\n").error, "");
  // The first of the two stores is done where one may be pending.
  Outcome first = runCopy(replaced(copy, "tma_store_wait pending = 0",
                                   "tma_store_wait pending = 1\n barrier\n stmatrix %left, %s0\n tma_store_wait pending = 0"));
  EXPECT_EQ(first.error, "");
}

TEST(Wgmma, TmaStoreNeedsAWaitAtTheEnd) {
  Outcome out = runCopy(replaced(copy, "tma_store_wait pending = 0", "tma_store_wait pending = 1"));
  EXPECT_EQ(out.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(out.error, "without a tma_store_wait")) << out.error;
}

TEST(Wgmma, TmaStoresOfOneElement) {
  Outcome out = runKernel(copy, {2}, {random(DType::BF16, {64, 128}, 8)}, {HostTensor(DType::BF16, {60, 128})});
  EXPECT_EQ(out.code, ErrorCode::LostStore);
  EXPECT_TRUE(has(out.error, "'y' at [0, 0] is stored twice, by program (0) and program (1)")) << out.error;
}

TEST(Wgmma, ViewsLieInsideTheirMemory) {
  std::string sum = replaced(copy, "%s = alloc_shared", "%more = add %half, %half : index\n %s = alloc_shared");
  Outcome out = runCopy(replaced(sum, "shared_view %s, %zero, %half", "shared_view %s, %zero, %more"));
  EXPECT_EQ(out.code, ErrorCode::OutOfBounds);
  EXPECT_TRUE(has(out.error, "the view at [0, 128] is not a box of smem<64x128xbf16, #swizzle128>")) << out.error;
}

TEST(Wgmma, PartsLieInsideTheirTile) {
  Outcome out = runCopy(replaced(copy, "extract_tile %tile, %zero, %half", "extract_tile %tile, %half, %zero"));
  EXPECT_EQ(out.code, ErrorCode::OutOfBounds) << out.error;
}

//===-- A pipelined product with roles --------------------------------------------------------------------------------------===//

/// y = x w on two warpgroups, loads by a producer two stages ahead; a stage is free when the group after it is started.
const std::string gemm = R"(
  #acc = layout<reg = [1:2@1, 0:2@8, 1:16@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
  #half = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
  kernel @gemm(%x: tensor_map<MxKxbf16, box = [128, 64], #swizzle128>, %w: tensor_map<KxNxbf16, box = [64, 128], #swizzle128>,
               %y: tensor_map<MxNxbf16, box = [64, 64], #swizzle128>) at machine, threads = 384 {
    %i, %j = program_id grid = [ceildiv(M, 128), ceildiv(N, 128)] : index, index
    %zero = constant 0 : index
    %one = constant 1 : index
    %c64 = constant 64 : index
    %c128 = constant 128 : index
    %steps = dim ceildiv(K, 64) : index
    %row = mul %i, %c128 : index
    %column = mul %j, %c128 : index
    %xs = alloc_shared : smem<128x64xbf16, #swizzle128, stages = 3>
    %ws = alloc_shared : smem<64x128xbf16, #swizzle128, stages = 3>
    %ys = alloc_shared : smem<64x64xbf16, #swizzle128, stages = 2>
    %full = mbarrier_init count = 1 : mbarrier<3>
    %empty = mbarrier_init count = 8 : mbarrier<3>
    tma_prefetch %x
    barrier // after mbarrier_init
    role load, warps = 4, regs = 24, active = thread {
      for %zero, %steps, %one { ^(%k: index):
        mbarrier_wait %empty, %k, lap = previous
        mbarrier_expect %full, %k, bytes = 32768
        %xk = stage %xs, %k : smem<128x64xbf16, #swizzle128>
        %wk = stage %ws, %k : smem<64x128xbf16, #swizzle128>
        %at = mul %k, %c64 : index
        tma_load %x, %xk, %full, %k, %row, %at
        tma_load %w, %wk, %full, %k, %at, %column
        yield
      }
      yield
    }
    role multiply, warps = 4, instances = 2, regs = 240 { ^(%g: index):
      %mine = mul %g, %c64 : index
      %none = undefined : inflight<tile<64x128xf32, #acc>>
      %sum = for %zero, %steps, %one, %none { ^(%k: index, %acc: inflight<tile<64x128xf32, #acc>>):
        mbarrier_wait %full, %k
        %xk = stage %xs, %k : smem<128x64xbf16, #swizzle128>
        %wk = stage %ws, %k : smem<64x128xbf16, #swizzle128>
        %a = shared_view %xk, %mine, %zero : smem<64x64xbf16, #swizzle128, slab = 128>
        %more = compare gt %k, %zero : i1
        %f = wgmma nn %a, %wk, %acc, %more : inflight<tile<64x128xf32, #acc>>
        %next = wgmma_wait %f, pending = 1 : inflight<tile<64x128xf32, #acc>>
        %before = sub %k, %one : index
        mbarrier_arrive %empty, %before, %more
        yield %next
      } : inflight<tile<64x128xf32, #acc>>
      %tile = wgmma_wait %sum, pending = 0 : tile<64x128xf32, #acc>
      %y0 = convert %tile : tile<64x128xbf16, #acc>
      %sy = stage %ys, %g : smem<64x64xbf16, #swizzle128>
      %first = add %row, %mine : index
      for %zero, %c128, %c64, unroll = full { ^(%n: index):
        %part = extract_tile %y0, %zero, %n : tile<64x64xbf16, #half>
        stmatrix %part, %sy
        fence_async
        barrier
        %to = add %column, %n : index
        tma_store %sy, %y, %first, %to
        tma_store_wait pending = 0
        barrier
        yield
      }
      yield
    }
    return
  }
)";

Outcome runGemm(const std::string &text, int64_t m, int64_t n, int64_t k, CpuOptions options = {}) {
  return runKernel(text, {(m + 127) / 128, (n + 127) / 128}, {random(DType::BF16, {m, k}, 11), random(DType::BF16, {k, n}, 12)},
                   {HostTensor(DType::BF16, {m, n})}, {{"M", m}, {"N", n}, {"K", k}}, options);
}

TEST(Wgmma, PipelinedProduct) {
  int64_t m = 200, n = 192, k = 328;
  Outcome out = runGemm(gemm, m, n, k);
  ASSERT_EQ(out.error, "");
  HostTensor x = random(DType::BF16, {m, k}, 11), w = random(DType::BF16, {k, n}, 12);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < n; ++c) {
      double expected = 0;
      for (int64_t i = 0; i < k; ++i)
        expected += x.get(r * k + i) * w.get(i * n + c);
      ASSERT_NEAR(out.outputs[0].get(r * n + c), expected, std::abs(expected) / 256 + 1e-5) << r << ", " << c;
    }
}

TEST(Wgmma, PipelineWithoutAWaitForFreeStages) {
  Outcome out = runGemm(replaced(gemm, "mbarrier_wait %empty, %k, lap = previous", ""), 128, 128, 512);
  EXPECT_EQ(out.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(out.error, "is written before the mbarrier_wait that covers its tma_load")) << out.error;
}

TEST(Wgmma, PipelineThatFreesTheStageInFlight) {
  // Not the stage before, but the one that the latest group still reads.
  Outcome out = runGemm(replaced(gemm, "mbarrier_arrive %empty, %before, %more", "mbarrier_arrive %empty, %k"), 128, 128, 512);
  EXPECT_EQ(out.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(out.error, "first: %f = wgmma nn")) << out.error;
}

TEST(Wgmma, PipelineThatDoesNotWaitForItsData) {
  Outcome out = runGemm(replaced(gemm, "mbarrier_wait %full, %k", ""), 128, 128, 512);
  EXPECT_EQ(out.code, ErrorCode::UndefinedRead);
  EXPECT_TRUE(has(out.error, "is read before the mbarrier_wait that covers its tma_load")) << out.error;
}

TEST(Wgmma, PipelineThatFreesNothing) {
  Outcome out = runGemm(replaced(gemm, "mbarrier_arrive %empty, %before, %more", ""), 128, 128, 512);
  EXPECT_EQ(out.code, ErrorCode::Deadlock);
  EXPECT_TRUE(has(out.error, "kernel 'gemm', program (0, 0): operations wait for each other forever")) << out.error;
  EXPECT_TRUE(has(out.error, "role 'load' waits in: mbarrier_wait %empty, %k, lap = previous")) << out.error;
  EXPECT_TRUE(has(out.error, "where phase 0 has 0 of 8 arrivals")) << out.error;
  EXPECT_TRUE(has(out.error, "role 'multiply' 1 waits in: mbarrier_wait %full, %k, where phase 1 has 0 of 1 arrival")) << out.error;
}

TEST(Wgmma, MapsNeedAlignedRows) {
  Outcome odd = runGemm(gemm, 128, 128, 100);
  EXPECT_EQ(odd.code, ErrorCode::LaunchMismatch);
  EXPECT_TRUE(has(odd.error, "the parameter 'x' has rows of 200 bytes, but TMA needs a multiple of 16")) << odd.error;
  Outcome wide = runGemm(gemm, 128, 132, 64);
  EXPECT_EQ(wide.code, ErrorCode::LaunchMismatch);
  EXPECT_TRUE(has(wide.error, "the parameter 'w' has rows of 264 bytes")) << wide.error;
}

} // namespace
