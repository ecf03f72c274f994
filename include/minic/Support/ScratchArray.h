// An array for one call: on the stack while it is short.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

namespace minic {

/// `size` elements of a trivial type, without values yet. No memory is taken up to `inPlace` elements.
template <typename T, size_t inPlace> class ScratchArray {
public:
  explicit ScratchArray(size_t size)
      : count(size), heap(size > inPlace ? new T[size] : nullptr), elements(heap ? heap.get() : local.data()) {}
  ScratchArray(const ScratchArray &) = delete;
  T &operator[](size_t i) { return elements[i]; }
  T *data() { return elements; }
  std::span<T> span() { return {elements, count}; }

private:
  size_t count;
  std::unique_ptr<T[]> heap;
  std::array<T, inPlace> local;
  T *elements;
};

} // namespace minic
