#include "Staging.h"

#include <algorithm>
#include <cstring>

namespace minic::cuda {

namespace {
constexpr size_t chunkBytes = size_t(4) << 20, maxChunks = 16;
constexpr unsigned portable = 1;      // CU_MEMHOSTALLOC_PORTABLE
constexpr unsigned disableTiming = 2; // CU_EVENT_DISABLE_TIMING
} // namespace

CuResult Staging::create(Chunk &chunk) {
  void *memory = nullptr;
  if (CuResult result = api.cuMemHostAlloc(&memory, chunkBytes, portable); result != success)
    return result;
  chunk.memory = static_cast<std::byte *>(memory);
  CuResult result = api.cuEventCreate(&chunk.done, disableTiming);
  if (result != success)
    api.cuMemFreeHost(memory);
  return result;
}

CuResult Staging::take(Chunk &chunk, bool mayWait) {
  std::unique_lock lock(mutex);
  bool ready = !free.empty() && api.cuEventQuery(free.front().done) == success;
  if (!ready && existing < maxChunks) {
    ++existing;
    lock.unlock();
    CuResult result = create(chunk);
    if (result == success)
      return success;
    lock.lock();
    --existing;
    returned.notify_one();
    if (existing == 0)
      return result;
  }
  if (free.empty() && !mayWait)
    return notReady;
  returned.wait(lock, [&] { return !free.empty(); });
  chunk = free.front();
  free.erase(free.begin());
  lock.unlock();
  CuResult result = api.cuEventSynchronize(chunk.done);
  if (result != success)
    giveBack(chunk);
  return result;
}

void Staging::giveBack(Chunk chunk) {
  {
    std::lock_guard lock(mutex);
    free.push_back(chunk);
  }
  returned.notify_one();
}

CuResult Staging::toDevice(CuPointer to, std::span<const std::byte> from, CuStream stream) {
  for (size_t at = 0; at < from.size(); at += chunkBytes) {
    size_t bytes = std::min(chunkBytes, from.size() - at);
    Chunk chunk;
    if (CuResult result = take(chunk, true); result != success)
      return result;
    std::memcpy(chunk.memory, from.data() + at, bytes);
    CuResult result = api.cuMemcpyHtoDAsync_v2(to + at, chunk.memory, bytes, stream);
    if (result == success)
      result = api.cuEventRecord(chunk.done, stream);
    giveBack(chunk);
    if (result != success)
      return result;
  }
  return success;
}

CuResult Staging::toHost(std::span<std::byte> to, CuPointer from, CuStream stream) {
  // The device fills one chunk while the host empties the one before.
  Chunk filled;
  size_t filledAt = 0, filledBytes = 0;
  auto empty = [&]() -> CuResult {
    if (!filledBytes)
      return success;
    CuResult result = api.cuEventSynchronize(filled.done);
    if (result == success)
      std::memcpy(to.data() + filledAt, filled.memory, filledBytes);
    giveBack(filled);
    filledBytes = 0;
    return result;
  };
  CuResult result = success;
  for (size_t at = 0; at < to.size() && result == success; at += chunkBytes) {
    size_t bytes = std::min(chunkBytes, to.size() - at);
    Chunk chunk;
    result = take(chunk, filledBytes == 0);
    if (result == notReady) {
      result = empty();
      if (result == success)
        result = take(chunk, true);
    }
    if (result != success)
      break;
    result = api.cuMemcpyDtoHAsync_v2(chunk.memory, from + at, bytes, stream);
    if (result == success)
      result = api.cuEventRecord(chunk.done, stream);
    if (result != success) {
      giveBack(chunk);
      break;
    }
    result = empty();
    filled = chunk, filledAt = at, filledBytes = bytes;
  }
  CuResult last = empty();
  return result != success ? result : last;
}

void Staging::freeAll() {
  for (Chunk &chunk : free) {
    api.cuEventDestroy_v2(chunk.done);
    api.cuMemFreeHost(chunk.memory);
  }
  free.clear();
  existing = 0;
}

} // namespace minic::cuda
