// Buffers as DLPack tensors. The structs are written out again here, from the standard's dlpack.h.
#include "CApiTest.h"

namespace {

struct DLTensor {
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensor *);
};
struct DLManagedTensorVersioned {
  uint32_t major, minor;
  void *manager_ctx;
  void (*deleter)(DLManagedTensorVersioned *);
  uint64_t flags;
  DLTensor dl_tensor;
};

void check(const DLTensor &tensor) {
  EXPECT_EQ(tensor.device_type, 1);
  EXPECT_EQ(tensor.device_id, 0);
  ASSERT_EQ(tensor.ndim, 2);
  EXPECT_EQ(tensor.code, 2); // kDLFloat
  EXPECT_EQ(tensor.bits, 32);
  EXPECT_EQ(tensor.lanes, 1);
  EXPECT_EQ(std::vector<int64_t>(tensor.shape, tensor.shape + 2), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::vector<int64_t>(tensor.strides, tensor.strides + 2), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(tensor.byte_offset, 0u);
  const float *values = static_cast<const float *>(tensor.data);
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(OnCpu, DlpackOutlivesTheBuffer) {
  MinicBuffer *of = buffer({2, 3}, {1, 2, 3, 4, 5, 6});
  void *plain, *versioned;
  ASSERT_FINE(minic_buffer_dlpack(of, 0, &plain));
  ASSERT_FINE(minic_buffer_dlpack(of, 1, &versioned));
  EXPECT_FINE(minic_buffer_destroy(of));
  EXPECT_FINE(minic_stream_destroy(stream));
  auto *managed = static_cast<DLManagedTensor *>(plain);
  check(managed->dl_tensor);
  managed->deleter(managed);
  auto *second = static_cast<DLManagedTensorVersioned *>(versioned);
  EXPECT_EQ(second->major, 1u);
  EXPECT_EQ(second->flags, 2u); // The interpreter's memory is no host memory: a copy.
  check(second->dl_tensor);
  second->deleter(second);
}

TEST_F(OnCpu, DlpackTypes) {
  struct {
    MinicDType dtype;
    int code, bits;
  } rows[] = {{MINIC_F64, 2, 64}, {MINIC_F16, 2, 16}, {MINIC_BF16, 4, 16},   {MINIC_I64, 0, 64},   {MINIC_I32, 0, 32},
              {MINIC_I1, 6, 8},   {MINIC_U8, 1, 8},   {MINIC_F8E4M3, 10, 8}, {MINIC_F8E5M2, 12, 8}};
  for (auto [dtype, code, bits] : rows) {
    MinicBuffer *scalar;
    ASSERT_FINE(minic_buffer_create(stream, dtype, 0, nullptr, &scalar));
    const char zeros[8] = {};
    ASSERT_FINE(minic_buffer_write(scalar, zeros, size_t(bits) / 8));
    void *plain;
    ASSERT_FINE(minic_buffer_dlpack(scalar, 0, &plain));
    auto *managed = static_cast<DLManagedTensor *>(plain);
    EXPECT_EQ(managed->dl_tensor.code, code);
    EXPECT_EQ(managed->dl_tensor.bits, bits);
    EXPECT_EQ(managed->dl_tensor.ndim, 0);
    managed->deleter(managed);
    EXPECT_FINE(minic_buffer_destroy(scalar));
  }
}

} // namespace
