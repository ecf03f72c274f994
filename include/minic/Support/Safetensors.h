// Weights as they are most often published: the .safetensors format.
#pragma once

#include "minic/Support/HostTensor.h"

#include <map>
#include <optional>
#include <set>

namespace minic {

/// The tensors of a .safetensors file by name (github.com/huggingface/safetensors, "Format"). With `wanted`, those among them that
/// the file has: others are not read, and may be of any type. Read are F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I8, U8 and
/// BOOL. Sizes are checked against the file before memory is taken. Errors: UnreadableFile, BadSafetensors, TooLarge.
Expected<std::map<std::string, HostTensor>> readSafetensors(const std::filesystem::path &path,
                                                            const std::optional<std::set<std::string>> &wanted = std::nullopt);

} // namespace minic
