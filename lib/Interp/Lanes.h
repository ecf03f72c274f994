// Values of the kernel interpreter: an array of elements and a state for each.
#pragma once

#include "minic/IR/ScalarEval.h"

#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace minic::interp {

enum LaneState : uint8_t {
  Defined,
  Absent,    ///< Tile level: the lane is outside its tensor. Absorbed by element-wise ops, skipped by reduce and dot, dropped by
             ///< store.
  Undefined, ///< Nothing gave it a value; it may be carried along, and using it is an error.
};

/// The lanes of a scalar or tile, row-major. Immutable once made, so that copies share the memory. `size` is the number of elements
/// held: one element stands for any number of lanes.
struct LaneArray {
  DType dtype = DType::F32;
  int64_t size = 0;
  std::shared_ptr<std::byte[]> data;
  std::shared_ptr<uint8_t[]> state; ///< One LaneState per element held; null: all are defined.

  /// Uninitialized memory for `size` elements; `data` is null if there is none. new[] aligns bytes for every element type.
  static LaneArray make(DType dtype, int64_t size) {
    return {dtype, size, std::shared_ptr<std::byte[]>(new (std::nothrow) std::byte[size_t(size * dtypeBytes(dtype))]), nullptr};
  }
  /// Every lane gets the state `all`; false if there is no memory.
  [[nodiscard]] bool makeState(LaneState all) {
    state.reset(new (std::nothrow) uint8_t[size_t(size)]);
    if (state)
      std::memset(state.get(), all, size_t(size));
    return state != nullptr;
  }

  bool isSplat() const { return size == 1; }
  LaneState stateAt(int64_t lane) const { return state ? LaneState(state[isSplat() ? 0 : lane]) : Defined; }
  Lanes lanes(int64_t count) const { return {dtype, data.get(), isSplat() && count != 1}; }
  /// The same value holding `count` elements; `data` is null if there is no memory.
  LaneArray expanded(int64_t count) const;
};

/// The low bytes of a scalar are its memory form (little-endian hosts, which are the only ones CUDA has).
inline void writeScalar(std::byte *to, Scalar value, DType dtype) { std::memcpy(to, &value.bits, size_t(dtypeBytes(dtype))); }

/// Copies an element of `bytes` bytes: 1, 2, 4 or 8.
inline void copyElement(std::byte *to, const std::byte *from, int64_t bytes) {
  switch (bytes) { // Sizes that the compiler knows are moves, others a call.
  case 1:
    *to = *from;
    break;
  case 2:
    std::memcpy(to, from, 2);
    break;
  case 4:
    std::memcpy(to, from, 4);
    break;
  default:
    std::memcpy(to, from, 8);
  }
}

/// Fills `count` elements of `bytes` bytes each with the one at `value`.
void fillElements(std::byte *to, const std::byte *value, int64_t bytes, int64_t count);

/// The elements of a constant's value, nested lists in row-major order; one for a splat.
std::vector<Scalar> constantElements(const Attribute &attr, DType dtype);

} // namespace minic::interp
