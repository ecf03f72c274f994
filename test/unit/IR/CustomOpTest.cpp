// What is read in PTX, strings in texts, and how sizes of declarations and uses are brought together.
#include "minic/IR/CustomOp.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"
#include "minic/IR/PtxText.h"
#include "minic/IR/Verifier.h"

#include <gtest/gtest.h>

namespace minic::test {
namespace {

TEST(PtxText, EntriesAndTheirParameters) {
  std::string text = ".version 7.0\n.target sm_80, texmode_independent // .target sm_90\n"
                     "/* .entry hidden(.param .u64 x) */ .file 1 \".entry quoted\"\n"
                     ".visible .entry first(.param .u64 .ptr .global x, .param .u32 n) .reqntid 128 { .param .b32 local; ret; }\n"
                     ".entry none { ret; }\n.entry $odd_1(){ret;}";
  EXPECT_EQ(ptxTarget(text), "sm_80");
  std::vector<std::pair<std::string, size_t>> found;
  for (const PtxEntry &entry : ptxEntries(text))
    found.emplace_back(entry.name, entry.params.size());
  EXPECT_EQ(found, (std::vector<std::pair<std::string, size_t>>{{"first", 2}, {"none", 0}, {"$odd_1", 0}}));
  EXPECT_EQ(ptxEntries(text)[0].params, (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(ptxEntries(text)[1].line, 5u);
  std::string map =
      ".entry f(\n.param .align 64 .b8 f_param_0[128],\n.param .u64 .ptr .global .align 16 f_param_1,\n.param .f16 h\n)";
  EXPECT_EQ(ptxEntries(map)[0].params, (std::vector<int64_t>{128, 8, 2}));
  for (const char *broken : {"", "//", "/*", "\"", ".entry", ".entry f(", ".target", "/", ".entry f(.param"}) {
    ptxTarget(broken);
    ptxEntries(broken);
  }
  EXPECT_EQ(ptxTarget(".target"), "");
}

TEST(Strings, RoundTrip) {
  Context context;
  std::string text = R"(minic 1
module target = sm_90a, numerics = default

kernel @k(%x: buffer<Nxf32>) at machine, threads = 32 {
  ptx "f", sizes = [], text = ".target sm_80
	// \"quoted\" and \\ and { } %x @f (
  .entry f(.param .u64 x) { ret; }
"
  return
}
)";
  auto module = parseModule(context, SourceBuffer("text", text));
  ASSERT_TRUE(bool(module)) << renderDiagnostics(module.errors(), nullptr);
  EXPECT_EQ(renderDiagnostics(verify(**module), nullptr), "");
  EXPECT_EQ(printModule(**module, {.locations = false}), text);
  const Operation *ptx = ptxOf(*(*module)->find("k"));
  ASSERT_TRUE(ptx);
  EXPECT_NE(ptx->attr("text")->asString()->text.find("// \"quoted\" and \\ and"), std::string::npos);
  EXPECT_EQ(ptx->next()->loc().line, 9u); // Lines within a string are counted.
}

TEST(Strings, AreOfPrintableText) {
  Context context;
  for (std::string text : {"\"", "\"\\", "\"\\n\"", "\"a\x01\"", "\"\xff\"", "\"\\\"", "\"a\nb"}) {
    auto module = parseModule(context, SourceBuffer("text", "kernel @k() at machine, threads = 32 {\n  ptx " + text));
    EXPECT_FALSE(bool(module)) << text;
  }
}

struct Declared {
  Context context;
  std::unique_ptr<Module> module;
  explicit Declared(const std::string &params) {
    auto parsed = parseModule(
        context,
        SourceBuffer("text", "custom @f(" + params + ") -> (y: tensor<f32>) {\n  %y = constant 0.0 : tensor<f32>\n  return %y\n}"));
    if (parsed)
      module = std::move(*parsed);
  }
  /// "M = 2, N = K", or the message.
  std::string unify(std::vector<std::vector<DimExpr>> shapes) {
    std::vector<Type> types;
    for (auto &shape : shapes)
      types.push_back(context.tensor(DType::F32, std::move(shape)));
    auto sizes = unifySizes(*module->functions()[0], types);
    if (!sizes)
      return sizes.errors()[0].message;
    std::string text;
    for (const auto &[name, size] : *sizes)
      text += (text.empty() ? "" : ", ") + name + " = " + size.str();
    return text;
  }
};

TEST(UnifySizes, NamesStandForSizes) {
  DimExpr m = DimExpr::name("M"), n = DimExpr::name("N"), k = DimExpr::name("K");
  Declared two("%x: tensor<MxNxf32>, %s: tensor<Nxf32>");
  EXPECT_EQ(two.unify({{2, 3}, {3}}), "M = 2, N = 3");
  EXPECT_EQ(two.unify({{n, m}, {m}}), "M = N, N = M"); // Names of two worlds.
  EXPECT_EQ(two.unify({{n, n}, {n}}), "M = N, N = N");
  EXPECT_EQ(two.unify({{0, k * 2}, {k * 2}}), "M = 0, N = 2*K");
  EXPECT_EQ(two.unify({{k + m, 1}, {1}}), "M = K + M, N = 1");
  EXPECT_EQ(two.unify({{2, n}, {m}}), "@f has one size N, but it is N by axis 1 of %x and M by axis 0 of %s");
  EXPECT_EQ(two.unify({{2, 3}, {1}}),
            "@f has one size N, but it is 3 by axis 1 of %x and 1 by axis 0 of %s"); // Nothing is broadcast.
  EXPECT_EQ(two.unify({{2, 3}}), "@f takes 2 operands, not 1");
  EXPECT_EQ(two.unify({{2}, {3}}), "@f takes tensor<MxNxf32> as %x, not 1 axes");
}

TEST(UnifySizes, ExpressionsAreComparedLast) {
  DimExpr k = DimExpr::name("K");
  Declared made("%t: tensor<(2*N + M)xf32>, %x: tensor<Nxf32>, %z: tensor<Mx7xf32>");
  EXPECT_EQ(made.unify({{11}, {3}, {5, 7}}), "M = 5, N = 3");
  EXPECT_EQ(made.unify({{k * 3}, {k}, {k, 7}}), "M = K, N = K");
  EXPECT_EQ(made.unify({{12}, {3}, {5, 7}}), "@f has M + 2*N as axis 0 of %t, here 11, but the operand has 12");
  EXPECT_EQ(made.unify({{11}, {3}, {5, 8}}), "@f has 7 as axis 1 of %z, but the operand has 8");
}

TEST(UnifySizes, LongSizesAreRefused) {
  Declared one("%x: tensor<Nxf32>");
  DimExpr size = DimExpr::name("K");
  for (int i = 0; i < 10; ++i)
    size = size * size;
  EXPECT_EQ(one.unify({{size}}), "@f is used with a size of more than 1000 characters");
}

} // namespace
} // namespace minic::test
