// Our declarations against a toolkit's cublasLt.h, where there is one.
#include "../../../lib/Runtime/CublasLtApi.h"

#include <gtest/gtest.h>

#include <array>

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

using namespace minic;

namespace {

template <typename T> struct Sizes;
template <typename R, typename... P> struct Sizes<R (*)(P...)> {
  static constexpr std::array<size_t, sizeof...(P) + 1> value = {sizeof(R), sizeof(P)...};
};

// Handles have other names there, so the number and the sizes of parameters are compared; that is what a call depends on.
TEST(CublasLtHeader, FunctionsAgree) {
#define MINIC_CUBLASLT(result, name, parameters)                                                                                   \
  static_assert(Sizes<decltype(cuda::CublasLtApi::name)>::value == Sizes<decltype(&::name)>::value, #name);
#include "../../../lib/Runtime/CublasLtApi.def"
#undef MINIC_CUBLASLT
  static_assert(sizeof(cuda::LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
  static_assert(sizeof(cuda::LtHeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
  static_assert(offsetof(cuda::LtHeuristicResult, workspaceBytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
  static_assert(offsetof(cuda::LtHeuristicResult, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
}

TEST(CublasLtHeader, NumbersAgree) {
  using namespace cuda::lt;
  for (auto [ours, theirs] :
       std::initializer_list<std::pair<int64_t, int64_t>>{{success, CUBLAS_STATUS_SUCCESS},
                                                          {notSupported, CUBLAS_STATUS_NOT_SUPPORTED},
                                                          {compute32, CUBLAS_COMPUTE_32F},
                                                          {compute64, CUBLAS_COMPUTE_64F},
                                                          {real32, CUDA_R_32F},
                                                          {real64, CUDA_R_64F},
                                                          {real16, CUDA_R_16F},
                                                          {realBf16, CUDA_R_16BF},
                                                          {transposeA, CUBLASLT_MATMUL_DESC_TRANSA},
                                                          {transposeB, CUBLASLT_MATMUL_DESC_TRANSB},
                                                          {epilogue, CUBLASLT_MATMUL_DESC_EPILOGUE},
                                                          {biasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER},
                                                          {asItIs, CUBLAS_OP_N},
                                                          {transposed, CUBLAS_OP_T},
                                                          {epilogueNone, CUBLASLT_EPILOGUE_DEFAULT},
                                                          {epilogueBias, CUBLASLT_EPILOGUE_BIAS},
                                                          {batchCount, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT},
                                                          {batchStride, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET},
                                                          {maxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES},
                                                          {reductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK},
                                                          {minAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES},
                                                          {minAlignmentB, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES},
                                                          {minAlignmentC, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES},
                                                          {minAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES},
                                                          {reduceInComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}})
    EXPECT_EQ(ours, theirs);
}

} // namespace
#else
TEST(CublasLtHeader, Agrees) { GTEST_SKIP() << "no cublasLt.h here"; }
#endif
