// What a tensor map asks of its tensor, beyond what its type can say while sizes have names.
#pragma once

#include "minic/Support/DType.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace minic {

/// Why no tensor map with this box and swizzle (bytes; 0: none) can be made for a row-major tensor; nullopt if it can. The text
/// follows a name: "has rows of 36 bytes, but TMA needs a multiple of 16".
std::optional<std::string> tensorMapFault(DType dtype, std::span<const int64_t> shape, std::span<const int64_t> box,
                                          int64_t swizzle);

} // namespace minic
