// What the tests of Hopper's machine level share: a kernel around a body, and texts that are right but for one change.
#pragma once

#include "VerifierTest.h"

namespace minic::test {

inline const std::string layouts = R"(#acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
#part = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
#wide = layout<reg = [1:2@1, 0:2@8, 1:16@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
#rows = layout<reg = [1:32@1], lane = [1:2@32, 0:16@1], warp = [0:4@16]>
)";

/// What the bodies use: maps and buffers, indices, two matrices, a ring, memory without a swizzle, mbarriers and tiles.
inline std::string kernel(const std::string &body) {
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

} // namespace minic::test
