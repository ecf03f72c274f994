// libminic_runtime as a program sees it: the C interface without compiler and interpreter.
#include "minic-c/runtime.h"

#include <gtest/gtest.h>

#include <string>

TEST(RuntimeOnly, HasNoInterpreter) {
  MinicDevice *device;
  MinicError *error = minic_device_open("cpu", &device);
  EXPECT_STREQ(minic_error_code(error), "E0902");
  EXPECT_EQ(minic_error_kind(error), MINIC_ERROR_ENVIRONMENT);
  EXPECT_NE(std::string(minic_error_message(error)).find("it has no interpreter, which is what 'cpu' names"), std::string::npos);
  EXPECT_NE(std::string(minic_error_fix(error)).find("link libminic"), std::string::npos);
  EXPECT_EQ(device, nullptr);
  minic_error_destroy(error);
}

TEST(RuntimeOnly, HasTheRest) {
  EXPECT_EQ(minic_api_version(), uint32_t(MINIC_API_VERSION));
  MinicArtifact *artifact;
  MinicError *error = minic_artifact_from_bytes("hello", 5, &artifact);
  EXPECT_STREQ(minic_error_code(error), "E0109");
  minic_error_destroy(error);
  error = minic_executable_run(nullptr, nullptr, nullptr, 0, nullptr, 0);
  EXPECT_STREQ(minic_error_code(error), "E1101");
  minic_error_destroy(error);
}
