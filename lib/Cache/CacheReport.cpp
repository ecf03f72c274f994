// What a cache says of itself, and its upkeep: `minic cache`.
#include "minic/Cache/NearestEntry.h"
#include "minic/Support/Text.h"

#include "StoreImpl.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

namespace minic {
namespace {

/// Key and description of an entry, checked, without its value.
struct EntryHead {
  CacheEntry::State state = CacheEntry::Damaged;
  std::string fault = "it cannot be read";
  std::vector<CacheKey::Field> key = {};
  std::string description = {};
};

EntryHead readHead(const OpenEntry &entry) {
  if (entry.error != 0)
    return {};
  uint64_t size = uint64_t(entry.status.st_size);
  auto [bytes, error] = CacheFolder::read(entry, entryHeaderSize);
  if (error != 0)
    return {};
  HeadExtent extent = decodeHeader(bytes, size);
  if (extent.state != CacheEntry::Readable)
    return {.state = extent.state, .fault = std::move(extent.fault)};
  std::tie(bytes, error) = CacheFolder::read(entry, extent.size());
  if (error != 0)
    return {};
  DecodedEntry head = decodeHead(bytes, size);
  return {.state = head.state,
          .fault = std::move(head.fault),
          .key = CacheKey::parse(head.key),
          .description = std::string(head.description)};
}

/// How two texts of a field differ; none if they do not.
std::optional<CacheDifference::Field> compareTexts(const std::string &name, const std::string &a, const std::string &b) {
  if (a == b)
    return {};
  auto linesA = linesOf(a), linesB = linesOf(b);
  if (linesA.size() <= 1 && linesB.size() <= 1)
    return CacheDifference::Field{.name = name, .a = a, .b = b};
  size_t line = 0;
  while (line < linesA.size() && line < linesB.size() && linesA[line] == linesB[line])
    ++line;
  CacheDifference::Field field{.name = name, .line = uint32_t(line + 1)};
  if (line < linesA.size())
    field.a = std::string(linesA[line]);
  if (line < linesB.size())
    field.b = std::string(linesB[line]);
  return field;
}

const std::string *findText(const std::vector<CacheKey::Field> &key, std::string_view name) {
  auto field = std::ranges::find(key, name, &CacheKey::Field::name);
  return field == key.end() ? nullptr : &field->text;
}

/// The fields that differ, in the order of `a`, then those that only `b` has.
std::vector<CacheDifference::Field> compareKeys(const std::vector<CacheKey::Field> &a, const std::vector<CacheKey::Field> &b) {
  std::vector<CacheDifference::Field> fields;
  for (const auto &[name, text] : a) {
    const std::string *other = findText(b, name);
    if (!other)
      fields.push_back({.name = name, .a = text});
    else if (auto field = compareTexts(name, text, *other))
      fields.push_back(std::move(*field));
  }
  for (const auto &[name, text] : b)
    if (!findText(a, name))
      fields.push_back({.name = name, .b = text});
  return fields;
}

} // namespace

CacheInfo CacheStore::info() const {
  CacheInfo info{.directory = impl->folder.path(),
                 .writable = impl->folder.isWritable(),
                 .limit = impl->limit,
                 .hits = impl->hits,
                 .misses = impl->misses,
                 .kept = impl->kept,
                 .dropped = impl->dropped,
                 .damaged = impl->damaged,
                 .evicted = impl->evicted};
  for (const CacheFile &file : impl->folder.files()) {
    info.entries += !file.leftover;
    info.bytes += file.bytes;
  }
  return info;
}

std::vector<CacheEntry> CacheStore::list() const {
  std::vector<CacheEntry> entries;
  for (const CacheFile &file : impl->folder.files()) {
    if (file.leftover)
      continue;
    OpenEntry opened = impl->folder.openEntry(file.name);
    if (opened.error == ENOENT) // Removed since.
      continue;
    EntryHead head = readHead(opened);
    const std::string *kind = findText(head.key, "kind");
    entries.push_back({.state = head.state,
                       .name = file.name,
                       .kind = kind ? *kind : "",
                       .description = std::move(head.description),
                       .bytes = file.bytes,
                       .lastUse = file.lastUse});
  }
  std::ranges::sort(
      entries, [](const CacheEntry &a, const CacheEntry &b) { return std::tie(b.lastUse, a.name) < std::tie(a.lastUse, b.name); });
  return entries;
}

CacheCheck CacheStore::verify() {
  CacheCheck check;
  bool writable = impl->folder.isWritable();
  for (const CacheFile &file : impl->folder.files()) {
    if (file.leftover) {
      check.leftovers += writable && impl->isStale(file) && impl->folder.remove(file) == 0;
      continue;
    }
    OpenEntry opened = impl->folder.openEntry(file.name);
    if (opened.error == ENOENT)
      continue;
    EntryHead head = readHead(opened);
    DecodedEntry entry{.state = head.state, .fault = std::move(head.fault)};
    std::string bytes;
    if (entry.state == CacheEntry::Readable) {
      int error = 0;
      std::tie(bytes, error) = CacheFolder::read(opened, uint64_t(opened.status.st_size));
      entry = error ? DecodedEntry{.state = CacheEntry::Damaged, .fault = std::strerror(error)} : decodeEntry(bytes);
    }
    check.good += entry.state == CacheEntry::Readable;
    check.otherFormat += entry.state == CacheEntry::OtherFormat;
    if (entry.state == CacheEntry::Damaged)
      check.damaged.push_back(
          {.name = file.name, .why = std::move(entry.fault), .removed = writable && impl->folder.removeIfSame(file.name, opened)});
  }
  std::ranges::sort(check.damaged, {}, &CacheCheck::Fault::name);
  return check;
}

Expected<CacheClearing> CacheStore::clear() {
  CacheClearing clearing;
  for (const CacheFile &file : impl->folder.files()) {
    if (int error = impl->folder.remove(file))
      return Diagnostic{.code = ErrorCode::NoCache,
                        .message = "cannot remove '" + impl->folder.path() + "/" + file.file + "': " + std::strerror(error)};
    clearing.entries += !file.leftover;
    clearing.bytes += file.bytes;
  }
  return clearing;
}

Expected<CacheDifference> CacheStore::why(std::string_view a, std::string_view b) const {
  std::vector<std::string> names;
  for (const CacheFile &file : impl->folder.files())
    if (!file.leftover)
      names.push_back(file.name);
  std::ranges::sort(names);

  auto find = [&](std::string_view prefix) -> Expected<std::string> {
    auto begin = std::ranges::lower_bound(names, prefix);
    auto end = std::find_if(begin, names.end(), [&](const std::string &name) { return !name.starts_with(prefix); });
    std::string shown(prefix.substr(0, 60));
    if (begin == end)
      return Diagnostic{.code = ErrorCode::BadArgument,
                        .message = "no entry of the cache has a name that begins with `" + shown + "`",
                        .fix = "`minic cache list` names them"};
    if (end - begin > 1)
      return Diagnostic{.code = ErrorCode::BadArgument,
                        .message = std::to_string(end - begin) + " entries of the cache have names that begin with `" + shown +
                                   "`, such as " + begin[0] + " and " + begin[1],
                        .fix = "give more digits"};
    return *begin;
  };
  auto readKey = [&](const std::string &name) -> Expected<std::vector<CacheKey::Field>> {
    EntryHead head = readHead(impl->folder.openEntry(name));
    if (head.state == CacheEntry::OtherFormat)
      return Diagnostic{.code = ErrorCode::BadCacheEntry,
                        .message = "the cache's entry " + name + " is of another format, which another version of minic wrote"};
    if (head.state == CacheEntry::Damaged)
      return Diagnostic{.code = ErrorCode::BadCacheEntry,
                        .message = "the cache's entry " + name + " is damaged: " + head.fault,
                        .fix = "`minic cache verify` removes it"};
    return std::move(head.key);
  };

  auto nameA = find(a), nameB = find(b);
  if (!nameA || !nameB)
    return (nameA ? nameB : nameA).takeErrors();
  auto keyA = readKey(*nameA), keyB = readKey(*nameB);
  if (!keyA || !keyB)
    return (keyA ? keyB : keyA).takeErrors();
  return CacheDifference{.nameA = *nameA, .nameB = *nameB, .fields = compareKeys(*keyA, *keyB)};
}

std::optional<NearestEntry> nearestEntry(const CacheStore &store, const CacheKey &key) {
  auto folder = CacheFolder::open(store.directory());
  if (!folder)
    return std::nullopt;
  std::optional<NearestEntry> nearest;
  for (const CacheFile &file : folder->files()) {
    if (file.leftover)
      continue;
    EntryHead head = readHead(folder->openEntry(file.name));
    const std::string *kind = findText(head.key, "kind");
    if (head.state != CacheEntry::Readable || !kind || *kind != key.fields().front().text)
      continue;
    auto fields = compareKeys(key.fields(), head.key);
    auto rank = [](const NearestEntry &entry) { return std::pair(-int64_t(entry.difference.fields.size()), entry.lastUse); };
    NearestEntry entry{std::move(head.description), file.lastUse, {key.name(), file.name, std::move(fields)}};
    if (!nearest || rank(*nearest) < rank(entry))
      nearest = std::move(entry);
  }
  return nearest;
}

std::string describe(const CacheDifference &difference) {
  constexpr size_t before = 20, shown = 80;
  std::string text;
  for (const CacheDifference::Field &field : difference.fields) {
    size_t same = 0;
    if (field.a && field.b)
      same = size_t(std::ranges::mismatch(*field.a, *field.b).in1 - field.a->begin());
    size_t start = same > before ? same - before : 0;
    auto show = [&](const std::optional<std::string> &side) -> std::string {
      if (!side)
        return field.line ? "no such line" : "no such field";
      std::string part = side->substr(std::min(start, side->size()), shown);
      std::ranges::replace_if(part, [](unsigned char c) { return c < 32 || c == 127; }, ' ');
      return "`" + std::string(start ? "..." : "") + part + (start + shown < side->size() ? "..." : "") + "`";
    };
    text += field.name + (field.line ? ", line " + std::to_string(field.line) : "") + ": " + show(field.a) + " | " + show(field.b) +
            "\n";
  }
  return text;
}

} // namespace minic
