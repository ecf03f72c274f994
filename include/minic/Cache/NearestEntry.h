// Why something is not kept: the entry that would have been it, but for some fields.
#pragma once

#include "minic/Cache/CacheStore.h"

namespace minic {

struct NearestEntry {
  std::string description;
  std::chrono::system_clock::time_point lastUse;
  CacheDifference difference; ///< `a` is the key that was asked for. No fields: it is kept.
};

/// Of the sound entries of the key's kind the one with the most equal fields, of those the one used last; nullopt if there is none.
/// Reads keys, not values; that is no use.
std::optional<NearestEntry> nearestEntry(const CacheStore &store, const CacheKey &key);

} // namespace minic
