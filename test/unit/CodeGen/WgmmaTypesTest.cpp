// wgmma of other element types than the 16-bit ones, in PTX.
#include "CodeGenTest.h"

#include <regex>

using namespace minic;
using namespace minic::test;

namespace {

struct Form {
  const char *type, *sum, *ptx;
  int depth; ///< Elements of K in 128 bytes.
};

constexpr Form forms[] = {{"f32", "f32", "m64n64k8.f32.tf32.tf32", 32},
                          {"f8e4m3", "f32", "m64n64k32.f32.e4m3.e4m3", 128},
                          {"f8e5m2", "f32", "m64n64k32.f32.e5m2.e5m2", 128},
                          {"i8", "i32", "m64n64k32.s32.s8.s8", 128},
                          {"u8", "i32", "m64n64k32.s32.u8.u8", 128}};

/// y = a b^T, from slabs of memory that nothing has written: the text is not run.
std::string product(const Form &form, int slabs) {
  std::string memory = "smem<64x" + std::to_string(slabs * form.depth) + "x" + form.type + ", #swizzle128>";
  std::string tile = std::string("tile<64x64x") + form.sum + ", #acc>";
  return R"(
    #acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
    kernel @k(%y: buffer<64x64x)" +
         std::string(form.sum) +
         ">) at machine, threads = 128 {\n      %c0 = constant 0 : index\n      %a = alloc_shared : " + memory +
         "\n      %b = alloc_shared : " + memory + "\n      %f = wgmma nt %a, %b : inflight<" + tile +
         ">\n      %d = wgmma_wait %f, pending = 0 : " + tile + R"(
      store %d, %y, %c0, %c0, mask = [], vec = 2
      return
    })";
}

TEST(WgmmaTypes, FourStepsOf32BytesInASlab) {
  for (const Form &form : forms)
    for (int slabs : {1, 2}) {
      SCOPED_TRACE(std::string(form.type) + ", " + std::to_string(slabs));
      std::string ptx = ptxOf(product(form, slabs), "sm_90a");
      std::string name = std::string("wgmma.mma_async.sync.aligned.") + form.ptx + " {";
      EXPECT_EQ(count(ptx, name), size_t(4 * slabs)) << ptx;
      EXPECT_EQ(count(ptx, "wgmma.mma_async"), size_t(4 * slabs)) << ptx;
      // Behind the accumulators: descriptors, whether to add; of floats signs, and of none whether it is transposed.
      size_t close = ptx.find('}', ptx.find(name));
      std::string behind = ptx.substr(close + 1, ptx.find(';', close) - close - 1);
      bool isFloat = std::string(form.sum) == "f32";
      EXPECT_TRUE(std::regex_match(behind, std::regex(std::string(", %rd\\d+, %rd\\d+, p") + (isFloat ? ", 1, 1" : "")))) << behind;
      if (!ptxasPath().empty()) {
        EXPECT_EQ(ptxasComplaints(ptx, "sm_90a"), "") << ptx;
      }
    }
}

/// Offsets that are added to a descriptor, which counts 16 bytes: steps of 32 bytes, and slabs of 64 rows of 128.
TEST(WgmmaTypes, DescriptorsGoAlongRows) {
  for (const Form &form : forms) {
    std::string llvm = llvmOf(product(form, 2), "sm_90a");
    for (int64_t offset : {2, 4, 6, 512, 514, 516, 518})
      EXPECT_NE(llvm.find(", " + std::to_string(offset) + "\n"), std::string::npos) << form.type << " " << offset << llvm;
  }
}

} // namespace
