// What code generation refuses, and how it says so.
#include "CodeGenTest.h"

using namespace minic;
using namespace minic::test;

namespace {

std::string kernelWith(const std::string &body, const std::string &threads = "32") {
  return "#v = layout<reg = [], lane = [0:32@1], warp = []>\n"
         "kernel @k(%x: buffer<32xf32>, %y: buffer<32xf32>) at machine, threads = " +
         threads + " {\n  %o = constant 0 : index\n  %v = load %x, %o, mask = [], vec = 1 : tile<32xf32, #v>\n" + body +
         "  store %r, %y, %o, mask = [], vec = 1\n  return\n}\n";
}

TEST(Refused, MathThatWasNotExpanded) {
  std::string errors = errorsOf(kernelWith("  %r = exp %v : tile<32xf32, #v>\n"));
  EXPECT_TRUE(has(errors, "E0802") && has(errors, "@k") && has(errors, "'exp'")) << errors;
}

TEST(Refused, MoreSharedMemoryThanTheTargetHas) {
  std::string errors = errorsOf(kernelWith("  %m = alloc_shared : smem<12289xf32>\n  %r = add %v, %v : tile<32xf32, #v>\n"));
  EXPECT_TRUE(has(errors, "E0803") && has(errors, "49168") && has(errors, "49152")) << errors;
  EXPECT_EQ(errorsOf(kernelWith("  %m = alloc_shared : smem<12288xf32>\n  %r = add %v, %v : tile<32xf32, #v>\n")), "");
}

TEST(Refused, MoreParametersThanTheTargetHas) {
  std::string text = "kernel @k(";
  for (int i = 0; i < 600; ++i)
    text += (i ? ", %p" : "%p") + std::to_string(i) + ": buffer<4xf32>";
  text += ") at machine, threads = 32 {\n  return\n}\n";
  EXPECT_TRUE(has(errorsOf(text, "sm_89"), "E0803"));
  EXPECT_EQ(errorsOf(text, "sm_90a"), "");
}

TEST(Refused, NamesThatPtxDoesNotTake) {
  for (const char *name : {"_", "WARP_SZ"})
    EXPECT_TRUE(has(errorsOf("kernel @" + std::string(name) + "() at machine, threads = 32 {\n  return\n}\n"), "E0802")) << name;
}

TEST(Kernels, LevelsAboveAreLeftAlone) {
  std::string text = R"(
    kernel @t(%x: buffer<Mxf32>, %y: buffer<Mxf32>) at tile {
      %p = program_id grid = [ceildiv(M, 128)] : index
      %b = constant 128 : index
      %i = mul %p, %b : index
      %v = load %x, %i : tile<128xf32>
      store %v, %y, %i
      return
    })";
  Parsed module(text);
  ASSERT_TRUE(bool(module));
  EXPECT_TRUE(emitKernels(*module, target("sm_90a"))->empty());
  std::vector<KernelCode> described = describeKernels(*module);
  ASSERT_EQ(described.size(), 1u);
  EXPECT_EQ(described[0].params.size(), 2u);
  EXPECT_EQ(described[0].dims, std::vector<DimExpr>{DimExpr::name("M")});
}

TEST(Kernels, GivenPtxIsCode) {
  std::string text = R"(
    kernel @given(%x: buffer<MxNxf32>, %y: buffer<Mxf32>) at machine, threads = 64 {
      %p = program_id grid = [M] : index
      ptx "entry_1", sizes = [N, 2*M, 7], shared = 512, text = ".target sm_86
        .visible .entry entry_1(.param .u64 x, .param .u64 y, .param .u32 n, .param .u32 m, .param .u32 k) { ret; }"
      return
    })";
  Parsed module(text);
  ASSERT_TRUE(bool(module));
  auto kernels = emitKernels(*module, target("sm_90a"));
  ASSERT_TRUE(bool(kernels));
  ASSERT_EQ(kernels->size(), 1u);
  const KernelCode &given = kernels->front();
  EXPECT_EQ(given.name, "given");
  EXPECT_EQ(given.entry, "entry_1");
  EXPECT_TRUE(given.ptx.starts_with(".target sm_86\n") && given.ptx.ends_with("{ ret; }"));
  EXPECT_EQ(given.params.size(), 2u);
  EXPECT_EQ(given.dims, (std::vector{DimExpr::name("N"), DimExpr(2) * DimExpr::name("M"), DimExpr(7)}));
  EXPECT_EQ(given.threads, 64);
  EXPECT_EQ(given.dynamicSharedBytes, 512);
  EXPECT_FALSE(given.waitsForLaunches);
  EXPECT_EQ(describeKernels(*module)[0].entry, "entry_1");
  auto older = emitKernels(*module, target("sm_80"));
  ASSERT_FALSE(bool(older));
  EXPECT_EQ(older.errors()[0].message, "the PTX of kernel @given is for sm_86, and the target is sm_80");
  auto together = emitPtx(*module, target("sm_90a"));
  ASSERT_TRUE(bool(together));
  EXPECT_NE(together->find("// Kernel @given is a PTX module of its own, which was given: entry entry_1"), std::string::npos);
}

/// Kernel `name` adds x to itself `adds` times.
std::string addingKernel(const std::string &name, int adds) {
  std::string body;
  for (int i = 0; i < adds; ++i)
    body += "  %r" + std::to_string(i + 1) + " = add %r" + std::to_string(i) + ", %r0 : tile<32xf32, #v>\n";
  return "kernel @" + name +
         "(%x: buffer<32xf32>, %y: buffer<32xf32>) at machine, threads = 32 {\n  %o = constant 0 : index\n"
         "  %r0 = load %x, %o, mask = [], vec = 1 : tile<32xf32, #v>\n" +
         body + "  store %r" + std::to_string(adds) + ", %y, %o, mask = [], vec = 1\n  return\n}\n";
}

TEST(Kernels, ManyAreEachTheirOwnInOrder) {
  std::string text = "#v = layout<reg = [], lane = [0:32@1], warp = []>\n";
  for (int i = 0; i < 40; ++i)
    text += addingKernel("k" + std::to_string(i), i * 17 % 40);
  Parsed module(text);
  ASSERT_TRUE(bool(module));
  auto kernels = emitKernels(*module, target("sm_90a"));
  ASSERT_TRUE(kernels);
  ASSERT_EQ(kernels->size(), 40u);
  for (int i = 0; i < 40; ++i) {
    const KernelCode &kernel = (*kernels)[size_t(i)];
    EXPECT_EQ(kernel.name, "k" + std::to_string(i));
    EXPECT_TRUE(has(kernel.ptx, ".entry k" + std::to_string(i) + "("));
    EXPECT_EQ(count(kernel.ptx, ".entry"), 1u);
    EXPECT_EQ(count(kernel.ptx, "\tadd.rn.f32"), size_t(i * 17 % 40)) << kernel.ptx;
  }
}

TEST(Kernels, ErrorsOfAllAreThereInOrder) {
  std::string text = "#v = layout<reg = [], lane = [0:32@1], warp = []>\n";
  for (const char *name : {"a", "WARP_SZ", "b", "_"})
    text += addingKernel(name, 1);
  Parsed module(text);
  ASSERT_TRUE(bool(module));
  auto kernels = emitKernels(*module, target("sm_90a"));
  ASSERT_FALSE(kernels);
  ASSERT_EQ(kernels.errors().size(), 2u);
  EXPECT_TRUE(has(kernels.errors()[0].message, "@WARP_SZ"));
  EXPECT_TRUE(has(kernels.errors()[1].message, "@_"));
}

TEST(Llvm, VersionIsTheOneWeLinked) { EXPECT_EQ(llvmVersion().substr(0, 3), "22."); }

} // namespace
