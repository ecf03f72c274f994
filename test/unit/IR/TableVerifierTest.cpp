// What the verifier refuses by the table of ops: counts, types, attributes, axes, shapes, regions.
#include "VerifierTexts.h"

#include "minic/IR/Builder.h"

using namespace minic;
using namespace minic::test;

namespace {

TEST(VerifierRefuses, OperandCount) {
  refuse(graph("%r = add %x : tensor<2x3xf32>"), ErrorCode::OperandCount, {"`add` takes 2 operands (lhs, rhs), not 1"});
  refuse(graph("%r = add %x, %x, %x : tensor<2x3xf32>"), ErrorCode::OperandCount, {"not 3"});
  refuse(graph("%r = reduce sum, axes = [1] : tensor<2xf32>"), ErrorCode::OperandCount, {"`reduce` takes at least 1 operand"});
  refuse(graph("%r = reduce sum %x, %y, axes = [1] : tensor<2xf32>"), ErrorCode::ResultCount, {"2 operands", "not 1"});
  refuse(graph("%r, %q = reduce sum %x, %y, axes = [1] : tensor<2xf32>, tensor<2xf32>"), ErrorCode::OperandCount,
         {"sum takes 1 operand, not 2"});
  refuse(kernel("%z = constant 0 : index\nfor %z, %z {\n^(%k: index):\nyield\n}"), ErrorCode::OperandCount,
         {"`for` takes at least 3 operands"});
  refuse(kernel("%z = constant 0 : index\n%t = load %x, %z : tile<4x4xf32>"), ErrorCode::OperandCount,
         {"one index for each axis of %x: buffer<NxMxf32>", "2 indices, not 1"});
}

TEST(VerifierRefuses, ResultCount) {
  refuse(graph("%r, %q = add %x, %y : tensor<2x3xf32>, tensor<2x3xf32>"), ErrorCode::ResultCount, {"`add` gives 1 result, not 2"});
  refuse(graph("add %x, %y"), ErrorCode::ResultCount, {"not 0"});
  refuse(kernel("%a, %b = program_id grid = [N] : index, index"), ErrorCode::ResultCount, {"grid of 1 axis", "not 2"});
}

TEST(VerifierRefuses, ElementwiseTypes) {
  refuse(graph("%r = add %x, %y : tensor<3x2xf32>"), ErrorCode::TypeMismatch,
         {"`add`: expected tensor<2x3xf32>, stated tensor<3x2xf32>"}, "tensor<2x3xf32>");
  refuse(graph("%r = add %x, %v : tensor<2x3xf32>"), ErrorCode::ShapeMismatch,
         {"`add` needs operands of one shape", "%x: tensor<2x3xf32>", "%v: tensor<3xf32>"},
         "broadcast %v, dims = [1] : tensor<2x3xf32>");
  refuse(graph("%r = add %v, %x : tensor<2x3xf32>"), ErrorCode::ShapeMismatch, {"%v: tensor<3xf32>"}, "broadcast %v, dims = [1]");
  refuse(graph("%r = add %x, %n : tensor<2x3xf32>"), ErrorCode::ShapeMismatch, {"%n: tensor<NxMxf32>"});
  refuse(graph("%r = add %x, %h : tensor<2x3xf32>"), ErrorCode::OperandType, {"one element type", "%h: tensor<2x3xf16>"},
         "convert %h : tensor<2x3xf32>");
  refuse(graph("%r = compare lt %x, %y : tensor<2x3xf32>"), ErrorCode::TypeMismatch, {"expected tensor<2x3xi1>"});
  refuse(graph("%r = select %b, %x, %i : tensor<2x3xf32>"), ErrorCode::OperandType, {"%x: tensor<2x3xf32>", "%i: tensor<2x3xi32>"});
  refuse(graph("%r = select %b, %v, %v : tensor<3xf32>"), ErrorCode::ShapeMismatch, {"%b: tensor<2x3xi1>", "%v: tensor<3xf32>"});
  refuse(graph("%r = convert %x : tensor<3x2xf16>"), ErrorCode::TypeMismatch, {"expected tensor<2x3xf16>"});
  refuse(kernel("%r = neg %v : tile<4xf32>"), ErrorCode::OperandType, {"not memory", "%v: buffer<Mxf32>"}, "load");
  refuse(kernel("%a = constant 1.0 : tile<4xf32>\n%z = constant 1 : index\n%r = mul %a, %z : tile<4xf32>"), ErrorCode::OperandType,
         {"only scalars, only tensors or only tiles", "%a: tile<4xf32>", "%z: index"});
}

TEST(VerifierRefuses, ElementTypes) {
  refuse(graph("%r = exp %i : tensor<2x3xi32>"), ErrorCode::UnsupportedDType,
         {"`exp` does not support i32 (%i: tensor<2x3xi32>), only f64, f32, f16, bf16"}, "convert %i to f32");
  refuse(graph("%r = reduce max %b, axes = [1] : tensor<2xi1>"), ErrorCode::UnsupportedDType, {"i1"});
  refuse(graph("%r = constant 1 : tensor<2xindex>"), ErrorCode::UnsupportedDType, {"tensor<2xindex> cannot be"});
  refuse(kernel("%a = constant 1.0 : tile<4xf32>\n%r = bitcast %a : tile<4xi64>"), ErrorCode::UnsupportedDType,
         {"cannot turn tile<4xf32> into tile<4xi64>", "one size"});
  refuse(kernel("%a = constant 1 : tile<4xi1>\n%r = convert %a : tile<4xindex>"), ErrorCode::UnsupportedDType,
         {"tile<4xindex> cannot be"});
}

TEST(VerifierRefuses, ValuesOfOtherLevels) {
  refuse(graph("%r = constant 1.0 : f32"), ErrorCode::TypeMismatch, {"at the graph level: expected a tensor, stated f32"});
  refuse(kernel("%r = constant 1.0 : f32"), ErrorCode::TypeMismatch, {"scalars of kernels are index or i1"});
  refuse(kernel("%r = constant 1.0 : tensor<2xf32>"), ErrorCode::TypeMismatch, {"stated tensor<2xf32>"});
  refuse("graph @g(%x: buffer<2xf32>) -> (y: tensor<2xf32>) {\n  %y = constant 0.0 : tensor<2xf32>\n  return %y\n}",
         ErrorCode::OperandType, {"parameter %x of graph @g must be a tensor, not buffer<2xf32>"});
  refuse("kernel @k(%x: f32) at tile {\n  return\n}", ErrorCode::OperandType, {"must be a buffer, not f32"});
}

TEST(VerifierRefuses, Attributes) {
  refuse(graph("%r = transpose %x : tensor<3x2xf32>"), ErrorCode::MissingAttribute, {"`transpose` needs `perm`"});
  refuse(graph("%r = transpose %x, perm = 1 : tensor<3x2xf32>"), ErrorCode::BadAttribute,
         {"`perm` of `transpose` must be a list of integers, not 1"});
  refuse(graph("%r = reduce sum %x, axes = [N] : tensor<2xf32>"), ErrorCode::BadAttribute, {"must be a list of integers, not [N]"});
  refuse(graph("%r = broadcast %v : tensor<2x3xf32>"), ErrorCode::MissingAttribute, {"`broadcast` on tensors needs `dims`"});
  refuse(graph("%r = broadcast %v, dims = [0, 1] : tensor<2x3xf32>"), ErrorCode::BadAttribute,
         {"[0, 1]", "%v: tensor<3xf32> has 1 axis"});
  refuse(kernel("%i = program_id grid = [-4] : index"), ErrorCode::BadAttribute, {"a list of sizes", "not [-4]"});
  refuse(kernel("%i = program_id grid = max : index"), ErrorCode::BadAttribute, {"not max"});
  refuse(graph("%r = reduce sum %x, axes = [1], over = reg : tensor<2xf32>"), ErrorCode::BadAttribute,
         {"`over` at the machine level only"});
  refuse(graph("%r = reduce sum %x, axes = [1], padding = unchecked : tensor<2xf32>"), ErrorCode::BadAttribute,
         {"`padding` from the masked level on", "graph"});
  refuse(graph("%r = reduce sum %x, axes = [1], init = [0.0] : tensor<2xf32>"), ErrorCode::BadAttribute,
         {"`init`", "sum has its own"});
  refuse(kernel("%z = constant 0 : index\n%t = load %x, %z, %z, mask = [0] : tile<4x4xf32>"), ErrorCode::BadAttribute,
         {"`mask` from the masked level on"});
  refuse(kernel("%z = constant 0 : index\n%t = load %x, %z, %z, vec = 4, mask = [] : tile<4x4xf32>", "masked"),
         ErrorCode::BadAttribute, {"`vec` at the machine level only"});
  refuse(kernel("%z = constant 0 : index\n%t = load %x, %z, %z, mask = [], fill = 0.0 : tile<4x4xf32>", "masked"),
         ErrorCode::BadAttribute, {"`fill` but no masked axis"});
  refuse(kernel("%z = constant 0 : index\n%t = load %x, %z, %z : tile<4x4xf32>", "masked"), ErrorCode::MissingAttribute,
         {"needs `mask`"}, "mask = []");
}

TEST(VerifierRefuses, UnknownAttributesAndWords) {
  // The parser knows the rows too, so these are built.
  Context context;
  Module module(context);
  Function *g = module.addFunction(FunctionKind::Graph, Level::Graph, "g");
  Type type = context.tensor(DType::F32, {2}), bools = context.tensor(DType::I1, {2});
  Value *x = g->body().addArgument(type, "x");
  g->resultTypes = {type};
  g->resultNames = {"y"};
  Builder builder(g->body());
  builder.create(OpKind::Compare, {x, x}, {bools}, {{"predicate", Attribute::word("lte")}});
  builder.create(OpKind::Reshape, {x}, {type}, {{"shape", Attribute(2)}});
  builder.create(OpKind::Reduce, {x}, {context.tensor(DType::F32, {})},
                 {{"combiner", Attribute::word("sum")}, {"axes", Attribute::ints({0})}, {"axis", Attribute(0)}});
  builder.create(OpKind::Return, {x}, {});
  Diagnostics list = verify(module);
  ASSERT_EQ(list.size(), 3u) << text(list);
  EXPECT_EQ(list[0].code, ErrorCode::BadAttribute);
  EXPECT_EQ(list[0].message, "`predicate` of `compare` must be one of eq, ne, lt, le, gt or ge, not lte");
  EXPECT_EQ(list[1].code, ErrorCode::UnknownAttribute);
  EXPECT_EQ(list[1].message, "`reshape` has no attribute `shape`");
  EXPECT_EQ(list[2].code, ErrorCode::UnknownAttribute);
  EXPECT_EQ(list[2].fix, "did you mean `axes`?");
}

TEST(VerifierRefuses, Axes) {
  refuse(graph("%r = broadcast %v, dims = [2] : tensor<2x3xf32>"), ErrorCode::BadAxis, {"`dims` of `broadcast` is [2]", "0 to 1"});
  refuse(graph("%r = broadcast %x, dims = [1, 0] : tensor<3x2xf32>"), ErrorCode::BadAxis, {"ascend"});
  refuse(kernel("%z = constant 0 : index\n%t = load %x, %z, %z, dims = [0, 0] : tile<4x1xf32>"), ErrorCode::BadAxis,
         {"`dims` of `load`", "twice"});
  refuse(kernel("%z = constant 0 : index\n%t = load %v, %z, dims = [1], mask = [0] : tile<1x4xf32>", "masked"), ErrorCode::BadAxis,
         {"`mask` of `load` is [0]", "no axis of %v: buffer<Mxf32> is tile axis 0"});
  refuse(kernel("%z = constant 0 : index\n%t = in_bounds %z, axis = 2, size = M : tile<1x4xi1>"), ErrorCode::BadAxis,
         {"`axis` of `in_bounds` is 2"});
}

TEST(VerifierRefuses, Shapes) {
  refuse(graph("%r = broadcast %v, dims = [0] : tensor<2x3xf32>"), ErrorCode::ShapeMismatch,
         {"axis 0 of %v: tensor<3xf32> (size 3)", "axis 0 of tensor<2x3xf32> (size 2)"});
  refuse(kernel("%z = constant 0 : index\n%t = load %x, %z, %z : tile<4xf32>"), ErrorCode::ShapeMismatch,
         {"one rank, or `dims`", "%x: buffer<NxMxf32>", "tile<4xf32>"}, "dims");
  refuse(kernel("%z = constant 0 : index\n%t = load %v, %z, dims = [1] : tile<4x4xf32>"), ErrorCode::ShapeMismatch,
         {"tile axis 0 is no axis of the buffer, so its extent must be 1"});
  refuse(kernel("%z = constant 0 : index\n%t = in_bounds %z, axis = 1, size = M : tile<4x4xi1>"), ErrorCode::ShapeMismatch,
         {"extent 1"});
  refuse(kernel("%a = constant 0.0 : tile<4x1xf32>\n%b = broadcast %a : tile<8x8xf32>"), ErrorCode::ShapeMismatch,
         {"tile<8x8xf32>", "%a: tile<4x1xf32>"});
  refuse(kernel("%a = constant 0.0 : tile<4x1xf32>\n%b = broadcast %a, dims = [0, 1] : tile<4x8xf32>"), ErrorCode::BadAttribute,
         {"on tiles takes no `dims`"});
  refuse("plan @p(%x: buffer<4xf32>) -> (y: buffer<5xf32>) {\n  %y = view %x : buffer<5xf32>\n  return %y\n}",
         ErrorCode::ShapeMismatch, {"`view` takes more bytes than there are: %x: buffer<4xf32> has 16, buffer<5xf32> takes 20"});
  refuse("plan @p(%x: buffer<Nxf16>) -> (y: buffer<Nxf32>) {\n  %y = view %x : buffer<Nxf32>\n  return %y\n}",
         ErrorCode::ShapeMismatch, {"2*N", "4*N"});
}

TEST(VerifierRefuses, Dims) {
  refuse("graph @g(%x: tensor<2xf32>) -> (y: tensor<2xf32>) {\n  %c = constant 0.0 : tensor<2xf32>\n  return %c\n}\n" +
             kernel("%c = constant 0.0 : tile<4x0xf32>"),
         ErrorCode::BadDim, {"extent 0 of tile<4x0xf32> is not a positive integer"});
  refuse(kernel("%c = constant 0.0 : tile<4096x4096xf32>"), ErrorCode::BadDim, {"more than 1048576 elements"});
  refuse(machineKernel("%s = alloc_shared : smem<4x8xf32, strides = [4, 1]>"), ErrorCode::BadDim,
         {"strides", "two elements in one place"});
}

TEST(VerifierRefuses, Regions) {
  refuse(graph("%r = add %x, %y { yield } : tensor<2x3xf32>"), ErrorCode::BadRegion, {"`add` takes no region, not 1"});
  refuse(graph("%r = reduce %x, axes = [1] : tensor<2xf32>"), ErrorCode::BadRegion, {"needs a combiner"});
  std::string combine = "{\n^(%a: f32, %b2: f32):\n%c = add %a, %b2 : f32\nyield %c\n} : tensor<2xf32>";
  refuse(graph("%r = reduce sum %x, axes = [1] " + combine), ErrorCode::BadRegion, {"not both"});
  refuse(graph("%r = reduce %x, axes = [1] " + combine), ErrorCode::MissingAttribute, {"needs `init`"});
  refuse(graph("%r = reduce %x, axes = [1], init = [0.0, 0.0] " + combine), ErrorCode::BadAttribute,
         {"1 operand", "`init` has 2 numbers"});
  refuse(graph("%r = reduce %h, axes = [1], init = [0.0] {\n^(%a: f16, %b2: f16):\nyield %a\n} : tensor<2xf16>"),
         ErrorCode::BadRegion, {"arguments (f32, f32)", "it has (f16, f16)"});
  refuse(graph("%r = reduce %x, axes = [1], init = [0.0] {\n^(%a: f32, %b2: f32):\nyield\n} : tensor<2xf32>"), ErrorCode::BadRegion,
         {"`yield` gives 0 values, but `reduce` needs 1"});
  refuse(graph("%r = reduce %x, axes = [1], init = [0.0] {\n^(%a: f32, %b2: f32):\n%c = compare lt %a, %b2 : i1\nyield %c\n} : "
               "tensor<2xf32>"),
         ErrorCode::BadRegion, {"`yield` gives %c: i1", "needs f32 there"});
  refuse(kernel("%z = constant 0 : index\nfor %z, %z, %z {\n^(%k: f32):\nyield\n}"), ErrorCode::BadConstant,
         {"step greater than 0"});
  refuse(kernel("%z = constant 0 : index\n%o = constant 1 : index\nfor %z, %z, %o {\n^(%k: i1):\nyield\n}"), ErrorCode::BadRegion,
         {"the first an index", "the first i1"});
  std::string loop =
      "%z = constant 0 : index\n%o = constant 1 : index\n%t = constant 0.0 : tile<4xf32>\n%r = for %z, %z, %o, %t {\n";
  refuse(kernel(loop + "^(%k: index, %a: tile<8xf32>):\nyield %t\n} : tile<4xf32>"), ErrorCode::BadRegion,
         {"argument 1", "tile<8xf32>", "%t: tile<4xf32>"}, "tile<4xf32>");
  refuse(kernel(loop + "^(%k: index, %a: tile<4xf32>):\nyield %k\n} : tile<4xf32>"), ErrorCode::BadRegion,
         {"%k: index", "needs tile<4xf32>"});
}

TEST(VerifierRefuses, Fusions) {
  auto fused = [](const std::string &head, const std::string &body) {
    return "graph @g(%x: tensor<2xf32>) -> (y: tensor<2xf32>) at fused {\n  %y = fusion " + head + " {\n" + body +
           "\n} : tensor<2xf32>\n  return %y\n}";
  };
  refuse(fused("%x", "^(%a: tensor<3xf32>):\n%c = constant 0.0 : tensor<2xf32>\nyield %c"), ErrorCode::BadRegion,
         {"argument 0", "tensor<3xf32>", "%x: tensor<2xf32>"});
  refuse(fused("%x", "^():\n%c = constant 0.0 : tensor<2xf32>\nyield %c"), ErrorCode::BadRegion,
         {"1 operand but its region 0 arguments"});
  refuse(fused("%x", "^(%a: tensor<2xf32>):\n%c = neg %x : tensor<2xf32>\nyield %c"), ErrorCode::BadStructure,
         {"%x of `neg` is defined outside the region of `fusion`"}, "operand of `fusion`");
  refuse(fused("%x", "^(%a: tensor<2xf32>):\n%c = constant 0.0 : tensor<3xf32>\nyield %c"), ErrorCode::BadRegion,
         {"`yield` gives %c: tensor<3xf32>", "needs tensor<2xf32>"});
  refuse(fused("%x", "^(%a: tensor<2xf32>):\n%c = fusion %a {\n^(%d: tensor<2xf32>):\nyield %d\n} : tensor<2xf32>\nyield %c"),
         ErrorCode::BadStructure, {"`fusion` stands inside the region of `fusion`"});
}

TEST(VerifierRefuses, Constants) {
  // What does not fit its type is refused by the parser; shapes are not its business.
  refuse(graph("%c = constant [[1, 2], [3, 4]] : tensor<2x3xf32>"), ErrorCode::BadConstant,
         {"`constant` of tensor<2x3xf32>", "axis 1 has 2 entries, not 3"});
  refuse(graph("%c = constant [1, 2] : tensor<2x3xf32>"), ErrorCode::BadConstant, {"stands where a list along axis 1"});
  refuse(graph("%c = constant [[[1]]] : tensor<1x1xf32>"), ErrorCode::BadConstant, {"nested deeper than its 2 axes"});
  refuse(graph("%c = constant [1] : tensor<Nxf32>"), ErrorCode::BadConstant, {"integer sizes"}, "one number");
  refuse(kernel("%c = constant [1] : tile<1xf32>"), ErrorCode::BadConstant, {"a list is a value of tensors"});

  Context context;
  Module module(context);
  Function *k = module.addFunction(FunctionKind::Kernel, Level::Tile, "k");
  Builder builder(k->body());
  int64_t one[] = {1};
  builder.create(OpKind::Constant, {}, {context.tile(DType::F16, one)}, {{"value", Attribute(65520.0)}});
  builder.create(OpKind::Constant, {}, {context.tile(DType::I32, one)}, {{"value", Attribute(int64_t(1) << 31)}});
  builder.create(OpKind::Constant, {}, {context.tile(DType::I32, one)}, {{"value", Attribute(1.0)}});
  builder.create(OpKind::Constant, {}, {context.tile(DType::I1, one)}, {{"value", Attribute(2)}});
  builder.create(OpKind::Constant, {}, {context.tile(DType::F16, one)}, {{"value", Attribute(65504.0)}});
  builder.create(OpKind::Constant, {}, {context.tile(DType::F16, one)}, {{"value", Attribute(7)}});
  builder.create(OpKind::Return, {}, {});
  Diagnostics list = verify(module);
  ASSERT_EQ(list.size(), 4u) << text(list);
  for (const Diagnostic &d : list)
    EXPECT_EQ(d.code, ErrorCode::BadConstant);
  EXPECT_NE(list[0].message.find("is no value of f16"), std::string::npos) << list[0].message;
}

TEST(VerifierRefuses, Returns) {
  refuse(graph("", "tensor<2x3xf32>", "%v"), ErrorCode::ReturnMismatch,
         {"result `out` of graph @g is tensor<2x3xf32>, but `return` gives %v: tensor<3xf32>"});
  refuse(graph("", "tensor<2x3xf32>", "%x, %y"), ErrorCode::ReturnMismatch, {"gives 2 values, but graph @g has 1 result"});
  refuse("kernel @k(%x: buffer<2xf32>) at tile {\n  return %x\n}", ErrorCode::ReturnMismatch, {"kernel @k returns nothing"});
  Diagnostics list = findings("graph @g(%x: tensor<2xf32>) -> (y: buffer<2xf32>) {\n  return %x\n}");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].code, ErrorCode::ReturnMismatch);
  EXPECT_EQ(list[0].message, "result `y` of graph @g must be a tensor, not buffer<2xf32>");
}

} // namespace
