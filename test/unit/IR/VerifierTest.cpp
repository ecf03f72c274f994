// What the verifier refuses, with the words that it says, and what it must let pass.
#include "VerifierTexts.h"

#include "minic/IR/Builder.h"

using namespace minic;
using namespace minic::test;
using testing::Test;

namespace {

//===- What must pass -===//

TEST(VerifierAccepts, Graphs) {
  accept(R"(
graph @linear_relu(%x: tensor<NxKxf32>, %w: tensor<KxMxf32>, %b: tensor<Mxf32>) -> (y: tensor<NxMxf32>) {
  %a = matmul %x, %w : tensor<NxMxf32>
  %bias = broadcast %b, dims = [1] : tensor<NxMxf32>
  %z = add %a, %bias : tensor<NxMxf32>
  %zero = constant 0.0 : tensor<NxMxf32>
  %y = max %z, %zero : tensor<NxMxf32>
  return %y
}
graph @softmax(%x: tensor<MxNxf32>) -> tensor<MxNxf32> {
  %m = reduce max %x, axes = [1] : tensor<Mxf32>
  %mb = broadcast %m, dims = [0] : tensor<MxNxf32>
  %z = sub %x, %mb : tensor<MxNxf32>
  %e = exp %z : tensor<MxNxf32>
  %s = reduce sum %e, axes = [1] : tensor<Mxf32>
  %sb = broadcast %s, dims = [0] : tensor<MxNxf32>
  %y = div %e, %sb : tensor<MxNxf32>
  return %y
})");
}

TEST(VerifierAccepts, EveryGraphOp) {
  accept(graph(R"(
  %c = constant [[1, 2, 3], [4.5, inf, nan]] : tensor<2x3xf32>
  %k = constant -7 : tensor<2x3xi32>
  %t = constant [[true, false, true], [false, false, true]] : tensor<2x3xi1>
  %e = constant [] : tensor<0x4xf32>
  %r = constant 2.0 : tensor<f32>
  %rb = broadcast %r, dims = [] : tensor<2x3xf32>
  %s = select %b, %x, %c : tensor<2x3xf32>
  %l = compare lt %x, %y : tensor<2x3xi1>
  %lb = and %l, %t : tensor<2x3xi1>
  %f = convert %i : tensor<2x3xf32>
  %p = transpose %x, perm = [1, 0] : tensor<3x2xf32>
  %q = reshape %x : tensor<6xf32>
  %w = matmul %x, %p : tensor<2x2xf32>
  %o = constant 1.0 : tensor<3x4xf16>
  %hf = matmul %h, %o : tensor<2x4xf32>
  %hh = matmul %h, %o : tensor<2x4xf16>
  %h32 = reduce sum %h, axes = [0, 1] : tensor<f32>
  %h16 = reduce sum %h, axes = [1] : tensor<2xf16>
  %none = reduce max %i, axes = [] : tensor<2x3xi32>
  %best, %at = reduce %x, %i, axes = [1], init = [-inf, 0] {
    ^(%m: f32, %mi: i32, %a: f32, %ai: i32):
    %g = compare gt %a, %m : i1
    %n1 = select %g, %a, %m : f32
    %n2 = select %g, %ai, %mi : i32
    yield %n1, %n2
  } : tensor<2xf32>, tensor<2xi32>
  %hs = reduce %h, axes = [1], init = [0] {
    ^(%acc: f32, %in: f32):
    %one = constant 1.0 : f32
    %m1 = mul %in, %one : f32
    %sum = add %acc, %m1 : f32
    yield %sum
  } : tensor<2xf16>
  %nb = broadcast %v, dims = [1] : tensor<2x3xf32>)"));
}

TEST(VerifierAccepts, Fused) {
  accept(R"(
graph @g(%x: tensor<NxMxf32>, %v: tensor<Mxf32>) -> (y: tensor<NxMxf32>) at fused {
  %y = fusion %x, %v, schedule = #rows<block = [1, 256], warps = [1, 2], lanes = [1, 32], vec = 4> {
    ^(%a: tensor<NxMxf32>, %b: tensor<Mxf32>):
    %c = broadcast %b, dims = [1] : tensor<NxMxf32>
    %d = add %a, %c : tensor<NxMxf32>
    yield %d
  } : tensor<NxMxf32>
  return %y
})");
}

const char *tileModule = R"(
kernel @rows(%x: buffer<NxMxf32>, %y: buffer<NxMxf32>) at tile, schedule = #rows<block = [4, 128], warps = [4, 1], lanes = [1, 32], vec = 4> {
  %i = program_id grid = [ceildiv(N, 4)] : index
  %four = constant 4 : index
  %row = mul %i, %four : index
  %zero = constant 0 : index
  %step = constant 128 : index
  %m = dim M : index
  %init = constant 0.0 : tile<4x1xf32>
  %sum = for %zero, %m, %step, %init {
    ^(%k: index, %acc: tile<4x1xf32>):
    %t = load %x, %row, %k : tile<4x128xf32>
    %r = reduce sum %t, axes = [1] : tile<4x1xf32>
    %n = add %acc, %r : tile<4x1xf32>
    yield %n
  } : tile<4x1xf32>
  for %zero, %m, %step {
    ^(%k: index):
    %t = load %x, %row, %k : tile<4x128xf32>
    %b = broadcast %sum : tile<4x128xf32>
    %q = div %t, %b : tile<4x128xf32>
    store %q, %y, %row, %k
    yield
  }
  return
}
plan @p(%x: buffer<NxMxf32>) -> (y: buffer<NxMxf32>) {
  %y = alloc : buffer<NxMxf32>
  launch @rows(%x, %y), grid = [ceildiv(N, 4)]
  return %y
})";

TEST(VerifierAccepts, TilesAndPlans) {
  accept(tileModule);
  accept(R"(
plan @p(%x: buffer<2x3xf32>) -> (y: buffer<6xf32>, z: buffer<2x3xf32>, c: buffer<2xf32>) {
  %y = view %x : buffer<6xf32>
  %z = copy %x : buffer<2x3xf32>
  %c = constant [1, 2] : buffer<2xf32>
  return %y, %z, %c
})");
}

TEST(VerifierAccepts, Masked) {
  accept(kernel(R"(
  %z = constant 0 : index
  %m = dim M : index
  %a = load %x, %z, %z, mask = [0, 1], fill = -inf : tile<4x128xf32>
  %r = reduce max %a, axes = [1] : tile<4x1xf32>
  %b = load %v, %z, dims = [1], mask = [] : tile<1x128xf32>
  %in = in_bounds %z, axis = 1, size = M : tile<1x128xi1>
  %inb = broadcast %in : tile<4x128xi1>
  %bb = broadcast %b : tile<4x128xf32>
  %s = select %inb, %a, %bb : tile<4x128xf32>
  store %s, %x, %z, %z, mask = [1]
  %lt = compare lt %z, %m : i1
  %w = select %lt, %z, %m : index
  %hl = load %h, %z, %z, dims = [1, 0], mask = [] : tile<16x8xf16>
  %acc = constant 0.0 : tile<1x8xf32>
  %hr = constant 1.0 : tile<16x1xf16>
  %d = dot %hl, %hr, %acc, axes = [0] : tile<1x8xf32>)",
                "masked"));
}

TEST(VerifierAccepts, Machine) {
  accept(machineKernel(R"(
  %z = constant 0 : index
  %a = load %x, %z, %z, mask = [1], fill = 0.0, vec = 4 : tile<4x128xf32, #l>
  %r = reduce sum %a, axes = [1], over = reg : tile<4x32xf32, #layout<reg = [], lane = [1:32@1], warp = [0:4@1]>>
  %s = reduce sum %r, axes = [1], over = lane : tile<4x1xf32, #layout<reg = [], lane = [_:32], warp = [0:4@1]>>
  %b = broadcast %s : tile<4x128xf32, #l>
  %q = div %a, %b : tile<4x128xf32, #l>
  store %q, %x, %z, %z, mask = [1], vec = 2
  %m = alloc_shared : smem<4x128xf32>
  %p = alloc_shared : smem<128x4xf32, strides = [1, 132]>
  shared_store %q, %m
  barrier
  %t = shared_load %m : tile<4x128xf32, #l>
  %acc = constant 0.0 : tile<4x1xf32, #layout<reg = [], lane = [_:32], warp = [0:4@1]>>
  %d = dot %m, %m, %acc, axes = [1] : tile<4x1xf32, #layout<reg = [], lane = [_:32], warp = [0:4@1]>>)"));
}

TEST(VerifierAccepts, ReductionAcrossWarps) {
  // 1x256 on two warps side by side: four elements per thread, then 32 lanes, then 2 warps.
  accept(kernel(R"(
  %c = constant 1.0 : tile<1x256xf32, #layout<reg = [1:4@1], lane = [1:32@4], warp = [1:2@128]>>
  %r = reduce sum %c, axes = [1], over = reg : tile<1x64xf32, #layout<reg = [], lane = [1:32@1], warp = [1:2@32]>>
  %s = reduce sum %r, axes = [1], over = lane : tile<1x2xf32, #layout<reg = [], lane = [_:32], warp = [1:2@1]>>)",
                "machine, threads = 64"));
}

//===- What must not pass -===//

TEST(VerifierRefuses, ReduceAxes) {
  refuse(graph("%r = reduce sum %x, axes = [1, 1] : tensor<2xf32>"), ErrorCode::BadAxis,
         {"`axes` of `reduce` is [1, 1]", "1 is named twice"});
  refuse(graph("%r = reduce sum %x, axes = [2] : tensor<2xf32>"), ErrorCode::BadAxis,
         {"[2]", "the axes of %x: tensor<2x3xf32> are 0 to 1"});
  refuse(graph("%r = reduce sum %x, axes = [-3] : tensor<2xf32>"), ErrorCode::BadAxis, {"[-3]", "0 to 1"});
  refuse(graph("%r = reduce sum %x, axes = [0, -1] : tensor<f32>"), ErrorCode::BadAxis, {"[0, -1]"});
  refuse(graph("%r = reduce sum %x, axes = [1, 0] : tensor<f32>"), ErrorCode::BadAxis, {"[1, 0]", "must ascend"});
}

TEST(VerifierRefuses, Permutations) {
  refuse(graph("%r = transpose %x, perm = [0, 0] : tensor<2x2xf32>"), ErrorCode::BadAxis,
         {"`perm` of `transpose` is [0, 0]", "twice"});
  refuse(graph("%r = transpose %x, perm = [0, 2] : tensor<2x3xf32>"), ErrorCode::BadAxis, {"[0, 2]", "0 to 1"});
  refuse(graph("%r = transpose %x, perm = [0] : tensor<2xf32>"), ErrorCode::BadAxis, {"[0]", "%x: tensor<2x3xf32> has 2 axes"});
  refuse(graph("%r = transpose %x, perm = [1, 0] : tensor<2x3xf32>"), ErrorCode::TypeMismatch,
         {"expected tensor<3x2xf32>", "stated tensor<2x3xf32>"}, "tensor<3x2xf32>");
}

TEST(VerifierRefuses, Matmul) {
  refuse(graph("%r = matmul %x, %y : tensor<2x3xf32>"), ErrorCode::ContractedMismatch,
         {"`matmul`", "(size 3)", "(size 2)", "%x: tensor<2x3xf32>", "%y: tensor<2x3xf32>"}, "transpose %y first");
  refuse(graph("%r = matmul %x, %n : tensor<2xMxf32>"), ErrorCode::ContractedMismatch, {"size 3", "size N", "tensor<NxMxf32>"});
  refuse(graph("%r = matmul %x, %v : tensor<2xf32>"), ErrorCode::ShapeMismatch,
         {"rank 2 or more", "tensor<2x3xf32>", "tensor<3xf32>"});
  refuse(graph("%r = matmul %x, %h : tensor<2x3xf32>"), ErrorCode::OperandType, {"one element type"}, "convert %h to f32");
  refuse(graph("%t = transpose %y, perm = [1, 0] : tensor<3x2xf32>\n%r = matmul %x, %t : tensor<2x3xf32>"), ErrorCode::TypeMismatch,
         {"expected tensor<2x2xf32>, stated tensor<2x3xf32>"}, "tensor<2x2xf32>");
  auto pieces = [](const std::string &result) {
    return graph("%t = transpose %y, perm = [1, 0] : tensor<3x2xf32>\n%r = matmul %x, %t, " + result);
  };
  refuse(pieces("chunks = [2] : tensor<2x2xf32>"), ErrorCode::TypeMismatch, {"expected tensor<2x2x2xf32>"}, "tensor<2x2x2xf32>");
  refuse(pieces("chunks = [3] : tensor<1x2x2xf32>"), ErrorCode::BadAttribute, {"`matmul` needs powers of two in `chunks`, not 3"});
  refuse(pieces("chunks = [0] : tensor<1x2x2xf32>"), ErrorCode::BadAttribute, {"powers of two", "not 0"});
  refuse(pieces("chunks = [2, 2] : tensor<2x2x2xf32>"), ErrorCode::BadAttribute,
         {"has one contracted axis but `chunks` has 2 numbers"});
  refuse(R"(graph @g(%a: tensor<2x4x8xf32>, %b: tensor<3x8x4xf32>) -> (y: tensor<2x4x8xf32>) {
  %r = matmul %a, %b : tensor<2x4x4xf32>
  return %a
})",
         ErrorCode::ShapeMismatch,
         {"equal batch sizes (or 1)", "axis 0 they are 2 and 3", "tensor<2x4x8xf32>", "tensor<3x8x4xf32>"});
}

TEST(VerifierRefuses, ReshapeCount) {
  refuse(graph("%r = reshape %x : tensor<5xf32>"), ErrorCode::BadReshape, {"%x: tensor<2x3xf32> has 6", "tensor<5xf32> has 5"});
  refuse(graph("%r = reshape %n : tensor<NxNxf32>"), ErrorCode::BadReshape, {"M*N", "tensor<NxNxf32>"});
  refuse(graph("%r = reshape %x : tensor<6xf16>"), ErrorCode::TypeMismatch, {"expected tensor<6xf32>, stated tensor<6xf16>"});
}

TEST(VerifierRefuses, SelectOnNumbers) {
  refuse(graph("%r = select %x, %x, %y : tensor<2x3xf32>"), ErrorCode::UnsupportedDType,
         {"`select` does not support f32", "%x: tensor<2x3xf32>", "only i1"}, "compare %x");
}

TEST(VerifierRefuses, DefinitionAfterUse) {
  // The parser refuses such text (UnknownValue), so this is built.
  Context context;
  Module module(context);
  Function *g = module.addFunction(FunctionKind::Graph, Level::Graph, "g");
  Type type = context.tensor(DType::F32, {2});
  Value *x = g->body().addArgument(type, "x");
  g->resultTypes = {type};
  g->resultNames = {"y"};
  Builder builder(g->body());
  Operation *first = builder.create(OpKind::Add, {x, x}, {type});
  first->setLoc({3, 1});
  Operation *second = builder.create(OpKind::Neg, {first->result()}, {type});
  second->result()->setName("later");
  builder.create(OpKind::Return, {second->result()}, {});
  EXPECT_TRUE(verify(module).empty());

  first->setOperand(1, second->result());
  Diagnostics list = verify(module);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].code, ErrorCode::BadStructure);
  EXPECT_EQ(list[0].message, "%later of `add` is not defined before it, in its block or one around it");
  EXPECT_EQ(list[0].loc, (SourceLoc{3, 1}));

  first->setOperand(1, first->result());
  list = verify(*g);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].message, "operand 1 of `add` is not defined before it, in its block or one around it");
}

//===- Tiles -===//

TEST(VerifierRefuses, LoadsAndStores) {
  std::string z = "%z = constant 0 : index\n";
  refuse(kernel(z + "%t = load %x, %z, %z : tile<4x4xf16>"), ErrorCode::TypeMismatch,
         {"expected tile<4x4xf32>, stated tile<4x4xf16>"});
  refuse(kernel(z + "%t = load %z, %z, %z : tile<4x4xf32>"), ErrorCode::UnsupportedDType, {"index"});
  refuse(kernel(z + "%c = constant 0.0 : tile<4x4xf16>\nstore %c, %x, %z, %z"), ErrorCode::OperandType,
         {"%c: tile<4x4xf16>", "%x: buffer<NxMxf32>"}, "convert %c to f32");
  refuse(kernel(z + "%c = constant 0.0 : tile<4x4xf32>\nstore %c, %c, %z, %z"), ErrorCode::OperandType,
         {"takes a buffer here", "%c"});
  refuse(kernel(z + "%t = load %x, %z, %x : tile<4x4xf32>"), ErrorCode::OperandType, {"takes an index here", "%x"});
}

TEST(VerifierRefuses, Dots) {
  std::string head =
      "%a = constant 1.0 : tile<8x16x1xf16>\n%b = constant 1.0 : tile<1x16x4xf16>\n%c = constant 0.0 : tile<8x1x4xf32>\n";
  accept(kernel(head + "%d = dot %a, %b, %c, axes = [1] : tile<8x1x4xf32>"));
  refuse(kernel(head + "%d = dot %a, %b, %c, axes = [1] : tile<8x1x4xf16>"), ErrorCode::TypeMismatch, {"expected tile<8x1x4xf32>"});
  refuse(kernel(head + "%d = dot %a, %b, %c, axes = [0] : tile<8x1x4xf32>"), ErrorCode::ContractedMismatch,
         {"axis 0", "(8, 1)", "%a: tile<8x16x1xf16>", "%b: tile<1x16x4xf16>"});
  refuse(kernel(head + "%e = constant 0.0 : tile<8x1x4xf16>\n%d = dot %a, %b, %e, axes = [1] : tile<8x1x4xf16>"),
         ErrorCode::OperandType, {"an accumulator of f32", "%e: tile<8x1x4xf16>"});
  refuse(kernel(head + "%e = constant 0.0 : tile<8x1x8xf32>\n%d = dot %a, %b, %e, axes = [1] : tile<8x1x8xf32>"),
         ErrorCode::ShapeMismatch, {"equal extents along axis 2"});
  refuse(kernel(head + "%d = dot %a, %b, %c, axes = [] : tile<8x1x4xf32>"), ErrorCode::ShapeMismatch, {"axis 1"});
}

TEST(VerifierRefuses, Layouts) {
  refuse(kernel("%c = constant 0.0 : tile<4x128xf32, " + rowLayout + ">"), ErrorCode::BadLayout,
         {"at the machine level only, not at tile"});
  refuse(kernel("%c = constant 0.0 : tile<4x128xf32>", machine), ErrorCode::BadLayout, {"has no layout"});
  refuse(machineKernel("%c = constant 0.0 : tile<4x256xf32, #l>"), ErrorCode::BadLayout, {"does not hold every element"});
  refuse(kernel("%c = constant 0.0 : tile<4x128xf32, " + rowLayout + ">", "machine, threads = 64"), ErrorCode::BadLayout,
         {"4 warps", "but 2 warps run this (threads = 64)"});
  refuse(kernel("%c = constant 0.0 : tile<1x16xf32, #layout<reg = [], lane = [1:16@1], warp = [_:4]>>", machine),
         ErrorCode::BadLayout, {"multiply to 32"});
  // Each lane would need the element of another one.
  refuse(machineKernel("%a = constant 0.0 : tile<1x128xf32, #layout<reg = [1:4@32], lane = [1:32@1], warp = [_:4]>>\n"
                       "%b = broadcast %a : tile<4x128xf32, #l>"),
         ErrorCode::BadLayout, {"`broadcast` would move elements between threads"});
  refuse(machineKernel("%a = constant 0.0 : tile<4x128xf32, #l>\n"
                       "%b = constant 0.0 : tile<4x128xf32, #layout<reg = [1:4@32], lane = [1:32@1], warp = [0:4@1]>>\n"
                       "%c = add %a, %b : tile<4x128xf32, #l>"),
         ErrorCode::BadLayout, {"one layout"});
}

TEST(VerifierRefuses, MachineReductions) {
  std::string a = "%a = constant 0.0 : tile<4x128xf32, #l>\n";
  refuse(machineKernel(a + "%r = reduce sum %a, axes = [1] : tile<4x1xf32, #layout<reg = [], lane = [_:32], warp = [0:4@1]>>"),
         ErrorCode::MissingAttribute, {"`over = reg` or `over = lane`"});
  refuse(machineKernel(
             a + "%r = reduce sum %a, axes = [1], over = lane : tile<4x1xf32, #layout<reg = [], lane = [_:32], warp = [0:4@1]>>"),
         ErrorCode::BadLayout, {"axis 1 has one", "`over = reg` first"});
  refuse(machineKernel(
             a + "%r = reduce sum %a, axes = [1], over = reg : tile<4x1xf32, #layout<reg = [], lane = [_:32], warp = [0:4@1]>>"),
         ErrorCode::TypeMismatch, {"expected tile<4x32xf32, #layout<reg = [], lane = [1:32@1], warp = [0:4@1]>>"});
}

TEST(VerifierRefuses, MachineAccesses) {
  std::string z = "%z = constant 0 : index\n";
  refuse(machineKernel(z + "%t = load %x, %z, %z, mask = [] : tile<4x128xf32, #l>"), ErrorCode::MissingAttribute, {"needs `vec`"},
         "vec = 1");
  refuse(machineKernel(z + "%t = load %x, %z, %z, mask = [], vec = 3 : tile<4x128xf32, #l>"), ErrorCode::BadAttribute,
         {"`vec` of `load` is 3", "at most 4 of f32"});
  refuse(machineKernel(z + "%t = load %x, %z, %z, mask = [], vec = 8 : tile<4x128xf32, #l>"), ErrorCode::BadAttribute,
         {"at most 16 bytes"});
  refuse(machineKernel(z + "%t = load %x, %z, %z, dims = [1, 0], mask = [], vec = 4 : tile<4x128xf32, #l>"), ErrorCode::BadLayout,
         {"first register mode", "(axis 0)"});
  refuse(machineKernel("%a = constant 0.0 : tile<4x128xf32, #l>\n%s = alloc_shared : smem<128x4xf32>\nshared_store %a, %s"),
         ErrorCode::ShapeMismatch, {"%a: tile<4x128xf32", "%s: smem<128x4xf32>"});
  refuse(machineKernel("%s = alloc_shared : smem<128x4xf32>\n%a = shared_load %s : tile<4x128xf32, #l>"), ErrorCode::TypeMismatch,
         {"%s: smem<128x4xf32>", "stated tile<4x128xf32"});
  refuse(machineKernel("%s = alloc_shared : tile<4x128xf32, #l>"), ErrorCode::TypeMismatch, {"expected shared memory"});
}

TEST(VerifierRefuses, KernelAttributes) {
  refuse(kernel("", "machine"), ErrorCode::MissingAttribute, {"kernel @k at the machine level needs `threads`"}, "threads = 128");
  refuse(kernel("", "machine, threads = 48"), ErrorCode::BadAttribute, {"a multiple of 32 from 32 to 1024, not 48"});
  refuse(kernel("", "machine, threads = 2048"), ErrorCode::BadAttribute, {"not 2048"});
  refuse(kernel("", "tile, shedule = #rows<vec = 4>"), ErrorCode::UnknownAttribute, {"no attribute `shedule`"}, "`schedule`");
  refuse(kernel("", "tile, schedule = 4"), ErrorCode::BadAttribute, {"`schedule` of kernel @k must be a schedule"});
  refuse(kernel("%i = program_id grid = [N] : index\n%j = program_id grid = [M] : index"), ErrorCode::BadStructure, {"[M]", "[N]"});
}

//===- Levels and structure -===//

TEST(VerifierRefuses, WrongLevel) {
  refuse(graph("%z = program_id grid = [4] : index"), ErrorCode::WrongLevel,
         {"`program_id` is not part of the graph level of graph @g", "tile, masked and machine"});
  refuse(graph("%r = fusion %x {\n^(%a: tensor<2x3xf32>):\n%z = load %a : tensor<2x3xf32>\nyield %a\n} : tensor<2x3xf32>"),
         ErrorCode::WrongLevel, {"`fusion`", "the levels that have it: fused"});
  refuse(kernel("barrier"), ErrorCode::WrongLevel, {"`barrier`", "tile level", "machine"});
  refuse(kernel("%y = alloc : buffer<4xf32>"), ErrorCode::WrongLevel, {"`alloc`", "plan"});

  Context context;
  Module module(context);
  Function *g = module.addFunction(FunctionKind::Graph, Level::Masked, "g");
  Builder(g->body()).create(OpKind::Return, {}, {});
  Diagnostics list = verify(module);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].code, ErrorCode::WrongLevel);
  EXPECT_EQ(list[0].message, "graph @g cannot be at the masked level; the levels of a graph: graph and fused");
}

TEST(VerifierRefuses, Terminators) {
  refuse("graph @g() -> () {\n  yield\n}", ErrorCode::MissingTerminator,
         {"graph @g must end with `return`, but ends with `yield`"});
  refuse(kernel("%z = constant 0 : index\n%o = constant 1 : index\nfor %z, %z, %o {\n^(%k: index):\nreturn\n}"),
         ErrorCode::MissingTerminator, {"the region of `for` must end with `yield`, but ends with `return`"});

  Context context;
  Module module(context);
  Function *k = module.addFunction(FunctionKind::Kernel, Level::Tile, "k");
  k->loc = {7, 1};
  Diagnostics list = verify(module);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].code, ErrorCode::MissingTerminator);
  EXPECT_EQ(list[0].message, "kernel @k must end with `return`, but is empty");
  EXPECT_EQ(list[0].loc, (SourceLoc{7, 1}));

  Builder builder(k->body());
  builder.create(OpKind::Return, {}, {});
  builder.create(OpKind::Return, {}, {});
  list = verify(module);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].code, ErrorCode::BadStructure);
  EXPECT_EQ(list[0].message, "`return` stands before the end of kernel @k");
}

TEST(VerifierRefuses, Launches) {
  auto plan = [](const std::string &launch) {
    return "kernel @fill(%x: buffer<Nxf32>) at tile {\n  %i = program_id grid = [N] : index\n  return\n}\n"
           "kernel @once(%x: buffer<Nxf32>) at tile {\n  return\n}\n"
           "plan @p(%a: buffer<Nxf32>, %b: buffer<Mxf32>) -> (y: buffer<Nxf32>) {\n  " +
           launch + "\n  %y = copy %a : buffer<Nxf32>\n  return %y\n}\n";
  };
  accept(plan("launch @fill(%a), grid = [N]"));
  accept(plan("launch @once(%a), grid = []"));
  refuse(plan("launch @fil(%a), grid = [N]"), ErrorCode::UnknownFunction, {"no kernel is named @fil"}, "`@fill`");
  refuse(plan("launch @p(%a, %b), grid = [N]"), ErrorCode::UnknownFunction, {"@p is a plan"});
  refuse(plan("launch @fill(%a, %b), grid = [N]"), ErrorCode::LaunchMismatch, {"gives 2 buffers, but the kernel has 1 parameter"});
  refuse(plan("launch @fill(%b), grid = [N]"), ErrorCode::LaunchMismatch, {"%b: buffer<Mxf32> for parameter %x: buffer<Nxf32>"});
  refuse(plan("launch @fill(%a), grid = [M]"), ErrorCode::LaunchMismatch, {"grid [M]", "program_id says [N]"});
  accept(plan("launch @once(%a), grid = [1]"));
}

TEST(VerifierRefuses, Names) {
  Context context;
  Module module(context);
  for (int i = 0; i < 2; ++i) {
    Function *g = module.addFunction(FunctionKind::Graph, Level::Graph, "g");
    Type type = context.tensor(DType::F32, {2});
    Value *x = g->body().addArgument(type, "x");
    g->resultTypes = {type, type};
    g->resultNames = {"y", i ? "y" : "z"};
    Builder(g->body()).create(OpKind::Return, {x, x}, {});
  }
  Diagnostics list = verify(module);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].code, ErrorCode::Redefinition);
  EXPECT_EQ(list[0].message, "two functions are named @g");
  EXPECT_EQ(list[1].code, ErrorCode::Redefinition);
  EXPECT_EQ(list[1].message, "graph @g has two results named `y`");
}

TEST(Verifier, UncheckedPaddingWarns) {
  Diagnostics list = findings(kernel("%z = constant 0 : index\n%t = load %x, %z, %z, mask = [1] : tile<4x128xf32>\n"
                                     "%r = reduce sum %t, axes = [1], padding = unchecked : tile<4x1xf32>",
                                     "masked"));
  ASSERT_EQ(list.size(), 1u) << text(list);
  EXPECT_EQ(list[0].code, ErrorCode::UncheckedPadding);
  EXPECT_EQ(list[0].severity, Severity::Warning);
  EXPECT_FALSE(hasErrors(list));
}

TEST(Verifier, MaskedHookRunsOnSoundMaskedKernelsOnly) {
  std::vector<std::string> seen;
  LevelHooks hooks;
  hooks.masked = [&](Function &function, VerifyReporter &reporter) {
    seen.push_back(function.name);
    reporter.error(function.loc, ErrorCode::UnprovedAccess, "from the hook");
  };
  Diagnostics list = findings("kernel @a(%x: buffer<2xf32>) at tile {\n  return\n}\n"
                              "kernel @b(%x: buffer<2xf32>) at masked {\n  return\n}\n"
                              "kernel @c(%x: buffer<2xf32>) at masked {\n  return %x\n}\n",
                              hooks);
  EXPECT_EQ(seen, std::vector<std::string>{"b"});
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].code, ErrorCode::UnprovedAccess);
  EXPECT_EQ(list[1].code, ErrorCode::ReturnMismatch);
}

TEST(Verifier, SeveralFindingsInTextOrder) {
  Diagnostics list =
      findings(graph("%a = add %x, %v : tensor<2x3xf32>\n%b2 = exp %i : tensor<2x3xi32>\n%c = neg %a : tensor<3xf32>"));
  ASSERT_EQ(list.size(), 3u) << text(list);
  EXPECT_EQ(list[0].code, ErrorCode::ShapeMismatch);
  EXPECT_EQ(list[1].code, ErrorCode::UnsupportedDType);
  EXPECT_EQ(list[2].code, ErrorCode::TypeMismatch);
  EXPECT_LT(list[0].loc.line, list[1].loc.line);
}

TEST(Verifier, StopsAfterManyErrors) {
  std::string body;
  for (int i = 0; i < 5000; ++i)
    body += "%a" + std::to_string(i) + " = add %x, %v : tensor<2x3xf32>\n";
  Diagnostics list = findings(graph(body));
  ASSERT_EQ(list.size(), 101u);
  EXPECT_EQ(list.back().code, ErrorCode::TooManyErrors);
}

TEST(Verifier, LongGraphsAreLinear) {
  std::string body;
  for (int i = 0; i < 10000; ++i)
    body += "%a" + std::to_string(i) + " = add %x, " + (i ? "%a" + std::to_string(i - 1) : "%y") + " : tensor<2x3xf32>\n";
  accept(graph(body, "tensor<2x3xf32>", "%a9999"));
}

TEST(Verifier, MathBodies) {
  Context context;
  Module module(context);
  Function *body = module.addFunction(FunctionKind::Kernel, Level::Machine, "exp_f32");
  Type f32 = context.scalar(DType::F32);
  Value *x = body->body().addArgument(f32, "x");
  body->resultTypes = {f32};
  Builder builder(body->body());
  Value *two = builder.constant(f32, 2.0);
  Value *y = builder.scalarOp(OpKind::Fma, {x, two, x});
  Value *bits = builder.create(OpKind::Bitcast, {y}, {context.scalar(DType::I32)})->result();
  Value *back = builder.create(OpKind::Bitcast, {bits}, {f32})->result();
  builder.create(OpKind::Return, {back}, {});
  EXPECT_TRUE(verify(module).empty()) << text(verify(module));

  body->level = Level::Tile;
  Diagnostics list = verify(module);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].code, ErrorCode::OperandType);
}

TEST(Verifier, InfersResultTypes) {
  Context context;
  Module module(context);
  Function *g = module.addFunction(FunctionKind::Graph, Level::Graph, "g");
  auto tensor = [&](std::vector<DimExpr> shape) { return context.tensor(DType::F32, std::move(shape)); };
  DimExpr n = DimExpr::name("N"), m = DimExpr::name("M");
  Value *a = g->body().addArgument(tensor({n, m}), "a"), *b = g->body().addArgument(tensor({m, 4}), "b");
  Builder builder(g->body());
  auto infer = [&](OpKind kind, std::vector<Value *> operands, std::vector<NamedAttribute> attrs = {}) {
    Type none[1] = {};
    return inferResultTypes(*builder.create(kind, operands, none, std::move(attrs))).at(0);
  };
  EXPECT_EQ(infer(OpKind::Add, {a, a}), tensor({n, m}));
  EXPECT_EQ(infer(OpKind::Compare, {a, a}), context.tensor(DType::I1, {n, m}));
  EXPECT_EQ(infer(OpKind::Matmul, {a, b}), tensor({n, 4}));
  EXPECT_EQ(infer(OpKind::Transpose, {a}, {{"perm", Attribute::ints({1, 0})}}), tensor({m, n}));
  EXPECT_EQ(infer(OpKind::Reduce, {a}, {{"axes", Attribute::ints({0})}}), tensor({m}));
  // Null where the text decides, and where the operation is not well formed.
  EXPECT_FALSE(infer(OpKind::Broadcast, {a}));
  EXPECT_FALSE(infer(OpKind::Convert, {a}));
  EXPECT_FALSE(infer(OpKind::Transpose, {a}));
  EXPECT_FALSE(infer(OpKind::Transpose, {a}, {{"perm", Attribute::ints({1, 7})}}));
  EXPECT_FALSE(infer(OpKind::Matmul, {a}));
  EXPECT_FALSE(infer(OpKind::Reduce, {a}, {{"axes", Attribute::ints({-1})}}));
  EXPECT_FALSE(infer(OpKind::Add, {}));
}

TEST(Verifier, NeverCrashesOnOddOperations) {
  // Every op at every level with few operands, results and regions of every kind of type, and no attributes: findings, no crash.
  Context context;
  int64_t extents[] = {4, 8};
  const std::vector<Type> types = {context.tensor(DType::F32, {4, 8}),        context.buffer(DType::F32, {DimExpr::name("N"), 8}),
                                   context.tile(DType::F32, extents),         context.index(),
                                   context.smem(DType::F32, extents, {1, 5}), context.scalar(DType::F32)};
  const FunctionKind kinds[] = {FunctionKind::Graph,  FunctionKind::Graph,  FunctionKind::Kernel,
                                FunctionKind::Kernel, FunctionKind::Kernel, FunctionKind::Plan};
  auto check = [&](int level, OpKind kind, size_t operands, size_t results, size_t regions) {
    Module module(context);
    Function *function = module.addFunction(kinds[level], Level(level), "f");
    size_t choice = operands * 7 + results * 3 + regions + size_t(kind);
    std::vector<Value *> operandValues;
    std::vector<Type> resultTypes;
    for (size_t i = 0; i < operands; ++i)
      operandValues.push_back(function->body().addArgument(types[(choice + i * (choice % 3)) % types.size()]));
    for (size_t i = 0; i < results; ++i)
      resultTypes.push_back(types[(choice + i) % types.size()]);
    Builder builder(function->body());
    Operation *op = builder.create(kind, operandValues, resultTypes);
    for (size_t i = 0; i < regions; ++i) {
      Block &region = op->addRegion();
      if (choice % 2)
        region.addArgument(types[choice % types.size()]);
      if (choice % 5)
        Builder(region).create(OpKind::Yield, std::span<Value *const>(operandValues), {});
    }
    if (choice % 4)
      builder.create(OpKind::Return, {}, {});
    verify(module);
    inferResultTypes(*op);
  };
  for (int level = 0; level <= int(Level::Plan); ++level)
    for (const OpInfo &info : allOps())
      for (size_t operands = 0; operands <= 4; ++operands)
        for (size_t results = 0; results <= 2; ++results)
          for (size_t regions = 0; regions <= size_t(info.maxRegions); ++regions)
            check(level, info.kind, operands, results, regions);
}

} // namespace
