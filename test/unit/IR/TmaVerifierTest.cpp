// What the verifier says about mbarriers, TMA and tensor maps: for each error a text that is right, and one change.
#include "MachineVerifierTest.h"

using namespace minic;
using namespace minic::test;
using enum ErrorCode;

namespace {

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

} // namespace
