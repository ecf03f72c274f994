#include "Dlpack.h"

#include "minic/CApiRuntime/Handles.h"

namespace minic {
namespace {

/// What a managed tensor points to, and the tensor itself.
template <typename Managed> struct Owner {
  Managed managed = {};
  std::shared_ptr<const Buffer> buffer;
  HostTensor copy;
  std::vector<int64_t> shape, strides;
};

uint8_t typeCode(DType dtype) {
  switch (dtype) {
  case DType::BF16:
    return 4;
  case DType::I1:
    return 6;
  case DType::U8:
    return 1;
  case DType::F8E4M3:
    return 10;
  case DType::F8E5M2:
    return 12;
  default:
    return isFloat(dtype) ? 2 : 0;
  }
}

dlpack::DataType dataType(DType dtype) { return {typeCode(dtype), uint8_t(dtypeBytes(dtype) * 8), 1}; }

template <typename Managed> Expected<void *> pack(std::shared_ptr<const Buffer> buffer) {
  auto owner = std::make_unique<Owner<Managed>>();
  dlpack::Tensor &tensor = owner->managed.tensor;
  tensor.device.kind = deviceKindOf(buffer->stream()->device().name(), tensor.device.ordinal);
  tensor.dtype = dataType(buffer->dtype());
  owner->shape = buffer->shape();
  owner->strides.resize(owner->shape.size());
  int64_t stride = 1;
  for (size_t axis = owner->shape.size(); axis-- > 0; stride *= std::max<int64_t>(owner->shape[axis], 1))
    owner->strides[axis] = stride;
  tensor.rank = int32_t(owner->shape.size());
  tensor.shape = owner->shape.data();
  tensor.strides = owner->strides.data();
  if (buffer->stream()->device().isAddressable()) {
    tensor.data = reinterpret_cast<void *>(buffer->memory());
  } else {
    auto copy = buffer->download();
    if (!copy)
      return copy.takeErrors();
    owner->copy = std::move(*copy);
    tensor.data = owner->copy.bytes().data();
  }
  owner->buffer = std::move(buffer);
  owner->managed.context = owner.get();
  owner->managed.deleter = [](Managed *managed) { delete static_cast<Owner<Managed> *>(managed->context); };
  if constexpr (std::is_same_v<Managed, dlpack::ManagedVersioned>) {
    owner->managed.version = {1, 0};
    owner->managed.flags = owner->copy.bytes().empty() ? 0 : 2;
  }
  return &owner.release()->managed;
}

} // namespace

Expected<void *> toDlpack(std::shared_ptr<const Buffer> buffer, bool versioned) {
  return versioned ? pack<dlpack::ManagedVersioned>(std::move(buffer)) : pack<dlpack::Managed>(std::move(buffer));
}

} // namespace minic
