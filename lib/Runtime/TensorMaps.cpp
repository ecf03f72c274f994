#include "TensorMaps.h"

namespace minic::cuda {

namespace {

// CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion.
int typeNumber(DType type, bool tf32) {
  switch (type) {
  case DType::F16:
    return 6;
  case DType::F32:
    return tf32 ? 11 : 7;
  case DType::F64:
    return 8;
  case DType::BF16:
    return 9;
  case DType::I32:
    return 3;
  default:
    return 0; // Bytes.
  }
}
int swizzleNumber(int64_t bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; }
constexpr int promotion128 = 2;

/// Buffers that come and go would fill the cache.
constexpr size_t maxMaps = 1024;

} // namespace

Expected<EncodedMap> TensorMaps::encode(CuPointer address) const {
  // The last axis first.
  uint64_t bytes = uint64_t(dtypeBytes(spec.dtype)), pitch = bytes;
  std::vector<uint64_t> sizes, strides;
  std::vector<uint32_t> box;
  for (size_t axis = shape.size(); axis-- > 0;) {
    sizes.push_back(uint64_t(shape[axis]));
    box.push_back(uint32_t(spec.box[axis]));
    pitch *= sizes.back();
    strides.push_back(pitch);
  }
  strides.pop_back();
  if (uint64_t slab = uint64_t(spec.swizzle) / bytes; slab && box[0] > slab)
    box[0] = uint32_t(slab);
  std::vector<uint32_t> steps(box.size(), 1);
  EncodedMap map;
  if (!api.cuTensorMapEncodeTiled)
    return Diagnostic{.code = ErrorCode::CudaError,
                      .message = "the CUDA driver cannot encode tensor maps",
                      .fix = "update the NVIDIA driver (CUDA 12.0 or later)"};
  CuResult result = api.cuTensorMapEncodeTiled(map.bytes.data(), typeNumber(spec.dtype, spec.tf32), unsigned(sizes.size()),
                                               reinterpret_cast<void *>(address), sizes.data(), strides.data(), box.data(),
                                               steps.data(), 0, swizzleNumber(spec.swizzle), promotion128, 0);
  if (result != success)
    return api.error(result, "cannot encode a tensor map");
  return map;
}

Expected<void> TensorMaps::find(CuPointer address, EncodedMap &map) {
  std::lock_guard lock(mutex);
  auto known = maps.find(address);
  if (known == maps.end()) {
    auto fresh = encode(address);
    if (!fresh)
      return fresh.takeErrors();
    if (maps.size() == maxMaps)
      maps.clear();
    known = maps.emplace(address, *fresh).first;
  }
  map = known->second;
  return {};
}

} // namespace minic::cuda
