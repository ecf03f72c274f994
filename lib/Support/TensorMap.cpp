#include "minic/Support/TensorMap.h"

#include <algorithm>

namespace minic {

static constexpr int64_t pitchUnit = 16, maxBox = 256, maxRank = 5;

std::optional<std::string> tensorMapFault(DType dtype, const std::vector<DimExpr> &shape, std::span<const int64_t> box,
                                          int64_t swizzle) {
  if (shape.empty() || shape.size() != box.size())
    return "needs a box with one extent for each axis of its tensor";
  for (int64_t extent : box)
    if (extent < 1 || extent > maxBox)
      return "has a box with an extent that is not from 1 to " + std::to_string(maxBox);
  int64_t bytes = dtypeBytes(dtype), boxRow = box.back() * bytes, unit = std::max(swizzle, pitchUnit);
  if (boxRow % unit)
    return "has a box with rows of " + std::to_string(boxRow) + " bytes, which is no multiple of " + std::to_string(unit);
  if (int64_t(shape.size()) > maxRank)
    return "has more than " + std::to_string(maxRank) + " axes";
  for (const DimExpr &size : shape)
    if (size.isConstant(0))
      return "has a size of 0, which no tensor map can have";
  auto length = shape.back().constant();
  if (!length)
    return std::nullopt;
  if (*length * bytes % pitchUnit)
    return "has rows of " + std::to_string(*length * bytes) + " bytes, but TMA needs a multiple of " + std::to_string(pitchUnit);
  return std::nullopt;
}

} // namespace minic
