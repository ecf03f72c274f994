#include "minic/Cache/CacheUse.h"

namespace minic {

Expected<CacheUse> openCache(std::string_view word, const CacheOptions &options) {
  if (word == "off")
    return CacheUse{};
  if (word == "on")
    return CacheUse{CacheStore::openIfUsable(options), CachePolicy::Use};
  if (word == "refresh")
    return CacheUse{CacheStore::openIfUsable(options), CachePolicy::Refresh};
  if (word != "must-hit")
    return Diagnostic{.code = ErrorCode::BadFlag,
                      .message = "unknown cache '" + std::string(word) + "'",
                      .fix = "it is one of on, off, refresh, must-hit"};
  auto store = CacheStore::open(options);
  if (!store)
    return store.takeErrors();
  return CacheUse{std::move(*store), CachePolicy::MustHit};
}

} // namespace minic
