// Whole kernels: rows with reductions, matrix products, loops, masks.
#include "CodeGenTest.h"

using namespace minic;
using namespace minic::test;

namespace {

constexpr std::string_view targets[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"};

/// A row of 1024 elements a warp: x - max(x), over its sum. `masked` are the checked axes.
std::string rowsKernel(const std::string &masked, const std::string &columns = "N") {
  std::string buffer = "buffer<Mx" + columns + "xf32>";
  return R"(
    #t = layout<reg = [1:4@1, 1:8@128], lane = [1:32@4], warp = [0:4@1]>
    #l = layout<reg = [], lane = [1:32@1], warp = [0:4@1]>
    #s = layout<reg = [], lane = [_:32], warp = [0:4@1]>
    kernel @rows(%x: )" +
         buffer + ", %y: " + buffer + R"() at machine, threads = 128 {
      %p = program_id grid = [ceildiv(M, 4)] : index
      %four = constant 4 : index
      %row = mul %p, %four : index
      %zero = constant 0 : index
      %v = load %x, %row, %zero, mask = )" +
         masked + R"(, fill = -inf, vec = 4 : tile<4x1024xf32, #t>
      %m0 = reduce max %v, axes = [1], over = reg : tile<4x32xf32, #l>
      %m1 = reduce max %m0, axes = [1], over = lane : tile<4x1xf32, #s>
      %m = broadcast %m1 : tile<4x1024xf32, #t>
      %d = sub %v, %m : tile<4x1024xf32, #t>
      %s0 = reduce sum %d, axes = [1], over = reg : tile<4x32xf32, #l>
      %s1 = reduce sum %s0, axes = [1], over = lane : tile<4x1xf32, #s>
      %s = broadcast %s1 : tile<4x1024xf32, #t>
      %q = div %d, %s : tile<4x1024xf32, #t>
      store %q, %y, %row, %zero, mask = )" +
         masked + R"(, vec = 4
      return
    }
  )";
}

/// 64 x 64 blocks of y = x w by 128 threads, 16 positions of k in shared memory at a time.
std::string matmulKernel(const std::string &type, const std::string &acc) {
  return R"(
    #c = layout<reg = [1:4@1, 0:4@1, 0:2@32], lane = [1:8@4, 0:4@4], warp = [1:2@32, 0:2@16]>
    #a = layout<reg = [2:)" +
         std::string(type == "f64" ? "2@1, 2:2@2" : "4@1") + R"(, 0:2@32], lane = [2:4@4, 0:8@1], warp = [0:4@8]>
    #b = layout<reg = [1:4@1, 2:2@8], lane = [1:16@4, 2:2@1], warp = [2:4@2]>
    kernel @matmul_)" +
         type + "(%x: buffer<MxKx" + type + ">, %w: buffer<KxNx" + type + ">, %y: buffer<MxNx" + acc +
         R"(>) at machine, threads = 128 {
      %i, %j = program_id grid = [ceildiv(M, 64), ceildiv(N, 64)] : index, index
      %block = constant 64 : index
      %row = mul %i, %block : index
      %column = mul %j, %block : index
      %sa = alloc_shared : smem<64x1x16x)" +
         type + R"(, strides = [1, 1, 68]>
      %sb = alloc_shared : smem<1x64x16x)" +
         type + R"(, strides = [1, 1, 68]>
      %none = constant )" +
         std::string(acc == "i32" ? "0" : "0.0") + R"( : tile<64x64x1x)" + acc + R"(, #c>
      %lo = constant 0 : index
      %hi = dim K : index
      %step = constant 16 : index
      %sum = for %lo, %hi, %step, %none {
      ^(%k: index, %acc: tile<64x64x1x)" +
         acc + R"(, #c>):
        %va = load %x, %row, %k, dims = [0, 2], mask = [0, 2], vec = 1 : tile<64x1x16x)" +
         type + R"(, #a>
        %vb = load %w, %k, %column, dims = [2, 1], mask = [1, 2], vec = )" +
         std::string(type == "f64" ? "2" : "4") + R"( : tile<1x64x16x)" + type + R"(, #b>
        barrier
        shared_store %va, %sa
        shared_store %vb, %sb
        barrier
        %next = dot %sa, %sb, %acc, axes = [2] : tile<64x64x1x)" +
         acc + R"(, #c>
        yield %next
      } : tile<64x64x1x)" +
         acc + R"(, #c>
      store %sum, %y, %row, %column, dims = [0, 1], mask = [0, 1], vec = 1
      return
    }
  )";
}

TEST(Rows, PtxFacts) {
  for (std::string_view name : targets) {
    std::string ptx = ptxOf(rowsKernel("[0]", "1024"), name);
    EXPECT_TRUE(has(ptx, ".target " + std::string(name) + "\n"));
    EXPECT_TRUE(has(ptx, ".visible .entry rows("));
    EXPECT_TRUE(has(ptx, ".reqntid 128, 1, 1"));
    EXPECT_EQ(count(ptx, "ld.global.nc.v4"), 8u) << "a row is 8 vectors a lane, and the input is never written";
    EXPECT_EQ(count(ptx, "st.global.v4"), 8u);
    EXPECT_EQ(count(ptx, "shfl.sync.bfly.b32"), 10u) << "five exchanges for each of two reductions";
    EXPECT_EQ(count(ptx, "max.NaN.f32"), 36u);
    EXPECT_TRUE(has(ptx, "div.rn.f32"));
    EXPECT_FALSE(has(ptx, "local")) << "no stack";
    EXPECT_FALSE(has(ptx, "bar.sync"));
  }
}

TEST(Rows, LowestPtxVersionOfTheTarget) {
  EXPECT_TRUE(has(ptxOf(rowsKernel("[0]"), "sm_80"), ".version 7.0\n"));
  EXPECT_TRUE(has(ptxOf(rowsKernel("[0]"), "sm_90a"), ".version 8.1\n"));
}

TEST(Rows, LanesOutsideAreNotRead) {
  // A masked column axis makes one test per vector; a masked row axis alone makes one for all of them.
  std::string rows = llvmOf(rowsKernel("[0]")), both = llvmOf(rowsKernel("[0, 1]"));
  EXPECT_EQ(count(rows, "br i1"), 2u);
  EXPECT_EQ(count(both, "br i1"), 16u);
  EXPECT_TRUE(has(both, "phi float [ ") && has(both, "0xFFF0000000000000")) << "lanes outside hold the fill";
}

TEST(Rows, SameBytesEachTime) {
  for (bool optimize : {false, true}) {
    Parsed a(rowsKernel("[0, 1]")), b(rowsKernel("[0, 1]"));
    EXPECT_EQ(*emitLLVM(*a, target("sm_90a"), optimize), *emitLLVM(*b, target("sm_90a"), optimize));
  }
  EXPECT_EQ(ptxOf(rowsKernel("[0, 1]")), ptxOf(rowsKernel("[0, 1]")));
}

TEST(Matmul, PtxFacts) {
  for (std::string_view name : targets) {
    std::string ptx = ptxOf(matmulKernel("f32", "f32"), name);
    EXPECT_EQ(count(ptx, "fma.rn.f32"), 8u * 32u) << "eight steps of k in the body of the loop, 32 elements a thread";
    EXPECT_EQ(count(ptx, "ld.shared.v4"), 8u * 3u) << "8 rows and 4 columns a step";
    EXPECT_EQ(count(ptx, "bar.sync"), 2u);
    EXPECT_EQ(count(ptx, ".pragma \"nounroll\""), 2u);
    EXPECT_TRUE(has(ptx, ".shared .align 16 .b8 matmul_f32_shared_0[4336]"));
    EXPECT_FALSE(has(ptx, "local"));
  }
}

TEST(Matmul, NarrowOperandsAreWidenedExactly) {
  for (const char *type : {"f16", "bf16"}) {
    std::string ptx = ptxOf(matmulKernel(type, "f32"));
    EXPECT_EQ(count(ptx, "fma.rn.f32"), 8u * 32u);
    EXPECT_EQ(count(ptx, "cvt.f32." + std::string(type)), 8u * 12u);
    EXPECT_FALSE(has(ptx, "fma.rn.f16") || has(ptx, "fma.rn.bf16"));
  }
}

TEST(Matmul, ChainsAscendAlongK) {
  std::string code = llvmOf(matmulKernel("f32", "f32"));
  // The first element's chain: the carried value, then eight times the result of the step before.
  size_t at = code.find("call float @llvm.fma.f32(");
  std::string previous;
  for (int step = 0; step < 8; ++step) {
    ASSERT_NE(at, std::string::npos);
    size_t line = code.rfind('\n', at) + 1, end = code.find('\n', at);
    std::string text = code.substr(line, end - line);
    EXPECT_TRUE(step == 0 || text.ends_with("float " + previous + ")")) << text;
    previous = text.substr(2, text.find(" = ") - 2);
    for (int element = 0; element < 32 && at != std::string::npos; ++element)
      at = code.find("call float @llvm.fma.f32(", at + 1);
  }
}

TEST(Kernels, PtxasTakesThemWithoutSpills) {
  if (ptxasPath().empty())
    GTEST_SKIP() << "ptxas is not installed";
  for (std::string_view name : targets) {
    std::string rows = ptxOf(rowsKernel("[0, 1]"), name);
    EXPECT_EQ(ptxasComplaints(rows, name), "") << name;
    for (auto [type, acc] : {std::pair("f32", "f32"), {"f64", "f64"}, {"f16", "f32"}, {"bf16", "f32"}, {"i32", "i32"}})
      EXPECT_EQ(ptxasComplaints(ptxOf(matmulKernel(type, acc), name), name), "") << name << " " << type;
  }
}

TEST(Kernels, LoopOverColumnsCarriesATile) {
  std::string ptx = ptxOf(R"(
    #t = layout<reg = [1:4@1], lane = [1:32@4], warp = [0:4@1]>
    kernel @stream(%x: buffer<MxNxf32>, %y: buffer<Mx128xf32>) at machine, threads = 128 {
      %p = program_id grid = [ceildiv(M, 4)] : index
      %four = constant 4 : index
      %row = mul %p, %four : index
      %zero = constant 0 : index
      %n = dim N : index
      %step = constant 128 : index
      %none = constant 0.0 : tile<4x128xf32, #t>
      %sum = for %zero, %n, %step, %none {
      ^(%c: index, %acc: tile<4x128xf32, #t>):
        %v = load %x, %row, %c, mask = [0, 1], fill = 0.0, vec = 4 : tile<4x128xf32, #t>
        %next = add %acc, %v : tile<4x128xf32, #t>
        yield %next
      } : tile<4x128xf32, #t>
      store %sum, %y, %row, %zero, mask = [0], vec = 4
      return
    }
  )");
  EXPECT_TRUE(has(ptx, ".pragma \"nounroll\""));
  EXPECT_EQ(count(ptx, "add.rn.f32"), 4u) << "neither unrolled nor contracted";
  EXPECT_EQ(count(ptx, "ld.global.nc.v4"), 1u);
}

TEST(Kernels, OneHolderOfAReplicatedTileStores) {
  std::string text = R"(
    #s = layout<reg = [], lane = [_:32], warp = [0:4@1]>
    kernel @one(%x: buffer<Mx1xf32>, %y: buffer<Mx1xf32>) at machine, threads = 128 {
      %p = program_id grid = [ceildiv(M, 4)] : index
      %four = constant 4 : index
      %row = mul %p, %four : index
      %zero = constant 0 : index
      %v = load %x, %row, %zero, mask = [0], vec = 1 : tile<4x1xf32, #s>
      store %v, %y, %row, %zero, mask = [0], vec = 1
      return
    }
  )";
  std::string code = llvmOf(text);
  EXPECT_TRUE(has(code, "icmp eq i32 %lane, 0")) << code;
  EXPECT_EQ(count(ptxOf(text), "st.global"), 1u);
}

TEST(Kernels, CombinerRegionOverRegistersAndLanes) {
  // (max, sum of the elements that equal it): any region of scalar ops will do.
  std::string ptx = ptxOf(R"(
    #t = layout<reg = [0:4@1], lane = [0:32@4], warp = []>
    #l = layout<reg = [], lane = [0:32@1], warp = []>
    #s = layout<reg = [], lane = [_:32], warp = []>
    kernel @pair(%x: buffer<128xf32>, %k: buffer<128xf64>, %y: buffer<1xf32>, %z: buffer<1xf64>) at machine, threads = 32 {
      %zero = constant 0 : index
      %a = load %x, %zero, mask = [], vec = 4 : tile<128xf32, #t>
      %b = load %k, %zero, mask = [], vec = 2 : tile<128xf64, #t>
      %a0, %b0 = reduce %a, %b, axes = [0], init = [-inf, 0.0], over = reg {
      ^(%p: f32, %q: f64, %r: f32, %s: f64):
        %first = compare ge %p, %r : i1
        %m = max %p, %r : f32
        %v = select %first, %q, %s : f64
        yield %m, %v
      } : tile<32xf32, #l>, tile<32xf64, #l>
      %a1, %b1 = reduce %a0, %b0, axes = [0], init = [-inf, 0.0], over = lane {
      ^(%p1: f32, %q1: f64, %r1: f32, %s1: f64):
        %first1 = compare ge %p1, %r1 : i1
        %m1 = max %p1, %r1 : f32
        %v1 = select %first1, %q1, %s1 : f64
        yield %m1, %v1
      } : tile<1xf32, #s>, tile<1xf64, #s>
      store %a1, %y, %zero, mask = [], vec = 1
      store %b1, %z, %zero, mask = [], vec = 1
      return
    }
  )");
  EXPECT_EQ(count(ptx, "shfl.sync.bfly.b32"), 15u) << "one word for f32 and two for f64, five times";
  EXPECT_EQ(count(ptx, "max.NaN.f32"), 8u);
  EXPECT_EQ(count(ptx, "setp.ge.f32"), 8u);
  EXPECT_TRUE(ptxasPath().empty() || ptxasComplaints(ptx, "sm_90a").empty());
}

/// A 32 x 8 tile from row-major memory to shared memory of a given row stride and back in another layout.
std::string sharedKernel(int stride) {
  return R"(
    #in = layout<reg = [1:4@1], lane = [1:2@4, 0:16@1], warp = [0:2@16]>
    #out = layout<reg = [1:8@1], lane = [0:32@1], warp = [_:2]>
    kernel @k(%x: buffer<32x8xf32>, %y: buffer<32x8xf32>) at machine, threads = 64 {
      %o = constant 0 : index
      %v = load %x, %o, %o, mask = [], vec = 4 : tile<32x8xf32, #in>
      %m = alloc_shared : smem<32x8xf32, strides = [)" +
         std::to_string(stride) + R"(, 1]>
      shared_store %v, %m
      barrier
      %w = shared_load %m : tile<32x8xf32, #out>
      barrier
      shared_store %w, %m
      store %w, %y, %o, %o, mask = [], vec = 4
      return
    }
  )";
}

TEST(Shared, AccessesAreAsWideAsTheirAlignmentIsProved) {
  std::string wide = ptxOf(sharedKernel(12)), pair = ptxOf(sharedKernel(10)), narrow = ptxOf(sharedKernel(9));
  EXPECT_EQ(count(wide, "st.shared.v4"), 3u);
  EXPECT_EQ(count(wide, "ld.shared.v4"), 2u);
  EXPECT_EQ(count(pair, "st.shared.v2"), 6u);
  EXPECT_EQ(count(pair, "ld.shared.v2"), 4u);
  EXPECT_EQ(count(narrow, "st.shared.b32"), 12u);
  EXPECT_EQ(count(narrow, "ld.shared.b32"), 8u);
}

TEST(Shared, OneWarpStoresWhatBothHold) {
  std::string code = llvmOf(sharedKernel(12));
  EXPECT_EQ(count(code, "icmp eq i32 %warp, 0"), 1u);
  EXPECT_EQ(count(code, "br i1"), 2u) << "one for shared memory, one for the buffer; barriers are outside";
}

TEST(Kernels, ReductionOfSixPairsTheFirstTwoWithTheLastTwo) {
  std::string code = llvmOf(R"(
    #t = layout<reg = [0:6@1], lane = [_:32], warp = []>
    #s = layout<reg = [], lane = [_:32], warp = []>
    kernel @six(%x: buffer<6xf32>, %y: buffer<1xf32>) at machine, threads = 32 {
      %o = constant 0 : index
      %v = load %x, %o, mask = [], vec = 2 : tile<6xf32, #t>
      %r = reduce sum %v, axes = [0], over = reg : tile<1xf32, #s>
      store %r, %y, %o, mask = [], vec = 1
      return
    })");
  // (v0 + v4) + v2 and (v1 + v5) + v3, then their sum.
  EXPECT_EQ(count(code, "fadd float"), 5u);
  for (const char *sum : {"fadd float %v, %v4", "fadd float %v1, %v5", ", %v2\n", ", %v3\n"})
    EXPECT_TRUE(has(code, sum)) << sum << "\n" << code;
}

TEST(Kernels, DescribedForTheLaunch) {
  Parsed module(matmulKernel("f32", "f32") + rowsKernel("[0]"));
  ASSERT_TRUE(bool(module));
  auto kernels = emitKernels(*module, target("sm_90a"));
  ASSERT_TRUE(bool(kernels));
  ASSERT_EQ(kernels->size(), 2u);
  const KernelCode &matmul = (*kernels)[0], &rows = (*kernels)[1];
  EXPECT_EQ(matmul.name, "matmul_f32");
  EXPECT_EQ(matmul.params.size(), 3u);
  EXPECT_EQ(matmul.dims, (std::vector{DimExpr::name("M"), DimExpr::name("K"), DimExpr::name("N")}));
  EXPECT_EQ(matmul.threads, 128);
  EXPECT_EQ(matmul.sharedBytes, 2 * 4336);
  EXPECT_TRUE(has(matmul.ptx, ".entry matmul_f32(") && !has(matmul.ptx, ".entry rows("));
  EXPECT_EQ(rows.sharedBytes, 0);
  std::vector<KernelCode> described = describeKernels(*module);
  ASSERT_EQ(described.size(), 2u);
  EXPECT_EQ(described[0].dims, matmul.dims);
  EXPECT_EQ(described[0].ptx, "");
}

TEST(Kernels, GridIsSplitWithTheLastAxisFastest) {
  std::string code = llvmOf(matmulKernel("f32", "f32"));
  EXPECT_EQ(count(code, "llvm.nvvm.read.ptx.sreg.ctaid.x()"), 2u) << "a call and the declaration";
  EXPECT_TRUE(has(code, "urem i32") && has(code, "udiv i32"));
}

} // namespace
