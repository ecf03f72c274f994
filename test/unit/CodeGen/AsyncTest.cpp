// Hopper's units in PTX: mbarriers, TMA, roles, wgmma, and what stands around them.
#include "CodeGenTest.h"

#include <regex>

using namespace minic;
using namespace minic::test;

namespace {

const std::string layouts = R"(
  #acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
  #part = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
  #narrow = layout<reg = [1:2@1, 0:2@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
  #wide = layout<reg = [1:2@1, 0:2@8, 1:32@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
)";

/// A kernel of 128 threads with maps %x and %y of bf16 and %t of three axes, a buffer %b of f32, indices and memory.
std::string kernel(const std::string &body, const std::string &box = "[64, 64]") {
  return layouts + R"(
    kernel @k(%x: tensor_map<MxNxbf16, box = )" +
         box + R"(, #swizzle128>, %t: tensor_map<BxMxNxbf16, box = [1, 64, 64], #swizzle128>, %b: buffer<64x64xf32>,
              %out: buffer<64x64xbf16>) at machine, threads = 128 {
      %c0 = constant 0 : index
      %c1 = constant 1 : index
      %c8 = constant 8 : index
      %c64 = constant 64 : index
      %c128 = constant 128 : index
      %p = program_id grid = [M] : index
      %m = alloc_shared : smem<64x64xbf16, #swizzle128>
      %mw = alloc_shared : smem<64x128xbf16, #swizzle128>
)" + body +
         "\n      return\n    }\n";
}

/// The text assembles, without spills or remarks, where ptxas is installed.
void expectAssembles(const std::string &ptx) {
  if (!ptxasPath().empty()) {
    EXPECT_EQ(ptxasComplaints(ptx, "sm_90a"), "") << ptx;
  }
}

std::string hopper(const std::string &text) {
  std::string ptx = ptxOf(text, "sm_90a");
  expectAssembles(ptx);
  return ptx;
}

bool matches(const std::string &text, const std::string &pattern) { return std::regex_search(text, std::regex(pattern)); }

//===-- Mbarriers -----------------------------------------------------------------------------------------------------------===//

TEST(Async, OneFenceForAllMbarriers) {
  std::string ptx = hopper(kernel(R"(
      %a = mbarrier_init count = 3 : mbarrier<2>
      %e = mbarrier_init count = 1 : mbarrier<1>
      barrier
      mbarrier_arrive %a, %c0
      mbarrier_arrive %e, %c0
      barrier)"));
  EXPECT_EQ(count(ptx, "mbarrier.init.shared.b64"), 3u) << "one for each of a ring";
  EXPECT_EQ(count(ptx, "fence.mbarrier_init.release.cluster"), 1u);
  EXPECT_EQ(count(ptx, "bar.sync"), 2u);
  size_t fence = ptx.find("fence.mbarrier_init");
  EXPECT_LT(ptx.rfind("mbarrier.init.shared"), fence);
  EXPECT_LT(fence, ptx.find("bar.sync"));
  std::string llvm = llvmOf(kernel("%a = mbarrier_init count = 3 : mbarrier<2>\n barrier\n mbarrier_arrive %a, %c0"), "sm_90a");
  EXPECT_EQ(count(llvm, "call void @llvm.nvvm.mbarrier.init.shared("), 2u);
  EXPECT_EQ(count(llvm, ", i32 3)"), 2u) << "arrivals of a phase";
}

TEST(Async, FencesWhereMbarriersAreNew) {
  EXPECT_FALSE(has(hopper(kernel("barrier")), "fence.mbarrier_init"));
  std::string twice = hopper(kernel(R"(
      %a = mbarrier_init count = 1 : mbarrier<1>
      barrier
      %e = mbarrier_init count = 1 : mbarrier<1>
      barrier
      mbarrier_arrive %a, %c0
      mbarrier_arrive %e, %c0)"));
  EXPECT_EQ(count(twice, "fence.mbarrier_init.release.cluster"), 2u);
}

std::string waits(const std::string &position, const std::string &lap) {
  return kernel("%a = mbarrier_init count = 1 : mbarrier<2>\n barrier\n %n = constant " + position +
                " : index\n mbarrier_wait %a, %n" + lap);
}

TEST(Async, WaitsSpin) {
  std::string ptx = hopper(kernel("%a = mbarrier_init count = 1 : mbarrier<2>\n barrier\n mbarrier_wait %a, %p"));
  EXPECT_EQ(count(ptx, "mbarrier.try_wait.parity.shared.b64"), 1u);
  // Back to the label that it stands behind, until it is true.
  EXPECT_TRUE(matches(ptx, R"((\$L__BB0_\d+):[^$]*mbarrier\.try_wait\.parity\.shared\.b64 (%p\d+), [^$]*bra\s+\1;)")) << ptx;
}

TEST(Async, ParityIsThatOfTheLap) {
  for (int n = 0; n < 8; ++n) {
    std::string position = std::to_string(n);
    int parity = n / 2 % 2;
    auto expects = [&](const std::string &lap, int parity) {
      std::string llvm = llvmOf(waits(position, lap), "sm_90a");
      EXPECT_TRUE(matches(llvm, "call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta\\([^\\n]*, i32 " +
                                    std::to_string(parity) + "\\)"))
          << n << lap << "\n"
          << llvm;
    };
    expects("", parity);
    expects(", lap = this", parity);
    expects(", lap = previous", 1 - parity);
  }
}

TEST(Async, SlotsOfARing) {
  // Three mbarriers: number 7 is the second, 8 bytes further, and on lap 2.
  std::string llvm = llvmOf(
      kernel("%a = mbarrier_init count = 1 : mbarrier<3>\n barrier\n %n = constant 7 : index\n mbarrier_wait %a, %n"), "sm_90a");
  EXPECT_TRUE(matches(llvm,
                      "try.wait.parity[^\\n]*ptr addrspace\\(3\\) getelementptr inbounds (nuw )?\\(i(8|64), ptr addrspace\\(3\\) "
                      "@k_mbarrier_\\d+, i32 (8|1)\\), i32 0\\)"))
      << llvm;
}

TEST(Async, ArrivalsOfWarpsAndOfOneThread) {
  std::string warps = llvmOf(kernel("%a = mbarrier_init count = 1 : mbarrier<1>\n barrier\n mbarrier_arrive %a, %c0"), "sm_90a");
  EXPECT_TRUE(
      matches(warps, "icmp eq i32 %lane, 0\\n +br i1 [^\\n]*\\n\\n[^\\n]*\\n +%\\d+ = call i64 @llvm.nvvm.mbarrier.arrive.shared"))
      << warps;
  std::string ptx = hopper(kernel(R"(
      %a = mbarrier_init count = 1 : mbarrier<1>
      barrier
      mbarrier_expect %a, %c0, bytes = 8192
      %more = compare gt %p, %c8 : i1
      mbarrier_arrive %a, %c0, %more)"));
  EXPECT_EQ(count(ptx, "mbarrier.arrive.expect_tx.shared.b64"), 1u);
  EXPECT_EQ(count(ptx, "mbarrier.arrive.shared.b64"), 1u);
  EXPECT_TRUE(has(ptx, "8192"));
}

TEST(Async, Fences) { EXPECT_EQ(count(hopper(kernel("fence_async\n barrier")), "fence.proxy.async.shared::cta;"), 1u); }

//===-- TMA -----------------------------------------------------------------------------------------------------------------===//

std::string loads(const std::string &map, const std::string &memory, const std::string &indices,
                  const std::string &box = "[64, 64]") {
  return kernel("%a = mbarrier_init count = 1 : mbarrier<1>\n barrier\n mbarrier_expect %a, %c0, bytes = 8192\n tma_load " + map +
                    ", " + memory + ", %a, %c0, " + indices + "\n mbarrier_wait %a, %c0",
                box);
}

/// The coordinates in the calls of this intrinsic, as text; all of the code if there is none.
std::string coordinatesOf(const std::string &llvm, const std::string &intrinsic, size_t rank) {
  std::string pattern = "call void @llvm.nvvm.cp.async.bulk.tensor." + intrinsic + "\\([^\\n]*?";
  for (size_t i = 0; i < rank; ++i)
    pattern += ", i32 ([^,)]*)";
  std::regex call(pattern + ", i(16|64) ");
  std::string text;
  for (std::sregex_iterator it(llvm.begin(), llvm.end(), call), end; it != end; ++it) {
    text += text.empty() ? "" : "; ";
    for (size_t i = 1; i <= rank; ++i)
      text += (i > 1 ? " " : "") + std::string((*it)[i]);
  }
  return text.empty() ? llvm : text;
}

TEST(Async, TmaLoadsBoxesOfTwoAxes) {
  std::string text = loads("%x", "%m", "%c8, %c128"), ptx = hopper(text);
  EXPECT_EQ(count(ptx, "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"), 1u);
  // Column before row.
  EXPECT_EQ(coordinatesOf(llvmOf(text, "sm_90a"), "g2s.tile.2d", 2), "128 8");
}

TEST(Async, BoxesWiderThanTheSwizzleAreSlabs) {
  std::string text = loads("%x", "%mw", "%c8, %c128", "[64, 128]"), ptx = hopper(text);
  EXPECT_EQ(count(ptx, "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"), 2u);
  EXPECT_EQ(coordinatesOf(llvmOf(text, "sm_90a"), "g2s.tile.2d", 2), "128 8; 192 8");
}

TEST(Async, TmaLoadsBoxesOfThreeAxes) {
  std::string text = loads("%t", "%m", "%c1, %c8, %c128"), ptx = hopper(text);
  EXPECT_EQ(count(ptx, "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"), 1u);
  EXPECT_EQ(coordinatesOf(llvmOf(text, "sm_90a"), "g2s.tile.3d", 3), "128 8 1");
}

TEST(Async, TmaStores) {
  std::string text = kernel("tma_store %m, %x, %c8, %c128\n tma_store_wait pending = 3"), ptx = hopper(text);
  EXPECT_EQ(count(ptx, "cp.async.bulk.tensor.2d.global.shared::cta"), 1u);
  EXPECT_EQ(count(ptx, "cp.async.bulk.commit_group;"), 1u);
  EXPECT_LT(ptx.find("cp.async.bulk.tensor"), ptx.find("cp.async.bulk.commit_group"));
  EXPECT_TRUE(matches(ptx, R"(cp\.async\.bulk\.wait_group\.read\s+3;)"));
  EXPECT_EQ(coordinatesOf(llvmOf(text, "sm_90a"), "s2g.tile.2d", 2), "128 8");
  std::string slabs = kernel("tma_store %mw, %x, %c8, %c128", "[64, 128]");
  EXPECT_EQ(count(hopper(slabs), "cp.async.bulk.tensor.2d.global.shared::cta"), 2u);
  EXPECT_EQ(count(hopper(slabs), "cp.async.bulk.commit_group;"), 1u);
  EXPECT_EQ(coordinatesOf(llvmOf(slabs, "sm_90a"), "s2g.tile.2d", 2), "128 8; 192 8");
}

TEST(Async, MapsAreParameters) {
  std::string ptx = hopper(kernel("tma_prefetch %x"));
  EXPECT_TRUE(has(ptx, ".param .align 64 .b8 k_param_0[128]"));
  EXPECT_TRUE(has(ptx, ".param .align 64 .b8 k_param_1[128]"));
  EXPECT_TRUE(has(ptx, "tensormap"));
}

TEST(Async, SwizzledMemoryIsDynamic) {
  std::string ptx = hopper(loads("%x", "%m", "%c0, %c0"));
  EXPECT_TRUE(has(ptx, ".extern .shared .align 1024 .b8 k_dynamic[];"));
  Parsed module(kernel("barrier"));
  std::vector<KernelCode> described = describeKernels(*module);
  ASSERT_EQ(described.size(), 1u);
  EXPECT_EQ(described[0].dynamicSharedBytes, 64 * 64 * 2 + 64 * 128 * 2);
  EXPECT_EQ(described[0].sharedBytes, 0);
}

//===-- Roles ---------------------------------------------------------------------------------------------------------------===//

const std::string roles = R"(
  kernel @k() at machine, threads = 384 {
    %c0 = constant 0 : index
    %a = mbarrier_init count = 4 : mbarrier<1>
    barrier
    role first, warps = 4, regs = 24 {
      barrier
      mbarrier_arrive %a, %c0
      yield
    }
    role second, warps = 4, instances = 2, regs = 240 { ^(%who: index):
      mbarrier_wait %a, %who
      barrier
      yield
    }
    return
  })";

TEST(Async, RolesMoveRegisters) {
  std::string ptx = hopper(roles);
  EXPECT_EQ(count(ptx, "setmaxnreg."), 2u);
  EXPECT_TRUE(matches(ptx, R"(setmaxnreg\.dec\.sync\.aligned\.u32\s+24;)")) << ptx;
  EXPECT_TRUE(matches(ptx, R"(setmaxnreg\.inc\.sync\.aligned\.u32\s+240;)")) << ptx;
  EXPECT_TRUE(has(ptx, ".reqntid 384, 1, 1"));
}

TEST(Async, EachInstanceHasItsBarrier) {
  std::string ptx = hopper(roles), llvm = llvmOf(roles, "sm_90a");
  EXPECT_TRUE(matches(ptx, R"(bar\.sync\s+0;)"));
  EXPECT_TRUE(matches(ptx, R"(bar\.sync\s+1, 128;)")) << ptx;
  EXPECT_TRUE(matches(ptx, R"(bar\.sync\s+%r\d+, 128;)")) << ptx;
  // Two for the second role: its instance plus those before it.
  EXPECT_EQ(count(ptx, "bar.sync"), 3u);
  EXPECT_TRUE(matches(
      llvm,
      R"((%\d+) = udiv i32 [^\n]*, 4\n[^$]*(%\d+) = add i32 \1, 2\n[^$]*barrier\.cta\.sync\.aligned\.count\(i32 \2, i32 128\))"))
      << llvm;
}

TEST(Async, OneThreadOfARole) {
  const std::string text = R"(
    kernel @k() at machine, threads = 64 {
      %c0 = constant 0 : index
      %a = mbarrier_init count = 1 : mbarrier<1>
      barrier
      role one, warps = 1, active = thread {
        mbarrier_arrive %a, %c0
        mbarrier_arrive %a, %c0
        yield
      }
      role all, warps = 1 {
        mbarrier_wait %a, %c0
        yield
      }
      return
    })";
  hopper(text);
  std::string llvm = llvmOf(text, "sm_90a");
  // Tested once, around all of its region.
  EXPECT_TRUE(matches(
      llvm, R"(call i64 @llvm\.nvvm\.mbarrier\.arrive\.shared[^\n]*\n\s+%\d+ = call i64 @llvm\.nvvm\.mbarrier\.arrive\.shared)"))
      << llvm;
}

//===-- Tensor cores --------------------------------------------------------------------------------------------------------===//

struct Product {
  std::string form, type, n;
  bool registers = false;
  std::string more = {}; ///< Accumulators and a condition.
};

std::string multiplies(const Product &p) {
  std::string layout = p.n == "8"     ? "#narrow"
                       : p.n == "256" ? "#wide"
                                      : "#acc",
              result = "tile<64x" + p.n + "xf32, " + layout + ">";
  std::string b = p.form == "nn" ? "64x" + p.n : p.n + "x64", acc = p.more.empty() ? "" : ", " + p.more;
  return layouts + R"(
    kernel @k(%y: buffer<64x)" +
         p.n + R"(xf32>, %i: buffer<64x64x)" + p.type + R"(>) at machine, threads = 128 {
      %c0 = constant 0 : index
      %p = program_id grid = [4] : index
      %yes = compare gt %p, %c0 : i1
      %as = alloc_shared : smem<64x64x)" +
         p.type + R"(, #swizzle128>
      %bs = alloc_shared : smem<)" +
         b + "x" + p.type + R"(, #swizzle128>
      %ar = load %i, %c0, %c0, mask = [], vec = 2 : tile<64x64x)" +
         p.type + R"(, #acc>
      %zero = constant 0.0 : )" +
         result + R"(
      %u = undefined : inflight<)" +
         result + R"(>
      %f = wgmma )" +
         p.form + " " + (p.registers ? "%ar" : "%as") + ", %bs" + acc + " : inflight<" + result + R"(>
      %d = wgmma_wait %f, pending = 0 : )" +
         result + R"(
      store %d, %y, %c0, %c0, mask = [], vec = 2
      return
    })";
}

/// What the products of the only wgmma say behind their accumulators.
std::vector<std::string> products(const std::string &ptx, const std::string &head) {
  std::vector<std::string> result;
  const std::string name = "wgmma.mma_async.sync.aligned." + head + " {";
  for (size_t at = ptx.find(name); at != std::string::npos; at = ptx.find(name, at + 1)) {
    size_t close = ptx.find('}', at);
    result.push_back(std::regex_replace(ptx.substr(close + 3, ptx.find(';', close) - close - 3), std::regex("%(r|rd)\\d+"), "%$1"));
  }
  return result;
}

TEST(Wgmma, OneGroupOfSteps) {
  std::string ptx = hopper(multiplies({"nn", "bf16", "64"}));
  EXPECT_EQ(count(ptx, "wgmma.fence.sync.aligned;"), 1u);
  EXPECT_EQ(count(ptx, "wgmma.mma_async"), 4u) << "64 positions of k, 16 a step";
  EXPECT_EQ(count(ptx, "wgmma.commit_group.sync.aligned;"), 1u);
  EXPECT_LT(ptx.find("wgmma.fence"), ptx.find("wgmma.mma_async"));
  EXPECT_LT(ptx.rfind("wgmma.mma_async"), ptx.find("wgmma.commit_group"));
  EXPECT_LT(ptx.find("wgmma.commit_group"), ptx.find("wgmma.wait_group.sync.aligned 0;"));
}

TEST(Wgmma, ScalesAndTransposition) {
  // Only the first step asks whether to add to what is there. nn: rows of b are n, so b is the transposed one.
  using Steps = std::vector<std::string>;
  EXPECT_EQ(products(hopper(multiplies({"nn", "bf16", "64"})), "m64n64k16.f32.bf16.bf16"),
            (Steps{"%rd, %rd, p, 1, 1, 0, 1", "%rd, %rd, 1, 1, 1, 0, 1", "%rd, %rd, 1, 1, 1, 0, 1", "%rd, %rd, 1, 1, 1, 0, 1"}));
  EXPECT_EQ(products(hopper(multiplies({"nt", "bf16", "64"})), "m64n64k16.f32.bf16.bf16"),
            (Steps{"%rd, %rd, p, 1, 1, 0, 0", "%rd, %rd, 1, 1, 1, 0, 0", "%rd, %rd, 1, 1, 1, 0, 0", "%rd, %rd, 1, 1, 1, 0, 0"}));
  // A in registers is never transposed and has no bit for it.
  const std::string four = "{%r, %r, %r, %r}, %rd, ";
  EXPECT_EQ(products(hopper(multiplies({"nn", "bf16", "64", true})), "m64n64k16.f32.bf16.bf16"),
            (Steps{four + "p, 1, 1, 1", four + "1, 1, 1, 1", four + "1, 1, 1, 1", four + "1, 1, 1, 1"}));
  EXPECT_EQ(products(hopper(multiplies({"nt", "bf16", "64", true})), "m64n64k16.f32.bf16.bf16"),
            (Steps{four + "p, 1, 1, 0", four + "1, 1, 1, 0", four + "1, 1, 1, 0", four + "1, 1, 1, 0"}));
}

TEST(Wgmma, ShapesAndElementTypes) {
  EXPECT_EQ(products(hopper(multiplies({"nt", "bf16", "8"})), "m64n8k16.f32.bf16.bf16").size(), 4u);
  EXPECT_EQ(products(hopper(multiplies({"nn", "f16", "64"})), "m64n64k16.f32.f16.f16").size(), 4u);
  EXPECT_EQ(products(hopper(multiplies({"nn", "bf16", "256"})), "m64n256k16.f32.bf16.bf16").size(), 4u);
  EXPECT_EQ(products(hopper(multiplies({"nt", "f16", "256", true})), "m64n256k16.f32.f16.f16").size(), 4u);
}

TEST(Wgmma, Accumulators) {
  auto predicate = [](const std::string &more) {
    std::string llvm = llvmOf(multiplies({"nn", "bf16", "64", false, more}), "sm_90a");
    std::smatch found;
    EXPECT_TRUE(std::regex_search(llvm, found, std::regex("setp.ne.b32 p, \\$(\\d+), 0;"))) << llvm;
    // 32 results, two descriptors for each of four steps, then the condition; accumulators are bound to their results.
    EXPECT_EQ(found[1], "40");
    EXPECT_EQ(has(llvm, ",l,r,0,1,2,3,"), !more.empty()) << llvm;
    std::smatch call;
    EXPECT_TRUE(std::regex_search(llvm, call, std::regex("wgmma.commit_group[^\\n]*\\(i64 [^\\n]*, i32 ([^,)]*)[,)]"))) << llvm;
    return std::string(call[1]);
  };
  EXPECT_EQ(predicate(""), "0");
  EXPECT_EQ(predicate("%zero"), "1");
  EXPECT_EQ(predicate("%u, %yes").substr(0, 1), "%");
}

TEST(Wgmma, Descriptors) {
  // 128-byte swizzle from bit 62 on, 1024 bytes from 8 rows to the next; slab to slab of b: 64 rows of 128 bytes.
  auto word = [](uint64_t leading) { return std::to_string(int64_t(uint64_t(1) << 62 | uint64_t(64) << 32 | leading << 16)); };
  std::string llvm = llvmOf(multiplies({"nn", "bf16", "256"}), "sm_90a");
  EXPECT_TRUE(has(llvm, "or disjoint i64 ") && has(llvm, ", " + word(512))) << llvm;
  EXPECT_TRUE(has(llvm, ", " + word(1))) << "a: 16 bytes, which do not count";
  // Steps of k: 32 bytes along a row of a, 16 rows of 128 bytes of b, in units of 16.
  for (const char *step : {", 2\n", ", 4\n", ", 6\n", ", 128\n", ", 256\n", ", 384\n"})
    EXPECT_TRUE(matches(llvm, "add i64 %\\d+" + std::string(step))) << step << llvm;
}

TEST(Wgmma, WaitsOfGroups) {
  const std::string tile = "tile<64x64xf32, #acc>", inflight = "inflight<" + tile + ">";
  std::string ptx = hopper(kernel("%f = wgmma nt %m, %m : " + inflight + "\n %g = wgmma nn %m, %m : " + inflight +
                                  "\n %d = wgmma_wait %f, pending = 1 : " + tile + "\n %e = wgmma_wait %g, pending = 0 : " + tile +
                                  "\n %s = add %d, %e : " + tile + "\n store %s, %b, %c0, %c0, mask = [], vec = 2"));
  EXPECT_EQ(count(ptx, "wgmma.wait_group.sync.aligned 1;"), 1u);
  EXPECT_EQ(count(ptx, "wgmma.wait_group.sync.aligned 0;"), 1u);
  EXPECT_LT(ptx.find("wgmma.wait_group.sync.aligned 1;"), ptx.find("wgmma.wait_group.sync.aligned 0;"));
  EXPECT_EQ(count(ptx, "wgmma.fence.sync.aligned;"), 2u);
}

TEST(Wgmma, StMatrix) {
  const std::string load =
      "%v = load %b, %c0, %c0, mask = [], vec = 2 : tile<64x64xf32, #acc>\n %h = convert %v : tile<64x64xbf16, #acc>\n";
  std::string ptx = hopper(kernel(load + "stmatrix %h, %m"));
  EXPECT_EQ(count(ptx, "stmatrix.sync.aligned.m8n8.x4.shared.b16"), 4u) << "16 columns each";
  EXPECT_EQ(count(ptx, "cvt.rn.bf16x2.f32"), 16u);
  EXPECT_FALSE(has(ptx, "st.shared"));
}

//===-- Tiles ---------------------------------------------------------------------------------------------------------------===//

std::string reluOf(const std::string &type, const std::string &steps) {
  return R"(
    #l = layout<reg = [0:8@1], lane = [0:32@8], warp = []>
    kernel @k(%x: buffer<256xf32>, %y: buffer<256x)" +
         type + R"(>, %z: buffer<256xf32>) at machine, threads = 32 {
      %c0 = constant 0 : index
      %v = load %x, %c0, mask = [], vec = 4 : tile<256xf32, #l>
)" + steps +
         R"(
      store %h, %y, %c0, mask = [], vec = 8
      return
    })";
}

TEST(Tiles, ReluFoldsIntoTheConvert) {
  std::string relu = "%r = relu %v : tile<256xf32, #l>\n", bf16 = "%h = convert %r : tile<256xbf16, #l>\n";
  std::string ptx = hopper(reluOf("bf16", relu + bf16));
  EXPECT_EQ(count(ptx, "cvt.rn.relu.bf16x2.f32"), 4u);
  EXPECT_FALSE(has(ptx, "max"));
  EXPECT_EQ(count(hopper(reluOf("f16", relu + "%h = convert %r : tile<256xf16, #l>\n")), "cvt.rn.relu.f16x2.f32"), 4u);
  EXPECT_EQ(count(ptxOf(reluOf("bf16", relu + bf16), "sm_80"), "cvt.rn.relu.bf16x2.f32"), 4u);
  // Used elsewhere as well it is still made.
  std::string both = hopper(reluOf("bf16", relu + bf16 + "store %r, %z, %c0, mask = [], vec = 4\n"));
  EXPECT_EQ(count(both, "cvt.rn.relu.bf16x2.f32"), 4u);
  EXPECT_EQ(count(both, "max.NaN.f32"), 8u);
  // Not where something is between.
  std::string between = hopper(reluOf("bf16", relu + "%n = neg %r : tile<256xf32, #l>\n %h = convert %n : tile<256xbf16, #l>\n"));
  EXPECT_FALSE(has(between, "cvt.rn.relu"));
}

std::string copies(const std::string &hint, const std::string &type, int vec, const std::string &out = "%y") {
  return R"(
    #l = layout<reg = [0:8@1], lane = [0:32@8], warp = []>
    kernel @k(%x: buffer<256x)" +
         type + ">, %y: buffer<256x" + type + R"(>) at machine, threads = 32 {
      %c0 = constant 0 : index
      %v = load %x, %c0, mask = [], vec = )" +
         std::to_string(vec) + hint + " : tile<256x" + type + R"(, #l>
      store %v, )" +
         out + R"(, %c0, mask = [], vec = )" + std::to_string(vec) + R"(
      return
    })";
}

TEST(Tiles, StreamedLoads) {
  const std::string stream = ", cache = stream", hint = "ld.global.nc.L1::no_allocate.L2::256B.";
  EXPECT_EQ(count(hopper(copies(stream, "f32", 4)), hint + "v4.b32 {"), 2u);
  EXPECT_EQ(count(hopper(copies(stream, "bf16", 8)), hint + "v4.b32 {"), 1u);
  EXPECT_EQ(count(hopper(copies(stream, "bf16", 4)), hint + "v2.b32 {"), 2u);
  EXPECT_EQ(count(hopper(copies(stream, "f32", 1)), hint + "b32 %r"), 8u);
  EXPECT_EQ(count(hopper(copies(stream, "f16", 1)), hint + "b16 %rs"), 8u);
  EXPECT_EQ(count(ptxOf(copies(stream, "f32", 4), "sm_80"), hint + "v4.b32 {"), 2u);
  EXPECT_FALSE(has(hopper(copies("", "f32", 4)), "no_allocate"));
  // What the kernel writes does not go through the read-only cache.
  std::string own = hopper(copies(stream, "f32", 4, "%x"));
  EXPECT_EQ(count(own, "ld.global.L1::no_allocate.L2::256B.v4.b32 {"), 2u) << own;
  EXPECT_FALSE(has(own, ".nc")) << own;
}

TEST(Tiles, StreamedStores) {
  auto stored = [](const std::string &type, int vec) {
    std::string text = copies("", type, vec), store = ", %c0, mask = [], vec = " + std::to_string(vec) + "\n";
    size_t at = text.rfind(store);
    return text.insert(at + store.size() - 1, ", cache = stream");
  };
  EXPECT_EQ(count(hopper(stored("f32", 4)), "st.global.cs.v4.b32 ["), 2u);
  EXPECT_EQ(count(hopper(stored("bf16", 8)), "st.global.cs.v4.b32 ["), 1u);
  EXPECT_EQ(count(hopper(stored("f64", 1)), "st.global.cs.v2.b32 ["), 8u);
  EXPECT_EQ(count(hopper(stored("f16", 1)), "st.global.cs.b16 ["), 8u);
  EXPECT_EQ(count(hopper(stored("i1", 1)), "st.global.cs.b8 ["), 8u);
  EXPECT_EQ(count(ptxOf(stored("f32", 4), "sm_80"), "st.global.cs.v4.b32 ["), 2u);
  EXPECT_FALSE(has(hopper(copies("", "f32", 4)), ".cs"));
}

std::string looped(const std::string &unroll, const std::string &trips = "4") {
  return R"(
    #l = layout<reg = [], lane = [0:32@1], warp = []>
    kernel @k(%x: buffer<32xf32>, %y: buffer<32xf32>) at machine, threads = 32 {
      %c0 = constant 0 : index
      %c1 = constant 1 : index
      %n = constant )" +
         trips + R"( : index
      %v = load %x, %c0, mask = [], vec = 1 : tile<32xf32, #l>
      %s = for %c0, %n, %c1, %v)" +
         unroll + R"( { ^(%i: index, %a: tile<32xf32, #l>):
        %b = exp2_approx %a : tile<32xf32, #l>
        yield %b
      } : tile<32xf32, #l>
      store %s, %y, %c0, mask = [], vec = 1
      return
    })";
}

TEST(Tiles, UnrolledLoops) {
  std::string once = hopper(looped("")), all = hopper(looped(", unroll = full"));
  EXPECT_EQ(count(once, "ex2.approx"), 1u);
  EXPECT_TRUE(has(once, ".pragma \"nounroll\""));
  EXPECT_EQ(count(all, "ex2.approx"), 4u);
  EXPECT_FALSE(has(all, "bra"));
  EXPECT_EQ(count(hopper(looped(", unroll = full", "0")), "ex2.approx"), 0u);
  std::string errors = errorsOf(looped(", unroll = full", "5000"), "sm_90a");
  EXPECT_TRUE(has(errors, "E0802") && has(errors, "have more than 4096 trips")) << errors;
  EXPECT_EQ(count(hopper(looped(", unroll = full", "256")), "ex2.approx"), 256u);
}

TEST(Tiles, PartsAreRegisters) {
  auto text = [](const std::string &column) {
    return kernel("%v = load %b, %c0, %c0, mask = [], vec = 2 : tile<64x64xf32, #acc>\n %q = extract_tile %v, %c0, " + column +
                  " : tile<64x16xf32, #part>\n %n = neg %q : tile<64x16xf32, #part>\n store %n, %b, %c0, %c0, mask = [], vec = 2");
  };
  std::string ptx = hopper(text("%c0"));
  EXPECT_EQ(count(ptx, "st.global.v2"), 4u);
  for (const char *column : {"%p", "%c8", "%c64"}) {
    std::string errors = errorsOf(text(column), "sm_90a");
    EXPECT_TRUE(has(errors, "E0802") && has(errors, "'extract_tile'") && has(errors, "`unroll = full`")) << errors;
  }
}

} // namespace
