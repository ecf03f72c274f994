// Words for inputs: `a.npy`, `random:7`, `iota`, `const:1.5`, `[[1, 2], [3, 4]]`.
#include "minic/Support/HostTensor.h"

#include "ElementText.h"
#include "HostMemory.h"
#include "Npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace minic {
namespace {

enum class WordKind { Random, Iota, Const, Literal, File };

WordKind kindOf(std::string_view spec, DType dtype) {
  if (spec == "random" || spec.starts_with("random:"))
    return WordKind::Random;
  if (spec == "iota")
    return WordKind::Iota;
  if (spec.starts_with("const:"))
    return WordKind::Const;
  // A bare number is a tensor of rank 0.
  std::byte element[8];
  return spec.starts_with('[') || !readElement(spec, dtype, element) ? WordKind::Literal : WordKind::File;
}

std::string quotedInput(std::string_view name) { return "input '" + std::string(name) + "'"; }

std::string shortened(std::string_view text) { return std::string(text.substr(0, 60)) + (text.size() > 60 ? "..." : ""); }

/// The errors of reading a word, with the input's name before them.
Diagnostics forInput(std::string_view name, std::string_view spec, Diagnostics errors) {
  for (Diagnostic &error : errors) {
    error.message = quotedInput(name) + ": " + error.message;
    if (error.code == ErrorCode::UnreadableFile && error.fix.empty())
      error.fix = "give a .npy file, random:SEED, iota, const:VALUE or a literal such as [[1, 2], [3, 4]]";
  }
  if (errors.front().code == ErrorCode::UnreadableFile) {
    std::string meant = didYouMean(spec.substr(0, spec.find(':')), {"random", "iota", "const"});
    if (!meant.empty())
      errors.front().note("did you mean `" + meant + "`?");
  }
  return errors;
}

Expected<HostTensor> readWord(std::string_view name, std::string_view spec, DType dtype, WordKind kind) {
  auto tensor = kind == WordKind::Literal ? parseTensorText(spec, dtype) : readNpy(std::filesystem::path(spec), dtype);
  if (tensor)
    return tensor;
  return forInput(name, spec, tensor.takeErrors());
}

/// Fills a tensor by `random:7` or `random`.
Expected<void> fillFromSeed(std::string_view name, std::string_view spec, HostTensor &tensor) {
  uint64_t seed = 0;
  if (spec != "random") {
    std::string_view digits = spec.substr(std::string_view("random:").size());
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
    if (error != std::errc() || end != digits.data() + digits.size())
      return Diagnostic{.code = ErrorCode::BadInput,
                        .message =
                            quotedInput(name) + ": the seed `" + shortened(digits) + "` is not an integer from 0 to 2^64 - 1",
                        .fix = "write for example random:7"};
  }
  fillRandom(tensor, seed);
  return {};
}

/// Fills a tensor by `const:1.5`.
Expected<void> fillConst(std::string_view name, std::string_view spec, HostTensor &tensor) {
  std::string_view word = spec.substr(std::string_view("const:").size());
  std::byte element[8];
  if (const char *why = readElement(word, tensor.dtype(), element))
    return Diagnostic{.code = ErrorCode::BadInput,
                      .message = quotedInput(name) + ": the constant `" + shortened(word) + "` " + why + " (" +
                                 std::string(dtypeName(tensor.dtype())) + ")",
                      .fix = "write for example const:1"};
  size_t size = size_t(dtypeBytes(tensor.dtype()));
  for (size_t at = 0; at < tensor.bytes().size(); at += size)
    std::memcpy(tensor.bytes().data() + at, element, size);
  return {};
}

} // namespace

Expected<std::optional<std::vector<int64_t>>> inputShape(std::string_view name, std::string_view spec, DType dtype) {
  WordKind kind = kindOf(spec, dtype);
  if (kind == WordKind::File) {
    auto shape = readNpyShape(std::filesystem::path(spec), dtype);
    if (!shape)
      return forInput(name, spec, shape.takeErrors());
    return std::optional(std::move(*shape));
  }
  if (kind != WordKind::Literal)
    return std::optional<std::vector<int64_t>>();
  auto tensor = readWord(name, spec, dtype, kind);
  if (!tensor)
    return tensor.takeErrors();
  return std::optional(tensor->shape());
}

Expected<HostTensor> makeInput(std::string_view name, std::string_view spec, DType dtype, std::span<const int64_t> shape) {
  WordKind kind = kindOf(spec, dtype);
  if (kind == WordKind::File || kind == WordKind::Literal) {
    auto tensor = readWord(name, spec, dtype, kind);
    if (!tensor)
      return tensor.takeErrors();
    if (tensor->dtype() != dtype || !std::ranges::equal(tensor->shape(), shape)) {
      Diagnostic error{.code = ErrorCode::BadInput,
                       .message = quotedInput(name) + " has shape " + shapeString(tensor->dtype(), tensor->shape()) +
                                  ", expected " + shapeString(dtype, shape)};
      if (tensor->dtype() != dtype)
        error.note("element types are never converted silently");
      return error;
    }
    return tensor;
  }
  auto bytes = HostTensor::checkedBytes(dtype, shape);
  if (!bytes || !fitsHostMemory(*bytes))
    return Diagnostic{.code = ErrorCode::TooLarge,
                      .message = quotedInput(name) + " of shape " + shapeString(dtype, shape) +
                                 " does not fit into this machine's memory"};
  HostTensor tensor(dtype, {shape.begin(), shape.end()});
  if (kind == WordKind::Iota)
    fillIota(tensor);
  auto filled = kind == WordKind::Random  ? fillFromSeed(name, spec, tensor)
                : kind == WordKind::Const ? fillConst(name, spec, tensor)
                                          : Expected<void>();
  if (!filled)
    return filled.takeErrors();
  return tensor;
}

} // namespace minic
