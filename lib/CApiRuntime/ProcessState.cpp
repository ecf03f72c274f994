#include "minic/CApiRuntime/Handles.h"

#include <pthread.h>

namespace minic {

static_assert(sizeof(uintptr_t) == 8, "handles are 64 bits");

alignas(ProcessState) static std::byte storage[sizeof(ProcessState)];

static void startAnew() {
  static uint32_t epoch = 0;
  new (storage) ProcessState(++epoch & 0xFF); // Over the parent's, whose objects are not this process's to destroy.
}

ProcessState &ProcessState::get() {
  static const bool made = [] {
    pthread_atfork(nullptr, nullptr, startAnew);
    new (storage) ProcessState(0);
    return true;
  }();
  (void)made;
  return *std::launder(reinterpret_cast<ProcessState *>(storage));
}

} // namespace minic
