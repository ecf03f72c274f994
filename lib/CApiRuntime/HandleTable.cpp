#include "minic/CApiRuntime/HandleTable.h"

#include <new>

namespace minic {

HandleTable::~HandleTable() {
  for (auto &chunk : chunks)
    delete chunk.load(std::memory_order_relaxed);
}

HandleTable::Slot *HandleTable::find(uint64_t index) const {
  if (index >= uint64_t(chunkSlots) * maxChunks)
    return nullptr;
  Chunk *chunk = chunks[index / chunkSlots].load(std::memory_order_acquire);
  return chunk ? &chunk->slots[index % chunkSlots] : nullptr;
}

void *HandleTable::insert(HandleKind kind, std::unique_ptr<HandleObject> object) {
  std::lock_guard lock(growth);
  uint32_t index = firstFree;
  if (index == none) {
    index = numSlots;
    if (index == chunkSlots * maxChunks)
      throw std::bad_alloc();
    if (auto &chunk = chunks[index / chunkSlots]; index % chunkSlots == 0)
      chunk.store(new Chunk, std::memory_order_release);
    ++numSlots;
    Slot &slot = *find(index);
    slot.nextFree = none;
    slot.state.store(uint64_t(firstGeneration) << 32, std::memory_order_relaxed);
  } else {
    firstFree = find(index)->nextFree;
  }
  Slot &slot = *find(index);
  slot.nextFree = index; // While the slot is in use, its own index.
  slot.kind = kind;
  slot.object = std::move(object);
  uint64_t state = slot.state.load(std::memory_order_relaxed);
  slot.state.store(state | live, std::memory_order_release);
  return reinterpret_cast<void *>(state | uint64_t(index) << 4 | uint64_t(kind));
}

HandleTable::Slot *HandleTable::pin(const void *handle, HandleKind kind, HandleFault &fault) {
  uint64_t bits = reinterpret_cast<uintptr_t>(handle), generation = bits >> 32;
  Slot *slot = find(bits >> 4 & 0xFFFFFFF);
  auto refuse = [&](HandleFault why) {
    fault = why;
    return nullptr;
  };
  if (!bits)
    return refuse(HandleFault::Null);
  bool hasKind = (bits & 15) != 0 && (bits & 15) <= uint64_t(HandleKind::Last);
  if (hasKind && generation >> epochShift < firstGeneration >> epochShift && (generation & ((1u << epochShift) - 1)) != 0)
    return refuse(HandleFault::BeforeFork);
  if (!slot || !hasKind || generation < firstGeneration)
    return refuse(HandleFault::Foreign);
  uint64_t state = slot->state.load(std::memory_order_acquire);
  while (true) {
    if (generation > state >> 32)
      return refuse(HandleFault::Foreign); // Not given out yet.
    if ((bits & 15) != uint64_t(kind))
      return refuse(HandleFault::WrongKind);
    if (generation != state >> 32 || !(state & live))
      return refuse(HandleFault::Destroyed);
    if (slot->state.compare_exchange_weak(state, state + 1, std::memory_order_acquire))
      break;
  }
  if (slot->kind == kind)
    return slot;
  unpin(*slot);
  return refuse(HandleFault::Foreign);
}

void HandleTable::unpin(Slot &slot) {
  uint64_t before = slot.state.fetch_sub(1, std::memory_order_acq_rel);
  if ((before & (live | pinMask)) == 1)
    recycle(slot);
}

bool HandleTable::erase(const void *handle, HandleKind kind, HandleFault &fault) {
  Slot *slot = pin(handle, kind, fault);
  if (!slot)
    return false;
  bool erased = slot->state.fetch_and(~live, std::memory_order_acq_rel) & live;
  unpin(*slot);
  if (!erased)
    fault = HandleFault::Destroyed; // Another thread was faster.
  return erased;
}

void HandleTable::recycle(Slot &slot) {
  slot.object.reset(); // Nobody else looks at it now. Not under the lock: it may take long.
  std::lock_guard lock(growth);
  uint64_t generation = (slot.state.load(std::memory_order_relaxed) >> 32) + 1;
  slot.state.store(generation << 32, std::memory_order_release);
  if ((generation & ((1u << epochShift) - 1)) == 0)
    return; // All generations of this epoch are used up; the slot is not used again.
  uint32_t index = slot.nextFree;
  slot.nextFree = firstFree;
  firstFree = index;
}

} // namespace minic
