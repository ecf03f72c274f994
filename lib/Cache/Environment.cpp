#include "Environment.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>

namespace minic {
namespace {

constexpr uint64_t defaultLimit = uint64_t(1) << 30;

/// An empty variable says nothing.
std::string variable(const char *name) {
  const char *text = std::getenv(name);
  return text ? text : "";
}

/// `512M`: a number, and a power of 1024.
std::optional<uint64_t> parseSize(std::string_view text) {
  int shift = 0;
  if (size_t unit = std::string_view("KMG").find(text.empty() ? 'x' : text.back()); unit != std::string_view::npos) {
    shift = 10 * (int(unit) + 1);
    text.remove_suffix(1);
  }
  uint64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0 || number > (uint64_t(INT64_MAX) >> shift))
    return {};
  return number << shift;
}

} // namespace

Expected<std::string> directoryOf(const CacheOptions &options) {
  std::filesystem::path path = options.directory.empty() ? variable("MINIC_CACHE_DIR") : options.directory;
  if (path.empty()) {
    // The XDG Base Directory Specification: a relative path is invalid and to be ignored.
    std::filesystem::path base = variable("XDG_CACHE_HOME"), home = variable("HOME");
    if (base.is_absolute())
      path = base / "minic";
    else if (home.is_absolute())
      path = home / ".cache" / "minic";
    else
      return Diagnostic{.code = ErrorCode::NoCache,
                        .message = "there is no place for the cache: HOME is " +
                                   (home.empty() ? std::string("not set") : "'" + home.string() + "', which is relative"),
                        .fix = "set MINIC_CACHE_DIR to a directory of your own"};
  }
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error)
    return Diagnostic{.code = ErrorCode::NoCache,
                      .message = "the cache's directory '" + path.string() + "' is relative to a directory that is not there",
                      .fix = "set MINIC_CACHE_DIR to an absolute path"};
  absolute = absolute.lexically_normal();
  return (absolute.has_filename() || absolute == absolute.root_path() ? absolute : absolute.parent_path()).string();
}

Expected<uint64_t> limitOf(const CacheOptions &options) {
  if (options.limit)
    return *options.limit;
  std::string text = variable("MINIC_CACHE_SIZE");
  if (text.empty())
    return defaultLimit;
  if (auto limit = parseSize(text))
    return *limit;
  return Diagnostic{.code = ErrorCode::BadFlag,
                    .message = "MINIC_CACHE_SIZE is `" + text.substr(0, 60) +
                               "`, expected a number of bytes from 1 on, with K, M or G "
                               "behind it for powers of 1024",
                    .fix = "write for example MINIC_CACHE_SIZE=512M"};
}

} // namespace minic
