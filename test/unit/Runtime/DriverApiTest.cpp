// The ways in which there is no driver; none of them needs a GPU.
#include "../../../lib/Runtime/DriverApi.h"

#include <gtest/gtest.h>

#include <filesystem>

using namespace minic;
using minic::cuda::DriverApi;

namespace {

Diagnostic errorOf(const char *library) {
  auto api = DriverApi::open(library);
  EXPECT_FALSE(api) << library;
  return api ? Diagnostic{.code = ErrorCode::BadFlag, .message = "no error"} : api.errors().front();
}

TEST(DriverApi, MissingLibrary) {
  Diagnostic error = errorOf("libminic-no-such-driver.so.1");
  EXPECT_EQ(error.code, ErrorCode::NoDriver);
  EXPECT_NE(error.message.find("libminic-no-such-driver.so.1"), std::string::npos);
  EXPECT_NE(error.fix.find("--device=cpu"), std::string::npos);
}

TEST(DriverApi, LibraryThatIsNoDriver) {
  Diagnostic error = errorOf("libm.so.6");
  EXPECT_EQ(error.code, ErrorCode::NoDriver);
  EXPECT_EQ(error.message, "the CUDA driver 'libm.so.6' has no function 'cuInit'");
}

TEST(DriverApi, StubLibrary) {
  const char *stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (!std::filesystem::exists(stub))
    GTEST_SKIP() << "no CUDA toolkit here";
  Diagnostic error = errorOf(stub);
  EXPECT_EQ(error.code, ErrorCode::NoDriver);
  EXPECT_NE(error.message.find("stub library"), std::string::npos) << error.message;
}

TEST(DriverApi, StickyResults) {
  EXPECT_TRUE(cuda::isSticky(700));  // CUDA_ERROR_ILLEGAL_ADDRESS
  EXPECT_TRUE(cuda::isSticky(719));  // CUDA_ERROR_LAUNCH_FAILED
  EXPECT_FALSE(cuda::isSticky(2));   // CUDA_ERROR_OUT_OF_MEMORY
  EXPECT_FALSE(cuda::isSticky(218)); // CUDA_ERROR_INVALID_PTX
}

} // namespace
