// How a cache is used: what the words on, off, refresh and must-hit say.
#pragma once

#include "minic/Cache/CacheStore.h"

namespace minic {

/// What a cache is for: what it has is taken; or none is, and what is made anew is kept; or nothing but what it has is used.
enum class CachePolicy : uint8_t { Use, Refresh, MustHit };

/// "on", "refresh" or "must-hit"; nullopt for other words.
std::optional<CachePolicy> parseCachePolicy(std::string_view word);

/// What compilers and devices are told.
struct CacheUse {
  std::shared_ptr<CacheStore> store = nullptr; ///< Null: nothing is kept.
  CachePolicy policy = CachePolicy::Use;
};

/// `word`: "on", "off", "refresh" or "must-hit"; another is BadFlag. A cache that cannot be used is a notice and no store; where
/// nothing may be compiled it is an error.
Expected<CacheUse> openCache(std::string_view word, const CacheOptions &options = {});

} // namespace minic
