#include "minic/Cache/CacheStore.h"

#include "Environment.h"
#include "StoreImpl.h"
#include "minic/Support/Checksum.h"
#include "minic/Support/Hash.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <tuple>

namespace minic {

using namespace std::chrono_literals;

/// A hit is written down if the last one is longer ago: the order of use is then known to the minute, and a loop of hits writes
/// nothing.
constexpr auto touchInterval = 1min;
/// A writer writes one file without waiting for anything, so it has ended long before. If not, its entry is dropped.
constexpr auto staleAfter = 10min;
/// Clocks of file servers differ a little. What is later than that will not come to be the oldest, so it counts as that.
constexpr auto clockSkew = 1h;
constexpr size_t longestDescription = 200;

//===- Notices -===//

/// Whether this is the first call with this text in the process.
static bool isNews(std::string_view text) {
  // Hashes in a table without a lock, which a child of fork could find locked forever. When it is full there has been enough to
  // read.
  static std::array<std::atomic<uint64_t>, 256> told = {};
  uint64_t hash = stableHash(text) | 1;
  for (std::atomic<uint64_t> &slot : told) {
    uint64_t found = 0;
    if (slot.compare_exchange_strong(found, hash))
      return true;
    if (found == hash)
      return false;
  }
  return false;
}

static void notifyOnce(const CacheOptions &options, Diagnostic diagnostic, std::string_view subject = {}) {
  diagnostic.severity = Severity::Warning;
  if (options.notice && isNews(subject.empty() ? diagnostic.message : subject))
    options.notice(diagnostic);
}

void CacheStore::Impl::notify(ErrorCode code, std::string message, std::string fix, std::string_view subject) const {
  notifyOnce(options, {.code = code, .message = std::move(message), .fix = std::move(fix)}, subject);
}

//===- Opening -===//

Expected<std::unique_ptr<CacheStore>> CacheStore::open(CacheOptions options) {
  auto limit = limitOf(options);
  if (!limit)
    return limit.takeErrors();
  auto directory = directoryOf(options);
  if (!directory)
    return directory.takeErrors();
  auto folder = CacheFolder::open(std::move(*directory));
  if (!folder)
    return folder.takeErrors();
  auto impl = std::make_unique<Impl>(std::move(options), std::move(*folder), *limit);
  if (const CacheFolder &folder = impl->folder; !folder.isWritable()) {
    std::string fix = "set MINIC_CACHE_DIR to a directory that can be written";
    impl->notify(ErrorCode::NoCache,
                 "the cache's directory '" + folder.path() + "' is " +
                     (folder.isOnReadOnlyFileSystem() ? "on a read-only file system" : "read-only") +
                     ": what it has is used, and nothing is kept",
                 folder.isOnReadOnlyFileSystem() ? fix : "`chmod u+w '" + folder.path() + "'`, or " + fix);
  }
  return std::unique_ptr<CacheStore>(new CacheStore(std::move(impl)));
}

std::unique_ptr<CacheStore> CacheStore::openIfUsable(const CacheOptions &options) {
  auto store = open(options);
  if (store)
    return std::move(*store);
  for (Diagnostic &error : store.errors()) {
    error.message += "; nothing is cached";
    notifyOnce(options, std::move(error));
  }
  return nullptr;
}

CacheStore::CacheStore(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
CacheStore::~CacheStore() = default;

const std::string &CacheStore::directory() const { return impl->folder.path(); }

//===- Reading -===//

std::string CacheStore::Impl::nameOf(std::string_view key) const {
  return options.hooks.nameOf ? options.hooks.nameOf(key) : checksumText(key);
}

std::optional<std::string> CacheStore::get(const CacheKey &key) {
  auto value = impl->find(key.bytes());
  ++(value ? impl->hits : impl->misses);
  return value;
}

std::optional<std::string> CacheStore::Impl::find(std::string_view key) {
  std::string name = nameOf(key);
  OpenEntry entry = folder.openEntry(name);
  auto unreadable = [&](int error) {
    std::string why = error == ELOOP ? "it is a symbolic link" : error == EISDIR ? "it is no regular file" : std::strerror(error);
    notify(ErrorCode::NoCache, "the cache's entry '" + folder.pathOf(name) + "' cannot be read: " + why,
           "remove it; it is then made again");
    return std::nullopt;
  };
  if (entry.error == ENOENT)
    return {};
  if (entry.error != 0)
    return unreadable(entry.error);
  // Who set a larger limit put it there; here it could be more than the memory.
  uint64_t size = uint64_t(entry.status.st_size);
  if (size > limit)
    return {};

  auto [bytes, error] = CacheFolder::read(entry, entryHeaderSize);
  HeadExtent head = decodeHeader(bytes, size);
  DecodedEntry decoded{.state = head.state, .fault = std::move(head.fault)};
  if (error == 0 && decoded.state == CacheEntry::Readable) {
    std::tie(bytes, error) = CacheFolder::read(entry, size);
    decoded = decodeEntry(bytes);
  }
  if (error != 0)
    return unreadable(error);
  if (decoded.state == CacheEntry::Damaged) {
    removeBad(name, entry, "is damaged: " + decoded.fault);
    return {};
  }
  // Another key with the same hash is a miss; so is an entry of another format.
  if (decoded.state != CacheEntry::Readable || decoded.key != key)
    return {};
  touch(entry);
  return std::string(decoded.value);
}

void CacheStore::Impl::removeBad(const std::string &name, const OpenEntry &entry, const std::string &why) {
  ++damaged;
  bool gone = folder.isWritable() && folder.removeIfSame(name, entry);
  notify(ErrorCode::BadCacheEntry, "the cache's entry '" + folder.pathOf(name) + "' " + why,
         gone ? "none needed: it was removed, and is made again" : "remove it; it is then made again", folder.pathOf(name));
}

void CacheStore::reject(const CacheKey &key, const std::string &why) {
  std::string name = impl->nameOf(key.bytes());
  --impl->hits;
  ++impl->misses;
  impl->removeBad(name, impl->folder.openEntry(name), why);
}

void CacheStore::tell(Diagnostic notice) const { notifyOnce(impl->options, std::move(notice)); }

void CacheStore::Impl::touch(const OpenEntry &entry) const {
  auto time = now();
  auto age = time - lastUseOf(entry.status);
  if (!folder.isWritable() || (age < touchInterval && age > -touchInterval))
    return;
  auto sinceEpoch = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT},
                       {.tv_sec = time_t(sinceEpoch / 1'000'000'000), .tv_nsec = long(sinceEpoch % 1'000'000'000)}};
  futimens(entry.file.get(), times); // Where that fails the entry only goes earlier.
}

//===- Writing -===//

/// One line that can be shown as it is.
static std::string shownLine(std::string_view text) {
  std::string line(text.substr(0, longestDescription));
  std::ranges::replace_if(line, [](unsigned char c) { return c < 32 || c == 127; }, ' ');
  return line;
}

bool CacheStore::put(const CacheKey &key, std::string_view value, std::string_view description) {
  auto drop = [&] {
    ++impl->dropped;
    return false;
  };
  const std::string &path = impl->folder.path();
  if (!impl->folder.isWritable())
    return drop();
  std::string keyBytes = key.bytes();
  std::string bytes = encodeEntry(keyBytes, shownLine(description), value);
  if (bytes.size() > impl->limit) {
    impl->notify(ErrorCode::NoCache,
                 "an entry of " + std::to_string(bytes.size()) + " bytes is not kept in the cache '" + path + "', whose limit is " +
                     std::to_string(impl->limit),
                 "set MINIC_CACHE_SIZE to more");
    return drop();
  }
  std::string name = impl->nameOf(keyBytes);
  if (int error = impl->folder.writeEntry(name, bytes, impl->options.hooks)) {
    impl->notify(ErrorCode::NoCache, "cannot write to the cache '" + path + "': " + std::strerror(error) + "; entries are not kept",
                 error == ENOSPC || error == EDQUOT ? "make room on its disk, or set MINIC_CACHE_DIR to another one" : "");
    return drop();
  }
  ++impl->kept;
  if (impl->isToMakeRoom(name, bytes.size()))
    impl->makeRoom(name);
  return true;
}

bool CacheStore::Impl::isStale(const CacheFile &file) const { return file.leftover && now() - file.lastUse > staleAfter; }

bool CacheStore::Impl::isToMakeRoom(std::string_view name, uint64_t bytes) const {
  // What others have put is known nowhere but in the directory, and to read it takes some microseconds for each file. So of many
  // small entries few make room, as many as make a 256th of the limit each in the mean, whoever puts them. Which ones follows from
  // the name, a hash. That a 16th is put and none of them is among it happens once in e^16 times.
  uint64_t share = limit / 256;
  uint32_t digits = 0;
  std::from_chars(name.data(), name.data() + 8, digits, 16);
  return bytes >= share || double(digits) / 0x1p32 < double(bytes) / double(share);
}

void CacheStore::Impl::makeRoom(std::string_view newest) {
  uint64_t total = 0;
  std::vector<CacheFile> entries;
  for (CacheFile &file : folder.files()) {
    if (isStale(file) && folder.remove(file) == 0)
      continue;
    total += file.bytes;
    if (!file.leftover && file.name != newest)
      entries.push_back(std::move(file));
  }
  if (total <= limit - limit / 16)
    return;
  auto latest = now() + clockSkew;
  for (CacheFile &file : entries)
    if (file.lastUse > latest)
      file.lastUse = {};
  std::ranges::sort(
      entries, [](const CacheFile &a, const CacheFile &b) { return std::tie(a.lastUse, a.name) < std::tie(b.lastUse, b.name); });
  for (const CacheFile &file : entries) {
    if (total <= limit - limit / 8)
      break;
    // What another process has removed meanwhile is room, too.
    if (folder.remove(file) == 0) {
      total -= file.bytes;
      ++evicted;
    }
  }
}

} // namespace minic
