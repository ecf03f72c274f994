// What the verifier says about the ops and types of Hopper's machine level: for each error a text that is right, and one change.
#include "VerifierTest.h"

using namespace minic;
using namespace minic::test;
using enum ErrorCode;

namespace {

const std::string layouts = R"(#acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
#part = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
#wide = layout<reg = [1:2@1, 0:2@8, 1:16@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
#rows = layout<reg = [1:32@1], lane = [1:2@32, 0:16@1], warp = [0:4@16]>
)";

/// What the bodies use: maps and buffers, indices, two matrices, a ring, memory without a swizzle, mbarriers and tiles.
std::string kernel(const std::string &body) {
  return layouts +
         R"(kernel @k(%map: tensor_map<MxNxbf16, box = [64, 64], #swizzle128>, %b: buffer<MxNxbf16>) at machine, threads = 128 {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c8 = constant 8 : index
  %c64 = constant 64 : index
  %yes = compare eq %c0, %c0 : i1
  %xs = alloc_shared : smem<64x64xbf16, #swizzle128>
  %ws = alloc_shared : smem<64x64xbf16, #swizzle128>
  %ring = alloc_shared : smem<128x128xbf16, #swizzle128, stages = 2>
  %plain = alloc_shared : smem<64x64xbf16>
  %mw = alloc_shared : smem<64x128xbf16, #swizzle128>
  %full = mbarrier_init count = 1 : mbarrier<2>
  %half = constant 0.0 : tile<64x64xbf16, #acc>
  %zero = constant 0.0 : tile<64x64xf32, #acc>
)" + body +
         "\n  return\n}\n";
}

/// A text that verifies; with one change it gives exactly one error.
class Right {
public:
  explicit Right(const std::string &text) : text(text) { accept(text); }
  void wrong(const std::string &from, const std::string &to, ErrorCode code, const std::vector<std::string> &words,
             const std::string &fix = {}) const {
    SCOPED_TRACE(from + " -> " + to);
    refuse(replaced(text, from, to), code, words, fix);
  }

private:
  std::string text;
};

//===-- Roles ---------------------------------------------------------------------------------------------------------------===//

const std::string roles = R"(kernel @k() at machine, threads = 384 {
  %c0 = constant 0 : index
  role producer, warps = 4, regs = 24, active = thread {
    yield
  }
  role consumer, warps = 4, instances = 2, regs = 240 { ^(%who: index):
    barrier
    yield
  }
  return
})";

TEST(MachineVerifier, Roles) {
  Right right(roles);
  right.wrong("warps = 4, instances = 2", "warps = 33, instances = 2", BadAttribute,
              {"`role` has from 1 to 32 warps and instances, not 33 and 2"});
  right.wrong("instances = 2", "instances = 0", BadAttribute, {"`role` has from 1 to 32 warps and instances, not 4 and 0"});
  right.wrong("regs = 24,", "regs = 16,", BadAttribute, {"`role` has regs = 16, which is no multiple of 8 from 24 to 256"});
  right.wrong("regs = 240", "regs = 236", BadAttribute, {"`role` has regs = 236, which is no multiple of 8 from 24 to 256"});
  right.wrong("regs = 240", "regs = 264", BadAttribute, {"regs = 264", "no multiple of 8 from 24 to 256"});
  right.wrong("warps = 4, instances = 2", "warps = 3, instances = 2", BadAttribute,
              {"with `regs` has a multiple of 4 warps, not 3"});
  right.wrong("^(%who: index)", "^(%who: i1)", BadRegion,
              {"the region of `role` takes at most the number of the instance, an index"});
  right.wrong("^(%who: index)", "^(%who: index, %more: index)", BadRegion, {"at most the number of the instance"});
  right.wrong("barrier\n    yield", "barrier\n    yield %c0", BadRegion, {"the region of `role` yields nothing"});
  right.wrong("  return", "  barrier\n  return", BadStructure, {"only another role or `return` follows a role, not `barrier`"});
  right.wrong("threads = 384", "threads = 256", BadStructure,
              {"the roles of kernel @k have 384 threads together, but its header says threads = 256"});
  right.wrong("regs = 24, ", "", MissingAttribute, {"either every role has `regs` or none has"}, "add `regs`");
  right.wrong("regs = 24", "regs = 40", BadStructure,
              {"128 * 40 + 256 * 240 = 66560", "the CTA starts with 384 * 168 = 64512", "wait for the rest forever"},
              "lower `regs` of a role");
}

TEST(MachineVerifier, RolesWithRegistersStartAtAWarpgroup) {
  const std::string text =
      "kernel @k() at machine, threads = 320 {\n  role a, warps = 2 {\n    yield\n  }\n  role b, warps = 4 {\n    yield\n  }\n"
      "  role c, warps = 4 {\n    yield\n  }\n  return\n}\n";
  Right right(text);
  right.wrong("b, warps = 4", "b, warps = 4, regs = 24", BadAttribute,
              {"`regs` moves registers of 4 warps together, but this role starts at warp 2"});
}

TEST(MachineVerifier, OneFaultOfARoleIsOneError) {
  // What roles hold together is not asked where one of them is wrong by itself, and not of attributes that are not there.
  const std::string text = "kernel @k() at machine, threads = 64 {\n  role a, warps = 1 {\n    yield\n  }\n"
                           "  role b, warps = 1 {\n    barrier\n    yield\n  }\n  return\n}\n";
  Right right(text);
  right.wrong("a, warps = 1", "a, warps = 0", BadAttribute, {"from 1 to 32 warps and instances, not 0 and 1"});
  right.wrong("a, warps = 1", "a, warps = 9999999999999", BadAttribute, {"not 9999999999999 and 1"});
  right.wrong("a, warps = 1", "a, instances = 1", MissingAttribute, {"`role` needs `warps`"});
}

TEST(MachineVerifier, PlansReturnMemoryOfTheirOwn) {
  Right right("plan @p(%x: buffer<2xf32>) -> (y: buffer<2xf32>, z: buffer<2xf32>) {\n  %a = copy %x : buffer<2xf32>\n"
              "  %b = copy %x : buffer<2xf32>\n  return %a, %b\n}\n");
  right.wrong("return %a, %b", "return %a, %x", ReturnMismatch, {"gives %x, which is an input"}, "return a `copy` of it");
  right.wrong("return %a, %b", "return %a, %a", ReturnMismatch, {"gives %a twice"}, "return a `copy` of it");
}

TEST(MachineVerifier, WgmmaStartsAtAWarpgroup) {
  const std::string text =
      "kernel @k() at machine, threads = 256 {\n"
      "  %m = alloc_shared : smem<64x64xbf16, #swizzle128>\n  role a, warps = 4 {\n    yield\n  }\n"
      "  role b, warps = 4 {\n    %f = wgmma nn %m, %m : inflight<tile<64x64xf32, #layout<reg = [1:2@1, 0:2@8, "
      "1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>>>\n    %t = wgmma_wait %f, pending = 0 : tile<64x64xf32, "
      "#layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>>\n    yield\n  }\n"
      "  return\n}\n";
  accept(text);
  std::string shifted = replaced(replaced(text, "role a, warps = 4", "role a, warps = 2"), "threads = 256", "threads = 192");
  refuse(shifted, BadStructure, {"from a multiple of 4 on, but this role starts at warp 2"});
}

TEST(MachineVerifier, RolesStandAtTheTop) {
  Right right("kernel @k() at machine, threads = 64 {\n  role a, warps = 2 {\n    barrier\n    yield\n  }\n  return\n}\n");
  right.wrong("    barrier\n", "    role b, warps = 2 {\n      yield\n    }\n", BadStructure,
              {"`role` stands at the top level of a kernel, not inside another operation"});
}

TEST(MachineVerifier, FifteenBarriersForRoles) {
  auto text = [](int instances) {
    return "kernel @k() at machine, threads = " + std::to_string(32 * instances + 32) +
           " {\n  role a, warps = 1 {\n    yield\n  }\n" + "  role b, warps = 1, instances = " + std::to_string(instances) +
           " {\n    barrier\n    yield\n  }\n  return\n}\n";
  };
  accept(text(14));
  refuse(text(15), BadStructure, {"`barrier` in a role: there are 15 barriers for the instances of roles, not 16"});
  accept(replaced(text(15), "    barrier\n", ""));
}

/// A tile of one warp, in a role of one warp.
const std::string tileInRole = R"(#one = layout<reg = [], lane = [0:32@1], warp = []>
#two = layout<reg = [], lane = [_:32], warp = [_:2]>
kernel @k(%x: buffer<32xf32>) at machine, threads = 64 {
  %c0 = constant 0 : index
  %outside = constant 0.0 : tile<1xf32, #two>
  role a, warps = 1 {
    %v = constant 0.0 : tile<32xf32, #one>
    store %v, %x, %c0, mask = [], vec = 1
    yield
  }
  role b, warps = 1 {
    %i = add %c0, %c0 : index
    yield
  }
  return
})";

TEST(MachineVerifier, TilesStayInTheirRole) {
  Right right(tileInRole);
  right.wrong("store %v, %x", "%n = neg %outside : tile<1xf32, #two>\n    store %v, %x", BadLayout, {"2 warps"});
  right.wrong("store %v, %x", "store %outside, %x", BadStructure,
              {"%outside of `store` is a tile from outside the role, whose warps do not hold it"});
}

TEST(MachineVerifier, OneThreadHasNoTiles) {
  Right right(roles);
  right.wrong("active = thread {\n", "active = thread {\n    barrier\n", BadStructure,
              {"`barrier` needs all threads of the role, which says `active = thread`"});
  right.wrong("active = thread {\n",
              "active = thread {\n    %t = constant 0.0 : tile<32xf32, #layout<reg = [], lane = [0:32@1], warp = [_:4]>>\n",
              BadStructure, {"`constant` needs all threads of the role, which says `active = thread`"});
}

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

//===-- Mbarriers -----------------------------------------------------------------------------------------------------------===//

TEST(MachineVerifier, MbarrierInit) {
  Right right(kernel("%e = mbarrier_init count = 8 : mbarrier<4>"));
  right.wrong("count = 8 : mbarrier<4>", "count = 8 : index", TypeMismatch,
              {"`mbarrier_init`: expected mbarrier<...>, stated index"});
  right.wrong("count = 8", "count = 0", BadAttribute, {"`count` of `mbarrier_init` is from 1 to 1048575, not 0"});
  right.wrong("count = 8", "count = 1048576", BadAttribute, {"`count` of `mbarrier_init` is from 1 to 1048575, not 1048576"});
  Right other("kernel @k() at machine, threads = 32 {\n  role a, warps = 1 {\n    barrier\n    yield\n  }\n  return\n}\n");
  other.wrong("    barrier\n", "    %e = mbarrier_init count = 1 : mbarrier<1>\n", BadStructure,
              {"`mbarrier_init` stands at the top level of a kernel: mbarriers start once"});
}

TEST(MachineVerifier, MbarrierUse) {
  Right right(kernel("mbarrier_expect %full, %c0, bytes = 1024"));
  right.wrong("%full, %c0, bytes", "%plain, %c0, bytes", OperandType, {"`mbarrier_expect` takes", "not %plain"});
  right.wrong("%full, %c0, bytes", "%full, %yes, bytes", OperandType, {"`mbarrier_expect`", "%yes: i1"});
  right.wrong("bytes = 1024", "bytes = -16", BadAttribute, {"`bytes` of `mbarrier_expect` is from 0 to 1048575, not -16"});
  right.wrong("bytes = 1024", "bytes = 1048576", BadAttribute, {"`bytes` of `mbarrier_expect` is from 0 to 1048575"});
  Right other(kernel("mbarrier_arrive %full, %c0, %yes"));
  other.wrong("%full, %c0, %yes", "%full, %c0, %c1", OperandType, {"`mbarrier_arrive` needs an i1, not %c1: index"});
  other.wrong("%full, %c0, %yes", "%full, %c0, %yes, %yes", OperandCount,
              {"`mbarrier_arrive` takes an mbarrier, a position and at most one condition"});
  Right third(kernel("mbarrier_wait %full, %c0, lap = previous"));
  third.wrong("mbarrier_wait %full", "mbarrier_wait %xs", OperandType, {"`mbarrier_wait` takes", "not %xs"});
}

//===-- TMA -----------------------------------------------------------------------------------------------------------------===//

TEST(MachineVerifier, TmaLoad) {
  Right right(kernel("tma_load %map, %xs, %full, %c0, %c0, %c64"));
  right.wrong("tma_load %map", "tma_load %b", OperandType, {"`tma_load` takes", "not %b: buffer<MxNxbf16>"});
  right.wrong("%map, %xs", "%map, %half", OperandType, {"`tma_load` takes", "not %half"});
  right.wrong("%xs, %full, %c0", "%xs, %ws, %c0", OperandType, {"`tma_load` takes", "not %ws"});
  right.wrong("%full, %c0, %c0, %c64", "%full, %yes, %c0, %c64", OperandType, {"`tma_load`", "%yes: i1"});
  right.wrong("%c0, %c0, %c64", "%c0, %c0", OperandCount, {"`tma_load` needs one index for each axis of the map", "not 1"});
  right.wrong("%c0, %c0, %c64", "%c0, %c0, %yes", OperandType, {"`tma_load`", "%yes: i1"});
  right.wrong("%map, %xs", "%map, %ring", OperandType,
              {"`tma_load` needs a map and one stage of memory of one element type: %map", "%ring"});
  right.wrong("box = [64, 64]", "box = [32, 64]", ShapeMismatch,
              {"moves the map's box, which is not the memory's shape: %map", "%xs"});
  right.wrong("MxNxbf16, box = [64, 64], #swizzle128", "MxNxbf16, box = [64, 64], #swizzle64", BadLayout,
              {"`tma_load` needs a map and memory of one swizzle: %map", "%xs"});
  right.wrong("MxNxbf16, box", "MxNxf16, box", OperandType, {"one stage of memory of one element type"});
  right.wrong("%c0, %c0, %c64", "%c0, %c0, %c1", ShapeMismatch,
              {"moves whole pieces of 16 bytes, so its last index is a multiple of 8, not 1"});
}

TEST(MachineVerifier, TmaLoadToMemoryWithoutASwizzle) {
  const std::string text =
      replaced(kernel("tma_load %map, %plain, %full, %c0, %c0, %c64"), "box = [64, 64], #swizzle128", "box = [64, 64]");
  Right right(text);
  right.wrong("%plain = alloc_shared : smem<64x64xbf16>", "%plain = alloc_shared : smem<64x64xbf16, strides = [72, 1]>", BadLayout,
              {"`tma_load` needs memory without strides"});
}

TEST(MachineVerifier, BoxesOfOneInFront) {
  // What moves is a matrix of the tensor; its leading extents are 1.
  const std::string text = replaced(kernel("tma_load %map, %xs, %full, %c0, %c1, %c0, %c64"), "MxNxbf16, box = [64, 64]",
                                    "BxMxNxbf16, box = [1, 64, 64]");
  Right right(text);
  right.wrong("box = [1, 64, 64]", "box = [2, 64, 64]", ShapeMismatch, {"which is not the memory's shape"});
}

TEST(MachineVerifier, TmaStore) {
  Right right(kernel("tma_store %xs, %map, %c0, %c64"));
  right.wrong("%xs, %map", "%map, %xs", OperandType, {"`tma_store` takes"});
  right.wrong("%map, %c0, %c64", "%map, %c0", OperandCount, {"`tma_store` needs one index for each axis of the map"});
  right.wrong("%xs, %map", "%plain, %map", BadLayout, {"`tma_store` needs a map and memory of one swizzle"});
  Right other(kernel("tma_store_wait pending = 64"));
  other.wrong("pending = 64", "pending = 65", BadAttribute, {"`pending` of `tma_store_wait` is from 0 to 64, not 65"});
  other.wrong("pending = 64", "pending = -1", BadAttribute, {"`pending` of `tma_store_wait` is from 0 to 64, not -1"});
  Right third(kernel("tma_prefetch %map"));
  third.wrong("tma_prefetch %map", "tma_prefetch %b", OperandType, {"`tma_prefetch` takes", "not %b"});
}

TEST(MachineVerifier, TensorMapsOfPlans) {
  const std::string text =
      R"(kernel @k(%m: tensor_map<MxNxbf16, box = [64, 64], #swizzle128>, %y: buffer<MxNxbf16>) at machine, threads = 32 {
  return
}
plan @p(%x: buffer<MxNxbf16>, %f: buffer<MxNxf16>) -> (y: buffer<MxNxbf16>) {
  %y = alloc : buffer<MxNxbf16>
  %m = tensor_map %x : tensor_map<MxNxbf16, box = [64, 64], #swizzle128>
  launch @k(%m, %y), grid = [1]
  return %y
})";
  Right right(text);
  right.wrong(
      "tensor_map %x :", "tensor_map %f :", TypeMismatch,
      {"`tensor_map`: expected a tensor_map with the shape and element type of %f: buffer<MxNxf16>, stated tensor_map<MxNxbf16"});
  right.wrong("launch @k(%m, %y)", "launch @k(%x, %y)", LaunchMismatch,
              {"`launch` of @k gives %x: buffer<MxNxbf16> for parameter %m: tensor_map<"});
  right.wrong("box = [64, 64], #swizzle128>\n  launch", "box = [32, 64], #swizzle128>\n  launch", LaunchMismatch,
              {"`launch` of @k gives %m: tensor_map<MxNxbf16, box = [32, 64]"});
  // A map that no launch uses, and one that comes from outside.
  Right unused("plan @p(%x: buffer<8x8xf32>) -> (y: buffer<8x8xf32>) {\n  %y = alloc : buffer<8x8xf32>\n"
               "  %m = tensor_map %x : tensor_map<8x8xf32, box = [8, 8]>\n  return %y\n}\n");
  unused.wrong("tensor_map %x : tensor_map<8x8xf32, box = [8, 8]>", "tensor_map %x : buffer<8x8xf32>", TypeMismatch,
               {"`tensor_map`: expected a tensor_map", "stated buffer<8x8xf32>"});
  unused.wrong("tensor_map %x : tensor_map<8x8xf32, box = [8, 8]>", "tensor_map %x : tensor_map<8x4xf32, box = [8, 4]>",
               TypeMismatch, {"`tensor_map`: expected a tensor_map with the shape and element type of %x"});
  unused.wrong("(%x: buffer<8x8xf32>)", "(%x: buffer<8x8xf32>, %z: tensor_map<8x8xf32, box = [8, 8]>)", OperandType,
               {"parameter %z of plan @p must be a buffer, not tensor_map<"});
}

TEST(MachineVerifier, MapsAreForTheMachineLevel) {
  Right right("kernel @k(%x: buffer<MxNxbf16>) at tile {\n  return\n}\n");
  right.wrong("buffer<MxNxbf16>", "tensor_map<MxNxbf16, box = [8, 8]>", OperandType,
              {"parameter %x of kernel @k must be a buffer, not tensor_map<"});
  Right other(kernel("%i = add %c0, %c1 : index"));
  other.wrong("add %c0, %c1 : index", "add %c0, %c1 : tensor_map<MxNxbf16, box = [8, 8]>", TypeMismatch,
              {"expected a tile, shared memory or an index, stated tensor_map<"});
}

//===-- Tensor cores --------------------------------------------------------------------------------------------------------===//

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
