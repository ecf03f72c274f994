// What the verifier says about shared memory, parts of tiles and types of Hopper's machine level: for each error a text that is
// right, and one change. Then what the parser says of them.
#include "MachineVerifierTest.h"

using namespace minic;
using namespace minic::test;
using enum ErrorCode;

namespace {

//===-- Shared memory -------------------------------------------------------------------------------------------------------===//

TEST(MachineVerifier, AllocShared) {
  Right right(kernel("%s = alloc_shared : smem<32xf32>"));
  right.wrong("smem<32xf32>", "index", TypeMismatch, {"`alloc_shared`: expected shared memory, smem<...>, stated index"});
}

TEST(MachineVerifier, SharedAccess) {
  Right right(kernel("shared_store %half, %plain"));
  right.wrong("%half, %plain", "%zero, %plain", OperandType,
              {"one shape and element type: %zero: tile<64x64xf32", "%plain: smem<64x64xbf16>"});
  right.wrong("%half, %plain", "%c0, %plain", OperandType, {"`shared_store` takes a tile here, not %c0: index"});
  right.wrong("%half, %plain", "%half, %half", OperandType, {"`shared_store` takes", "here, not %half"});
  right.wrong("%half, %plain", "%half, %mw", ShapeMismatch, {"one shape and element type", "%mw: smem<64x128xbf16"});
  right.wrong("%half, %plain", "%half, %ring", OperandType, {"`shared_store` takes one stage of memory, not %ring"});
  Right other(kernel("%t = shared_load %plain : tile<64x64xbf16, #acc>"));
  other.wrong("%plain : tile<64x64xbf16, #acc>", "%plain : tile<64x64xf32, #acc>", TypeMismatch,
              {"expected a tile of the shape and element type of %plain: smem<64x64xbf16>, stated tile<64x64xf32"});
  other.wrong("%plain : tile<64x64xbf16, #acc>", "%plain : tile<64x16xbf16, #part>", TypeMismatch,
              {"expected a tile of the shape"});
  other.wrong("shared_load %plain", "shared_load %ring", OperandType, {"`shared_load` takes one stage of memory, not %ring"});
  other.wrong("shared_load %plain", "shared_load %half", OperandType, {"`shared_load` takes", "not %half"});
}

TEST(MachineVerifier, Stages) {
  Right right(kernel("%s = stage %ring, %c1 : smem<128x128xbf16, #swizzle128>"));
  right.wrong("stage %ring", "stage %full", OperandType, {"`stage` takes", "not %full: mbarrier<2>"});
  right.wrong("%ring, %c1", "%ring, %yes", OperandType, {"`stage`", "%yes: i1"});
  right.wrong("smem<128x128xbf16, #swizzle128>\n  return", "smem<128x128xbf16, #swizzle128, stages = 2>\n  return", TypeMismatch,
              {"`stage`", "smem<128x128xbf16, #swizzle128>"});
}

TEST(MachineVerifier, SharedViews) {
  const std::string view = "%s = stage %ring, %c1 : smem<128x128xbf16, #swizzle128>\n"
                           "  %v = shared_view %s, %c64, %c0 : smem<64x128xbf16, #swizzle128, slab = 128>";
  Right right(kernel(view));
  right.wrong("shared_view %s", "shared_view %ring", OperandType, {"needs one stage of shared memory, not %ring"});
  right.wrong("shared_view %s", "shared_view %plain", TypeMismatch,
              {"of memory that is not swizzled sees elements of %plain", "under other axes", "stated smem<64x128xbf16"});
  right.wrong("smem<64x128xbf16, #swizzle128, slab = 128>", "smem<64x128xf16, #swizzle128, slab = 128>", TypeMismatch,
              {"expected shared memory with the element type and swizzle of %s", "stated smem<64x128xf16"});
  right.wrong("smem<64x128xbf16, #swizzle128, slab = 128>", "smem<64x128xbf16, #swizzle64, slab = 128>", TypeMismatch,
              {"element type and swizzle of %s"});
  right.wrong("smem<64x128xbf16, #swizzle128, slab = 128>", "smem<64x128xbf16, #swizzle128, slab = 128, stages = 2>", TypeMismatch,
              {"element type and swizzle of %s"});
  right.wrong("smem<64x128xbf16, #swizzle128, slab = 128>", "smem<64x128xbf16, #swizzle128>", TypeMismatch,
              {"the slabs of smem<64x128xbf16, #swizzle128> are not as far apart as those of %s"}, "write `slab = 128`");
  right.wrong("smem<64x128xbf16, #swizzle128, slab = 128>", "smem<128x128xbf16, #swizzle128>", ShapeMismatch,
              {"at (64, 0) is not a box of %s", "a multiple of 8 rows and 64 columns"});
  right.wrong("%c64, %c0", "%c1, %c0", ShapeMismatch, {"at (1, 0) is not a box of %s"});
  right.wrong("%c64, %c0", "%c64, %c8", ShapeMismatch, {"at (64, 8) is not a box of %s"});
  right.wrong("%c64, %c0", "%c64, %c64", ShapeMismatch, {"at (64, 64) is not a box of %s"});
  right.wrong("%c64, %c0", "%c64, %yes", OperandType, {"`shared_view`", "%yes: i1"});
  // Where it is one slab wide, nothing is to be said about slabs.
  accept(kernel("%s = stage %ring, %c1 : smem<128x128xbf16, #swizzle128>\n"
                "  %v = shared_view %s, %c64, %c64 : smem<64x64xbf16, #swizzle128>"));
}

//===-- Parts of tiles ------------------------------------------------------------------------------------------------------===//

TEST(MachineVerifier, ExtractTile) {
  Right right(kernel("%p = extract_tile %zero, %c0, %c0 : tile<64x16xf32, #part>"));
  right.wrong("tile %zero", "tile %plain", OperandType, {"`extract_tile` takes a tile here, not %plain"});
  right.wrong("tile<64x16xf32, #part>", "tile<64x16xbf16, #part>", TypeMismatch,
              {"`extract_tile` needs a part of the element type and rank of %zero"});
  right.wrong("tile<64x16xf32, #part>", "tile<32xf32, #layout<reg = [], lane = [0:32@1], warp = [_:4]>>", TypeMismatch,
              {"needs a part of the element type and rank"});
  right.wrong("%zero, %c0, %c0 :", "%zero, %c0 :", OperandCount, {"needs one index for each axis of %zero", "not 1"});
  right.wrong("%zero, %c0, %c0 :", "%zero, %c0, %yes :", OperandType, {"`extract_tile`", "%yes: i1"});
  right.wrong("tile<64x16xf32, #part>", "tile<64x64xf32, #rows>", BadLayout,
              {"is no part of %zero", "whose threads hold the same elements"});
  right.wrong("tile<64x16xf32, #part>", "tile<64x128xf32, #wide>", BadLayout, {"is no part of %zero"});
}

//===-- Types ---------------------------------------------------------------------------------------------------------------===//

TEST(MachineVerifier, TypesOfSharedMemory) {
  Right right(kernel("%s = alloc_shared : smem<72x64xbf16, #swizzle128, slab = 80, stages = 64>"));
  right.wrong("stages = 64", "stages = 65", BadLayout, {"must have from 1 to 64 stages"});
  right.wrong("stages = 64", "stages = 0", BadLayout, {"must have from 1 to 64 stages"});
  right.wrong("#swizzle128, slab = 80", "slab = 80", BadLayout, {"has `slab`, which only swizzled memory has"});
  right.wrong("slab = 80", "slab = 64", BadLayout, {"multiple of 8 rows, and slabs a multiple of 8 rows apart that hold them"});
  right.wrong("slab = 80", "slab = 84", BadLayout, {"multiple of 8 rows, and slabs"});
  right.wrong("slab = 80", "slab = 1048584", BadLayout, {"multiple of 8 rows, and slabs"});
  right.wrong("72x64xbf16, #swizzle128, slab = 80", "68x64xbf16, #swizzle128", BadLayout, {"must have a multiple of 8 rows"});
  right.wrong("72x64xbf16", "72x48xbf16", BadLayout, {"has rows of 96 bytes, which are not a multiple of its swizzle"});
  right.wrong("72x64xbf16, #swizzle128, slab = 80", "2x72x64xbf16, #swizzle128", BadLayout,
              {"is swizzled, so it must have two axes and no strides"});
  right.wrong("72x64xbf16, #swizzle128, slab = 80", "72x64xbf16, #swizzle128, strides = [64, 1]", BadLayout,
              {"two axes and no strides"});
}

TEST(MachineVerifier, TypesOfMaps) {
  auto text = [](const std::string &map) {
    return "kernel @k(%x: tensor_map<" + map + ">) at machine, threads = 32 {\n  return\n}\n";
  };
  for (const char *fine :
       {"MxNxbf16, box = [64, 256], #swizzle128", "MxNxbf16, box = [256, 8]", "64x1008xbf16, box = [64, 64], #swizzle128",
        "AxBxCxDxExf32, box = [1, 1, 1, 8, 64], #swizzle128", "64x1000xbf16, box = [64, 128], #swizzle128",
        "AxBxCxDxf32, box = [1, 1, 8, 64], #swizzle128", "Nxf32, box = [32], #swizzle128"})
    accept(text(fine));
  for (const auto &[map, words] : std::vector<std::pair<std::string, std::string>>{
           {"MxNxbf16", "needs a box with one extent for each axis of its tensor"},
           {"MxNxbf16, box = [0, 64]", "has a box with an extent that is not from 1 to 256"},
           {"MxNxbf16, box = [264, 64]", "has a box with an extent that is not from 1 to 256"},
           {"MxNxbf16, box = [8, 4]", "has a box with rows of 8 bytes, which is no multiple of 16"},
           {"MxNxbf16, box = [8, 32], #swizzle128", "has a box with rows of 64 bytes, which is no multiple of 128"},
           {"MxNxbf16, box = [8, 96], #swizzle128", "has a box with rows of 192 bytes, which is no multiple of 128"},
           {"AxBxCxDxExFxf32, box = [1, 1, 1, 1, 8, 4]", "has more than 5 axes"},
           {"0xNxbf16, box = [8, 8]", "has a size of 0, which no tensor map can have"},
           {"64x1001xbf16, box = [64, 64], #swizzle128", "has rows of 2002 bytes, but TMA needs a multiple of 16"}})
    refuse(text(map), BadLayout, {"parameter %x of kernel @k: tensor_map<", words});
}

TEST(MachineVerifier, TypesOfMbarriers) {
  Right right(kernel("%e = mbarrier_init count = 1 : mbarrier<1024>"));
  right.wrong("mbarrier<1024>", "mbarrier<1025>", BadDim, {"mbarrier<1025> has from 1 to 1024 mbarriers"});
  right.wrong("mbarrier<1024>", "mbarrier<0>", BadDim, {"mbarrier<0> has from 1 to 1024 mbarriers"});
}

TEST(MachineVerifier, TypesOfTilesInFlight) {
  Right right(kernel("%u = undefined : inflight<tile<64x64xf32, #acc>>"));
  right.wrong("tile<64x64xf32, #acc>>", "tile<64x64xf32>>", BadLayout,
              {"has no layout, which every tile has at the machine level"});
  right.wrong("tile<64x64xf32, #acc>>", "tile<64x32xf32, #acc>>", BadLayout,
              {"does not hold every element of the tile equally often"});
  right.wrong("tile<64x64xf32, #acc>>", "tile<64x0xf32, #acc>>", BadDim, {"extent 0 of inflight<", "is not a positive integer"});
}

TEST(MachineVerifier, LayoutsAreForTheThreadsOfTheRole) {
  const std::string text = R"(#four = layout<reg = [], lane = [0:32@1], warp = [0:4@32]>
#two = layout<reg = [0:2@64], lane = [0:32@1], warp = [0:2@32]>
kernel @k() at machine, threads = 128 {
  %a = constant 0.0 : tile<128xf32, #four>
  role r, warps = 2, instances = 2 {
    %b = constant 0.0 : tile<128xf32, #two>
    yield
  }
  return
})";
  Right right(text);
  right.wrong("%b = constant 0.0 : tile<128xf32, #two>", "%b = constant 0.0 : tile<128xf32, #four>", BadLayout,
              {"is for 4 warps", "2 warps"});
  right.wrong("%a = constant 0.0 : tile<128xf32, #four>", "%a = constant 0.0 : tile<128xf32, #two>", BadLayout,
              {"is for 2 warps", "4 warps"});
}

TEST(MachineVerifier, LoopsDoNotCarryMemory) {
  Right right(kernel("%n = for %c0, %c8, %c1, %c0 { ^(%i: index, %a: index):\n    yield %a\n  } : index"));
  right.wrong("%c1, %c0 { ^(%i: index, %a: index):\n    yield %a\n  } : index",
              "%c1, %full { ^(%i: index, %a: mbarrier<2>):\n    yield %a\n  } : mbarrier<2>", OperandType,
              {"`for` carries tiles and scalars, not %full: mbarrier<2>"});
}

//===-- The parser ----------------------------------------------------------------------------------------------------------===//

TEST(MachineParser, NewTypes) {
  auto said = [](const std::string &type) {
    Context context;
    auto module = parseModule(
        context, SourceBuffer("test.ir",
                              layouts + "kernel @k() at machine, threads = 128 {\n  %a = undefined : " + type + "\n  return\n}\n"));
    return module ? std::string() : text(module.errors());
  };
  for (const char *fine : {"inflight<tile<64x64xf32, #acc>>", "mbarrier<1>", "smem<64x64xbf16, #swizzle32, slab = 128, stages = 4>",
                           "smem<64x64xbf16, stages = 2, #swizzle64>", "tensor_map<MxNxf32, #swizzle128, box = [8, 32]>"})
    EXPECT_EQ(said(fine), "") << fine;
  for (const auto &[type, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"smem<64x64xbf16, #swizzle256>", {"`#swizzle256` is no swizzle: #swizzle32, #swizzle64 or #swizzle128", "E0202"}},
           {"tensor_map<MxNxbf16, box = [8, 64], #swizzle>", {"`#swizzle` is no swizzle", "E0202"}},
           {"tensor_map<MxNxbf16, box = [64]>", {"one extent of the box for each axis: 2, not 1", "E0313"}},
           {"tensor_map<MxNxbf16, box = [1, 64, 64]>", {"one extent of the box for each axis: 2, not 3", "E0313"}},
           {"smem<64x64xbf16, strides = [64]>", {"one stride for each axis: 2, not 1", "E0313"}},
           {"tensor_map<MxNxbf16, stages = 2>", {"`box = [...]`, a swizzle or `tf32`", "E0102"}},
           {"smem<64x64xbf16, box = [8, 8]>", {"`strides = [...]`, a swizzle, `slab = ...` or `stages = ...`", "E0102"}},
           {"smem<64x64xbf16, #swizzle128, #swizzle128>", {"`strides = [...]`, a swizzle", "E0102"}},
           {"tile<64x64xf32, box = [8, 8]>", {"a layout", "E0102"}},
           {"smem<MxNxbf16>", {"the extents of a smem are integers", "E0313"}},
           {"inflight<smem<64x64xf32>>",
            {"only a tile can be in flight, not smem<64x64xf32>", "E0205", "write `inflight<tile<...>>`"}},
           {"inflight<f32>", {"only a tile can be in flight, not f32", "E0205"}},
           {"inflight<inflight<tile<64x64xf32, #acc>>>", {"only a tile can be in flight", "E0205"}},
           {"inflight", {"`<` and the tile in flight", "E0102"}},
           {"mbarrier", {"`<` and how many mbarriers there are", "E0102"}},
           {"mbarrier<N>", {"an integer", "E0102"}},
           {"mbarrier<99999999999999999999>", {"is not a size", "E0313"}}})
    for (const std::string &word : words)
      EXPECT_NE(said(type).find(word), std::string::npos) << "no '" << word << "' for " << type << " in " << said(type);
}

TEST(MachineParser, WordsOfOps) {
  auto said = [](const std::string &op) {
    Context context;
    auto module = parseModule(context, SourceBuffer("test.ir", kernel(op)));
    return module ? std::string() : text(module.errors());
  };
  EXPECT_NE(
      said("%f = wgmma tm %xs, %ws : inflight<tile<64x64xf32, #acc>>").find("the form is one of `nn`, `nt`, `tn`, `tt`, not `tm`"),
      std::string::npos);
  EXPECT_NE(said("mbarrier_wait %full, %c0, lap = next").find("the lap is one of `this`, `previous`, not `next`"),
            std::string::npos);
}

} // namespace
