#include "minic/Artifact/TensorMap.h"

namespace minic {

/// Pitches of a map are multiples of this (CUDA Driver API, cuTensorMapEncodeTiled).
static constexpr int64_t pitchUnit = 16;

std::optional<std::string> tensorMapFault(DType dtype, std::span<const int64_t> shape, std::span<const int64_t> box,
                                          int64_t swizzle) {
  if (shape.empty() || shape.size() != box.size())
    return "has a box of another rank than its tensor";
  int64_t row = shape.back() * dtypeBytes(dtype), boxRow = box.back() * dtypeBytes(dtype);
  if (row % pitchUnit)
    return "has rows of " + std::to_string(row) + " bytes, but TMA needs a multiple of " + std::to_string(pitchUnit);
  // A wide box moves as slabs, an axis of their own that divides the row.
  if (swizzle && boxRow > swizzle && row % swizzle)
    return "has rows of " + std::to_string(row) + " bytes, but its box, which is wider than the swizzle, needs a multiple of " +
           std::to_string(swizzle);
  return std::nullopt;
}

} // namespace minic
