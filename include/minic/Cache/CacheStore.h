// Compiled things kept in a directory, for later processes and those beside this one (docs/cache.md).
#pragma once

#include "minic/Cache/CacheKey.h"
#include "minic/Support/Expected.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sys/types.h>

namespace minic {

/// What tests put in place of the world. Empty functions are the real thing.
struct CacheHooks {
  std::function<std::string(std::string_view)> nameOf;          ///< Of the bytes of a key.
  std::function<ssize_t(int, const void *, size_t)> write;      ///< As write(2).
  std::function<std::chrono::system_clock::time_point()> clock; ///< Now.
};

struct CacheOptions {
  /// Empty: MINIC_CACHE_DIR, else $XDG_CACHE_HOME/minic, else $HOME/.cache/minic.
  std::string directory = {};
  /// Bytes of all entries; none: MINIC_CACHE_SIZE, else 1 GiB.
  std::optional<uint64_t> limit = {};
  /// Is told, as a warning, what the caller's user should know, each thing once in a process. Comes from the thread that found it.
  std::function<void(const Diagnostic &)> notice = {};
  CacheHooks hooks = {};
};

struct CacheInfo {
  std::string directory;
  bool writable = false; ///< Otherwise what is there is served, and nothing is kept.
  uint64_t entries = 0, bytes = 0, limit = 0;
  /// Of this store since it was opened. `dropped`: could not be kept. `damaged`: found so by `get`, or rejected. `evicted`: made
  /// room.
  uint64_t hits = 0, misses = 0, kept = 0, dropped = 0, damaged = 0, evicted = 0;
};

/// What an entry says of itself; its value is not looked at.
struct CacheEntry {
  enum State : uint8_t { Readable, Damaged, OtherFormat } state = Readable;
  std::string name;              ///< 32 hexadecimal digits.
  std::string kind, description; ///< Empty unless it is readable.
  uint64_t bytes = 0;            ///< Of the file.
  std::chrono::system_clock::time_point lastUse;
};

struct CacheCheck {
  struct Fault {
    std::string name, why;
    bool removed = false; ///< False where nothing may be written.
  };
  uint64_t good = 0, otherFormat = 0;
  uint64_t leftovers = 0; ///< Files of writers that ended too early, removed.
  std::vector<Fault> damaged;
};

struct CacheClearing {
  uint64_t entries = 0, bytes = 0;
};

/// How two keys differ.
struct CacheDifference {
  struct Field {
    std::string name;
    uint32_t line = 0;               ///< Of texts of several lines the first line that differs, from 1; else 0.
    std::optional<std::string> a, b; ///< The texts, or these lines; none where the field or the line is not there.
  };
  std::string nameA, nameB; ///< In full.
  std::vector<Field> fields;
};
/// A line for each field; long texts are cut around the place where they part.
std::string describe(const CacheDifference &difference);

/// A directory of entries. Any number of threads, stores and processes may use one directory at a time; there are no locks. An
/// entry is seen as a whole or not at all.
class CacheStore {
public:
  /// Finds the directory and makes it, for its user alone, if it is not there. Errors (NoCache, BadFlag) say what is wrong with it
  /// and what to do: another user's, writable for others, no directory, one that cannot be made or read, no HOME, or a bad
  /// MINIC_CACHE_SIZE.
  static Expected<std::unique_ptr<CacheStore>> open(CacheOptions options);
  /// The same for those who go on without a cache: what `open` refuses is a notice, and null.
  static std::unique_ptr<CacheStore> openIfUsable(const CacheOptions &options);
  ~CacheStore();

  /// The value that was put under an equal key, checked. A damaged entry is removed, and is a miss.
  std::optional<std::string> get(const CacheKey &key);
  /// Keeps a value in place of what was there; near the limit the least recently used entries are removed. Whether it was kept: a
  /// cache that cannot be written to is a notice, not an error. `description` is one short line for people.
  bool put(const CacheKey &key, std::string_view value, std::string_view description = {});
  /// For whoever cannot use what `get` gave: the entry is removed, and counts as damaged and no longer as a hit. `why` goes on
  /// behind "the cache's entry ... ".
  void reject(const CacheKey &key, const std::string &why);
  /// Gives a notice, as a warning, unless the process has had it.
  void tell(Diagnostic notice) const;

  const std::string &directory() const;
  CacheInfo info() const;
  /// The last used first.
  std::vector<CacheEntry> list() const;
  /// Reads and checks every entry, removes damaged ones and what writers left behind.
  CacheCheck verify();
  /// Removes the files that caches made, and no others. Errors: NoCache where one stays.
  Expected<CacheClearing> clear();
  /// Compares the keys of two entries, named by their first digits. Errors: BadArgument for a name that no entry or several begin
  /// with, BadCacheEntry.
  Expected<CacheDifference> why(std::string_view a, std::string_view b) const;

private:
  struct Impl;
  explicit CacheStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace minic
