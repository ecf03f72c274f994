// What the verifier refuses of cp_async, ldmatrix and mma.
#include "VerifierTest.h"

using namespace minic;
using namespace minic::test;

namespace {

const std::string product = R"(#a = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:2@16]>
#b = layout<reg = [0:2@1, 0:2@8, 1:2@8], lane = [0:4@2, 1:8@1], warp = [_:2]>
#acc = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:2@16]>
#other = layout<reg = [1:16@1], lane = [0:32@1], warp = [_:2]>
kernel @k(%x: buffer<Mx32xbf16>, %w: buffer<32x16xbf16>, %odd: buffer<32x18xbf16>, %f: buffer<32x32xf32>, %s: buffer<32x32xbf16, strided>) at machine, threads = 64 {
  %c0 = constant 0 : index
  %c16 = constant 16 : index
  %c4 = constant 4 : index
  %xs = alloc_shared : smem<32x32xbf16, #swizzle64>
  %ws = alloc_shared : smem<32x16xbf16, #swizzle32>
  %plain = alloc_shared : smem<32x16xbf16>
  %ring = alloc_shared : smem<32x16xbf16, #swizzle32, stages = 2>
  %zero = constant 0.0 : tile<32x16xf32, #acc>
  %narrow = constant 0.0 : tile<32x16xbf16, #acc>
  %spread = constant 0.0 : tile<32x16xf32, #other>
  cp_async %x, %xs, %c0, %c0, mask = [0], vec = 8
  cp_async %w, %ws, %c0, %c0, mask = [], vec = 8
  cp_async_commit
  cp_async_wait pending = 0
  barrier
  %at = ldmatrix n %xs, %c0, %c16 : tile<32x16xbf16, #a>
  %bt = ldmatrix n %ws, %c16, %c0 : tile<16x16xbf16, #b>
  %d = mma %at, %bt, %zero : tile<32x16xf32, #acc>
  return
})";

void wrong(const std::string &from, const std::string &to, ErrorCode code, const std::vector<std::string> &words) {
  SCOPED_TRACE(from + " -> " + to);
  refuse(replaced(product, from, to), code, words);
}

TEST(MmaVerifier, AcceptsAProduct) {
  accept(product);
  accept(replaced(product, "vec = 8", "vec = 2"));
}

TEST(MmaVerifier, CpAsync) {
  using enum ErrorCode;
  const std::string copy = "cp_async %w, %ws, %c0, %c0, mask = [], vec = 8";
  wrong(copy, "cp_async %s, %ws, %c0, %c0, mask = [], vec = 8", OperandType,
        {"`cp_async` needs a row-major matrix and memory of its element type"});
  wrong(copy, "cp_async %f, %ws, %c0, %c0, mask = [], vec = 8", OperandType,
        {"and memory of its element type: %f: buffer<32x32xf32>, %ws"});
  wrong(copy, "cp_async %w, %ring, %c0, %c0, mask = [], vec = 8", OperandType,
        {"needs one stage of swizzled shared memory: %w: buffer<32x16xbf16>, %ring"});
  wrong(copy, "cp_async %w, %zero, %c0, %c0, mask = [], vec = 8", OperandType, {"`cp_async` takes"});
  wrong(copy, "cp_async %w, %ws, %c0, mask = [], vec = 8", OperandCount,
        {"one index for each axis of the buffer, 2 indices, not 1"});
  wrong(copy, "cp_async %w, %ws, %c0, %c0, mask = [2], vec = 8", BadAxis, {"the memory"});
  wrong(copy, "cp_async %w, %ws, %c0, %c0, mask = [], vec = 16", BadAttribute,
        {"`cp_async` copies 4, 8 or 16 bytes at once, not 16 elements of bf16"});
  wrong(copy, "cp_async %w, %ws, %c0, %c0, mask = [], vec = 1", BadAttribute, {"not 1 elements of bf16"});
  wrong(copy, "cp_async %w, %ws, %c0, %c4, mask = [], vec = 8", BadLayout, {"copies 16 bytes at once", "from 4 on do not start"});
  wrong(copy, "cp_async %odd, %ws, %c0, %c0, mask = [], vec = 8", BadLayout, {"copies 16 bytes at once, and pieces of %odd"});
}

TEST(MmaVerifier, CpAsyncWait) {
  wrong("pending = 0", "pending = -1", ErrorCode::BadAttribute, {"`pending` of `cp_async_wait` is from 0 to 64, not -1"});
  wrong("pending = 0", "pending = 65", ErrorCode::BadAttribute, {"`pending` of `cp_async_wait` is from 0 to 64, not 65"});
}

TEST(MmaVerifier, LdMatrix) {
  using enum ErrorCode;
  wrong("n %ws, %c16", "n %plain, %c16", OperandType,
        {"`ldmatrix` needs one stage of swizzled shared memory with elements that mma multiplies, not %plain"});
  wrong("n %ws, %c16", "n %ring, %c16", OperandType, {"needs one stage", "not %ring"});
  wrong("n %xs, %c0, %c16", "n %xs, %c0, %c4", ShapeMismatch, {"16 from 4 on, along axis 1, are not a box of %xs"});
  wrong("n %ws, %c16, %c0", "n %ws, %c16, %c16", ShapeMismatch, {"16 from 16 on, along axis 1, are not a box of %ws"});
  wrong("n %ws, %c16, %c0", "t %ws, %c16, %c16", ShapeMismatch, {"16 from 16 on, along axis 1"});
  wrong("tile<32x16xbf16, #a>\n  %bt = ldmatrix n %ws, %c16, %c0 : tile<16x16xbf16, #b>\n  %d = mma %at, %bt, %zero : "
        "tile<32x16xf32, #acc>",
        "tile<32x16xbf16, #other>", TypeMismatch,
        {"`ldmatrix`: expected a tile of bf16 that lies as the kernel's warps hold an operand of mma"});
}

// 32x64 by 64x16 of 8-bit integers, in rows of k.
const std::string bytes = R"(#a = layout<reg = [1:4@1, 0:2@8, 1:2@16], lane = [1:4@4, 0:8@1], warp = [0:2@16]>
#b = layout<reg = [0:4@1, 0:2@16, 1:2@8], lane = [0:4@4, 1:8@1], warp = [_:2]>
#acc = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:2@16]>
kernel @k() at machine, threads = 64 {
  %c0 = constant 0 : index
  %c16 = constant 16 : index
  %c8 = constant 8 : index
  %xs = alloc_shared : smem<32x64xi8, #swizzle64>
  %ws = alloc_shared : smem<16x64xi8, #swizzle64>
  %across = alloc_shared : smem<64x32xi8, #swizzle32>
  %zero = constant 0 : tile<32x16xi32, #acc>
  %floats = constant 0.0 : tile<32x16xf32, #acc>
  %at = ldmatrix n %xs, %c0, %c16 : tile<32x32xi8, #a>
  %bt = ldmatrix t %ws, %c0, %c16 : tile<32x16xi8, #b>
  %d = mma %at, %bt, %zero : tile<32x16xi32, #acc>
  return
})";

TEST(MmaVerifier, OtherElements) {
  using enum ErrorCode;
  accept(bytes);
  refuse(replaced(bytes, "n %xs, %c0, %c16", "t %across, %c0, %c0"), OperandType,
         {"`ldmatrix` turns 16-bit elements and f64 alone, and the rows of %across: smem<64x32xi8, #swizzle32> are not those of"});
  refuse(replaced(bytes, "n %xs, %c0, %c16", "n %xs, %c0, %c8"), ShapeMismatch,
         {"32 from 8 on, along axis 1, are not a box of %xs", "that starts at a multiple of 16"});
  refuse(replaced(bytes, "mma %at, %bt, %zero : tile<32x16xi32, #acc>", "mma %at, %bt, %floats : tile<32x16xf32, #acc>"),
         OperandType, {"`mma` needs a and b of one element type, and i32 accumulators: %at"});
  // The layout of 16-bit elements.
  std::string noProduct = replaced(bytes, "  %d = mma %at, %bt, %zero : tile<32x16xi32, #acc>\n", "");
  refuse(replaced(noProduct, "[1:4@1, 0:2@8, 1:2@16], lane = [1:4@4", "[1:2@1, 0:2@8, 1:4@8], lane = [1:4@2"), TypeMismatch,
         {"expected a tile of i8 that lies as the kernel's warps hold an operand of mma"});
  // Doubles lie as pairs of k, and may be turned.
  std::string doubles = bytes;
  for (auto [from, to] : {std::pair<std::string, std::string>{"xi8", "xf64"},
                          {"xi32", "xf64"},
                          {"constant 0 : tile", "constant 0.0 : tile"},
                          {"[1:4@1, 0:2@8, 1:2@16]", "[1:2@1, 0:2@8]"},
                          {"[1:4@4,", "[1:4@2,"},
                          {"[0:4@1, 0:2@16, 1:2@8]", "[0:2@1, 1:2@8]"},
                          {"[0:4@4,", "[0:4@2,"},
                          {"tile<32x32xf64", "tile<32x8xf64"},
                          {"tile<32x16xf64, #b", "tile<8x16xf64, #b"}})
    for (size_t at; (at = doubles.find(from)) != std::string::npos;)
      doubles.replace(at, from.size(), to);
  accept(doubles);
  accept(replaced(doubles, "n %xs, %c0, %c16", "t %across, %c8, %c0"));
  refuse(replaced(doubles, "mma %at, %bt, %zero", "mma %bt, %at, %zero"), ShapeMismatch, {"`mma` multiplies Mx8 by 8xN: %bt"});
}

TEST(MmaVerifier, Mma) {
  using enum ErrorCode;
  wrong("mma %at, %bt, %zero", "mma %at, %bt, %narrow", OperandType,
        {"`mma` needs a and b of one element type, and f32 accumulators"});
  wrong("mma %at, %bt, %zero", "mma %bt, %at, %zero", ShapeMismatch, {"`mma` multiplies Mx16 by 16xN: %bt"});
  wrong("mma %at, %bt, %zero", "mma %at, %bt, %spread", BadLayout,
        {"`mma` needs tiles that lie as the kernel's 2 warps hold its operands"});
  wrong("mma %at, %bt, %zero : tile<32x16xf32, #acc>", "mma %at, %bt, %zero : tile<32x16xf32, #other>", TypeMismatch,
        {"expected tile<32x16xf32"});
}

} // namespace
