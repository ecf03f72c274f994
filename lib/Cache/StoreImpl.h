// What a CacheStore holds.
#pragma once

#include "CacheFolder.h"
#include "EntryFormat.h"

#include <atomic>

namespace minic {

struct CacheStore::Impl {
  CacheOptions options;
  CacheFolder folder;
  uint64_t limit;
  std::atomic<uint64_t> hits = 0, misses = 0, kept = 0, dropped = 0, damaged = 0, evicted = 0;

  std::chrono::system_clock::time_point now() const {
    return options.hooks.clock ? options.hooks.clock() : std::chrono::system_clock::now();
  }
  std::string nameOf(std::string_view key) const;
  /// Tells the caller, unless this process has been told of the subject; an empty subject is the message.
  void notify(ErrorCode code, std::string message, std::string fix = {}, std::string_view subject = {}) const;
  /// Whether a writer can no longer be at work on it.
  bool isStale(const CacheFile &file) const;

  /// The value of an entry, if it is sound and has this key.
  std::optional<std::string> find(std::string_view key);
  /// Removes an entry that is of no use, counts it and says so; `why` goes on behind "the cache's entry ... ".
  void removeBad(const std::string &name, const OpenEntry &entry, const std::string &why);
  void touch(const OpenEntry &entry) const;
  /// Whether the one who has put this entry is to `makeRoom`.
  bool isToMakeRoom(std::string_view name, uint64_t bytes) const;
  /// Where the limit is near, removes the least recently used entries but `newest`. Removes stale leftovers.
  void makeRoom(std::string_view newest);
};

} // namespace minic
