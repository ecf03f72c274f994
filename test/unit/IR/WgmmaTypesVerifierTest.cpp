// What the verifier says about the element types of tensor cores: `precision` of products, operands of wgmma that do not have 16
// bits, maps that round.
#include "VerifierTest.h"

using namespace minic;
using namespace minic::test;
using enum ErrorCode;

namespace {

/// d = wgmma FORM a, b, where a is ROWSxK in shared memory and b COLUMNSxK; stated to be a tile of 64xN.
struct Wgmma {
  std::string type = "i8", sum = "i32", form = "nt", k = "128", columns = "64", other = type;
};

std::string textOf(const Wgmma &w) {
  std::string tile = "tile<64x64x" + w.sum + ", #acc>";
  return "#acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>\n"
         "kernel @k() at machine, threads = 128 {\n  %a = alloc_shared : smem<64x" +
         w.k + "x" + w.type + ", #swizzle128>\n  %b = alloc_shared : smem<" + w.columns + "x" + w.k + "x" + w.other +
         ", #swizzle128>\n  %f = wgmma " + w.form + " %a, %b : inflight<" + tile +
         ">\n  %d = wgmma_wait %f, pending = 0 : " + tile + "\n  return\n}\n";
}

const Wgmma right[] = {{"f32", "f32", "nt", "32"},     {"f32", "f32", "nt", "64"}, {"f8e4m3", "f32", "nt", "128"},
                       {"f8e5m2", "f32", "nt", "128"}, {"i8", "i32", "nt", "128"}, {"u8", "i32", "nt", "256"}};

TEST(WgmmaTypes, RowsOfK) {
  for (const Wgmma &each : right) {
    SCOPED_TRACE(each.type);
    accept(textOf(each));
    for (const char *form : {"nn", "tn", "tt"}) {
      Wgmma wrong = each;
      wrong.form = form;
      refuse(textOf(wrong), BadLayout,
             {"`wgmma` takes operands of " + each.type + " as `nt` from shared memory alone: both with rows of K: %a"});
    }
  }
}

TEST(WgmmaTypes, NotFromRegisters) {
  refuse(R"(#acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
kernel @k() at machine, threads = 128 {
  %a = constant 0.0 : tile<64x64xf32, #acc>
  %b = alloc_shared : smem<64x64xf32, #swizzle128>
  %f = wgmma nt %a, %b : inflight<tile<64x64xf32, #acc>>
  %d = wgmma_wait %f, pending = 0 : tile<64x64xf32, #acc>
  return
}
)",
         BadLayout, {"`wgmma` takes operands of f32 as `nt` from shared memory alone", "%a: tile<64x64xf32"});
}

TEST(WgmmaTypes, Sums) {
  for (const Wgmma &each : right) {
    SCOPED_TRACE(each.type);
    Wgmma wrong = each;
    wrong.sum = each.sum == "i32" ? "f32" : "i32";
    refuse(textOf(wrong), TypeMismatch,
           {"`wgmma`: expected inflight<tile<64x64x" + each.sum + ", ...>> that lies as wgmma has it, stated inflight<tile<64x64x" +
            wrong.sum});
  }
}

TEST(WgmmaTypes, OneElementType) {
  for (auto [a, b] : {std::pair("f8e4m3", "f8e5m2"), std::pair("i8", "u8")})
    refuse(textOf({.type = a, .sum = a[0] == 'f' ? "f32" : "i32", .other = b}), OperandType,
           {"`wgmma` needs a and b of one element type: %a", "%b"});
}

// PTX ISA, "Asynchronous Warpgroup Level Matrix Shape": N of integers goes in steps of 8 up to 24, then of 16.
TEST(WgmmaTypes, Columns) {
  for (const char *n : {"40", "56", "264"})
    refuse(textOf({.columns = n}), ShapeMismatch,
           {std::string("`wgmma` has N a multiple of 16 up to 256 and K a multiple of 32, not N = ") + n + ", K = 128: %a"});
  for (const char *n : {"8", "24", "48"}) // They are columns of products, but not of the stated result.
    refuse(textOf({.columns = n}), TypeMismatch, {std::string("expected inflight<tile<64x") + n + "xi32, ...>>"});
  refuse(textOf({.type = "f8e5m2", .sum = "f32", .columns = "40"}), TypeMismatch, {"expected inflight<tile<64x40xf32, ...>>"});
  refuse(textOf({.type = "f32", .sum = "f32", .k = "32", .columns = "264"}), ShapeMismatch,
         {"N a multiple of 8 up to 256 and K a multiple of 8, not N = 264, K = 32"});
}

TEST(WgmmaTypes, NoOthers) {
  for (const char *type : {"f64", "i32", "i64"})
    refuse(textOf({.type = type, .sum = "f32", .k = "64"}), UnsupportedDType, {std::string("`wgmma` does not support ") + type});
}

TEST(Precision, IsForF32) {
  auto matmul = [](const std::string &type, const std::string &precision) {
    std::string tensor = "tensor<4x4x" + type + ">";
    return "graph @g(%x: " + tensor + ") -> (y: " + tensor + ") {\n  %y = matmul %x, %x, precision = " + precision + " : " +
           tensor + "\n  return %y\n}\n";
  };
  auto dot = [](const std::string &type, const std::string &precision) {
    std::string zero = type[0] == 'i' ? "0" : "0.0";
    return "kernel @k() at tile {\n  %a = constant " + zero + " : tile<4x1x4x" + type + ">\n  %b = constant " + zero +
           " : tile<1x4x4x" + type + ">\n  %c = constant " + zero + " : tile<4x4x1x" + type +
           ">\n  %d = dot %a, %b, %c, axes = [2], precision = " + precision + " : tile<4x4x1x" + type + ">\n  return\n}\n";
  };
  for (const char *precision : {"tf32", "bf16x6"}) {
    accept(matmul("f32", precision));
    accept(dot("f32", precision));
    for (const char *type : {"f64", "f16", "bf16", "i8", "u8", "i32"})
      refuse(matmul(type, precision), BadAttribute, {"`precision` of `matmul` is for operands of f32, not of " + std::string(type)},
             "leave `precision` out");
    for (const char *type : {"f64", "i32"})
      refuse(dot(type, precision), BadAttribute, {"`precision` of `dot` is for operands of f32, not of " + std::string(type)},
             "leave `precision` out");
  }
}

TEST(Precision, IsOneOfTwoWords) {
  Context context;
  auto module = parseModule(context, SourceBuffer("test.ir", "graph @g(%x: tensor<4x4xf32>) -> (y: tensor<4x4xf32>) {\n"
                                                             "  %y = matmul %x, %x, precision = tf33 : tensor<4x4xf32>\n"
                                                             "  return %y\n}\n"));
  Diagnostics list = module ? verify(**module) : module.takeErrors();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_NE(text(list).find("`tf32`, `bf16x6`, not `tf33`"), std::string::npos) << text(list);
}

TEST(MapsThatRound, AreOfF32) {
  auto kernel = [](const std::string &map) {
    return "kernel @k(%m: tensor_map<" + map + ">) at machine, threads = 128 {\n  return\n}\n";
  };
  accept(kernel("MxKxf32, box = [64, 32], #swizzle128, tf32"));
  refuse(kernel("MxKxbf16, box = [64, 64], #swizzle128, tf32"), UnsupportedDType,
         {"tensor_map<MxKxbf16, box = [64, 64], #swizzle128, tf32> rounds to tf32, which only f32 is rounded to"});
}

} // namespace
