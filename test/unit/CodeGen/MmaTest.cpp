// The tensor cores of a warp in PTX: copies, fragments and products, on every target.
#include "CodeGenTest.h"

#include "minic/Target/TargetInfo.h"

#include <algorithm>

using namespace minic;
using namespace minic::test;

namespace {

/// A product of 32x32 by 32x16 in a loop that carries fragments, 64 threads. `x` and `w`: how they lie in memory.
std::string product(const std::string &dtype, char x = 'n', char w = 'n') {
  std::string text = R"(
#a = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:2@16]>
#b = layout<reg = [0:2@1, 0:2@8, 1:2@8], lane = [0:4@2, 1:8@1], warp = [_:2]>
#acc = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:2@16]>
kernel @k(%x: buffer<Mx32xT>, %w: buffer<WSHAPExT>, %y: buffer<32x16xf32>) at machine, threads = 64 {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c4 = constant 4 : index
  %xs = alloc_shared : smem<32x32xT, #swizzle64, stages = 2>
  %ws = alloc_shared : smem<WSHAPExT, #WSWIZZLE>
  %zero = constant 0.0 : tile<32x16xf32, #acc>
  %xb = stage %xs, %c0 : smem<32x32xT, #swizzle64>
  cp_async %x, %xb, %c0, %c0, mask = [0], vec = 8
  cp_async %w, %ws, %c0, %c0, mask = [], vec = 8
  cp_async_commit
  cp_async_wait pending = 0
  barrier
  %a0 = ldmatrix XFORM %xb, %c0, %c0 : tile<32x16xT, #a>
  %b0 = ldmatrix WFORM %ws, %c0, %c0 : tile<16x16xT, #b>
  %s, %u, %v = for %c0, %c4, %c1, %zero, %a0, %b0 { ^(%i: index, %acc: tile<32x16xf32, #acc>, %at: tile<32x16xT, #a>, %bt: tile<16x16xT, #b>):
    %d = mma %at, %bt, %acc : tile<32x16xf32, #acc>
    barrier
    %xi = stage %xs, %i : smem<32x32xT, #swizzle64>
    %an = ldmatrix XFORM %xi, %c0, %c0 : tile<32x16xT, #a>
    %bn = ldmatrix WFORM %ws, %c0, %c0 : tile<16x16xT, #b>
    yield %d, %an, %bn
  } : tile<32x16xf32, #acc>, tile<32x16xT, #a>, tile<16x16xT, #b>
  store %s, %y, %c0, %c0, mask = [], vec = 2
  return
}
)";
  for (auto [from, to] : {std::pair<std::string, std::string>{"xT", "x" + dtype},
                          {"XFORM", std::string(1, x)},
                          {"WFORM", std::string(1, w)},
                          {"WSHAPE", w == 't' ? "16x32" : "32x16"},
                          {"WSWIZZLE", w == 't' ? "swizzle64" : "swizzle32"}})
    for (size_t at; (at = text.find(from)) != std::string::npos;)
      text.replace(at, from.size(), to);
  return text;
}

/// A product of 32xD by Dx16 for D of k that one mma takes, in a loop that carries fragments, 64 threads. Operands of f64 lie as
/// `x` and `w` say, others in rows of k.
std::string productOfType(const std::string &dtype, char x = 'n', char w = 't') {
  struct Fragments {
    const char *dtype, *depth, *a, *b, *laneA, *laneB, *sums, *swizzle;
  };
  static constexpr Fragments all[] = {
      {"f64", "8", "1:2@1, 0:2@8", "0:2@1, 1:2@8", "1:4@2, 0:8@1", "0:4@2, 1:8@1", "f64", "swizzle64"},
      {"f32", "8", "0:2@8, 1:2@4", "0:2@4, 1:2@8", "1:4@1, 0:8@1", "0:4@1, 1:8@1", "f32", "swizzle32"},
      {"i8", "32", "1:4@1, 0:2@8, 1:2@16", "0:4@1, 0:2@16, 1:2@8", "1:4@4, 0:8@1", "0:4@4, 1:8@1", "i32", "swizzle32"},
      {"u8", "32", "1:4@1, 0:2@8, 1:2@16", "0:4@1, 0:2@16, 1:2@8", "1:4@4, 0:8@1", "0:4@4, 1:8@1", "i32", "swizzle32"}};
  const Fragments &f = *std::ranges::find(all, dtype, [](const Fragments &one) { return std::string(one.dtype); });
  std::string d = f.depth, a = "tile<32x" + d + "x" + dtype + ", #a>", b = "tile<" + d + "x16x" + dtype + ", #b>";
  std::string acc = std::string("tile<32x16x") + f.sums + ", #acc>";
  std::string xs = (x == 't' ? d + "x32x" : "32x" + d + "x") + dtype, ws = (w == 't' ? "16x" + d + "x" : d + "x16x") + dtype;
  auto swizzle = [&](bool inRowsOfK) { return inRowsOfK ? f.swizzle : "swizzle128"; };
  std::string load = std::string("ldmatrix ") + x + " %xs, %c0, %c0 : " + a,
              next = std::string("ldmatrix ") + w + " %ws, %c0, %c0 : " + b;
  return std::string("#a = layout<reg = [") + f.a + "], lane = [" + f.laneA + "], warp = [0:2@16]>\n#b = layout<reg = [" + f.b +
         "], lane = [" + f.laneB +
         "], warp = [_:2]>\n#acc = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:2@16]>\n" +
         "kernel @k(%x: buffer<" + xs + ">, %w: buffer<" + ws + ">, %y: buffer<32x16x" + f.sums +
         ">) at machine, threads = 64 {\n" +
         "  %c0 = constant 0 : index\n  %c1 = constant 1 : index\n  %c4 = constant 4 : index\n" + "  %xs = alloc_shared : smem<" +
         xs + ", #" + swizzle(x == 'n') + ">\n  %ws = alloc_shared : smem<" + ws + ", #" + swizzle(w == 't') +
         ">\n  %zero = constant 0" + (f.sums[0] == 'f' ? ".0" : "") + " : " + acc +
         "\n  cp_async %x, %xs, %c0, %c0, mask = [], vec = " +
         std::to_string(dtype == "f64"   ? 2
                        : dtype == "f32" ? 4
                                         : 16) +
         "\n  cp_async_commit\n  cp_async_wait pending = 0\n  barrier\n  %a0 = " + load + "\n  %b0 = " + next +
         "\n  %s, %u, %v = for %c0, %c4, %c1, %zero, %a0, %b0 { ^(%i: index, %sum: " + acc + ", %at: " + a + ", %bt: " + b +
         "):\n    %d = mma %at, %bt, %sum : " + acc + "\n    barrier\n    %an = " + load + "\n    %bn = " + next +
         "\n    yield %d, %an, %bn\n  } : " + acc + ", " + a + ", " + b +
         "\n  store %s, %y, %c0, %c0, mask = [], vec = 2\n  return\n}\n";
}

TEST(Mma, TakesItsInstructions) {
  for (const char *dtype : {"f16", "bf16"}) {
    std::string ptx = ptxOf(product(dtype), "sm_80"), types = std::string("f32.") + dtype + "." + dtype + ".f32";
    EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k16.row.col." + types), 2u) << ptx;
    EXPECT_EQ(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 2u) << "rows of k";
    EXPECT_EQ(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"), 2u) << "rows of columns";
    EXPECT_EQ(count(ptx, "cp.async.cg.shared.global"), 3u) << "two pieces of x for each thread, one of w";
    EXPECT_EQ(count(ptx, "cp.async.commit_group"), 1u);
    EXPECT_EQ(count(ptx, "cp.async.wait_group"), 1u);
    EXPECT_EQ(count(ptx, "%rs"), 0u) << "pairs stay together, also around the loop\n" << ptx;
  }
}

TEST(Mma, OfF64) {
  std::string ptx = ptxOf(productOfType("f64"), "sm_80");
  EXPECT_EQ(count(ptx, "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"), 8u) << "two halves of rows and of k, two of columns\n"
                                                                               << ptx;
  EXPECT_EQ(count(ptx, "ldmatrix"), 0u);
  EXPECT_EQ(count(ptx, "ld.shared.v2.b64"), 8u) << "16 bytes of k at a time";
  EXPECT_EQ(count(ptx, "ld.shared.b64"), 0u);
  ptx = ptxOf(productOfType("f64"), "sm_90a");
  EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64"), 2u) << ptx;
  // Memory that is to be turned is read number by number.
  ptx = ptxOf(productOfType("f64", 't', 'n'), "sm_80");
  EXPECT_EQ(count(ptx, "ld.shared.b64"), 16u) << ptx;
}

TEST(Mma, OfBytesAndTf32) {
  for (const char *dtype : {"i8", "u8"}) {
    std::string ptx = ptxOf(productOfType(dtype), "sm_80"), type = dtype[0] == 'i' ? "s8" : "u8";
    EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k32.row.col.s32." + type + "." + type + ".s32"), 2u) << ptx;
    EXPECT_EQ(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 4u) << ptx;
    EXPECT_EQ(count(ptx, "prmt") + count(ptx, "%rs"), 0u) << "words stay together, also around the loop\n" << ptx;
  }
  std::string ptx = ptxOf(productOfType("f32"), "sm_80");
  EXPECT_EQ(count(ptx, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"), 2u) << ptx;
  EXPECT_EQ(count(ptx, "ldmatrix.sync.aligned.m8n8.x4.shared.b16"), 4u) << ptx;
  EXPECT_EQ(count(ptx, "cvt.rna.tf32.f32"), 8u) << "each element once: four of a, two of each fragment of b\n" << ptx;
}

TEST(Mma, FormsFollowFromWhereTilesLie) {
  std::string ptx = ptxOf(product("bf16", 'n', 't'), "sm_80");
  EXPECT_EQ(count(ptx, ".x4.shared.b16"), 4u) << ptx;
  ptx = ptxOf(product("bf16", 't', 'n'), "sm_80");
  EXPECT_EQ(count(ptx, ".x4.trans.shared.b16"), 4u) << ptx;
}

TEST(Mma, EveryTargetHasIt) {
  for (const TargetInfo &target : allTargets()) {
    for (const std::string &text : {product("bf16"), productOfType("f64"), productOfType("f64", 't', 'n'), productOfType("f32"),
                                    productOfType("i8"), productOfType("u8")}) {
      std::string ptx = ptxOf(text, target.name);
      EXPECT_NE(ptx.find("mma.sync"), std::string::npos);
      if (!ptxasPath().empty()) {
        EXPECT_EQ(ptxasComplaints(ptx, target.name), "") << target.name;
      }
    }
  }
}

TEST(Mma, FragmentsStartAtConstants) {
  std::string text = product("bf16");
  size_t at = text.find("%xi, %c0, %c0");
  text.replace(at, 13, "%xi, %c0, %i8");
  text.insert(text.find("    %xi = stage"), "    %c8 = constant 8 : index\n    %i8 = mul %i, %c8 : index\n");
  EXPECT_NE(errorsOf(text, "sm_80").find("needs a row and a column that are constants"), std::string::npos);
}

} // namespace
