// What the fake cuBLASLt was asked, and how it shall fail. The library and the tests share this.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace minic::test {

struct FakeLayout {
  int type;
  uint64_t rows, columns;
  int64_t pitch;
  int32_t batches = 1;
  int64_t batchStride = 0;
};
struct FakeDesc {
  int computeType, scaleType;
  int32_t transposeA = 0, transposeB = 0;
  uint32_t epilogue = 1;
  const void *bias = nullptr;
};

struct FakeCublasLt {
  int handles = 0, objects = 0;   ///< That are alive.
  int asked = 0, multiplied = 0;  ///< Calls of the heuristic and of the product.
  std::map<int, uint64_t> wishes; ///< Attributes of the last preference.
  const void *biasWhenAsked = nullptr;
  size_t workspaceBytes = 0; ///< What the suggested algorithm wants.
  void *lastWorkspace = nullptr;
  size_t lastWorkspaceBytes = 0;
  void *lastStream = nullptr;
  std::string failing; ///< The function that gives `status`; an empty name: none.
  int status = 0;
};

} // namespace minic::test
