#include "Memory.h"

namespace minic::interp {

std::optional<DoubleStore> claim(uint64_t *marks, int64_t element, StoreMark mark) {
  std::atomic_ref<uint64_t> slot(marks[element]);
  StoreMark seen{slot.load(std::memory_order_relaxed)};
  while (true) {
    if (seen.bits && seen.program() == mark.program()) {
      if (seen.thread() == mark.thread())
        return std::nullopt; // One thread stores twice in its own order: the last one counts.
      return DoubleStore{mark.program(), mark.ordinal(), element, seen.program(), mark.thread(), seen.thread()};
    }
    if (seen.bits && seen.program() < mark.program())
      return DoubleStore{mark.program(), mark.ordinal(), element, seen.program(), mark.thread(), seen.thread()};
    if (!slot.compare_exchange_weak(seen.bits, mark.bits, std::memory_order_relaxed))
      continue;
    if (seen.bits)
      return DoubleStore{seen.program(), seen.ordinal(), element, mark.program(), seen.thread(), mark.thread()};
    return std::nullopt;
  }
}

} // namespace minic::interp
