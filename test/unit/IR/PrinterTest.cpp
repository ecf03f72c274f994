// What the printer does to IR that no text was: names, unnamed values, numbers, broken pieces.
#include "minic/IR/Printer.h"
#include "minic/IR/Builder.h"
#include "minic/IR/Parser.h"

#include <gtest/gtest.h>

using namespace minic;

namespace {

struct PrinterTest : testing::Test {
  Context context;
  Module module{context};

  void expectReadsBack(const std::string &text) {
    SourceBuffer source("printed.ir", text);
    auto again = parseModule(context, source);
    ASSERT_TRUE(again) << renderDiagnostics(again.errors(), &source);
    EXPECT_EQ(printModule(**again, {.locations = false}), text); // What was read has places, what was built has none.
  }
};

} // namespace

TEST_F(PrinterTest, NamesAreMadeUnique) {
  Function *f = module.addFunction(FunctionKind::Kernel, Level::Tile, "k");
  Value *x = f->body().addArgument(context.index(), "x");
  Builder b(f->body());
  Value *sum = b.scalarOp(OpKind::Add, {x, x});
  Value *product = b.scalarOp(OpKind::Mul, {sum, sum});
  product->setName("x");
  b.scalarOp(OpKind::Sub, {product, sum})->setName("a-b.c");
  b.scalarOp(OpKind::Sub, {product, x})->setName("x_1");
  b.create(OpKind::Return, {}, {});
  std::string text = printModule(module);
  EXPECT_EQ(text, "minic 1\nmodule target = sm_90a, numerics = default\n\nkernel @k(%x: index) at tile {\n"
                  "  %0 = add %x, %x : index\n  %x_1 = mul %0, %0 : index\n  %a_b_c = sub %x_1, %0 : index\n"
                  "  %x_1_1 = sub %x_1, %x : index\n  return\n}\n");
  expectReadsBack(text);
}

TEST_F(PrinterTest, NumbersNeverPassForNames) {
  Function *f = module.addFunction(FunctionKind::Kernel, Level::Tile, "k");
  Builder b(f->body());
  Value *first = b.constantIndex(1);
  b.constantIndex(2)->setName("0");
  b.constantIndex(3);
  (void)first;
  b.create(OpKind::Return, {}, {});
  std::string text = printModule(module);
  EXPECT_NE(text.find("%0 = constant 1 : index\n  %0_1 = constant 2 : index\n  %1 = constant 3 : index"), std::string::npos)
      << text;
  expectReadsBack(text);
}

TEST_F(PrinterTest, IntegersOfFloatTypesPrintAsFloats) {
  Function *f = module.addFunction(FunctionKind::Graph, Level::Graph, "g");
  Builder b(f->body());
  Operation *c = b.create(OpKind::Constant, {}, {context.tensor(DType::F32, {2})}, {{"value", Attribute(3)}});
  b.create(OpKind::Constant, {}, {context.tensor(DType::F32, {2})}, {{"value", AttributeList{1, 0.5}}});
  b.create(OpKind::Return, {c->result()}, {});
  f->resultNames = {"y"};
  f->resultTypes = {c->result()->type()};
  std::string text = printModule(module);
  EXPECT_NE(text.find("constant 3.0 : tensor<2xf32>"), std::string::npos) << text;
  EXPECT_NE(text.find("constant [1.0, 0.5] : tensor<2xf32>"), std::string::npos) << text;
  expectReadsBack(text);
}

TEST_F(PrinterTest, OneOperationForMessages) {
  SourceBuffer source("t.ir",
                      "kernel @k(%i: index) at tile {\n  %r = for %i, %i, %i, %i { ^(%k: index, %v: index): yield %v } : index\n"
                      "  %c = compare lt %i, %r : i1\n  return\n}\n");
  auto parsed = parseModule(context, source);
  ASSERT_TRUE(parsed) << renderDiagnostics(parsed.errors(), &source);
  Operation *loop = (*parsed)->functions()[0]->body().front();
  EXPECT_EQ(printOperation(*loop), "%r = for %i, %i, %i, %i {...} : index");
  EXPECT_EQ(printOperation(*loop->next()), "%c = compare lt %i, %r : i1");
}

TEST_F(PrinterTest, OneFunctionReadsBack) {
  SourceBuffer source("t.ir", "kernel @k(%t: tile<32xf32, #layout<reg = [], lane = [0:32@1], warp = []>>) at machine { return }");
  auto parsed = parseModule(context, source);
  ASSERT_TRUE(parsed) << renderDiagnostics(parsed.errors(), &source);
  EXPECT_EQ(printFunction(*(*parsed)->functions()[0], {.locations = false}),
            "#l0 = layout<reg = [], lane = [0:32@1], warp = []>\nkernel @k(%t: tile<32xf32, #l0>) at machine {\n  return\n}\n");
}

TEST_F(PrinterTest, BrokenIRPrints) {
  // The verifier's messages and a pass's dump show IR that is not whole.
  Function *f = module.addFunction(FunctionKind::Graph, Level::Graph, "g");
  f->resultTypes = {context.tensor(DType::F32, {2})};
  f->resultNames = {""};
  Type none;
  Operation *op = module.create(OpKind::Constant, {}, std::span<const Type>(&none, 1));
  f->body().append(op);
  Module other(context);
  Value *foreign = other.addFunction(FunctionKind::Graph, Level::Graph, "o")->body().addArgument(context.index(), "v");
  f->body().append(module.create(OpKind::Exp, std::vector<Value *>{foreign}, {}));
  EXPECT_EQ(printFunction(*f), "graph @g() -> (tensor<2xf32>) {\n  %0 = constant : <no type>\n  exp %undefined\n}\n");
  EXPECT_EQ(printOperation(*op), "%? = constant : <no type>");
}
