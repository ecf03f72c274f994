#include "minic/CApiRuntime/Tensors.h"

#include "Dlpack.h"

using namespace minic;

MinicError *minic_buffer_create(MinicStream *stream, int32_t dtype, int32_t rank, const int64_t *shape, MinicBuffer **buffer) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(buffer, "buffer"); !place)
      return place;
    auto order = use<StreamObject>(stream, "stream");
    if (!order)
      return order.takeErrors();
    auto type = fromCType(dtype);
    if (!type)
      return badArgument("dtype", "is " + std::to_string(dtype) + ", expected a MinicDType");
    auto dims = checkedShape("shape", rank, shape);
    if (!dims)
      return dims.takeErrors();
    auto made = Buffer::allocate((*order)->stream, *type, std::move(*dims));
    if (!made)
      return made.takeErrors();
    auto object = std::make_unique<BufferObject>();
    object->buffer = std::make_shared<const Buffer>(std::move(*made));
    *buffer = give(std::move(object));
    return {};
  });
}

/// What is wrong with host memory for the whole of a buffer.
static Expected<void> checkHost(const Buffer &buffer, const void *data, size_t size) {
  if (size != size_t(buffer.bytes()))
    return badArgument("size",
                       "is " + std::to_string(size) + ", expected the buffer's " + std::to_string(buffer.bytes()) + " bytes");
  if (size && !data)
    return badArgument("data", "is NULL, expected host memory");
  return {};
}

MinicError *minic_buffer_write(MinicBuffer *buffer, const void *data, size_t size) {
  return guarded([&]() -> Expected<void> {
    auto object = use<BufferObject>(buffer, "buffer");
    if (!object)
      return object.takeErrors();
    const Buffer &to = *(*object)->buffer;
    if (auto fits = checkHost(to, data, size); !fits || !size)
      return fits;
    return to.stream()->device().copyFromHost(to.memory(), {static_cast<const std::byte *>(data), size}, to.stream()->handle());
  });
}

MinicError *minic_buffer_read(MinicBuffer *buffer, void *data, size_t size) {
  return guarded([&]() -> Expected<void> {
    auto object = use<BufferObject>(buffer, "buffer");
    if (!object)
      return object.takeErrors();
    const Buffer &from = *(*object)->buffer;
    if (auto fits = checkHost(from, data, size); !fits || !size)
      return fits;
    return from.stream()->device().copyToHost({static_cast<std::byte *>(data), size}, from.memory(), from.stream()->handle());
  });
}

MinicError *minic_buffer_tensor(MinicBuffer *buffer, MinicTensor *tensor) {
  return guarded([&]() -> Expected<void> {
    auto object = use<BufferObject>(buffer, "buffer");
    if (!object)
      return object.takeErrors();
    if (!tensor)
      return badArgument("tensor", "is NULL, expected a place for the result");
    const Buffer &of = *(*object)->buffer;
    int ordinal;
    MinicDeviceKind kind = deviceKindOf(of.stream()->device().name(), ordinal);
    *tensor = {.memory = of.memory(),
               .shape = of.shape().data(),
               .strides = nullptr,
               .dtype = toCType(of.dtype()),
               .rank = int32_t(of.shape().size()),
               .device_kind = kind,
               .device_ordinal = ordinal};
    return {};
  });
}

MinicError *minic_buffer_dlpack(MinicBuffer *buffer, int versioned, void **managed) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(managed, "managed"); !place)
      return place;
    auto object = use<BufferObject>(buffer, "buffer");
    if (!object)
      return object.takeErrors();
    auto tensor = toDlpack((*object)->buffer, versioned);
    if (!tensor)
      return tensor.takeErrors();
    *managed = *tensor;
    return {};
  });
}

MinicError *minic_buffer_destroy(MinicBuffer *buffer) { return destroy<BufferObject>(buffer, "buffer"); }
