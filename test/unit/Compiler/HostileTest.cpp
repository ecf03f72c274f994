// Damaged text, from the parser to the plan: diagnostics or a module, never a signal and never IR that does not verify.
#include "CompilerTest.h"

using namespace minic;
using namespace minic::test;

namespace {

constexpr const char *valid = R"(minic 1
module target = sm_90a, numerics = default
graph @g(%x: tensor<MxNxf32>, %w: tensor<Nx8xbf16>, %i: tensor<4x2xi32>) -> (y: tensor<Mx8xf32>, t: tensor<8xi32>, s: tensor<Mxf32>) {
  %h = convert %w : tensor<Nx8xf32>
  %a = matmul %x, %h : tensor<Mx8xf32>
  %l = constant [0.5, -1.0, inf, 1e-3, 0x1p3, nan, 2.0, 3.0] : tensor<8xf32>
  %b = broadcast %l, dims = [1] : tensor<Mx8xf32>
  %y = max %a, %b : tensor<Mx8xf32>
  %p = transpose %i, perm = [1, 0] : tensor<2x4xi32>
  %t = reshape %p : tensor<8xi32>
  %s, %q = reduce %x, %x, axes = [1], init = [0.0, -inf] {
    ^(%a0: f32, %a1: f32, %b0: f32, %b1: f32):
    %c = add %a0, %b0 : f32
    %d = max %a1, %b1 : f32
    yield %c, %d
  } : tensor<Mxf32>, tensor<Mxf32>
  return %y, %t, %s
}
)";

void check(const std::string &text) {
  Context context;
  SourceBuffer source("hostile.ir", text);
  auto loaded = loadModule(context, source, {});
  if (!loaded) {
    ASSERT_FALSE(loaded.errors().empty()) << text;
    return;
  }
  auto lowered = lowerTo(**loaded, Stage::Plan, {});
  ASSERT_TRUE(lowered || !says(lowered.errors(), ErrorCode::PassFailed)) << errorText(lowered.errors()) << text;
}

TEST(Hostile, EveryCutAndEveryByte) {
  ASSERT_TRUE(load(valid).module);
  std::string text = valid;
  for (size_t i = 0; i < text.size(); ++i) {
    check(text.substr(0, i));
    for (char c : {'\0', '\xff', '(', '0', '9', '-'}) {
      std::string changed = text;
      changed[i] = c;
      check(changed);
    }
    if (testing::Test::HasFatalFailure())
      return;
  }
}

} // namespace
