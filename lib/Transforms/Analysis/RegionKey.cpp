#include "minic/Transforms/Analysis/RegionKey.h"

#include "minic/Transforms/Analysis/StructuralKey.h"

#include <algorithm>
#include <bit>

namespace minic {

/// A, B ... Z, A1, B1 ...
static std::string letter(size_t index) {
  return std::string(1, char('A' + index % 26)) + (index < 26 ? "" : std::to_string(index / 26));
}

RegionKey RegionKey::of(const Operation &fusion) {
  RegionKey key;
  auto sizeText = [&](const DimExpr &size) {
    if (size.isConstant(0) || size.isConstant(1)) // An axis that is none.
      return size.str();
    auto known = std::ranges::find(key.sizes, size);
    size_t index = size_t(known - key.sizes.begin());
    if (known == key.sizes.end())
      key.sizes.push_back(size);
    return letter(index);
  };
  auto typeText = [&](Type type) {
    if (!type.isTensor())
      return type.str();
    std::string text = "tensor<";
    for (const DimExpr &size : type.shape())
      text += sizeText(size) + "x";
    return text + std::string(dtypeName(type.dtype())) + ">";
  };
  key.text = structuralKey(
      fusion.region(),
      {.outside = [](const Value *) { return std::string("outside"); }, .type = typeText, .withoutAttribute = "ranges"});
  return key;
}

std::optional<SizeClass> SizeClass::of(const DimExpr &size, std::span<const DimFact> facts) {
  int64_t least = leastOf(size, facts), most = mostOf(size, facts);
  constexpr int64_t largest = int64_t(1) << 62;
  if (least < 0 || most > largest)
    return std::nullopt;
  auto blockOf = [](int64_t value) { return int64_t(std::bit_ceil(uint64_t(value))); };
  if (blockOf(least) != blockOf(most))
    return std::nullopt;
  int64_t alignment = 16;
  while (!size.isMultipleOf(alignment))
    alignment /= 2;
  return SizeClass{blockOf(most), alignment};
}

} // namespace minic
