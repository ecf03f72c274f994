// Buffers with strides, plans that stand behind others, and what functions say of their sizes.
#include "VerifierTest.h"

using namespace minic;
using namespace minic::test;

namespace {

TEST(PlanVerifier, StridedBuffers) {
  auto plan = [](const std::string &body, const std::string &result = "buffer<4xf32, strided>") {
    return "kernel @k(%x: buffer<4xf32, strided>, %y: buffer<4xf32, strided>) at tile {\n  %0 = constant 0 : index\n"
           "  %t = load %x, %0 : tile<4xf32>\n  store %t, %y, %0\n  return\n}\n"
           "plan @p(%x: buffer<4xf32, strided>) -> (y: " +
           result + ") {\n  " + body + "\n}\n";
  };
  accept(plan("%y = alloc : buffer<4xf32, strided>\n  launch @k(%x, %y), grid = []\n  return %y"));
  refuse(plan("%t = alloc : buffer<4xf32, strided>\n  launch @k(%x, %t), grid = []\n  %y = alloc : buffer<4xf32, strided>\n  "
              "return %y"),
         ErrorCode::TypeMismatch, {"`alloc` gives buffer<4xf32, strided>, and only what a caller passes has strides of its own"});
  refuse(plan("%y = copy %x : buffer<4xf32, strided>\n  return %y"), ErrorCode::TypeMismatch,
         {"`copy` takes and gives row-major memory"}, "launch a kernel");
  refuse(plan("%y = view %x : buffer<4xf32>\n  return %y", "buffer<4xf32>"), ErrorCode::TypeMismatch,
         {"`view` takes and gives row-major memory: %x: buffer<4xf32, strided>"});
  refuse(plan("%y = constant [1, 2, 3, 4] : buffer<4xf32, strided>\n  return %y"), ErrorCode::TypeMismatch,
         {"is row-major memory"});
  refuse(plan("%d = alloc : buffer<4xf32>\n  launch @k(%x, %d), grid = []\n  %y = alloc : buffer<4xf32, strided>\n  return %y"),
         ErrorCode::LaunchMismatch, {"gives %d: buffer<4xf32> for parameter %y: buffer<4xf32, strided>"});
  refuse("kernel @k(%x: buffer<32xf32, strided>) at machine, threads = 32 {\n  %0 = constant 0 : index\n"
         "  %t = load %x, %0, mask = [], vec = 2 : tile<64xf32, #layout<reg = [0:2@1], lane = [0:32@2], warp = []>>\n  return\n}\n",
         ErrorCode::BadLayout, {"vec = 2, but elements of buffer<32xf32, strided> need not be neighbours"}, "`vec = 1`");
}

TEST(PlanVerifier, CallsOfLibraries) {
  auto plan = [](const std::string &call, const std::string &head = "", const std::string &x = "buffer<MxKxf32>") {
    return head + "plan @p(%x: " + x + ", %w: buffer<NxKxf32>, %b: buffer<Nxf32>) -> (y: buffer<MxNxf32>) {\n" +
           "  %y = alloc : buffer<MxNxf32>\n  " + call + "\n  return %y\n}\n";
  };
  const std::string good = "library_call cublaslt %x, %w, %b, %y, function = matmul, transposed = rhs, epilogue = bias";
  accept(plan(good));
  accept(plan("library_call cublaslt %x, %w, %y, function = matmul, transposed = rhs"));
  refuse(plan(good, "minic 1\nmodule numerics = exact\n"), ErrorCode::BadStructure,
         {"`library_call` adds in an order of its own, and exact numerics fix it"}, "launch a kernel");
  refuse(plan("library_call cublaslt %x, %w, %y, function = matmul"), ErrorCode::LaunchMismatch,
         {"`library_call` has different sizes of the contracted axis: K and N"});
  refuse(plan("library_call cublaslt %x, %w, %y, function = matmul, transposed = rhs, epilogue = bias"), ErrorCode::LaunchMismatch,
         {"takes 4 operands (lhs, rhs, bias, result), not 3"});
  refuse(plan("library_call cublaslt %y, %y, %y, function = matmul, transposed = rhs"), ErrorCode::LaunchMismatch,
         {"has different sizes of columns: M and N"});
  refuse(plan(good, "", "buffer<MxKxf32, strided>"), ErrorCode::TypeMismatch, {"takes row-major memory: %x"}, "launch a kernel");
  // Words that there are not are no text of the IR.
  for (auto [call, says] : {std::pair("library_call blas %x, %w, %y, function = matmul", "one of `cublaslt`, not `blas`"),
                            {"library_call cublaslt %x, %w, %y, function = exec", "one of `matmul`, not `exec`"},
                            {"library_call cublaslt %x, %w, %y, function = matmul, transposed = all", "not `all`"},
                            {"library_call cublaslt %x, %w, %y, function = matmul, epilogue = relu", "not `relu`"},
                            {"library_call cublaslt %x, %w, %b, %y, function = matmul, epilogue = bias_relu", "not `bias_relu`"}}) {
    Context context;
    auto module = parseModule(context, SourceBuffer("test.ir", plan(call)));
    ASSERT_FALSE(module) << call;
    EXPECT_NE(module.errors().front().message.find(says), std::string::npos) << module.errors().front().message;
  }
  refuse("plan @p(%x: buffer<MxMxf32>) -> (y: buffer<MxMxf32>) {\n  %y = alloc : buffer<MxMxf32>\n"
         "  library_call cublaslt %x, %y, %y, function = matmul\n  return %y\n}\n",
         ErrorCode::LaunchMismatch, {"reads what it writes: %y"});
}

TEST(PlanVerifier, WhatStandsBehind) {
  auto chain = [](const std::string &first, const std::string &second) {
    return "graph @f(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>)" + first + " {\n  return %x\n}\n" +
           "graph @g(%x: tensor<8xf32>) -> " + second + " {\n  return %x\n}\n" +
           "plan @p(%x: buffer<Nxf32>) -> (y: buffer<Nxf32>) {\n  %y = copy %x : buffer<Nxf32>\n" + "  return %y\n}\n";
  };
  accept(chain(", otherwise = @g", "(y: tensor<8xf32>)"));
  refuse(chain(", otherwise = @h", "(y: tensor<8xf32>)"), ErrorCode::UnknownFunction, {"there is no graph @h"});
  refuse(chain(", otherwise = @p", "(y: tensor<8xf32>)"), ErrorCode::UnknownFunction, {"there is no graph @p"});
  refuse(chain(", otherwise = 3", "(y: tensor<8xf32>)"), ErrorCode::BadAttribute, {"must be a function, not 3"});
  refuse(chain(", otherwise = @g", "(z: tensor<8xf32>)"), ErrorCode::TypeMismatch, {"@g takes or gives other tensors"});
  refuse(chain(", otherwise = @f", "(y: tensor<8xf32>)"), ErrorCode::BadAttribute, {"leads around in a circle"});
  refuse(chain(", behind = @g", "(y: tensor<8xf32>)"), ErrorCode::UnknownAttribute, {"has no attribute `behind`, only otherwise"});
}

TEST(PlanVerifier, Facts) {
  auto graph = [](const std::string &facts) {
    return "graph @f(%x: tensor<NxMxf32>) -> (y: tensor<NxMxf32>) " + facts + " {\n  return %x\n}\n";
  };
  accept(graph("where N % 8 == 0, 1 <= M <= 4096, N*M <= 100000"));
  refuse(graph("where K >= 1"), ErrorCode::UnknownDim, {"has no size called K"}, "N");
  auto plan = [](const std::string &facts) {
    return "kernel @k(%x: buffer<Nxf32>) at tile where N <= 4 {\n  return\n}\n"
           "plan @p(%x: buffer<Nxf32>) -> (y: buffer<Nxf32>) " +
           facts + " {\n  launch @k(%x), grid = []\n  %y = copy %x : buffer<Nxf32>\n  return %y\n}\n";
  };
  accept(plan("where N >= 1, N <= 4"));
  refuse(plan("where N <= 3"), ErrorCode::LaunchMismatch, {"is not for sizes where N <= 4, as the kernel is"});
  refuse(plan(""), ErrorCode::LaunchMismatch, {"is not for sizes where N <= 4, as the kernel is"});
}

} // namespace
