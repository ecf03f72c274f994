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

TEST(Llvm, VersionIsTheOneWeLinked) { EXPECT_EQ(llvmVersion().substr(0, 3), "22."); }

} // namespace
