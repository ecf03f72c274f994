// What the user's environment says of the cache.
#pragma once

#include "minic/Cache/CacheStore.h"

namespace minic {

/// The absolute path that is asked for, by the options or else by the environment. Errors: NoCache.
Expected<std::string> directoryOf(const CacheOptions &options);
/// Errors: BadFlag.
Expected<uint64_t> limitOf(const CacheOptions &options);

} // namespace minic
