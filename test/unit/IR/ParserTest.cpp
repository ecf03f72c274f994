// What the parser says about wrong text, and that no text breaks it.
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"

#include <gtest/gtest.h>

#include <ctime>

using namespace minic;

namespace {

Diagnostics errorsOf(const std::string &text) {
  Context context;
  auto module = parseModule(context, SourceBuffer("test.ir", text));
  return module ? Diagnostics() : module.takeErrors();
}

/// "line:column code" of every error, one a line.
std::string summary(const Diagnostics &errors) {
  std::string text;
  for (const Diagnostic &e : errors)
    text += std::to_string(e.loc.line) + ":" + std::to_string(e.loc.column) + " " + std::string(errorCodeName(e.code)) + "\n";
  return text;
}

std::string rendered(const std::string &text) {
  SourceBuffer source("test.ir", text);
  return renderDiagnostics(errorsOf(text), &source);
}

/// Expects exactly these errors: `{code, line, column}` each.
struct Expectation {
  ErrorCode code;
  uint32_t line, column;
};
void expectErrors(const std::string &text, std::vector<Expectation> expected) {
  std::string want;
  for (const Expectation &e : expected)
    want += std::to_string(e.line) + ":" + std::to_string(e.column) + " " + std::string(errorCodeName(e.code)) + "\n";
  EXPECT_EQ(summary(errorsOf(text)), want) << rendered(text) << "in\n" << text;
}

/// The fix of the only error.
std::string fixOf(const std::string &text) {
  Diagnostics errors = errorsOf(text);
  EXPECT_EQ(errors.size(), 1u) << rendered(text);
  return errors.empty() ? "" : errors[0].fix;
}

std::string graph(const std::string &body) {
  return "graph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n" + body + "\n  return %x\n}\n";
}
std::string constant(const std::string &value, const std::string &type) { return graph("  %c = constant " + value + " : " + type); }

using enum ErrorCode;

/// Has every piece of the grammar.
const std::string valid = R"(minic 1
module target = sm_90a, numerics = default

graph @softmax(%x: tensor<MxNxf32>) -> (y: tensor<MxNxf32>) at fused {
  %y = fusion %x, schedule = #rows<block = [4, 1024], vec = 4> { ^(%a: tensor<MxNxf32>):
    %m, %l = reduce %a, %a, axes = [1], init = [-inf, 0.0] { ^(%p: f32, %q: f32, %r: f32, %s: f32):
      %t = max %p, %r : f32
      yield %t, %q loc(7:3)
    } : tensor<Mxf32>, tensor<Mxf32>
    %c = constant [[1.5, -2], [nan, 0x1.8p3]] : tensor<2x2xf32>
    %b = broadcast %m, dims = [0] : tensor<MxNxf32>
    yield %b
  } : tensor<MxNxf32>
  return %y // end
}
#l = layout<reg = [1:4@1, _:2], lane = [1:32@4], warp = [0:4@1]>
kernel @k(%b: buffer<(4*N)xMxf32>, %t: tile<4x128xf32, #l>, %i: index) at machine, threads = 128 {
  %p, %q = program_id grid = [ceildiv(N, 128), 2*M] : index, index
  %d = dim ceildiv(N, 4)*M : index
  %z = compare lt %d, %i : i1
  %s = alloc_shared : smem<64x16xf32, strides = [1, 68]>
  barrier
  store %t, %b, %p, %q, mask = [0]
  return
}
plan @p(%b: buffer<(4*N)xMxf32>) -> () {
  launch @k(%b), grid = [1]
  return
}
)";

} // namespace

TEST(Parser, EmptyTextIsAnEmptyModule) {
  for (const char *text : {"", "\n", "// nothing\n", "minic 1", "minic 1\nmodule target = sm_80, numerics = fast\n"}) {
    Context context;
    auto module = parseModule(context, SourceBuffer("t", text));
    ASSERT_TRUE(module) << text;
    EXPECT_TRUE((*module)->functions().empty());
  }
}

TEST(Parser, HeaderIsKept) {
  Context context;
  auto module = parseModule(context, SourceBuffer("t", "minic 1 module target = sm_80"));
  ASSERT_TRUE(module);
  EXPECT_EQ((*module)->target, "sm_80");
  EXPECT_TRUE((*module)->targetStated);
  EXPECT_FALSE((*module)->numericsStated);
  EXPECT_EQ((*module)->numerics, "default");
}

TEST(Parser, HeaderErrors) {
  expectErrors("minic 2\n???", {{BadVersion, 1, 7}});
  expectErrors("module nummerics = fast, target = sm_80\n", {{BadModuleHeader, 1, 8}});
  expectErrors("module numerics = quick\n", {{BadModuleHeader, 1, 19}});
  expectErrors("module target = sm_80, target = sm_90a", {{Redefinition, 1, 24}});
  expectErrors("graph @g() -> () { return }\nminic 1\n", {{UnexpectedToken, 2, 1}});
  EXPECT_EQ(fixOf("module nummerics = fast\n"), "write `numerics`");
  EXPECT_EQ(fixOf("module numerics = fats\n"), "write `fast`");
}

TEST(Parser, ResultsAreNamed) {
  Context context;
  auto names = [&](const std::string &text) {
    SourceBuffer source("t", text);
    auto module = parseModule(context, source);
    EXPECT_TRUE(module) << renderDiagnostics(module ? Diagnostics() : module.errors(), &source);
    return module ? (*module)->functions()[0]->resultNames : std::vector<std::string>();
  };
  std::string e = "{ %e = exp %x : tensor<2xf32> return ";
  EXPECT_EQ(names("graph @g(%x: tensor<2xf32>) -> tensor<2xf32> " + e + "%e }"), std::vector<std::string>{"e"});
  EXPECT_EQ(names("graph @g(%x: tensor<2xf32>) -> tensor<2xf32> " + e + "%x }"), std::vector<std::string>{"x_1"});
  EXPECT_EQ(names("graph @g(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, e: tensor<2xf32>) " + e + "%e, %e, %e }"),
            (std::vector<std::string>{"e_1", "e_2", "e"}));
  EXPECT_EQ(names("graph @g(%x: tensor<2xf32>, %x_1: tensor<2xf32>) -> tensor<2xf32> " + e + "%x }"),
            std::vector<std::string>{"x_2"});
  expectErrors("graph @g(%x: tensor<2xf32>) -> (a: tensor<2xf32>, a: tensor<2xf32>) { return %x, %x }", {{Redefinition, 1, 51}});
  expectErrors("graph @g(%x: tensor<2xf32>) -> (x: tensor<2xf32>) { return %x }", {{Redefinition, 1, 33}});
}

TEST(Parser, SeveralIndependentErrors) {
  expectErrors("graph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n" // 1
               "  %a = expp %x : tensor<4xf32>\n"                      // 2: unknown op
               "  %b = add %a, %a : tensor<4xf32>\n"                   // uses of it are no news
               "  %c = add %x, %xx : tensor<4xf32>\n"                  // 4: unknown value
               "  %d = add %x, %xx : tensor<4xf32>\n"                  // the same again is no news
               "  %e = reduce sum %x, axis = [0] : tensor<f32>\n"      // 6: unknown attribute
               "  %f = exp %x : tensor<4xf23>\n"                       // 7: unknown element type
               "  %g = add %f, %e : tensor<4xf32>\n"                   //
               "  %h = constant 1e39 : tensor<4xf32>\n"                // 9: does not fit
               "  %x = exp %h : tensor<4xf32>\n"                       // 10: redefinition
               "  %i = exp %h\n"                                       // 11: no type
               "  %j = reduce mean %x, axes = [0] : tensor<f32>\n"     // 12: unknown word
               "  %k = exp [ %x : tensor<4xf32>\n"                     // 13: syntax
               "  return %i\n"
               "}\n"
               "graph @g() -> () {\n" // 16: redefinition
               "}\n",                 // 17: no terminator
               {{UnknownOp, 2, 8},
                {UnknownValue, 4, 16},
                {UnknownAttribute, 6, 23},
                {UnknownType, 7, 26},
                {BadConstant, 9, 17},
                {Redefinition, 10, 3},
                {UnexpectedToken, 11, 8},
                {BadAttribute, 12, 15},
                {UnexpectedToken, 13, 12},
                {Redefinition, 16, 7},
                {MissingTerminator, 17, 1}});
}

TEST(Parser, FixesSayWhatIsMeant) {
  EXPECT_EQ(fixOf(graph("  %a = brodcast %x, dims = [0] : tensor<4xf32>")), "write `broadcast`");
  EXPECT_EQ(fixOf(graph("  %a = reduce sum %x, axis = [0] : tensor<f32>")), "write `axes`");
  EXPECT_EQ(fixOf(graph("  %a = reduce summ %x, axes = [0] : tensor<f32>")), "write `sum`");
  EXPECT_EQ(fixOf(graph("  %a = exp %x : tensor<4xf322>")), "write `f32`");
  EXPECT_EQ(fixOf(graph("  %a = exp %x : tenser<4xf32>")), "write `tensor`");
  EXPECT_EQ(fixOf(graph("  %long_name = exp %x : tensor<4xf32>\n  %b = exp %lon_name : tensor<4xf32>")), "write `%long_name`");
  EXPECT_EQ(fixOf("kernel @k() at maskd { return }"), "write `masked`");
  EXPECT_EQ(fixOf("grph @k() -> () { return }"), "write `graph`");
  EXPECT_EQ(fixOf(constant("1e39", "tensor<4xf32>")), "write `inf` if you mean it");
  EXPECT_EQ(fixOf(constant("-65520", "tensor<4xf16>")), "write `-inf` if you mean it");
}

TEST(Parser, RedefinitionPointsAtTheFirst) {
  Diagnostics errors = errorsOf(graph("  %a = exp %x : tensor<4xf32>\n  %a = exp %x : tensor<4xf32>"));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].loc, (SourceLoc{3, 3}));
  ASSERT_EQ(errors[0].notes.size(), 1u);
  EXPECT_EQ(errors[0].notes[0].loc, (SourceLoc{2, 3}));
  EXPECT_EQ(errors[0].length, 2u);
}

TEST(Parser, Scopes) {
  std::string loop =
      "kernel @k(%i: index) at tile {\n  %r = for %i, %i, %i, %i { ^(%k: index, %v: index):\n    %w = add %k, %v : index\n"
      "    yield %w\n  } : index\n";
  expectErrors(loop + "  %q = add %w, %r : index\n  return\n}\n", {{UnknownValue, 6, 12}}); // Not outside.
  expectErrors(loop + "  %w = add %r, %r : index\n  return\n}\n", {});                      // Free again.
  expectErrors("kernel @k(%i: index) at tile {\n  for %i, %i, %i { ^(%i: index): yield }\n  return\n}", {{Redefinition, 2, 22}});
  expectErrors(
      "kernel @k(%i: index) at tile {\n  %r = for %i, %i, %i, %i { ^(%k: index, %v: index): yield %r } : index\n  return\n}",
      {{UnknownValue, 2, 60}}); // A result does not exist inside its own region.
  expectErrors("graph @g(%x: f32) -> () { return }\ngraph @h() -> () { return %x }", {{UnknownValue, 2, 27}});
}

TEST(Parser, Constants) {
  expectErrors(constant("1.5", "tensor<4xi32>"), {{BadConstant, 2, 17}});
  expectErrors(constant("2147483648", "tensor<4xi32>"), {{BadConstant, 2, 17}});
  expectErrors(constant("-2147483649", "i32"), {{BadConstant, 2, 17}});
  expectErrors(constant("9223372036854775808", "i64"), {{BadConstant, 2, 17}});
  expectErrors(constant("-9223372036854775808", "i64"), {});
  expectErrors(constant("inf", "i32"), {{BadConstant, 2, 17}});
  expectErrors(constant("nan", "index"), {{BadConstant, 2, 17}});
  expectErrors(constant("2", "i1"), {{BadConstant, 2, 17}});
  expectErrors(constant("1.0", "i1"), {{BadConstant, 2, 17}});
  expectErrors(constant("true", "f32"), {{BadConstant, 2, 17}});
  expectErrors(constant("true", "i32"), {{BadConstant, 2, 17}});
  expectErrors(constant("1e39", "f32"), {{BadConstant, 2, 17}});
  expectErrors(constant("1e400", "f64"), {{BadConstant, 2, 17}});
  expectErrors(constant("65520", "f16"), {{BadConstant, 2, 17}});
  expectErrors(constant("65519", "f16"), {});
  expectErrors(constant("0x1p128", "f32"), {{BadConstant, 2, 17}});
  expectErrors(constant("0x1p999999999999999999999", "f64"), {{BadConstant, 2, 17}});
  expectErrors(constant("1e999999999999999999999", "f64"), {{BadConstant, 2, 17}});
  expectErrors(constant("1e-999999999999999999999", "f64"), {});
  expectErrors(constant("0e999999999999999999999", "f64"), {});
  expectErrors(constant("100000000000000000000", "f32"), {});
  expectErrors(constant("[1, 1e39, 2, x, 4.5e38]", "tensor<5xf32>"),
               {{BadConstant, 2, 21}, {BadConstant, 2, 17}, {BadConstant, 2, 33}});
  expectErrors(constant("N", "f32"), {{BadConstant, 2, 17}});
  expectErrors(constant("2*3", "f32"), {{BadConstant, 2, 17}});
  expectErrors(constant("@k", "f32"), {{MissingAttribute, 2, 8}, {UnexpectedToken, 2, 17}});
  expectErrors(graph("  %c = constant : f32"), {{MissingAttribute, 2, 8}});
  expectErrors(graph("  %c = constant 1.5 : f32, i32"), {{ResultCount, 2, 8}});
}

TEST(Parser, Numbers) {
  for (const char *bad : {"1e", "1.2.3", "0x", "0x1.8", "12ab", "1e+", "0x1p", "1__0", "0b1", "-nan", "1.5f"})
    EXPECT_EQ(errorsOf(constant(bad, "f32")).at(0).code, BadNumber) << bad;
  EXPECT_EQ(errorsOf(graph("  %r = broadcast %x, dims = [9223372036854775808] : f32")).at(0).code, BadNumber);
}

TEST(Parser, ASignNeedsItsNumber) {
  for (const char *bad : {"-", "- 1", "+1"})
    EXPECT_FALSE(errorsOf(constant(bad, "f32")).empty()) << bad;
}

TEST(Parser, Types) {
  Context context;
  auto text = [&](std::string_view t) {
    auto type = parseType(context, t);
    return type ? type->str() : std::string(errorCodeName(type.errors()[0].code));
  };
  for (const char *good :
       {"f32", "index", "tensor<f32>", "tensor<4xf32>", "tensor<MxN_1xf16>", "tensor<0x3xi32>", "buffer<(4*N)xbf16>",
        "tensor<(M*ceildiv(N, 4))x(N*N)x2xindex>", "tile<4x8xf32>", "smem<4x8xf32, strides = [1, 5]>",
        "tensor<4611686018427387904xi1>", "tile<8xf32, #layout<reg = [0:8@1], lane = [_:32], warp = []>>"})
    EXPECT_EQ(text(good), good) << good;
  EXPECT_EQ(text("tensor< 4 x N x ( N * 4 ) x f32 >"), "tensor<4xNx(4*N)xf32>");
  EXPECT_EQ(text("tensor<(2*3)xf32>"), "tensor<6xf32>");
  auto code = [](ErrorCode c) { return std::string(errorCodeName(c)); };
  EXPECT_EQ(text("tensor<-1xf32>"), code(BadDim));
  EXPECT_EQ(text("tensor<4611686018427387905xf32>"), code(BadDim));
  EXPECT_EQ(text("tensor<99999999999999999999999xf32>"), code(BadDim));
  EXPECT_EQ(text("tensor<4611686018427387904xf32>"), code(BadDim)); // 2^64 bytes
  EXPECT_EQ(text("tensor<4294967296x4294967296x0xf32>"), code(BadDim));
  EXPECT_EQ(text("tensor<(4611686018427387904*N)x4xi1>"), code(BadDim));
  EXPECT_EQ(text("tensor<(4611686018427387904*4)xi1>"), code(BadDim));
  EXPECT_EQ(text("tensor<(ceildiv(N, 0))xf32>"), code(BadDim));
  EXPECT_EQ(text("tile<Nxf32>"), code(BadDim));
  EXPECT_EQ(text("smem<4xf32, strides = [1, 2]>"), code(BadDim));
  EXPECT_EQ(text("smem<4611686018427387904xi1, strides = [4611686018427387904]>"), code(BadDim));
  EXPECT_EQ(text("tensor<nxf32>"), code(UnknownType));
  EXPECT_EQ(text("tensor<4xf31>"), code(UnknownType));
  EXPECT_EQ(text("f33"), code(UnknownType));
  EXPECT_EQ(text("vector<4xf32>"), code(UnknownType));
  EXPECT_EQ(text("tensor<?xf32>"), code(UnexpectedCharacter));
  EXPECT_EQ(text("tensor<4>"), code(UnexpectedToken));
  EXPECT_EQ(text("tensor<>"), code(UnexpectedToken));
  EXPECT_EQ(text("tensor<4x>"), code(UnexpectedToken));
  EXPECT_EQ(text("tensor"), code(UnexpectedToken));
  EXPECT_EQ(text("tensor<4xf32"), code(UnexpectedToken));
  EXPECT_EQ(text("tensor<4xf32> x"), code(UnexpectedToken));
  EXPECT_EQ(text("tensor<4xf32, #l>"), code(UnexpectedToken));
  EXPECT_EQ(text("tile<4xf32, #l>"), code(UnknownValue));
  EXPECT_EQ(text("tile<4xf32, #layout<reg = [0:0@1], lane = [], warp = []>>"), code(BadLayout));
  EXPECT_EQ(text("tile<4xf32, #layout<reg = [0:65536@1, 0:65536@1], lane = [], warp = []>>"), code(BadLayout));
  EXPECT_EQ(text(""), code(UnexpectedToken));
  std::string axes;
  for (int i = 0; i < 65; ++i)
    axes += "1x";
  EXPECT_EQ(text("tensor<" + axes + "f32>"), code(BadDim));
}

TEST(Parser, OneBadTypeDoesNotHideTheNext) {
  expectErrors("graph @g(%x: tensor<4yf32>, %y: tensor<-3xf32>, %z: tensor<Nf32>) -> (y2: tensor<4xf3>) {\n  return %x\n}",
               {{UnexpectedToken, 1, 22}, {BadDim, 1, 40}, {UnexpectedToken, 1, 64}, {UnknownType, 1, 84}});
}

TEST(Parser, Attributes) {
  auto text = [&](std::string_view t) {
    auto attr = parseAttribute(t);
    return attr ? attr->str() : std::string(errorCodeName(attr.errors()[0].code));
  };
  for (const char *good : {"1", "-3", "1.5", "inf", "-inf", "nan", "max", "@f", "[1, 2]", "[]", "N", "4*N", "ceildiv(N, 128)*M",
                           "#rows<>", "#rows<block = [4, 1024], vec = 4, nested = #x<a = [b, @c]>>"}) {
    auto attr = parseAttribute(good);
    ASSERT_TRUE(attr) << good;
    auto again = parseAttribute(attr->str());
    ASSERT_TRUE(again) << attr->str();
    EXPECT_EQ(*attr, *again) << good;
  }
  EXPECT_EQ(text("true"), "1");
  EXPECT_EQ(text("2*3"), "6");
  EXPECT_EQ(text("Nx"), "E0313");
  EXPECT_EQ(text("#rows<a = 1, a = 2>"), "E0203");
  EXPECT_EQ(text("[1, 2"), "E0102");
  EXPECT_EQ(text("1e400"), "E0103");
}

TEST(Parser, Structure) {
  expectErrors("graph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n  %a = exp %x : tensor<4xf32>\n}\n",
               {{MissingTerminator, 3, 1}});
  expectErrors(graph("  return %x\n  %a = exp %x : tensor<4xf32>"), {{BadStructure, 3, 3}});
  expectErrors("graph @g() -> () {\n  return", {{UnexpectedToken, 2, 9}});
  expectErrors("graph @g() -> () {\n  return\n\n\n", {{UnexpectedToken, 2, 9}});
  expectErrors("graph @g(%x: f32) -> () {\n  %a = exp %x : f32\ngraph @h() -> () { return }\n", {{UnexpectedToken, 3, 1}});
  expectErrors("graph @g() -> () { return } }\ngraph @h() -> () { retrun }\n", {{UnexpectedToken, 1, 29}, {UnknownOp, 2, 20}});
  expectErrors("graph g() -> () { return }\nkernel @h() at tile { ret }\n", {{UnexpectedToken, 1, 7}, {UnknownOp, 2, 23}});
  expectErrors("graph @g() { return }", {{UnexpectedToken, 1, 12}});
  expectErrors("kernel @k() -> () at tile { return }", {{UnexpectedToken, 1, 13}});
  expectErrors("kernel @k() { return }", {{UnexpectedToken, 1, 13}});
  expectErrors("kernel @k() at fused { return }", {{WrongLevel, 1, 16}});
  expectErrors("graph @k() -> () at machine { return }", {{WrongLevel, 1, 21}});
  expectErrors("plan @k() -> () at plan { return }", {{UnexpectedToken, 1, 17}});
  expectErrors("kernel @k() at tile, a = 1, a = 2 { return }", {{Redefinition, 1, 29}});
  expectErrors("graph @1() -> () { return }", {{UnexpectedToken, 1, 7}});
  expectErrors("kernel @k() at tile {\n  for %a, { ^(%i index): yield %i }\n  %b = dim N : indx\n  return\n}\n",
               {{UnknownValue, 2, 7}, {UnexpectedToken, 2, 11}, {UnexpectedToken, 2, 18}, {UnknownType, 3, 16}});
  expectErrors(graph("  exp %x : tensor<4xf32>"), {{ResultCount, 2, 3}});
  expectErrors(graph("  %a, %b = exp %x : tensor<4xf32>"), {{ResultCount, 2, 12}});
  expectErrors(graph("  %a = add %x,\n  %b = exp %x : tensor<4xf32>"), {{UnexpectedToken, 3, 3}});
  expectErrors(graph("  %a = compare %x, %x : tensor<4xi1>"), {{MissingAttribute, 2, 8}});
  expectErrors(graph("  %a = compare less %x, %x : tensor<4xi1>"), {{BadAttribute, 2, 16}});
  expectErrors(graph("  %a = compare predicate = lt %x : tensor<4xi1>"),
               {{MissingAttribute, 2, 8}, {UnknownAttribute, 2, 16}, {UnexpectedToken, 2, 31}});
  expectErrors(graph("  %a = reduce sum %x, axes = [0], axes = [1] : tensor<f32>"), {{Redefinition, 2, 35}});
  expectErrors(graph("  %a = reduce sum %x axes = [0] : tensor<f32>"), {{UnexpectedToken, 2, 22}});
  expectErrors(graph("  %a = exp %x : tensor<4xf32> loc(0:1)"), {{UnexpectedToken, 2, 35}});
  expectErrors("#l = layout<reg = [], lane = [], warp = []>\n#l = layout<reg = [], lane = [], warp = []>", {{Redefinition, 2, 1}});
  expectErrors("#l = tile<>\ngraph @g() -> () { rtrn }", {{UnexpectedToken, 1, 6}, {UnknownOp, 2, 20}});
}

TEST(Parser, Bytes) {
  expectErrors("graph @g() -> () { return } \xc3\xa4\xc3\xb6", {{UnexpectedCharacter, 1, 29}});
  expectErrors(std::string("graph @g() -> () {\0 return }", 28), {{UnexpectedCharacter, 1, 19}});
  expectErrors("// \xc3\xa4 \x01\r\ngraph @g() -> () { return }\r\n", {});
  expectErrors(graph("  %a = exp %x ! : tensor<4xf32>"), {{UnexpectedCharacter, 2, 15}});
}

TEST(Parser, TooManyErrorsStops) {
  std::string body;
  for (int i = 0; i < 1000; ++i)
    body += "  %a" + std::to_string(i) + " = nothing %x : tensor<4xf32>\n";
  Diagnostics errors = errorsOf(graph(body));
  ASSERT_EQ(errors.size(), 21u);
  EXPECT_EQ(errors.back().code, TooManyErrors);
}

TEST(Parser, DeepNesting) {
  auto repeat = [](const std::string &text, size_t n) {
    std::string result;
    for (size_t i = 0; i < n; ++i)
      result += text;
    return result;
  };
  size_t many = 200000;
  EXPECT_EQ(errorsOf(constant(repeat("[", many), "f32")).at(0).code, TooDeep);
  EXPECT_EQ(errorsOf(constant(repeat("[", many) + repeat("]", many), "f32")).at(0).code, TooDeep);
  EXPECT_EQ(errorsOf(graph("%a = dim " + repeat("(", many))).at(0).code, TooDeep);
  EXPECT_EQ(errorsOf(graph("%a = dim " + repeat("ceildiv(", many))).at(0).code, TooDeep);
  EXPECT_EQ(errorsOf("graph @g(%x: tensor<" + repeat("(", many)).at(0).code, TooDeep);
  EXPECT_EQ(errorsOf("graph @g(%x: " + repeat("tensor<", many)).at(0).code, UnknownType);
  EXPECT_EQ(errorsOf("graph @g() -> (), a = " + repeat("#r<a = ", many)).at(0).code, TooDeep);
  EXPECT_EQ(errorsOf("kernel @k(%i: index) at tile {" + repeat("for %i, %i, %i {\n", many)).at(0).code, TooDeep);
  EXPECT_EQ(errorsOf("kernel @k(%i: index) at tile {" + repeat("{", many)).at(0).code, UnexpectedToken);
  EXPECT_EQ(errorsOf("kernel @k(%i: index) at tile {" + repeat("for %i, %i, %i {\n", 60) + "yield }" + repeat(" yield }", 59) +
                     "return }")
                .size(),
            0u);
}

TEST(Parser, HostileBytes) {
  // Whatever is cut off or replaced: a module or diagnostics with a place in the text, and what is read prints and reads back.
  auto check = [](const std::string &text) {
    Context context;
    SourceBuffer source("hostile.ir", text);
    auto module = parseModule(context, source);
    if (!module) {
      for (const Diagnostic &e : module.errors()) {
        ASSERT_TRUE(e.loc.isValid()) << text;
        ASSERT_FALSE(e.message.empty());
        ASSERT_GE(e.length, 1u);
      }
      ASSERT_FALSE(renderDiagnostics(module.errors(), &source).empty());
      return;
    }
    std::string printed = printModule(**module);
    auto again = parseModule(context, SourceBuffer("printed.ir", printed));
    ASSERT_TRUE(again) << printed;
    ASSERT_EQ(printModule(**again), printed);
  };
  ASSERT_TRUE(errorsOf(valid).empty()) << rendered(valid);
  for (size_t i = 0; i < valid.size(); ++i) {
    check(valid.substr(0, i));
    for (char c : {'\0', '\xff', '('}) {
      std::string changed = valid;
      changed[i] = c;
      check(changed);
    }
    if (testing::Test::HasFatalFailure())
      return;
  }
}

TEST(Parser, TimeIsLinear) {
  auto seconds = [](const std::string &text) {
    std::clock_t start = std::clock(); // Not the time of day: the machine may be busy.
    errorsOf(text);
    return double(std::clock() - start) / CLOCKS_PER_SEC;
  };
  // Generous limits, for sanitizers: a quadratic step on these sizes takes minutes.
  std::string chain, unknown;
  for (int i = 0; i < 10000; ++i) {
    std::string last = i ? "%a" + std::to_string(i - 1) : "%x";
    chain += "  %a" + std::to_string(i) + " = exp " + last + " : tensor<4xf32>\n";
    unknown += "  %a" + std::to_string(i) + " = exp %u" + std::to_string(i) + " : tensor<4xf32>\n";
  }
  EXPECT_TRUE(errorsOf(graph(chain)).empty());
  EXPECT_LT(seconds(graph(chain)), 5);
  EXPECT_LT(seconds(graph(unknown)), 5);
  std::string million(1 << 20, 'a'), digits(1 << 20, '1'), spaces(1 << 20, ' '), junk(1 << 20, '?'), braces(1 << 20, '{');
  EXPECT_LT(seconds(graph("  %" + million + " = exp %x : tensor<4xf32>\n  %b = exp %a" + million + " : tensor<4xf32>")), 5);
  EXPECT_LT(seconds(constant(digits, "f32")), 5);
  EXPECT_LT(seconds(constant("0." + digits, "f16")), 5);
  EXPECT_LT(seconds(constant("1.00048828125" + std::string(1 << 20, '0') + "1", "f16")), 5);
  EXPECT_LT(seconds(graph("tensor<" + digits + "xf32>")), 5);
  EXPECT_LT(seconds(graph(spaces)), 5);
  EXPECT_LT(seconds(junk), 5);
  EXPECT_LT(seconds(graph(junk)), 5);
  EXPECT_LT(seconds(graph(braces)), 5);
  std::string list = "[", fields, dims = "N", shape, functions = graph(chain);
  for (int i = 0; i < 100000; ++i) {
    list += "1.5, ";
    fields += "f" + std::to_string(i) + " = 1, ";
    dims += "*N";
    shape += "Nx";
    if (i < 50000)
      functions += "plan@f" + std::to_string(i) + "()->(){return}\n";
  }
  EXPECT_LT(seconds(constant(list + "1]", "tensor<100001xf32>")), 10);
  EXPECT_LT(seconds("kernel @k() at tile, r = #r<" + fields + "z = 1> { return }"), 10);
  EXPECT_LT(seconds("kernel @k() at tile, " + fields + "z = 1 { return }"), 10);
  EXPECT_LT(seconds("kernel @k() at tile, r = " + dims + " { return }"), 10);
  EXPECT_LT(seconds("graph @g(%x: tensor<" + shape + "f32>) -> () { return }"), 10);
  EXPECT_LT(seconds(functions), 10);
}
