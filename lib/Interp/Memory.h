// Global memory of the interpreter: what is defined, and who stored what in this launch.
#pragma once

#include "Prepare.h"
#include "minic/Interp/CpuDevice.h"

#include <atomic>
#include <cstdlib>
#include <memory>

namespace minic::interp {

struct FreeDeleter {
  void operator()(void *p) const { std::free(p); }
};
/// Zeroed memory whose pages are taken when they are touched; null if there is none.
template <typename T> std::unique_ptr<T[], FreeDeleter> zeroedArray(int64_t count) {
  return std::unique_ptr<T[], FreeDeleter>(static_cast<T *>(std::calloc(size_t(count ? count : 1), sizeof(T))));
}

/// Device memory. `defined` has 1 for every byte that something wrote.
struct Allocation {
  int64_t bytes = 0;
  std::unique_ptr<std::byte[], FreeDeleter> data;
  std::unique_ptr<uint8_t[], FreeDeleter> defined;
  std::string storedBy; ///< "'y' of kernel 'k'": the last parameter that stores to it.
};

/// The bytes of `defined` are all 1 in [from, from + count).
inline bool allDefined(const uint8_t *defined, int64_t from, int64_t count) {
  return count <= 0 || !std::memchr(defined + from, 0, size_t(count));
}

/// Which thread of which program stored an element, and with which op.
struct StoreMark {
  uint64_t bits = 0; ///< 0: nobody.
  static StoreMark of(uint64_t program, uint32_t ordinal, int32_t thread) {
    return {(program + 1) << 24 | uint64_t(ordinal & 0x1fff) << 11 | uint64_t(thread & 0x7ff)};
  }
  uint64_t program() const { return (bits >> 24) - 1; }
  uint32_t ordinal() const { return uint32_t(bits >> 11) & 0x1fff; }
  int32_t thread() const { return int32_t(bits & 0x7ff); }
};
inline constexpr int64_t maxPrograms = int64_t(1) << 39;

/// A buffer parameter during one launch. Elements are counted from the lowest address.
struct LaunchBuffer {
  const BufferParam *param = nullptr;
  std::byte *data = nullptr;                             ///< Of element 0.
  uint8_t *defined = nullptr;                            ///< Per byte from there.
  int64_t origin() const { return -param->span.lowest; } ///< The element at [0, 0, ...].
  std::unique_ptr<uint64_t[], FreeDeleter> marks;        ///< Of stored buffers: StoreMark per element.
  std::unique_ptr<uint8_t[], FreeDeleter> read, written; ///< Touched elements; null unless traffic is counted.
};

/// Two stores to one element: `later` is the one that should not have happened.
struct DoubleStore {
  uint64_t program = 0; ///< Of the later one in program order.
  uint32_t ordinal = 0;
  int64_t element = 0;
  uint64_t otherProgram = 0;
  int32_t thread = 0, otherThread = 0;
  int buffer = 0;
};

/// Marks `element` as stored by `mark`, or says who stored it as well. Of two programs the earlier one keeps the element, so that
/// what is reported in the end does not depend on timing.
std::optional<DoubleStore> claim(uint64_t *marks, int64_t element, StoreMark mark);

} // namespace minic::interp
