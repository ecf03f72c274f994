// The text that builder calls make, what goes wrong with them, and how long handles live. Expected texts are written by hand after
// docs/ir-reference.md and must load.
#include "minic/Driver/Graph.h"
#include "minic/Driver/Driver.h"

#include "minic/Compiler/Compiler.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace minic::test {
namespace {

/// The text of a graph without errors, which loads.
std::string textOf(const Graph &graph) {
  Diagnostics errors = graph.errors();
  EXPECT_EQ(renderDiagnostics(errors, nullptr), "");
  SourceBuffer source("graph", graph.text());
  Context context;
  auto module = loadModule(context, source, {});
  if (!module)
    ADD_FAILURE() << renderDiagnostics(module.errors(), &source) << graph.text();
  return graph.text();
}

/// The operations of a graph with inputs x: MxN and y: N of f32, i: N of i32, c: MxN of i1, and one output.
struct Inputs {
  Graph graph{"g"};
  Tensor x = graph.input("x", DType::F32, {"M", "N"}), y = graph.input("y", DType::F32, {"N"});
  Tensor i = graph.input("i", DType::I32, {"N"}), c = graph.input("c", DType::I1, {"M", "N"});

  std::string ops(const Tensor &result) {
    graph.output("r", result);
    std::string text = textOf(graph), head = text.substr(0, text.find('\n') + 1);
    EXPECT_TRUE(
        head.starts_with("graph @g(%x: tensor<MxNxf32>, %y: tensor<Nxf32>, %i: tensor<Nxi32>, %c: tensor<MxNxi1>) -> (r: tensor<"))
        << head;
    size_t end = text.rfind("  return");
    return text.substr(head.size(), end - head.size());
  }
};

struct OpCase {
  const char *name;
  std::function<Tensor(Inputs &)> make;
  const char *text;
};

TEST(GraphTest, TextOfEachCall) {
  const OpCase cases[] = {
      {"neg", [](Inputs &in) { return -in.x; }, "  %0 = neg %x : tensor<MxNxf32>\n"},
      {"exp", [](Inputs &in) { return exp(in.x); }, "  %0 = exp %x : tensor<MxNxf32>\n"},
      {"log", [](Inputs &in) { return log(in.x); }, "  %0 = log %x : tensor<MxNxf32>\n"},
      {"exp2", [](Inputs &in) { return exp2(in.x); }, "  %0 = exp2 %x : tensor<MxNxf32>\n"},
      {"log2", [](Inputs &in) { return log2(in.x); }, "  %0 = log2 %x : tensor<MxNxf32>\n"},
      {"expm1", [](Inputs &in) { return expm1(in.x); }, "  %0 = expm1 %x : tensor<MxNxf32>\n"},
      {"log1p", [](Inputs &in) { return log1p(in.x); }, "  %0 = log1p %x : tensor<MxNxf32>\n"},
      {"sin", [](Inputs &in) { return sin(in.x); }, "  %0 = sin %x : tensor<MxNxf32>\n"},
      {"cos", [](Inputs &in) { return cos(in.x); }, "  %0 = cos %x : tensor<MxNxf32>\n"},
      {"erf", [](Inputs &in) { return erf(in.x); }, "  %0 = erf %x : tensor<MxNxf32>\n"},
      {"tanh", [](Inputs &in) { return tanh(in.x); }, "  %0 = tanh %x : tensor<MxNxf32>\n"},
      {"sigmoid", [](Inputs &in) { return sigmoid(in.x); }, "  %0 = sigmoid %x : tensor<MxNxf32>\n"},
      {"silu", [](Inputs &in) { return silu(in.x); }, "  %0 = silu %x : tensor<MxNxf32>\n"},
      {"gelu", [](Inputs &in) { return gelu(in.x); }, "  %0 = gelu %x : tensor<MxNxf32>\n"},
      {"gelu_tanh", [](Inputs &in) { return geluTanh(in.x); }, "  %0 = gelu_tanh %x : tensor<MxNxf32>\n"},
      {"pow", [](Inputs &in) { return pow(in.x, in.x); }, "  %0 = pow %x, %x : tensor<MxNxf32>\n"},
      {"sqrt", [](Inputs &in) { return sqrt(in.x); }, "  %0 = sqrt %x : tensor<MxNxf32>\n"},
      {"rsqrt", [](Inputs &in) { return rsqrt(in.x); }, "  %0 = rsqrt %x : tensor<MxNxf32>\n"},
      {"relu", [](Inputs &in) { return relu(in.x); }, "  %0 = relu %x : tensor<MxNxf32>\n"},
      {"add", [](Inputs &in) { return in.x + in.x; }, "  %0 = add %x, %x : tensor<MxNxf32>\n"},
      {"sub", [](Inputs &in) { return in.y - in.y; }, "  %0 = sub %y, %y : tensor<Nxf32>\n"},
      {"mul", [](Inputs &in) { return in.i * in.i; }, "  %0 = mul %i, %i : tensor<Nxi32>\n"},
      {"div", [](Inputs &in) { return in.x / in.x; }, "  %0 = div %x, %x : tensor<MxNxf32>\n"},
      {"max", [](Inputs &in) { return max(in.x, in.x); }, "  %0 = max %x, %x : tensor<MxNxf32>\n"},
      {"min", [](Inputs &in) { return min(in.x, in.x); }, "  %0 = min %x, %x : tensor<MxNxf32>\n"},
      {"and", [](Inputs &in) { return in.c & in.c; }, "  %0 = and %c, %c : tensor<MxNxi1>\n"},
      {"or", [](Inputs &in) { return in.c | in.c; }, "  %0 = or %c, %c : tensor<MxNxi1>\n"},
      {"xor", [](Inputs &in) { return in.i ^ in.i; }, "  %0 = xor %i, %i : tensor<Nxi32>\n"},
      {"not", [](Inputs &in) { return ~in.c; }, "  %0 = not %c : tensor<MxNxi1>\n"},
      {"rem", [](Inputs &in) { return in.i % in.i; }, "  %0 = rem %i, %i : tensor<Nxi32>\n"},
      {"shl", [](Inputs &in) { return in.i << in.i; }, "  %0 = shl %i, %i : tensor<Nxi32>\n"},
      {"shr_s", [](Inputs &in) { return in.i >> in.i; }, "  %0 = shr_s %i, %i : tensor<Nxi32>\n"},
      {"abs", [](Inputs &in) { return abs(in.x); }, "  %0 = abs %x : tensor<MxNxf32>\n"},
      {"sign", [](Inputs &in) { return sign(in.x); }, "  %0 = sign %x : tensor<MxNxf32>\n"},
      {"floor", [](Inputs &in) { return floor(in.x); }, "  %0 = floor %x : tensor<MxNxf32>\n"},
      {"ceil", [](Inputs &in) { return ceil(in.x); }, "  %0 = ceil %x : tensor<MxNxf32>\n"},
      {"round", [](Inputs &in) { return round(in.x); }, "  %0 = round %x : tensor<MxNxf32>\n"},
      {"clamp", [](Inputs &in) { return clamp(in.x, in.x, in.x); }, "  %0 = clamp %x, %x, %x : tensor<MxNxf32>\n"},
      {"eq", [](Inputs &in) { return in.x == in.x; }, "  %0 = compare eq %x, %x : tensor<MxNxi1>\n"},
      {"ne", [](Inputs &in) { return in.x != in.x; }, "  %0 = compare ne %x, %x : tensor<MxNxi1>\n"},
      {"lt", [](Inputs &in) { return in.x < in.x; }, "  %0 = compare lt %x, %x : tensor<MxNxi1>\n"},
      {"le", [](Inputs &in) { return in.x <= in.x; }, "  %0 = compare le %x, %x : tensor<MxNxi1>\n"},
      {"gt", [](Inputs &in) { return in.x > in.x; }, "  %0 = compare gt %x, %x : tensor<MxNxi1>\n"},
      {"ge", [](Inputs &in) { return in.x >= in.x; }, "  %0 = compare ge %x, %x : tensor<MxNxi1>\n"},
      {"select", [](Inputs &in) { return select(in.c, in.x, in.x); }, "  %0 = select %c, %x, %x : tensor<MxNxf32>\n"},
      {"convert", [](Inputs &in) { return convert(in.x, DType::BF16); }, "  %0 = convert %x : tensor<MxNxbf16>\n"},
      {"convert to its own type", [](Inputs &in) { return convert(in.x, DType::F32); }, ""},
      {"constant", [](Inputs &in) { return in.graph.constant(2, DType::F32, {"M", 3}); },
       "  %0 = constant 2.0 : tensor<Mx3xf32>\n"},
      {"constant without axes", [](Inputs &in) { return in.graph.constant(0.1, DType::F32); },
       "  %0 = constant 0.1 : tensor<f32>\n"},
      {"broadcast", [](Inputs &in) { return broadcast(in.y, {"N", 4}, {{0}}); },
       "  %0 = broadcast %y, dims = [0] : tensor<Nx4xf32>\n"},
      {"broadcast at the end", [](Inputs &in) { return broadcast(in.y, {4, "M", "N"}); },
       "  %0 = broadcast %y, dims = [2] : tensor<4xMxNxf32>\n"},
      {"reshape", [](Inputs &in) { return reshape(in.x, {"M*N"}); }, "  %0 = reshape %x : tensor<(M*N)xf32>\n"},
      {"transpose", [](Inputs &in) { return transpose(in.x, {{1, 0}}); }, "  %0 = transpose %x, perm = [1, 0] : tensor<NxMxf32>\n"},
      {"transpose by default", [](Inputs &in) { return transpose(in.x); },
       "  %0 = transpose %x, perm = [1, 0] : tensor<NxMxf32>\n"},
      {"matmul", [](Inputs &in) { return matmul(in.x, transpose(in.x)); },
       "  %0 = transpose %x, perm = [1, 0] : tensor<NxMxf32>\n  %1 = matmul %x, %0 : tensor<MxMxf32>\n"},
      {"sum", [](Inputs &in) { return sum(in.x, 1); }, "  %0 = reduce sum %x, axes = [1] : tensor<Mxf32>\n"},
      {"sum over all", [](Inputs &in) { return sum(in.x, {1, 0}); }, "  %0 = reduce sum %x, axes = [0, 1] : tensor<f32>\n"},
      {"amax from the end", [](Inputs &in) { return amax(in.x, -2); }, "  %0 = reduce max %x, axes = [0] : tensor<Nxf32>\n"},
      {"amin, axes kept", [](Inputs &in) { return amin(in.x, -1, true); },
       "  %0 = reduce min %x, axes = [1] : tensor<Mxf32>\n  %1 = broadcast %0, dims = [0] : tensor<Mx1xf32>\n"},
  };
  for (const OpCase &c : cases) {
    SCOPED_TRACE(c.name);
    Inputs in;
    EXPECT_EQ(in.ops(c.make(in)), c.text);
  }
}

TEST(GraphTest, EveryElementwiseRowOfGraphs) {
  // Rows come without a line here: all that stand at the graph level, on the first element type that they support.
  for (const OpInfo &info : allOps()) {
    if (!info.elementwise || !(info.levels & levelBit(0)) || info.typeRule == TypeRule::Convert)
      continue;
    SCOPED_TRACE(info.name);
    Graph graph("g");
    size_t count = 1 + size_t(std::count(info.operands.begin(), info.operands.end(), ','));
    DType dtype = info.dtypes.contains(DType::F32) ? DType::F32 : info.dtypes.contains(DType::I32) ? DType::I32 : DType::I1;
    Tensor x = graph.input("x", dtype, {"N"});
    graph.output("r", elementwise(info.kind, std::vector<Operand>(count, Operand(x)), info.word ? info.word->words[0] : ""));
    EXPECT_NE(textOf(graph).find(" = " + std::string(info.name) + " "), std::string::npos);
  }
}

TEST(GraphTest, NumbersBecomeConstants) {
  Inputs in;
  Tensor r = 1 - max(in.x * 0.1, 0);
  EXPECT_EQ(in.ops(r), "  %0 = constant 0.1 : tensor<MxNxf32>\n"
                       "  %1 = mul %x, %0 : tensor<MxNxf32>\n"
                       "  %2 = constant 0.0 : tensor<MxNxf32>\n"
                       "  %3 = max %1, %2 : tensor<MxNxf32>\n"
                       "  %4 = constant 1.0 : tensor<MxNxf32>\n"
                       "  %5 = sub %4, %3 : tensor<MxNxf32>\n");
  Inputs integers;
  EXPECT_EQ(integers.ops(select(integers.i < 3, integers.i, -7)), "  %0 = constant 3 : tensor<Nxi32>\n"
                                                                  "  %1 = compare lt %i, %0 : tensor<Nxi1>\n"
                                                                  "  %2 = constant -7 : tensor<Nxi32>\n"
                                                                  "  %3 = select %1, %i, %2 : tensor<Nxi32>\n");
  Inputs choice;
  EXPECT_EQ(choice.ops(select(true, choice.y, 0)), "  %0 = constant true : tensor<Nxi1>\n"
                                                   "  %1 = constant 0.0 : tensor<Nxf32>\n"
                                                   "  %2 = select %0, %y, %1 : tensor<Nxf32>\n");
  Inputs truth;
  EXPECT_EQ(truth.ops(truth.c ^ true), "  %0 = constant true : tensor<MxNxi1>\n  %1 = xor %c, %0 : tensor<MxNxi1>\n");
}

TEST(GraphTest, OperandsBroadcastAsInNumPy) {
  Inputs in;
  EXPECT_EQ(in.ops(in.x + in.y), "  %0 = broadcast %y, dims = [1] : tensor<MxNxf32>\n  %1 = add %x, %0 : tensor<MxNxf32>\n");
  Inputs left;
  EXPECT_EQ(left.ops(left.y - left.x), "  %0 = broadcast %y, dims = [1] : tensor<MxNxf32>\n  %1 = sub %0, %x : tensor<MxNxf32>\n");

  Graph both("g"); // Each repeats along an axis of the other.
  Tensor a = both.input("a", DType::F32, {"M", 1}), b = both.input("b", DType::F32, {4, 1, "N"});
  both.output("r", a * b);
  EXPECT_EQ(textOf(both), "graph @g(%a: tensor<Mx1xf32>, %b: tensor<4x1xNxf32>) -> (r: tensor<4xMxNxf32>) {\n"
                          "  %0 = broadcast %a, dims = [1, 2] : tensor<4xMxNxf32>\n"
                          "  %1 = broadcast %b, dims = [0, 1, 2] : tensor<4xMxNxf32>\n"
                          "  %2 = mul %0, %1 : tensor<4xMxNxf32>\n"
                          "  return %2\n}\n");

  Graph batch("g"); // One weight for all of a batch.
  Tensor x = batch.input("x", DType::F16, {"B", "N", 8}), w = batch.input("w", DType::F16, {8, 16});
  batch.output("r", matmul(x, w, DType::F32));
  EXPECT_EQ(textOf(batch), "graph @g(%x: tensor<BxNx8xf16>, %w: tensor<8x16xf16>) -> (r: tensor<BxNx16xf32>) {\n"
                           "  %0 = matmul %x, %w : tensor<BxNx16xf32>\n"
                           "  return %0\n}\n");
}

TEST(GraphTest, Tables) {
  Graph graph("g");
  HostTensor table(DType::F32, {2, 3});
  fillIota(table);
  HostTensor mask(DType::I1, {2});
  mask.set(1, 1);
  graph.output("t", graph.constant(table));
  graph.output("m", graph.constant(mask));
  graph.output("none", graph.constant(HostTensor(DType::I32, {2, 0})));
  EXPECT_EQ(textOf(graph), "graph @g() -> (t: tensor<2x3xf32>, m: tensor<2xi1>, none: tensor<2x0xi32>) {\n"
                           "  %0 = constant [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] : tensor<2x3xf32>\n"
                           "  %1 = constant [false, true] : tensor<2xi1>\n"
                           "  %2 = constant [[], []] : tensor<2x0xi32>\n"
                           "  return %0, %1, %2\n}\n");
}

/// Text without comments and with values numbered, so that graphs compare by what they say.
std::string normalText(const std::string &text) {
  SourceBuffer source("test.ir", text);
  Context context;
  auto module = parseModule(context, source);
  if (!module)
    return renderDiagnostics(module.errors(), &source);
  Function &function = *(*module)->functions().front();
  for (Operation &op : function.body())
    for (Value *value : op.results())
      value->setName("");
  return printFunction(function);
}

std::string example(const std::string &name) {
  std::ifstream file(std::string(MINIC_EXAMPLES) + "/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(GraphTest, Examples) {
  Graph linear("linear_relu");
  Tensor x = linear.input("x", DType::F32, {"N", "K"}), w = linear.input("w", DType::F32, {"K", "M"});
  Tensor b = linear.input("b", DType::F32, {"M"});
  linear.output("y", max(matmul(x, w) + b, 0));
  EXPECT_EQ(textOf(linear), normalText(example("linear_relu.ir")));

  Graph rows("softmax");
  Tensor z = rows.input("x", DType::F32, {"M", "N"});
  Tensor e = exp(z - broadcast(amax(z, 1), {"M", "N"}, {{0}}));
  rows.output("y", e / broadcast(sum(e, 1), {"M", "N"}, {{0}}));
  EXPECT_EQ(textOf(rows), normalText(example("softmax.ir")));
}

TEST(GraphTest, ReadsAtOtherIndices) {
  auto opsOf = [](auto make) {
    Inputs in;
    return in.ops(make(in));
  };
  EXPECT_EQ(opsOf([](Inputs &in) { return slice(in.x, {0, 1}, {}, {2, 1}); }),
            "  %0 = slice %x, starts = [0, 1], steps = [2, 1] : tensor<(ceildiv(M, 2))x(N - 1)xf32>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return pad(in.y, {1}, {"K"}, 0.5); }),
            "  %0 = pad %y, low = [1], high = [K], value = 0.5 : tensor<(K + N + 1)xf32>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return concat({in.x, in.x}, -1); }), "  %0 = concat %x, %x, axis = 1 : tensor<Mx(2*N)xf32>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return gather(in.x, in.i, 1); }), "  %0 = gather %x, %i, axis = 1 : tensor<MxNxf32>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return iota(in.graph, DType::I64, {"M", 3}, -1); }), "  %0 = iota axis = 1 : tensor<Mx3xi64>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return cumsum(in.x); }), "  %0 = cumsum %x, axis = 1 : tensor<MxNxf32>\n");
}

TEST(GraphTest, Composites) {
  auto opsOf = [](auto make) {
    Inputs in;
    return in.ops(make(in));
  };
  EXPECT_EQ(opsOf([](Inputs &in) { return softmax(in.x); }), "  %0 = softmax %x, axis = 1 : tensor<MxNxf32>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return argmax(in.x, 0, DType::I32); }), "  %0 = argmax %x, axis = 0 : tensor<Nxi32>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return layerNorm({in.x, in.y, in.y}, -1); }),
            "  %0 = layernorm %x, %y, %y, axes = [1], eps = 1e-05 : tensor<MxNxf32>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return rmsNorm({in.x}, {0, 1}, 0); }),
            "  %0 = rmsnorm %x, axes = [0, 1], eps = 0.0 : tensor<MxNxf32>\n");
  EXPECT_EQ(opsOf([](Inputs &in) { return mean(in.x, 1); }), "  %0 = mean %x, axes = [1] : tensor<Mxf32>\n");
  Graph fixed("g");
  fixed.output("r", mean(fixed.input("x", DType::BF16, {2, "N", 300}), {0, -1}, true));
  EXPECT_EQ(textOf(fixed), "graph @g(%x: tensor<2xNx300xbf16>) -> (r: tensor<1xNx1xbf16>) {\n"
                           "  %0 = mean %x, axes = [0, 2] : tensor<Nxbf16>\n"
                           "  %1 = broadcast %0, dims = [1] : tensor<1xNx1xbf16>\n"
                           "  return %1\n}\n");
}

TEST(GraphTest, Combiners) {
  Graph graph("g");
  Tensor x = graph.input("x", DType::F16, {"M", "N"}), i = graph.input("i", DType::I32, {"M", "N"});
  std::vector<Tensor> best = reduce({x, i}, 1, {-INFINITY, 0}, [](std::span<const Tensor> v) -> std::vector<Tensor> {
    Tensor newer = v[2] > v[0];
    return {max(v[0], v[2]), select(newer, v[3], v[1]) * 1};
  });
  ASSERT_EQ(best.size(), 2u);
  graph.output("value", best[0]);
  graph.output("index", best[1]);
  EXPECT_EQ(textOf(graph), "graph @g(%x: tensor<MxNxf16>, %i: tensor<MxNxi32>) -> (value: tensor<Mxf16>, index: tensor<Mxi32>) {\n"
                           "  %9, %10 = reduce %x, %i, axes = [1], init = [-inf, 0] { ^(%0: f32, %1: i32, %2: f32, %3: i32):\n"
                           "    %4 = compare gt %2, %0 : i1\n"
                           "    %5 = max %0, %2 : f32\n"
                           "    %6 = select %4, %3, %1 : i32\n"
                           "    %7 = constant 1 : i32\n"
                           "    %8 = mul %6, %7 : i32\n"
                           "    yield %5, %8\n"
                           "  } : tensor<Mxf16>, tensor<Mxi32>\n"
                           "  return %9, %10\n}\n");
}

//===- Errors -===//

struct ErrorCase {
  const char *name;
  std::function<Tensor(Inputs &)> make;
  ErrorCode code;
  const char *message;
};

TEST(GraphTest, ErrorsNameOpAndShapes) {
  const ErrorCase cases[] = {
      {"shapes that do not fit", [](Inputs &in) { return in.x + in.graph.input("k", DType::F32, {"K"}); }, ErrorCode::ShapeMismatch,
       "`add` needs operands of one shape: %x: tensor<MxNxf32>, %k: tensor<Kxf32>"},
      {"element types", [](Inputs &in) { return in.y * in.i; }, ErrorCode::OperandType,
       "`mul` needs operands of one element type: %y: tensor<Nxf32>, %i: tensor<Nxi32>"},
      {"an op that has no such element type", [](Inputs &in) { return exp(in.i); }, ErrorCode::UnsupportedDType,
       "`exp` does not support i32 (%i: tensor<Nxi32>), only f64, f32, f16, bf16"},
      {"a number that is none of the type", [](Inputs &in) { return in.i + 0.5; }, ErrorCode::BadConstant,
       "`constant` of tensor<Nxi32>: 0.5 is no value of i32"},
      {"a number that is too large", [](Inputs &in) { return in.x + 1e39; }, ErrorCode::BadConstant,
       "`constant` of tensor<MxNxf32>: 1e+39 is no value of f32"},
      {"contracted sizes", [](Inputs &in) { return matmul(in.x, in.x); }, ErrorCode::ContractedMismatch,
       "`matmul` contracts the last axis of the left operand (size N) with the second last of the right one (size M), so these "
       "must "
       "be equal: %x: tensor<MxNxf32>, %x: tensor<MxNxf32>"},
      {"a product of a vector", [](Inputs &in) { return matmul(in.x, in.y); }, ErrorCode::ShapeMismatch,
       "`matmul` needs operands of rank 2 or more: %x: tensor<MxNxf32>, %y: tensor<Nxf32>"},
      {"a product with a number", [](Inputs &in) { return matmul(in.x, 2); }, ErrorCode::OperandType,
       "operand 1 of `matmul` is the number 2, not a tensor"},
      {"an axis that is none", [](Inputs &in) { return sum(in.x, 2); }, ErrorCode::BadAxis,
       "`axes` of `reduce` is [2], but the axes of %x: tensor<MxNxf32> are 0 to 1"},
      {"an axis before the first", [](Inputs &in) { return softmax(in.x, -3); }, ErrorCode::BadAxis,
       "`axis` of `softmax` is -3, which is no axis of %x: tensor<MxNxf32>"},
      {"an axis twice", [](Inputs &in) { return sum(in.x, {1, -1}); }, ErrorCode::BadAxis,
       "`axes` of `reduce` is [1, 1], but an axis may be named once, and 1 is named twice (of %x: tensor<MxNxf32>)"},
      {"a broadcast to fewer axes", [](Inputs &in) { return broadcast(in.x, {"N"}); }, ErrorCode::BadAxis,
       "`dims` of `broadcast` is [-1, 0], but the axes of tensor<Nxf32> are 0 to 0"},
      {"a reshape to another number of elements", [](Inputs &in) { return reshape(in.x, {"N"}); }, ErrorCode::BadReshape,
       "`reshape` must keep the number of elements: %x: tensor<MxNxf32> has M*N, tensor<Nxf32> has N"},
      {"a permutation that is none", [](Inputs &in) { return transpose(in.x, {{0, 0}}); }, ErrorCode::BadAxis,
       "`perm` of `transpose` is [0, 0], but an axis may be named once, and 0 is named twice (of %x: tensor<MxNxf32>)"},
      {"a size that is none", [](Inputs &in) { return broadcast(in.y, {"rows", "N"}); }, ErrorCode::BadDim,
       "`broadcast` is given 'rows', which is no size"},
      {"a negative size", [](Inputs &in) { return in.graph.input("n", DType::F32, {-1}); }, ErrorCode::BadDim,
       "parameter %n of graph @g: size -1 of tensor<-1xf32> is negative"},
      {"a size beyond 64 bits", [](Inputs &in) { return in.graph.constant(0, DType::F64, {int64_t(1) << 40, int64_t(1) << 40}); },
       ErrorCode::BadDim, "`constant`: tensor<1099511627776x1099511627776xf64> has more bytes than 64 bits can count"},
      {"an element type of kernels", [](Inputs &in) { return in.graph.input("n", DType::Index, {4}); }, ErrorCode::UnsupportedDType,
       "parameter %n of graph @g: tensor<4xindex> cannot be: `index` has no memory form; use i64"},
      {"an element type that is none", [](Inputs &in) { return convert(in.x, DType(77)); }, ErrorCode::UnknownType,
       "`convert` is given element type number 77, which is none"},
      {"numbers alone to choose from", [](Inputs &in) { return select(in.c, 1, 0); }, ErrorCode::OperandType,
       "`select` has numbers alone to choose from, which have no element type"},
      {"a condition that is no truth", [](Inputs &in) { return select(in.x, in.x, 0); }, ErrorCode::UnsupportedDType,
       "`select` does not support f32 (%x: tensor<MxNxf32>), only i1"},
      {"no tensor", [](Inputs &in) { return in.x + Tensor(); }, ErrorCode::OperandType,
       "operand 1 of `add` is no tensor of a graph"},
      {"two inputs of one name", [](Inputs &in) { return in.graph.input("x", DType::F32, {"N"}); }, ErrorCode::Redefinition,
       "two inputs are called 'x'"},
      {"an input without a name", [](Inputs &in) { return in.graph.input("", DType::F32, {"N"}); }, ErrorCode::UnexpectedToken,
       "an input cannot be called ''"},
      {"an op that is not element-wise", [](Inputs &in) { return elementwise(OpKind::Reshape, {in.x}); }, ErrorCode::UnknownOp,
       "`reshape` is no element-wise op"},
      {"an op of kernels", [](Inputs &in) { return elementwise(OpKind::Fma, {in.x, in.x, in.x}); }, ErrorCode::WrongLevel,
       "`fma` is not part of the graph level of graph @g; the levels that have it: tile, masked and machine"},
      {"too few operands", [](Inputs &in) { return elementwise(OpKind::Add, {in.x}); }, ErrorCode::OperandCount,
       "`add` takes 2 operands (lhs, rhs), not 1"},
      {"a relation that is none", [](Inputs &in) { return elementwise(OpKind::Compare, {in.x, in.x}, "near"); },
       ErrorCode::BadAttribute, "`predicate` of `compare` must be one of eq, ne, lt, le, gt or ge, not near"},
      {"a word where none belongs", [](Inputs &in) { return elementwise(OpKind::Log, {in.x}, "fast"); },
       ErrorCode::UnknownAttribute, "`log` has no attribute `word`"},
      {"a combiner of another type",
       [](Inputs &in) { return reduce({in.x}, 1, {0}, [](std::span<const Tensor> v) { return std::vector{v[0] > v[1]}; })[0]; },
       ErrorCode::BadRegion, "`yield` gives operand 0: i1 as value 0, but `reduce` needs f32 there"},
      {"a combiner that looks outside",
       [](Inputs &in) { return reduce({in.y}, 0, {0}, [&](std::span<const Tensor>) { return std::vector{in.x}; })[0]; },
       ErrorCode::BadStructure, "%x of `yield` is defined outside the region of `reduce`, which sees only its own values"},
      {"a combiner that gives too much",
       [](Inputs &in) { return reduce({in.y}, 0, {0}, [](std::span<const Tensor> v) { return std::vector{v[0], v[1]}; })[0]; },
       ErrorCode::BadRegion, "`yield` gives 2 values, but `reduce` needs 1"},
      {"a combiner that gives nothing",
       [](Inputs &in) { return reduce({in.x}, 1, {0}, [](std::span<const Tensor>) { return std::vector<Tensor>(); })[0]; },
       ErrorCode::BadRegion,
       "the combiner of `reduce` gives nothing; it must give what is accumulated next, one scalar per operand"},
      {"an identity that is no number",
       [](Inputs &in) { return reduce({in.x}, 1, {in.y}, [](std::span<const Tensor> v) { return std::vector{v[0] + v[1]}; })[0]; },
       ErrorCode::BadAttribute, "identity 0 of `reduce` is a tensor, not a number"},
      {"too few identities",
       [](Inputs &in) { return reduce({in.x}, 1, {}, [](std::span<const Tensor> v) { return std::vector{v[0] + v[1]}; })[0]; },
       ErrorCode::BadAttribute, "`reduce` has 1 operand but `init` has 0 numbers"},
  };
  for (const ErrorCase &c : cases) {
    SCOPED_TRACE(c.name);
    Inputs in;
    Tensor wrong = c.make(in);
    EXPECT_FALSE(wrong.isValid());
    in.graph.output("r", relu(wrong) + 1); // Silent: one mistake is one error.
    Diagnostics errors = in.graph.errors();
    ASSERT_EQ(errors.size(), 1u) << renderDiagnostics(errors, nullptr);
    EXPECT_EQ(errorCodeName(errors[0].code), errorCodeName(c.code));
    EXPECT_EQ(errors[0].message, c.message);
    ASSERT_FALSE(errors[0].notes.empty());
    EXPECT_TRUE(errors[0].notes.back().message.starts_with("at GraphTest.cpp:")) << errors[0].notes.back().message;
  }
}

/// The line of the caller, as notes have it.
std::string here(std::source_location at = std::source_location::current()) {
  return "at GraphTest.cpp:" + std::to_string(at.line());
}

TEST(GraphTest, ErrorsNameTheLine) {
  Graph graph("g");
  Tensor x = graph.input("x", DType::F32, {"M", "N"});
  Tensor k = graph.input("k", DType::F32, {"K"});
  std::vector<std::string> lines;
  (void)(exp(x) - k), lines.push_back(here());
  (void)softmax(x, 5), lines.push_back(here());
  (void)matmul(x, x), lines.push_back(here());
  (void)graph.input("k", DType::F32, {2}), lines.push_back(here());
  graph.output("x y", x), lines.push_back(here());
  graph.output("y", 1.0), lines.push_back(here());
  graph.output("y", x);
  graph.output("y", x), lines.push_back(here());
  (void)graph.constant(HostTensor(DType::Index, {2})), lines.push_back(here());
  Diagnostics errors = graph.errors();
  ASSERT_EQ(errors.size(), lines.size()) << renderDiagnostics(errors, nullptr);
  for (size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(errors[i].notes.back().message, lines[i]) << errors[i].message;
  EXPECT_TRUE(errors[3].notes[0].message.starts_with("the first one is at GraphTest.cpp:"));
  EXPECT_EQ(errors[5].message, "output 'y' is no tensor of a graph");
  EXPECT_EQ(errors[6].message, "two outputs are called 'y'");
}

TEST(GraphTest, CodeSaysTheProgramsLines) {
  Graph g("lines");
  Tensor x = g.input("x", DType::F32, {"N"}), y = g.input("y", DType::F32, {"N"});
  unsigned line = __LINE__ + 1;
  g.output("z", sqrt(x) + y);
  CompileOptions options;
  options.lineInfo = true;
  auto artifact = compile(g, options);
  ASSERT_TRUE(artifact);
  std::string ptx = (*artifact)->kernels.front().ptx;
  EXPECT_NE(ptx.find("\t.loc\t1 " + std::to_string(line) + " "), std::string::npos) << ptx;
  EXPECT_NE(ptx.find(std::string("\t.file\t1 \"") + __FILE__ + "\""), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find("\"graph\""), std::string::npos) << ptx;
  artifact = compile(g);
  ASSERT_TRUE(artifact);
  EXPECT_EQ((*artifact)->kernels.front().ptx.find(".loc"), std::string::npos);
}

TEST(GraphTest, NoOutputs) {
  Graph graph("g");
  Diagnostics errors = graph.errors();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "graph @g has no outputs");
  graph.output("y", graph.input("x", DType::F32, {2}));
  EXPECT_TRUE(graph.errors().empty());
}

TEST(GraphTest, NamesOfGraphs) {
  Graph graph("1st");
  graph.output("y", graph.input("x", DType::F32, {2}));
  Diagnostics errors = graph.errors();
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].message, "a graph cannot be called '1st'");
}

TEST(GraphTest, GraphsDoNotMix) {
  Graph one("one"), two("two");
  Tensor a = one.input("a", DType::F32, {2}), b = two.input("b", DType::F32, {2});
  EXPECT_FALSE((a + b).isValid());
  two.output("y", a);
  std::vector<Tensor> sums = reduce({a}, 0, {0}, [&](std::span<const Tensor>) { return std::vector{b}; });
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_FALSE(sums[0].isValid());
  ASSERT_EQ(one.errors().size(), 2u);
  EXPECT_EQ(one.errors()[0].message, "operand 1 of `add` is a tensor of another graph");
  EXPECT_EQ(one.errors()[1].message, "the combiner of `reduce` gives a tensor of another graph");
  ASSERT_EQ(two.errors().size(), 1u);
  EXPECT_EQ(two.errors()[0].message, "output 'y' is a tensor of another graph");
}

TEST(GraphTest, ValuesOfCombinersStayThere) {
  Graph graph("g");
  Tensor x = graph.input("x", DType::F32, {"N"}), kept;
  Tensor s = reduce({x}, 0, {0}, [&](std::span<const Tensor> v) {
    kept = v[0];
    return std::vector{v[0] + v[1]};
  })[0];
  graph.output("s", s);
  EXPECT_TRUE(graph.errors().empty());
  EXPECT_FALSE((kept + kept).isValid());
  EXPECT_FALSE((s * kept).isValid());
  graph.output("kept", kept);
  Tensor t = reduce({x}, 0, {0}, [&](std::span<const Tensor> v) { return std::vector{v[0] + s}; })[0];
  EXPECT_FALSE(t.isValid());
  Diagnostics errors = graph.errors();
  ASSERT_EQ(errors.size(), 4u) << renderDiagnostics(errors, nullptr);
  EXPECT_EQ(errors[2].message, "output 'kept' is a value of a combiner, not a tensor");
}

TEST(GraphTest, ExceptionsOfCombinersPass) {
  Graph graph("g");
  Tensor x = graph.input("x", DType::F32, {"N"});
  EXPECT_THROW(reduce({x}, 0, {0}, [](std::span<const Tensor>) -> std::vector<Tensor> { throw 1; }), int);
  graph.output("y", x + 1);
  EXPECT_NE(textOf(graph).find("add %x"), std::string::npos);
}

TEST(GraphTest, TensorsOfNoGraph) {
  Tensor none;
  EXPECT_FALSE(none.isValid());
  EXPECT_EQ(none.shape().size(), 0u);
  EXPECT_FALSE((none + 1).isValid());
  EXPECT_FALSE(softmax(none).isValid());
  EXPECT_FALSE(mean(matmul(none, transpose(none)), 0).isValid());
  EXPECT_FALSE(max(1, 2).isValid());
}

TEST(GraphTest, TensorsKeepTheirGraph) {
  Tensor x, y;
  {
    Graph graph("g");
    x = graph.input("x", DType::F32, {"M", 8});
    y = exp(x);
  }
  y = y + x; // The graph goes on, though nobody can compile it any more.
  EXPECT_TRUE(y.isValid());
  EXPECT_EQ(y.dtype(), DType::F32);
  EXPECT_EQ(y.shape(), (std::vector<DimExpr>{DimExpr::name("M"), 8}));

  Graph first("g"), copy = first;
  copy.output("y", first.input("x", DType::F32, {2}));
  EXPECT_EQ(first.text(), copy.text());
  EXPECT_TRUE(first.errors().empty());
}

const char *scaled = "custom @scaled(%x: tensor<MxNxf32>, %s: tensor<Nxf32>) -> (y: tensor<MxNxf32>, sum: tensor<Mxf32>) {\n"
                     "  %b = broadcast %s, dims = [1] : tensor<MxNxf32>\n"
                     "  %y = mul %x, %b : tensor<MxNxf32>\n"
                     "  %sum = reduce sum %y, axes = [1] : tensor<Mxf32>\n"
                     "  return %y, %sum\n"
                     "}\n";

TEST(GraphTest, CustomOpsAreDeclaredByText) {
  Graph graph("g");
  graph.declare(scaled);
  graph.declare("custom @twice(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\n  %y = add %x, %x : tensor<Nxf32>\n  return %y\n}");
  Tensor x = graph.input("x", DType::F32, {4, "2*K"}), s = graph.input("s", DType::F32, {"2*K"});
  std::vector<Tensor> results = graph.custom("scaled", {x, graph.custom("twice", {s})[0]});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].shape(), std::vector<DimExpr>{4});
  graph.output("y", results[0]);
  graph.output("sum", results[1]);
  std::string text = textOf(graph);
  EXPECT_NE(text.find("  %0 = custom @twice(%s) : tensor<(2*K)xf32>\n"
                      "  %1, %2 = custom @scaled(%x, %0) : tensor<4x(2*K)xf32>, tensor<4xf32>\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(scaled), std::string::npos) << text;
}

TEST(GraphTest, WrongCustomOps) {
  Graph graph("g");
  Tensor x = graph.input("x", DType::F32, {"M", "N"}), s = graph.input("s", DType::F32, {"M"});
  auto last = [&] { return graph.errors().empty() ? "" : graph.errors().back().message; };
  graph.declare("custom @broken(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\n  %y = epx %x : tensor<Nxf32>\n  return %y\n}");
  EXPECT_EQ(last(), "line 2 of the declarations: no op is called `epx`");
  graph.declare("custom @g(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\n  return %x\n}");
  EXPECT_EQ(last(), "@g cannot stand among declarations");
  graph.declare("graph @other(%x: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\n  return %x\n}");
  EXPECT_EQ(last(), "@other cannot stand among declarations");
  EXPECT_EQ(graph.custom("scaled", {x, s}).size(), 1u);
  EXPECT_EQ(last(), "`custom`: no custom op is declared as @scaled");
  graph.declare(scaled);
  EXPECT_EQ(graph.custom("scaled", {x, s}).size(), 2u);
  EXPECT_EQ(last(), "`custom`: @scaled has one size N, but it is N by axis 1 of %x and M by axis 0 of %s");
  graph.custom("scaled", {x});
  EXPECT_EQ(last(), "`custom`: @scaled takes 2 operands, not 1");
  graph.declare(scaled);
  EXPECT_EQ(last(), "line 8 of the declarations: the function `@scaled` is defined twice");
  Graph another;
  graph.custom("scaled", {another.input("x", DType::F32, {1, 2}), s});
  EXPECT_FALSE(another.errors().empty());
  size_t errors = graph.errors().size();
  graph.custom("scaled", {}); // Of no graph.
  EXPECT_EQ(graph.errors().size(), errors);
}

} // namespace
} // namespace minic::test
