// The tensor cores of a warp in PTX: copies, fragments and products, on every target.
#include "CodeGenTest.h"

#include "minic/Target/TargetInfo.h"

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

TEST(Mma, FormsFollowFromWhereTilesLie) {
  std::string ptx = ptxOf(product("bf16", 'n', 't'), "sm_80");
  EXPECT_EQ(count(ptx, ".x4.shared.b16"), 4u) << ptx;
  ptx = ptxOf(product("bf16", 't', 'n'), "sm_80");
  EXPECT_EQ(count(ptx, ".x4.trans.shared.b16"), 4u) << ptx;
}

TEST(Mma, EveryTargetHasIt) {
  for (const TargetInfo &target : allTargets()) {
    std::string ptx = ptxOf(product("bf16"), target.name);
    EXPECT_NE(ptx.find("mma.sync"), std::string::npos);
    if (!ptxasPath().empty()) {
      EXPECT_EQ(ptxasComplaints(ptx, target.name), "") << target.name;
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
