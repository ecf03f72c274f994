// Pinned host memory through which copies between host and device go. Private to lib/Runtime.
#pragma once

#include "DriverApi.h"

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

namespace minic::cuda {

/// The device reads and writes pinned memory alone at full speed and without the host. Bytes go through chunks of it, so that the
/// host's part of one chunk overlaps the device's part of another. Callable from several threads at a time; the device's context
/// must be current in each call.
class Staging {
public:
  explicit Staging(const DriverApi &api) : api(api) {}
  /// Returns when all bytes are in pinned memory at least.
  CuResult toDevice(CuPointer to, std::span<const std::byte> from, CuStream stream);
  /// Returns when all bytes are there.
  CuResult toHost(std::span<std::byte> to, CuPointer from, CuStream stream);
  void freeAll();

private:
  struct Chunk {
    std::byte *memory = nullptr;
    CuEvent done = nullptr; ///< The last copy from or to it.
  };
  /// A chunk that nobody uses. If all are in use, waits for one to come back, or gives notReady if it may not: who holds a chunk
  /// must not wait for another.
  CuResult take(Chunk &chunk, bool mayWait);
  void giveBack(Chunk chunk);
  CuResult create(Chunk &chunk);

  const DriverApi &api;
  std::mutex mutex;
  std::condition_variable returned;
  std::vector<Chunk> free; // The one that came back first stands first.
  size_t existing = 0;
};

} // namespace minic::cuda
