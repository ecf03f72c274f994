// The text that builder calls make, what goes wrong with them, and how long handles live. Expected texts are written by hand after
// docs/ir-reference.md and must load.
#include "minic/Driver/Graph.h"

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
    EXPECT_TRUE(head.starts_with(
        "graph @g(%x: tensor<MxNxf32>, %y: tensor<Nxf32>, %i: tensor<Nxi32>, %c: tensor<MxNxi1>) -> (r: tensor<"))
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
      {"transpose by default", [](Inputs &in) { return transpose(in.x); }, "  %0 = transpose %x, perm = [1, 0] : tensor<NxMxf32>\n"},
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
    DType dtype = info.dtypes.contains(DType::F32) ? DType::F32 : DType::I1;
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
                           "  %0 = broadcast %w, dims = [1, 2] : tensor<Bx8x16xf16>\n"
                           "  %1 = matmul %x, %0 : tensor<BxNx16xf32>\n"
                           "  return %1\n}\n");
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
  rows.output("y", softmax(rows.input("x", DType::F32, {"M", "N"})));
  EXPECT_EQ(textOf(rows), normalText(example("softmax.ir")));
}

TEST(GraphTest, Mean) {
  Inputs in; // N has no number, so elements are counted.
  EXPECT_EQ(in.ops(mean(in.x, 1)), "  %0 = reduce sum %x, axes = [1] : tensor<Mxf32>\n"
                                   "  %1 = constant 1.0 : tensor<MxNxf32>\n"
                                   "  %2 = reduce sum %1, axes = [1] : tensor<Mxf32>\n"
                                   "  %3 = div %0, %2 : tensor<Mxf32>\n");
  Graph fixed("g");
  fixed.output("r", mean(fixed.input("x", DType::BF16, {2, "N", 300}), {0, -1}, true));
  EXPECT_EQ(textOf(fixed), "graph @g(%x: tensor<2xNx300xbf16>) -> (r: tensor<1xNx1xbf16>) {\n"
                           "  %0 = reduce sum %x, axes = [0, 2] : tensor<Nxf32>\n"
                           "  %1 = broadcast %0, dims = [1] : tensor<1xNx1xf32>\n"
                           "  %2 = constant 600.0 : tensor<1xNx1xf32>\n"
                           "  %3 = div %1, %2 : tensor<1xNx1xf32>\n"
                           "  %4 = convert %3 : tensor<1xNx1xbf16>\n"
                           "  return %4\n}\n");
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
                           "  %0, %1 = reduce %x, %i, axes = [1], init = [-inf, 0] { ^(%2: f32, %3: i32, %4: f32, %5: i32):\n"
                           "    %6 = compare gt %4, %2 : i1\n"
                           "    %7 = max %2, %4 : f32\n"
                           "    %8 = select %6, %5, %3 : i32\n"
                           "    %9 = constant 1 : i32\n"
                           "    %10 = mul %8, %9 : i32\n"
                           "    yield %7, %10\n"
                           "  } : tensor<Mxf16>, tensor<Mxi32>\n"
                           "  return %0, %1\n}\n");
}

} // namespace
} // namespace minic::test
