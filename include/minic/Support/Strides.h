// Where the elements of a tensor with strides lie, and whether two of them share memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace minic {

/// Of the element at [0, 0, ...] counted in elements: the lowest one, and past the highest. Empty without elements.
struct ElementSpan {
  int64_t lowest = 0, end = 0;
  int64_t size() const { return end - lowest; }
};

/// `strides` in elements, of any sign. nullopt where an offset does not fit int64.
std::optional<ElementSpan> elementSpan(std::span<const int64_t> shape, std::span<const int64_t> strides);
std::vector<int64_t> rowMajorStrides(std::span<const int64_t> shape);
/// Axes of one element have no stride worth looking at, and a tensor without elements none at all. No strides mean row-major ones.
bool isRowMajor(std::span<const int64_t> shape, std::span<const int64_t> strides);

/// Calls `fn(offset)` for each position of a box in row-major order, where `offset` is the sum of position * stride.
template <typename Fn> void forEachOffset(std::span<const int64_t> extents, std::span<const int64_t> strides, Fn &&fn) {
  for (int64_t e : extents)
    if (e <= 0)
      return;
  std::vector<int64_t> at(extents.size(), 0);
  int64_t offset = 0;
  while (true) {
    fn(offset);
    size_t axis = extents.size();
    while (axis > 0) {
      --axis;
      offset += strides[axis];
      if (++at[axis] < extents[axis])
        break;
      offset -= at[axis] * strides[axis];
      at[axis] = 0;
      if (axis == 0)
        return;
    }
    if (extents.empty())
      return;
  }
}

/// Memory that a tensor takes: the address of its first element, and bytes.
struct StridedMemory {
  uint64_t address = 0;
  int64_t elementBytes = 1;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides; ///< In elements, one per axis.
};
/// Whether two elements of one tensor share a byte; also true where too many strides interlock to find it out.
bool overlapsItself(const StridedMemory &tensor);
/// Whether an element of `a` shares a byte with one of `b`; also true where too many strides interlock to find it out.
bool overlap(const StridedMemory &a, const StridedMemory &b);

} // namespace minic
