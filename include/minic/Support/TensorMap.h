// What TMA asks of a tensor and of the boxes of it that move.
#pragma once

#include "minic/Support/DType.h"
#include "minic/Support/DimExpr.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace minic {

/// Why no tensor map with this box (elements) and swizzle (bytes; 0: none) can be made for a row-major tensor of this shape;
/// nullopt if it can. Sizes with names pass: ask again when they are known. The text follows a name: "has rows of 36 bytes, but TMA
/// needs a multiple of 16". Source: CUDA Driver API, cuTensorMapEncodeTiled.
std::optional<std::string> tensorMapFault(DType dtype, const std::vector<DimExpr> &shape, std::span<const int64_t> box,
                                          int64_t swizzle);

} // namespace minic
