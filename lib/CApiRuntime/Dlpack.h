// DLPack: tensors in the form in which frameworks hand them to each other (the standard's dlpack.h, version 1.0; the 8-bit floats
// are of 1.1).
#pragma once

#include "minic/Runtime/Buffer.h"

namespace minic {

namespace dlpack {

struct Device {
  int32_t kind; ///< 1: host memory, 2: CUDA.
  int32_t ordinal;
};
struct DataType {
  uint8_t code; ///< 0: integer, 1: unsigned, 2: float, 4: bfloat, 6: boolean, 10: float8_e4m3fn, 12: float8_e5m2.
  uint8_t bits;
  uint16_t lanes;
};
struct Tensor {
  void *data;
  Device device;
  int32_t rank;
  DataType dtype;
  int64_t *shape;
  int64_t *strides; ///< In elements.
  uint64_t byteOffset;
};
/// DLManagedTensor.
struct Managed {
  Tensor tensor;
  void *context;
  void (*deleter)(Managed *);
};
/// DLManagedTensorVersioned.
struct ManagedVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(ManagedVersioned *);
  uint64_t flags; ///< 2: the data is a copy made for this tensor.
  Tensor tensor;
};

} // namespace dlpack

/// A dlpack::ManagedVersioned * if `versioned`, else a dlpack::Managed *. It keeps the buffer, or a copy of it where the device's
/// memory cannot be addressed.
Expected<void *> toDlpack(std::shared_ptr<const Buffer> buffer, bool versioned);

} // namespace minic
