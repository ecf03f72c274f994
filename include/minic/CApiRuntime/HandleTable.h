// Handles of the C interface: numbers that look like pointers and are looked up here, so that a handle that is null, destroyed, of
// another kind or made up is found out and never followed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace minic {

enum class HandleKind : uint8_t {
  None,
  Error,
  Text,
  Device,
  Stream,
  Event,
  Buffer,
  Artifact,
  Executable,
  CapturedRun,
  Cache,
  Last = Cache
};

/// What a handle stands for.
class HandleObject {
public:
  virtual ~HandleObject() = default;
};

enum class HandleFault : uint8_t { Null, Foreign, WrongKind, Destroyed, BeforeFork };

/// Slots with generations. A slot's state is one atomic word, so looking up takes no lock: 32 bits of generation, whether the
/// handle stands, and how many calls are using the object now. The last to let go of an object whose handle is gone deletes it.
class HandleTable {
public:
  /// `epoch`: how many forks lie between this process and the first one; handles of other epochs are none of this table's.
  explicit HandleTable(uint32_t epoch = 0) : firstGeneration(epoch << epochShift | 1) {}
  HandleTable(const HandleTable &) = delete;
  ~HandleTable();

  /// Throws std::bad_alloc if there is no place.
  void *insert(HandleKind kind, std::unique_ptr<HandleObject> object);

  struct Slot {
    std::atomic<uint64_t> state = 0;
    std::unique_ptr<HandleObject> object;
    uint32_t nextFree = 0;
    HandleKind kind = HandleKind::None;
  };
  /// The slot of a handle, which `unpin` must be called for; or null and why.
  Slot *pin(const void *handle, HandleKind kind, HandleFault &fault);
  void unpin(Slot &slot);
  /// Takes the handle back; the object lives on while calls use it. False, and why, if there is nothing to take.
  bool erase(const void *handle, HandleKind kind, HandleFault &fault);

private:
  // A handle: generation (32 bits), index of the slot (28), kind (4).
  static constexpr unsigned epochShift = 24;
  static constexpr uint32_t chunkSlots = 1024, maxChunks = 4096;
  static constexpr uint64_t live = 1ull << 31, pinMask = live - 1;
  static constexpr uint32_t none = UINT32_MAX;
  struct Chunk {
    std::array<Slot, chunkSlots> slots;
  };

  Slot *find(uint64_t index) const;
  void recycle(Slot &slot);

  const uint32_t firstGeneration;
  std::array<std::atomic<Chunk *>, maxChunks> chunks = {}; // They stay: a stale handle still finds its slot.
  std::mutex growth;                                       // Of what follows.
  uint32_t numSlots = 0, firstFree = none;
};

} // namespace minic
