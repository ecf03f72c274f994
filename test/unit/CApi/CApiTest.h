// What the tests of the C interface share.
#pragma once

#include "minic-c/compiler.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

/// The text of an error, which is destroyed; empty if there is none.
inline std::string take(MinicError *error) {
  std::string text = minic_error_message(error);
  EXPECT_EQ(text.empty(), error == nullptr);
  minic_error_destroy(error);
  return text;
}

#define EXPECT_FINE(call) EXPECT_EQ(take(call), "")
#define ASSERT_FINE(call) ASSERT_EQ(take(call), "")
/// The call fails with this code, and says this.
#define EXPECT_ERROR(call, code, says)                                                                                             \
  do {                                                                                                                             \
    MinicError *error = (call);                                                                                                    \
    EXPECT_STREQ(minic_error_code(error), code);                                                                                   \
    EXPECT_NE(std::string(minic_error_message(error)).find(says), std::string::npos) << minic_error_message(error);                \
    minic_error_destroy(error);                                                                                                    \
  } while (false)

/// y = (x + x) * w with one row of weights, so that shapes, names and several inputs are there.
inline const char scaleText[] = R"(graph @scale(%x: tensor<MxNxf32>, %w: tensor<Nxf32>) -> (y: tensor<MxNxf32>) {
  %d = add %x, %x                 : tensor<MxNxf32>
  %r = broadcast %w, dims = [1]   : tensor<MxNxf32>
  %y = mul %d, %r                 : tensor<MxNxf32>
  return %y
})";

inline MinicTensor tensor(const void *data, const std::vector<int64_t> &shape, MinicDType dtype = MINIC_F32) {
  MinicTensor made = {};
  made.memory = reinterpret_cast<uintptr_t>(data);
  made.shape = shape.data();
  made.dtype = dtype;
  made.rank = int32_t(shape.size());
  return made;
}

/// The graph above on the interpreter.
class OnCpu : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_FINE(minic_device_open("cpu", &device));
    ASSERT_FINE(minic_stream_create(device, &stream));
    ASSERT_FINE(minic_compile_text(scaleText, strlen(scaleText), nullptr, &artifact));
    ASSERT_FINE(minic_executable_load(artifact, device, nullptr, 0, &executable));
  }
  void TearDown() override {
    take(minic_executable_destroy(executable)); // A test may have done it.
    take(minic_artifact_destroy(artifact));
    take(minic_stream_destroy(stream));
    take(minic_device_destroy(device));
  }

  MinicBuffer *buffer(const std::vector<int64_t> &shape, const std::vector<float> &values = {}) {
    MinicBuffer *made = nullptr;
    EXPECT_FINE(minic_buffer_create(stream, MINIC_F32, int32_t(shape.size()), shape.data(), &made));
    if (!values.empty()) {
      EXPECT_FINE(minic_buffer_write(made, values.data(), values.size() * sizeof(float)));
    }
    return made;
  }
  static std::vector<float> read(MinicBuffer *from, size_t count) {
    std::vector<float> values(count);
    EXPECT_FINE(minic_buffer_read(from, values.data(), count * sizeof(float)));
    return values;
  }
  static MinicTensor view(MinicBuffer *of) {
    MinicTensor seen = {};
    EXPECT_FINE(minic_buffer_tensor(of, &seen));
    return seen;
  }

  MinicDevice *device = nullptr;
  MinicStream *stream = nullptr;
  MinicArtifact *artifact = nullptr;
  MinicExecutable *executable = nullptr;
};
