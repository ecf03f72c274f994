#include "minic/Runtime/Buffer.h"

#include "minic/Artifact/RunPlan.h"

namespace minic {

Buffer::Buffer(std::shared_ptr<Stream> stream, DType dtype, std::vector<int64_t> shape, int64_t bytes, DeviceMemory memory)
    : order(std::move(stream)), elementType(dtype), dims(std::move(shape)), size(bytes), address(memory) {}

Buffer::Buffer(Buffer &&other) noexcept = default; // Leaves `order` null.

Buffer &Buffer::operator=(Buffer &&other) noexcept {
  std::swap(order, other.order);
  std::swap(elementType, other.elementType);
  std::swap(dims, other.dims);
  std::swap(size, other.size);
  std::swap(address, other.address);
  return *this;
}

Buffer::~Buffer() {
  if (order)
    order->device().release(address, order->handle());
}

Expected<Buffer> Buffer::allocate(std::shared_ptr<Stream> stream, DType dtype, std::vector<int64_t> shape) {
  auto bytes = HostTensor::checkedBytes(dtype, shape);
  if (!bytes)
    return Diagnostic{.code = ErrorCode::TooLarge,
                      .message = "a buffer of shape " + shapeString(dtype, shape) + " is too large or has a negative size"};
  auto memory = stream->device().allocate(*bytes, stream->handle());
  if (!memory)
    return memory.takeErrors();
  return Buffer(std::move(stream), dtype, std::move(shape), *bytes, *memory);
}

Expected<Buffer> Buffer::upload(std::shared_ptr<Stream> stream, const HostTensor &tensor) {
  auto buffer = allocate(std::move(stream), tensor.dtype(), tensor.shape());
  if (buffer && !tensor.bytes().empty())
    if (auto done = buffer->order->device().copyFromHost(buffer->address, tensor.bytes(), buffer->order->handle()); !done)
      return done.takeErrors();
  return buffer;
}

Expected<HostTensor> Buffer::download() const {
  auto tensor = makeHostTensor(elementType, dims, "the buffer");
  if (tensor && size)
    if (auto done = order->device().copyToHost(tensor->bytes(), address, order->handle()); !done)
      return done.takeErrors();
  return tensor;
}

} // namespace minic
