// What the verifier says about wgmma, its waits and stmatrix: for each error a text that is right, and one change.
#include "MachineVerifierTest.h"

using namespace minic;
using namespace minic::test;
using enum ErrorCode;

namespace {

/// A product, its wait and a use.
const std::string multiply = R"(%f = wgmma nn %xs, %ws, %zero, %yes : inflight<tile<64x64xf32, #acc>>
  %d = wgmma_wait %f, pending = 0 : tile<64x64xf32, #acc>
  %e = neg %d : tile<64x64xf32, #acc>)";

TEST(MachineVerifier, WgmmaOperands) {
  Right right(kernel(multiply));
  right.wrong("nn %xs, %ws", "nn %xs, %plain", BadLayout,
              {"`wgmma` needs one stage of shared memory with #swizzle128, not %plain"});
  right.wrong("nn %xs, %ws", "nn %plain, %ws", BadLayout,
              {"`wgmma` needs one stage of shared memory with #swizzle128, not %plain"});
  right.wrong("nn %xs, %ws", "nn %ring, %ws", BadLayout, {"one stage of shared memory", "not %ring"});
  right.wrong("%xs = alloc_shared : smem<64x64xbf16", "%xs = alloc_shared : smem<64x64xf16", OperandType,
              {"needs a and b of one element type: %xs", "%ws"});
  right.wrong("%xs = alloc_shared : smem<64x64xbf16", "%xs = alloc_shared : smem<128x64xbf16", ShapeMismatch,
              {"multiplies 64xK by KxN: %xs: smem<128x64xbf16", "%ws"});
  right.wrong("%ws = alloc_shared : smem<64x64xbf16", "%ws = alloc_shared : smem<32x64xbf16", ShapeMismatch,
              {"multiplies 64xK by KxN"});
  right.wrong("%ws = alloc_shared : smem<64x64xbf16", "%ws = alloc_shared : smem<64x320xbf16", ShapeMismatch,
              {"N a multiple of 8 up to 256 and K a multiple of 16, not N = 320, K = 64"});
  right.wrong("nn %xs, %ws", "nn %xs, %c0", BadLayout, {"#swizzle128, not %c0: index"});
  const std::string transposed = replaced(kernel(multiply), "wgmma nn", "wgmma nt");
  Right other(transposed);
  other.wrong("%ws = alloc_shared : smem<64x64xbf16", "%ws = alloc_shared : smem<64x128xbf16", ShapeMismatch,
              {"multiplies 64xK by NxK transposed: %xs"});
  Right third(replaced(kernel(multiply), "nn %xs", "nn %half"));
  third.wrong("%half = constant 0.0 : tile<64x64xbf16, #acc>", "%half = constant 0.0 : tile<64x64xbf16, #rows>", BadLayout,
              {"needs a in registers as wgmma has it: %half"});
  third.wrong("%half = constant 0.0 : tile<64x64xbf16, #acc>", "%half = constant 0.0 : tile<64x128xbf16, #wide>", ShapeMismatch,
              {"multiplies 64xK by KxN: %half"});
}

TEST(MachineVerifier, WgmmaElementTypes) {
  std::string text =
      kernel("%f = wgmma nn %xs, %ws : inflight<tile<64x64xf32, #acc>>\n  %d = wgmma_wait %f, pending = 0 : tile<64x64xf32, #acc>");
  accept(text);
  for (const char *memory : {"%xs", "%ws"})
    text = replaced(text, std::string(memory) + " = alloc_shared : smem<64x64xbf16",
                    std::string(memory) + " = alloc_shared : smem<64x64xf64");
  refuse(text, UnsupportedDType, {"`wgmma` does not support f64", "only f32, f16, bf16, i8, u8, f8e4m3, f8e5m2"});
}

TEST(MachineVerifier, WgmmaResult) {
  for (const char *wrong : {"64x64xbf16, #acc", "64x64xf32, #rows", "64x128xf32, #wide"}) {
    std::string tile = "tile<" + std::string(wrong) + ">";
    refuse(kernel("%f = wgmma nn %xs, %ws : inflight<" + tile + ">\n  %d = wgmma_wait %f, pending = 0 : " + tile), TypeMismatch,
           {"`wgmma`: expected inflight<tile<64x64xf32, ...>> that lies as wgmma has it, stated inflight<"});
  }
}

TEST(MachineVerifier, WaitsThatDoNotReachAGroup) {
  accept(kernel("%f = wgmma nn %xs, %ws : inflight<tile<64x64xf32, #acc>>\n"
                "  %g = wgmma_wait %f, pending = 1 : inflight<tile<64x64xf32, #acc>>\n"
                "  %d = wgmma_wait %g, pending = 0 : tile<64x64xf32, #acc>"));
}

TEST(MachineVerifier, WgmmaAccumulators) {
  Right right(kernel(multiply));
  right.wrong("%zero, %yes", "%half, %yes", OperandType, {"`wgmma` adds to accumulators of the result's type, not to %half"});
  right.wrong("%zero, %yes", "%zero, %c1", OperandType, {"`wgmma` needs an i1, not %c1: index"});
  right.wrong("%zero, %yes", "%zero, %yes, %yes", OperandCount, {"`wgmma` takes a, b, accumulators and a condition"});
}

TEST(MachineVerifier, FourWarpsRunWgmmaAndStmatrix) {
  auto text = [](int warps, const std::string &body) {
    std::string words = std::to_string(warps);
    return "kernel @k() at machine, threads = " + std::to_string(32 * warps) + " {\n" +
           "  %xs = alloc_shared : smem<64x64xbf16, #swizzle128>\n  role a, warps = " + words + " {\n" + body +
           "\n    yield\n  }\n  return\n}\n";
  };
  const std::string four = "#t = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>\n",
                    eight = "#t = layout<reg = [1:2@1, 0:2@8, 1:4@8], lane = [1:4@2, 0:8@1], warp = [0:4@16, 1:2@32]>\n";
  const std::string wgmma =
      "    %f = wgmma nn %xs, %xs : inflight<tile<64x64xf32, #t>>\n    %d = wgmma_wait %f, pending = 0 : tile<64x64xf32, #t>";
  const std::string stmatrix = "    %v = constant 0.0 : tile<64x64xbf16, #t>\n    stmatrix %v, %xs";
  for (const std::string &body : {wgmma, stmatrix}) {
    accept(four + text(4, body));
    refuse(eight + text(8, body), BadStructure, {"is run by 4 warps, not by 8"});
  }
}

TEST(MachineVerifier, StMatrix) {
  Right right(kernel("stmatrix %half, %xs"));
  right.wrong("%half, %xs", "%c0, %xs", OperandType, {"`stmatrix` takes a tile here, not %c0: index"});
  right.wrong("%half, %xs", "%half, %plain", BadLayout,
              {"`stmatrix` needs one stage of shared memory with #swizzle128, not %plain"});
  right.wrong("%half, %xs", "%zero, %xs", OperandType,
              {"`stmatrix` needs a 16-bit tile and memory of its type and shape: %zero", "%xs"});
  right.wrong("%half = constant 0.0 : tile<64x64xbf16, #acc>", "%half = constant 0.0 : tile<64x128xbf16, #wide>", OperandType,
              {"a 16-bit tile and memory of its type and shape"});
  right.wrong("%half = constant 0.0 : tile<64x64xbf16, #acc>", "%half = constant 0.0 : tile<64x64xbf16, #rows>", BadLayout,
              {"`stmatrix` needs 64 rows that lie as wgmma leaves them: %half"});
}

TEST(MachineVerifier, NotesShowTheLayout) {
  Diagnostics list = findings(kernel("%t = constant 0.0 : tile<64x64xbf16, #rows>\n  stmatrix %t, %xs"));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_NE(
      text(list).find("for 64 columns wgmma's layout is <reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>"),
      std::string::npos)
      << text(list);
}

TEST(MachineVerifier, Undefined) {
  Right right(kernel("%u = undefined : inflight<tile<64x64xf32, #acc>>"));
  right.wrong("inflight<tile<64x64xf32, #acc>>", "tile<64x64xf32, #acc>", TypeMismatch,
              {"`undefined`: expected inflight<...>, stated tile<64x64xf32"});
}

TEST(MachineVerifier, WgmmaWait) {
  Right right(kernel(multiply));
  right.wrong("pending = 0", "pending = 8", BadAttribute, {"`pending` of `wgmma_wait` is from 0 to 7, not 8"});
  right.wrong("pending = 0", "pending = -1", BadAttribute, {"`pending` of `wgmma_wait` is from 0 to 7, not -1"});
  right.wrong("wgmma_wait %f, pending", "wgmma_wait %f, %half, pending", ResultCount,
              {"`wgmma_wait` of 2 values gives as many results, not 1"});
  right.wrong("pending = 0", "pending = 1", BadStructure,
              {"leaves the latest 1 group in flight, and that of %f may be one of them: its accumulators are no tile yet"},
              "wait with `pending = 0`, or state inflight<tile<64x64xf32");
  Right other(kernel("%f = wgmma nn %xs, %ws : inflight<tile<64x64xf32, #acc>>\n  %d, %h = wgmma_wait %f, %half, pending = 0 : "
                     "tile<64x64xf32, #acc>, tile<64x64xbf16, #acc>"));
  other.wrong("%f, %half, pending", "%f, %c0, pending", OperandType,
              {"`wgmma_wait` takes tiles and accumulators in flight, not %c0: index"});
  other.wrong(", tile<64x64xbf16, #acc>\n  return", ", tile<64x64xf32, #acc>\n  return", TypeMismatch,
              {"`wgmma_wait`", "tile<64x64xbf16"});
}

TEST(MachineVerifier, WaitsCountGroups) {
  // The first of two groups is done where one is pending.
  const std::string two = R"(%f = wgmma nn %xs, %ws : inflight<tile<64x64xf32, #acc>>
  %g = wgmma nt %xs, %ws : inflight<tile<64x64xf32, #acc>>
  %d = wgmma_wait %f, pending = 1 : tile<64x64xf32, #acc>
  %e = wgmma_wait %g, pending = 0 : tile<64x64xf32, #acc>)";
  Right right(kernel(two));
  right.wrong("wgmma_wait %f, pending = 1", "wgmma_wait %f, pending = 2", BadStructure,
              {"leaves the latest 2 groups in flight", "%f"});
}

TEST(MachineVerifier, InflightIsUsedOnce) {
  const std::string wait = "\n  %d = wgmma_wait %f, pending = 0 : tile<64x64xf32, #acc>";
  Right right(kernel("%f = wgmma nn %xs, %ws : inflight<tile<64x64xf32, #acc>>" + wait));
  right.wrong(wait, wait + "\n  %g = wgmma_wait %f, pending = 0 : tile<64x64xf32, #acc>", BadStructure,
              {"the accumulators in flight that `wgmma` gives are used 2 times: the tensor cores write one copy"});
  right.wrong(wait, "", BadStructure, {"the accumulators in flight that `wgmma` gives are used nowhere: nothing waits for them"});
  // Nothing is in flight yet, so nothing has to wait.
  accept(kernel("%u = undefined : inflight<tile<64x64xf32, #acc>>"));
}

TEST(MachineVerifier, InflightIsNotComputedWith) {
  for (const char *op : {"neg %f", "relu %f", "add %f, %f"}) {
    std::string use = std::string("%n = ") + op + " : inflight<tile<64x64xf32, #acc>>";
    Diagnostics list = findings(kernel("%f = wgmma nn %xs, %ws : inflight<tile<64x64xf32, #acc>>\n  " + use +
                                       "\n  %d = wgmma_wait %n, pending = 0 : tile<64x64xf32, #acc>"));
    ASSERT_FALSE(list.empty());
    bool twice = std::string(op).starts_with("add"); // The two uses are the first that is wrong.
    EXPECT_EQ(errorCodeName(list[0].code), errorCodeName(twice ? BadStructure : OperandType)) << text(list);
    EXPECT_NE(list[0].message.find(twice ? "are used 2 times" : "reads accumulators that are in flight"), std::string::npos)
        << text(list);
  }
}

/// Accumulators that a loop carries.
const std::string carried = R"(%u = undefined : inflight<tile<64x64xf32, #acc>>
  %last = for %c0, %c8, %c1, %u { ^(%i: index, %a: inflight<tile<64x64xf32, #acc>>):
    %s = wgmma nn %xs, %ws, %a : inflight<tile<64x64xf32, #acc>>
    %h = wgmma_wait %s, pending = 1 : inflight<tile<64x64xf32, #acc>>
    yield %h
  } : inflight<tile<64x64xf32, #acc>>
  %d = wgmma_wait %last, pending = 0 : tile<64x64xf32, #acc>)";

TEST(MachineVerifier, LoopsKeepAccumulatorsInTheirPlaces) {
  Right right(kernel(carried));
  right.wrong("%ws, %a :", "%ws :", BadStructure,
              {"accumulators in flight change places: %a of the loop gets accumulators that are not its own",
               "which would be copied while the tensor cores write them"},
              "yield the accumulators that came in as %a, or wait before");
  right.wrong("%ws, %a :", "%ws, %zero :", BadStructure, {"%a of the loop gets accumulators that are not its own"});
}

} // namespace
