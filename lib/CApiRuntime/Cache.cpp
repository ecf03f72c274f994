// The cache on disk in the C interface.
#include "minic/CApiRuntime/Handles.h"
#include "minic/Runtime/CudaDevice.h"

using namespace minic;

MinicError *minic_cache_open(const MinicCacheOptions *options, MinicCache **cache) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(cache, "cache"); !place)
      return place;
    auto read = readSized(options, "options");
    if (!read)
      return read.takeErrors();
    std::string word = read->use ? read->use : "on";
    auto policy = parseCachePolicy(word);
    if (!policy)
      return badArgument("options.use", "is '" + word + "', expected on, refresh or must-hit");
    CacheOptions where;
    if (read->directory)
      where.directory = read->directory;
    if (read->limit)
      where.limit = read->limit;
    if (read->notice)
      where.notice = [notice = read->notice, context = read->notice_context](const Diagnostic &diagnostic) {
        notice(context, renderDiagnostic(diagnostic, nullptr).c_str());
      };
    auto store = CacheStore::open(std::move(where));
    if (!store)
      return store.takeErrors();
    auto object = std::make_unique<CacheObject>();
    object->use = {std::move(*store), *policy};
    *cache = give(std::move(object));
    return {};
  });
}

MinicError *minic_cache_info(MinicCache *cache, MinicCacheInfo *info) {
  return guarded([&]() -> Expected<void> {
    auto object = use<CacheObject>(cache, "cache");
    if (!object)
      return object.takeErrors();
    const CacheStore &store = *(*object)->use.store;
    CacheInfo is = store.info();
    MinicCacheInfo known = {.directory = store.directory().c_str(), .writable = is.writable};
    known.entries = is.entries;
    known.bytes = is.bytes;
    known.limit = is.limit;
    known.hits = is.hits;
    known.misses = is.misses;
    known.kept = is.kept;
    known.dropped = is.dropped;
    known.damaged = is.damaged;
    known.evicted = is.evicted;
    return fillInfo(known, info);
  });
}

MinicError *minic_cache_destroy(MinicCache *cache) { return destroy<CacheObject>(cache, "cache"); }

MinicError *minic_device_use_cache(MinicDevice *device, MinicCache *cache) {
  return guarded([&]() -> Expected<void> {
    auto object = use<DeviceObject>(device, "device");
    if (!object)
      return object.takeErrors();
    CacheUse taken;
    if (cache) {
      auto of = use<CacheObject>(cache, "cache");
      if (!of)
        return of.takeErrors();
      taken = (*of)->use;
    }
    if (auto *gpu = dynamic_cast<CudaDevice *>((*object)->device.get())) // The interpreter compiles nothing.
      gpu->useCache(std::move(taken));
    return {};
  });
}
