// Tensors in device memory.
#pragma once

#include "minic/Runtime/Stream.h"
#include "minic/Support/HostTensor.h"

#include <vector>

namespace minic {

/// A dense row-major tensor in memory of its own. Released in the order of the stream that it was made for: work on another stream
/// that uses it must be waited for first.
class Buffer {
public:
  static Expected<Buffer> allocate(std::shared_ptr<Stream> stream, DType dtype, std::vector<int64_t> shape);
  static Expected<Buffer> upload(std::shared_ptr<Stream> stream, const HostTensor &tensor);
  Buffer(Buffer &&other) noexcept;
  Buffer &operator=(Buffer &&other) noexcept;
  ~Buffer();

  DType dtype() const { return elementType; }
  const std::vector<int64_t> &shape() const { return dims; }
  int64_t bytes() const { return size; }
  DeviceMemory memory() const { return address; }
  const std::shared_ptr<Stream> &stream() const { return order; }
  /// Valid while the buffer stands where it is.
  TensorView view() const { return {address, elementType, dims, {}, &order->device()}; }
  /// Waits for the stream.
  Expected<HostTensor> download() const;

private:
  Buffer(std::shared_ptr<Stream> stream, DType dtype, std::vector<int64_t> shape, int64_t bytes, DeviceMemory memory);
  std::shared_ptr<Stream> order; ///< Null once moved from.
  DType elementType;
  std::vector<int64_t> dims;
  int64_t size;
  DeviceMemory address;
};

} // namespace minic
