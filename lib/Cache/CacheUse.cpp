#include "minic/Cache/CacheUse.h"

namespace minic {

std::optional<CachePolicy> parseCachePolicy(std::string_view word) {
  if (word == "on")
    return CachePolicy::Use;
  if (word == "refresh")
    return CachePolicy::Refresh;
  return word == "must-hit" ? std::optional(CachePolicy::MustHit) : std::nullopt;
}

Expected<CacheUse> openCache(std::string_view word, const CacheOptions &options) {
  if (word == "off")
    return CacheUse{};
  auto policy = parseCachePolicy(word);
  if (!policy)
    return Diagnostic{.code = ErrorCode::BadFlag,
                      .message = "unknown cache '" + std::string(word) + "'",
                      .fix = "it is one of on, off, refresh, must-hit"};
  if (policy != CachePolicy::MustHit)
    return CacheUse{CacheStore::openIfUsable(options), *policy};
  auto store = CacheStore::open(options);
  if (!store)
    return store.takeErrors();
  return CacheUse{std::move(*store), *policy};
}

} // namespace minic
