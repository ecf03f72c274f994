// cuBLASLt, opened at run time: neither building nor loading minic needs it.
#pragma once

#include "DriverApi.h"

#include <span>

namespace minic::cuda {

// The library's types, as wide as in its ABI (cublasLt.h).
using LtStatus = int;
using LtHandle = struct LtContextTag *;
using LtMatmulDesc = struct LtMatmulDescTag *;
using LtLayout = struct LtLayoutTag *;
using LtPreference = struct LtPreferenceTag *;
/// cublasLtMatmulAlgo_t: how a product is computed, by the library for itself.
struct LtAlgorithm {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct LtHeuristicResult {
  LtAlgorithm algorithm;
  size_t workspaceBytes;
  LtStatus state;
  float waves;
  int reserved[4];
};

/// Values of the library's enums.
namespace lt {
// cublasStatus_t
inline constexpr LtStatus success = 0, notSupported = 15;
// cublasComputeType_t: CUBLAS_COMPUTE_32F multiplies f32 as f32, never as TF32, and 16-bit floats into f32.
inline constexpr int compute32 = 68, compute64 = 70;
// cudaDataType
inline constexpr int real32 = 0, real64 = 1, real16 = 2, realBf16 = 14;
// cublasLtMatmulDescAttributes_t
inline constexpr int transposeA = 3, transposeB = 4, epilogue = 7, biasPointer = 8;
// cublasOperation_t
inline constexpr int32_t asItIs = 0, transposed = 1;
// cublasLtEpilogue_t
inline constexpr uint32_t epilogueNone = 1, epilogueBias = 4;
// cublasLtMatrixLayoutAttribute_t
inline constexpr int batchCount = 5, batchStride = 6;
// cublasLtMatmulPreferenceAttributes_t
inline constexpr int maxWorkspaceBytes = 1, reductionSchemes = 3, minAlignmentA = 5, minAlignmentB = 6, minAlignmentC = 7,
                     minAlignmentD = 8;
// cublasLtReductionScheme_t: parts of a sum are kept in the type that it is computed in, not in that of the result.
inline constexpr uint32_t reduceInComputeType = 2;
} // namespace lt

class CublasLtApi {
public:
#define MINIC_CUBLASLT(result, name, parameters) result(*name) parameters = nullptr;
#include "CublasLtApi.def"
#undef MINIC_CUBLASLT

  /// Names that the dynamic linker looks for, newest first. A library that the process has loaded already (torch's) is found by
  /// them.
  static constexpr const char *names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  /// Opens the first library that there is and finds every function; NoLibrary if that fails. It is never closed.
  static Expected<CublasLtApi> open(std::span<const char *const> libraries = names);

  /// "CUBLAS_STATUS_NOT_SUPPORTED".
  std::string describe(LtStatus status) const;
};

} // namespace minic::cuda
