// Wrong passes that are planted here are found, and shown on small graphs; without them nothing is found.
#include "minic/Driver/Bisect.h"

#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace minic::test {
namespace {

std::string errorText(const Diagnostics &list) { return renderDiagnostics(list, nullptr); }

SourceBuffer example(const std::string &name) {
  std::ifstream file(std::string(MINIC_EXAMPLES "/") + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return SourceBuffer(name, text.str());
}

/// Random tensors; a name says the seed.
Expected<std::vector<HostTensor>> randomInputs(const Function &graph, DimBindings &dims) {
  std::vector<HostTensor> tensors;
  for (const Value *param : graph.params()) {
    std::vector<int64_t> shape;
    for (const DimExpr &dim : param->type().shape())
      shape.push_back(dim.evaluate(dims).value_or(0));
    uint64_t seed = 1;
    for (char c : param->name())
      seed = seed * 31 + uint64_t(c);
    auto tensor = makeInput(param->name(), "random:" + std::to_string(seed), param->type().dtype(), shape);
    if (!tensor)
      return tensor.takeErrors();
    tensors.push_back(std::move(*tensor));
  }
  return tensors;
}

BisectOptions optionsFor(const DimBindings &dims, const std::string &numerics = "") {
  return {.compile = {.numerics = numerics, .dims = dims}, .makeInputs = randomInputs};
}

//===- Wrong passes -===//

using PassBody = Expected<void> (*)(Function &, PassContext &);

/// The usual list, with `body` in the place of what the last pass of a name does.
struct PlantedList {
  Pass planted;
  std::vector<PassStep> steps = buildPipeline(Stage::Plan);
  PlantedList(std::string_view name, PassBody body) : planted(*findPass(name)) {
    planted.run = body;
    auto place = std::find_if(steps.rbegin(), steps.rend(), [&](const PassStep &step) { return step.pass->name == name; });
    place->pass = &planted;
  }
  PlantedList(const PlantedList &) = delete;
};

/// canonicalize, on graphs or tiles, that takes a - b for b - a.
Expected<void> swappedSubtraction(Function &function, PassContext &context) {
  walk(function.body(), [](Operation &op) {
    if (op.is(OpKind::Sub)) {
      Value *lhs = op.operand(0);
      op.setOperand(0, op.operand(1));
      op.setOperand(1, lhs);
    }
  });
  return passes::canonicalize(function, context);
}

/// A mask that forgets what padding shall be: numbers that are not neutral for what follows.
void spoilFills(Function &function) {
  walk(function.body(), [](Operation &op) {
    if (const Attribute *fill = op.attr("fill"); fill && fill->asNumber())
      op.setAttr("fill", std::isinf(*fill->asNumber()) ? Attribute(0.0) : Attribute(1.0));
  });
}
Expected<void> maskWithWrongFill(Function &function, PassContext &context) {
  auto done = passes::mask(function, context);
  spoilFills(function);
  return done;
}
/// Past the proof of the masked level.
Expected<void> layoutWithWrongFill(Function &function, PassContext &context) {
  spoilFills(function);
  return passes::layout(function, context);
}

/// expand-math that gets the constants of kernels wrong.
Expected<void> wrongConstants(Function &function, PassContext &context) {
  auto done = passes::expandMath(function, context);
  walk(function.body(), [](Operation &op) {
    Type type = op.is(OpKind::Constant) ? op.result()->type() : Type();
    if (const Attribute *value = type && isFloat(type.dtype()) ? op.attr("value") : nullptr; value && value->asNumber())
      op.setAttr("value", Attribute(*value->asNumber() + 0.25));
  });
  return done;
}

struct Graph {
  const char *file;
  DimBindings dims;
};
const Graph softmax = {"softmax.ir", {{"M", 5}, {"N", 77}}};
const Graph layerNorm = {"layernorm.ir", {{"M", 3}, {"N", 45}}};
const Graph mlp = {"mlp.ir", {{"N", 9}, {"K", 21}, {"H", 13}, {"M", 7}}};

/// Finds the planted pass, and makes the graph small.
void expectFound(const Graph &graph, std::string_view name, PassBody body) {
  SCOPED_TRACE(graph.file);
  PlantedList list(name, body);
  BisectOptions options = optionsFor(graph.dims);
  SourceBuffer source = example(graph.file);
  auto wrong = findWrongPass(source, list.steps, options);
  ASSERT_TRUE(wrong) << errorText(wrong.errors());
  ASSERT_TRUE(wrong->has_value()) << "nothing was found";
  EXPECT_EQ(list.steps[(*wrong)->step].pass, &list.planted)
      << (*wrong)->name << " after " << (*wrong)->before << ": " << (*wrong)->how;

  // With numbers for names, sizes can be made smaller too.
  Context context;
  auto module = loadModule(context, source, options.compile);
  ASSERT_TRUE(module && lowerTo(**module, Stage::Graph, options.compile));
  options.compile.dims.clear();
  SourceBuffer bound("bound", printModule(**module));
  auto reduced = reduceToWrongPass(bound, list.steps, **wrong, options);
  ASSERT_TRUE(reduced) << errorText(reduced.errors());
  auto small = parseModule(context, SourceBuffer("reduced", *reduced));
  ASSERT_TRUE(small) << *reduced;
  EXPECT_LE(countOps(**small), 5u) << *reduced;
  auto again = findWrongPass(SourceBuffer("reduced", *reduced), list.steps, options);
  ASSERT_TRUE(again && *again) << *reduced;
  EXPECT_EQ((*again)->step, (*wrong)->step);
}

TEST(Bisect, FindsASwappedSubtraction) {
  for (const Graph *graph : {&softmax, &layerNorm})
    expectFound(*graph, "canonicalize", swappedSubtraction);
}
TEST(Bisect, FindsAMaskThatFillsWrong) {
  for (const Graph *graph : {&softmax, &layerNorm, &mlp})
    expectFound(*graph, "mask", maskWithWrongFill);
}
TEST(Bisect, FindsAFillThatALaterPassSpoils) {
  for (const Graph *graph : {&softmax, &layerNorm, &mlp})
    expectFound(*graph, "layout", layoutWithWrongFill);
}
TEST(Bisect, FindsWrongConstantsOfTheMachineLevel) {
  for (const Graph *graph : {&softmax, &layerNorm, &mlp})
    expectFound(*graph, "expand-math", wrongConstants);
}

TEST(Bisect, SaysHowMuchAndWhere) {
  PlantedList list("canonicalize", [](Function &function, PassContext &) -> Expected<void> {
    walk(function.body(), [](Operation &op) {
      if (op.is(OpKind::Constant) && op.attr("value")->asNumber() == 2.0)
        op.setAttr("value", Attribute(3.0));
    });
    return {};
  });
  SourceBuffer source("twice.ir", "graph @twice(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n  %two = constant 2.0 : tensor<4xf32>\n"
                                  "  %y = mul %x, %two : tensor<4xf32>\n  return %y\n}\n");
  BisectOptions options{.makeInputs = [](const Function &, DimBindings &) -> Expected<std::vector<HostTensor>> {
    return std::vector{*parseTensorText("[0, 1, -2, 8]", DType::F32)};
  }};
  auto wrong = findWrongPass(source, list.steps, options);
  ASSERT_TRUE(wrong && *wrong);
  EXPECT_EQ((*wrong)->name, "canonicalize");
  EXPECT_EQ((*wrong)->how, "output 'y' [1]: canonicalize gives 3.0, the f64 oracle 2.0");
  EXPECT_EQ((*wrong)->elements, 3);
  EXPECT_EQ((*wrong)->largest, 8);
}

//===- Nothing wrong -===//

void expectNothing(const SourceBuffer &source, const BisectOptions &options) {
  SCOPED_TRACE(source.name() + " " + options.compile.numerics);
  auto wrong = findWrongPass(source, buildPipeline(Stage::Plan), options);
  ASSERT_TRUE(wrong) << errorText(wrong.errors());
  EXPECT_FALSE(*wrong) << (*wrong)->name << " after " << (*wrong)->before << ": " << (*wrong)->how;
}

TEST(Bisect, FindsNothingInPassesThatAreRight) {
  for (const char *numerics : {"exact", "default", "fast"})
    for (const Graph *graph : {&softmax, &layerNorm, &mlp})
      expectNothing(example(graph->file), optionsFor(graph->dims, numerics));
}

TEST(Bisect, FindsNothingWhereBitsMayChange) {
  // Tensor cores, a cut sum, 16-bit functions, pieces of a row on several warps.
  const char *graphs[] = {"graph @g(%a: tensor<128x128xbf16>, %b: tensor<128x128xbf16>) -> (c: tensor<128x128xbf16>) {\n"
                          "  %c = matmul %a, %b : tensor<128x128xbf16>\n  return %c\n}\n",
                          "graph @g(%x: tensor<4096x8xf32>) -> (y: tensor<8xf32>) {\n  %y = reduce sum %x, axes = [0] : "
                          "tensor<8xf32>\n  return %y\n}\n",
                          "graph @g(%x: tensor<7x300xbf16>) -> (y: tensor<7x300xbf16>) {\n  %y = softmax %x, axis = 1 : "
                          "tensor<7x300xbf16>\n  return %y\n}\n",
                          "graph @g(%x: tensor<2x5000xf32>) -> (y: tensor<2x5000xf32>) {\n  %y = softmax %x, axis = 1 : "
                          "tensor<2x5000xf32>\n  return %y\n}\n",
                          "graph @g(%x: tensor<9xf16>) -> (y: tensor<9xf16>) {\n  %e = tanh %x : tensor<9xf16>\n  %y = mul %e, %x "
                          ": tensor<9xf16>\n  return %y\n}\n"};
  for (const char *text : graphs)
    for (const char *numerics : {"exact", "default"})
      expectNothing(SourceBuffer(std::string(text).substr(0, 40), text), optionsFor({}, numerics));
}

} // namespace
} // namespace minic::test
