// Our declarations against a toolkit's cuda.h, where there is one.
#include "../../../lib/Runtime/DriverApi.h"

#include <gtest/gtest.h>

#include <array>

#if __has_include("/usr/local/cuda/include/cuda.h")
#include "/usr/local/cuda/include/cuda.h"
// cuda.h maps this name to a version that drivers before CUDA 12.8 lack, and then declares only that.
#undef cuEventElapsedTime
extern "C" CUresult cuEventElapsedTime(float *, CUevent, CUevent);

using namespace minic;

namespace {

template <typename T> struct Sizes;
template <typename R, typename... P> struct Sizes<R (*)(P...)> {
  static constexpr std::array<size_t, sizeof...(P) + 1> value = {sizeof(R), sizeof(P)...};
};

// Handles have other names there, so the number and the sizes of parameters are compared; that is what a call depends on.
TEST(CudaHeader, FunctionsAgree) {
#define MINIC_CUDA(name, parameters)                                                                                               \
  static_assert(Sizes<decltype(cuda::DriverApi::name)>::value == Sizes<decltype(&::name)>::value, #name);
#include "../../../lib/Runtime/DriverApi.def"
#undef MINIC_CUDA
}

TEST(CudaHeader, ResultsAgree) {
  EXPECT_EQ(cuda::outOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuda::notInitialized, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(cuda::stubLibrary, CUDA_ERROR_STUB_LIBRARY);
  EXPECT_EQ(cuda::noDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_EQ(cuda::unsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  for (CUresult result :
       {CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_CONTEXT_IS_DESTROYED,
        CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_MISALIGNED_ADDRESS,
        CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED})
    EXPECT_TRUE(cuda::isSticky(result)) << result;
}

} // namespace
#else
TEST(CudaHeader, Agrees) { GTEST_SKIP() << "no cuda.h here"; }
#endif
