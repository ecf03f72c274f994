// The directory of a cache and the files in it. All goes through the open directory, so what was checked of it holds whatever
// becomes of its path.
#pragma once

#include "minic/Cache/CacheStore.h"

#include <cerrno>
#include <sys/stat.h>
#include <utility>

namespace minic {

/// An open file, or none.
class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(Descriptor &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Descriptor();
  explicit operator bool() const { return number >= 0; }
  int get() const { return number; }
  /// The error of close(2), or 0.
  int close();

private:
  int number;
};

/// A file that a cache made, by its name.
struct CacheFile {
  std::string file;      ///< In the directory.
  std::string name;      ///< Of the entry.
  bool leftover = false; ///< A writer's, not renamed yet.
  uint64_t bytes = 0;
  std::chrono::system_clock::time_point lastUse;
};

/// An entry's file, as it was when it was opened.
struct OpenEntry {
  Descriptor file;
  int error = 0; ///< Of open(2); ENOENT: there is none. ELOOP or EISDIR: it is no regular file.
  struct stat status = {};
};

class CacheFolder {
public:
  /// Makes it if it is not there. Errors: NoCache.
  static Expected<CacheFolder> open(std::string path);

  const std::string &path() const { return where; }
  std::string pathOf(std::string_view name) const { return where + "/" + std::string(name) + ".entry"; }
  bool isWritable() const { return writeError == 0; }
  bool isOnReadOnlyFileSystem() const { return writeError == EROFS; } ///< No mode would change that.

  /// Those that caches made, in any order; a directory that cannot be read now has none.
  std::vector<CacheFile> files() const;
  OpenEntry openEntry(std::string_view name) const;
  /// The first `size` bytes, or errno. Fewer where the file is shorter.
  static std::pair<std::string, int> read(const OpenEntry &entry, uint64_t size);
  /// Writes a file of its own name beside the entries and renames it; errno, or 0.
  int writeEntry(std::string_view name, std::string_view bytes, const CacheHooks &hooks) const;
  /// Removes an entry unless another one has its name by now. Whether it is gone.
  bool removeIfSame(std::string_view name, const OpenEntry &entry) const;
  /// errno, or 0; 0 also if another process was faster.
  int remove(const CacheFile &file) const;

private:
  std::string where;
  Descriptor folder;
  int writeError = 0; ///< What writing would answer: errno, or 0.
};

std::chrono::system_clock::time_point lastUseOf(const struct stat &status);

} // namespace minic
