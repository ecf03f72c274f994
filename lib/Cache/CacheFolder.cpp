#include "CacheFolder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace minic {
namespace {

//===- The directory -===//

Diagnostic refused(const std::string &path, const std::string &why, std::string fix) {
  return {.code = ErrorCode::NoCache, .message = "the cache's directory '" + path + "' " + why, .fix = std::move(fix)};
}

const std::string ownDirectory = "set MINIC_CACHE_DIR to a directory of your own";

/// Makes a directory and those above it, each for this user alone, as XDG has it; errno, or 0.
int makeDirectories(const std::string &path) {
  for (size_t end = 1; end != std::string::npos;) {
    end = path.find('/', end + 1);
    std::string parent = path.substr(0, end);
    struct stat status = {};
    if (stat(parent.c_str(), &status) == 0)
      continue;
    // Another process may be making it, too.
    if (errno != ENOENT || (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST))
      return errno;
  }
  return 0;
}

Descriptor openDirectory(const std::string &path) { return Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

//===- Names of files -===//

constexpr size_t nameLength = 32, noiseLength = 16;
constexpr std::string_view entrySuffix = ".entry", leftoverSuffix = ".part";

bool isHex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool isEntryFile(std::string_view file) {
  return file.size() == nameLength + entrySuffix.size() && file.ends_with(entrySuffix) && isHex(file.substr(0, nameLength));
}

bool isLeftoverFile(std::string_view file) {
  return file.size() == nameLength + 1 + noiseLength + leftoverSuffix.size() && file.ends_with(leftoverSuffix) &&
         isHex(file.substr(0, nameLength)) && file[nameLength] == '.' && isHex(file.substr(nameLength + 1, noiseLength));
}

/// The name of a new file beside an entry, which no other writer takes; empty if the system gives no random numbers.
std::string leftoverFile(std::string_view name) {
  uint64_t noise = 0;
  if (getentropy(&noise, sizeof noise) != 0)
    return {};
  std::string digits(noiseLength, '0');
  for (char &digit : digits) {
    digit = "0123456789abcdef"[noise & 15];
    noise >>= 4;
  }
  return std::string(name) + "." + digits + std::string(leftoverSuffix);
}

/// Writes all bytes; errno, or 0. They need not reach the disk now: after a power cut the checksum tells.
int writeAll(const Descriptor &file, std::string_view bytes, const CacheHooks &hooks) {
  while (!bytes.empty()) {
    ssize_t count =
        hooks.write ? hooks.write(file.get(), bytes.data(), bytes.size()) : ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return count < 0 ? errno : EIO;
    bytes.remove_prefix(size_t(count));
  }
  return 0;
}

} // namespace

Descriptor::~Descriptor() { close(); }

int Descriptor::close() {
  int closed = std::exchange(number, -1);
  return closed >= 0 && ::close(closed) != 0 ? errno : 0;
}

Expected<CacheFolder> CacheFolder::open(std::string path) {
  CacheFolder result;
  result.folder = openDirectory(path);
  if (!result.folder && errno == ENOENT) {
    if (int error = makeDirectories(path))
      return refused(path, std::string("cannot be made: ") + std::strerror(error), ownDirectory);
    result.folder = openDirectory(path);
  }
  if (!result.folder && errno == ENOTDIR)
    return refused(path, "is no directory, or is below a file", "remove the file, or " + ownDirectory);
  if (!result.folder)
    return refused(path, std::string("cannot be opened: ") + std::strerror(errno), ownDirectory);

  struct stat status = {};
  if (fstat(result.folder.get(), &status) != 0)
    return refused(path, std::string("cannot be opened: ") + std::strerror(errno), ownDirectory);
  // Kernels from it are run, so nobody else may put some there.
  if (status.st_uid != geteuid())
    return refused(path, "belongs to user " + std::to_string(status.st_uid) + ", and this is user " + std::to_string(geteuid()),
                   ownDirectory);
  if (status.st_mode & (S_IWGRP | S_IWOTH))
    return refused(path, "can be written by other users", "`chmod go-w '" + path + "'`, or " + ownDirectory);
  if (faccessat(result.folder.get(), ".", R_OK | X_OK, AT_EACCESS) != 0)
    return refused(path, "cannot be read by its owner", "`chmod u+rwx '" + path + "'`");
  result.writeError = faccessat(result.folder.get(), ".", W_OK, AT_EACCESS) == 0 ? 0 : errno;
  result.where = std::move(path);
  return result;
}

std::chrono::system_clock::time_point lastUseOf(const struct stat &status) {
  auto sinceEpoch = std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  return std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(sinceEpoch));
}

std::vector<CacheFile> CacheFolder::files() const {
  std::vector<CacheFile> result;
  int copy = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); // A place of its own: threads read at the same time.
  DIR *stream = copy < 0 ? nullptr : fdopendir(copy);
  if (!stream) {
    Descriptor unused(copy);
    return result;
  }
  while (const dirent *found = readdir(stream)) {
    std::string_view file = found->d_name;
    bool leftover = isLeftoverFile(file);
    struct stat status = {};
    // It may have been removed since, and what is no regular file is nobody's entry.
    if ((!leftover && !isEntryFile(file)) || fstatat(folder.get(), found->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(status.st_mode))
      continue;
    result.push_back({.file = std::string(file),
                      .name = std::string(file.substr(0, nameLength)),
                      .leftover = leftover,
                      .bytes = uint64_t(status.st_size),
                      .lastUse = lastUseOf(status)});
  }
  closedir(stream);
  return result;
}

OpenEntry CacheFolder::openEntry(std::string_view name) const {
  OpenEntry entry;
  std::string file = std::string(name) + std::string(entrySuffix);
  // O_NONBLOCK: a FIFO would wait for its writer.
  entry.file = Descriptor(openat(folder.get(), file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!entry.file || fstat(entry.file.get(), &entry.status) != 0)
    entry.error = errno;
  else if (!S_ISREG(entry.status.st_mode))
    entry.error = EISDIR;
  return entry;
}

std::pair<std::string, int> CacheFolder::read(const OpenEntry &entry, uint64_t size) {
  std::string bytes(std::min(size, uint64_t(entry.status.st_size)), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t count = pread(entry.file.get(), bytes.data() + done, bytes.size() - done, off_t(done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return {std::string(), errno};
    if (count == 0)
      break;
    done += size_t(count);
  }
  bytes.resize(done);
  return {std::move(bytes), 0};
}

int CacheFolder::writeEntry(std::string_view name, std::string_view bytes, const CacheHooks &hooks) const {
  std::string temporary;
  Descriptor file;
  do {
    temporary = leftoverFile(name);
    if (temporary.empty())
      return errno;
    file = Descriptor(openat(folder.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  } while (!file && errno == EEXIST);
  if (!file)
    return errno;
  int error = writeAll(file, bytes, hooks);
  if (int closing = file.close(); error == 0) // Quotas and network file systems may say only now that there is no room.
    error = closing;
  std::string entry = std::string(name) + std::string(entrySuffix);
  if (error == 0 && renameat(folder.get(), temporary.c_str(), folder.get(), entry.c_str()) != 0)
    error = errno;
  if (error != 0)
    unlinkat(folder.get(), temporary.c_str(), 0);
  return error;
}

bool CacheFolder::removeIfSame(std::string_view name, const OpenEntry &entry) const {
  std::string file = std::string(name) + std::string(entrySuffix);
  struct stat now = {};
  if (fstatat(folder.get(), file.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT;
  if (now.st_ino != entry.status.st_ino || now.st_dev != entry.status.st_dev)
    return true;
  // Another process may rename a good entry to this name between the two calls; it is then made once more.
  return unlinkat(folder.get(), file.c_str(), 0) == 0 || errno == ENOENT;
}

int CacheFolder::remove(const CacheFile &file) const {
  return unlinkat(folder.get(), file.file.c_str(), 0) == 0 || errno == ENOENT ? 0 : errno;
}

} // namespace minic
