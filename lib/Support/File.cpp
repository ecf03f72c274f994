#include "minic/Support/File.h"

#include "HostMemory.h"
#include "RegularFile.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace minic {

static Diagnostic fileError(std::string_view what, const std::string &name, int error) {
  return {.code = ErrorCode::UnreadableFile, .message = std::string(what) + " '" + name + "': " + std::strerror(error)};
}

//===- Reading -===//

Expected<std::string> readStream(std::FILE *stream, const std::string &name) {
  std::string bytes;
  struct stat status = {};
  if (fstat(fileno(stream), &status) == 0 && S_ISREG(status.st_mode)) {
    if (!fitsHostMemory(status.st_size))
      return Diagnostic{.code = ErrorCode::TooLarge, .message = "'" + name + "' does not fit into this machine's memory"};
    bytes.reserve(size_t(status.st_size));
  }
  char buffer[1 << 16];
  while (size_t count = std::fread(buffer, 1, sizeof buffer, stream))
    bytes.append(buffer, count);
  if (std::ferror(stream))
    return fileError("cannot read", name, errno);
  return bytes;
}

Expected<std::string> readFile(const std::filesystem::path &path) {
  std::FILE *file = std::fopen(path.c_str(), "rb");
  if (!file)
    return fileError("cannot read", path.string(), errno);
  auto bytes = readStream(file, path.string());
  std::fclose(file);
  return bytes;
}

Expected<RegularFile> openRegularFile(const std::filesystem::path &path) {
  auto unreadable = [&](const char *why) {
    return Diagnostic{.code = ErrorCode::UnreadableFile, .message = "cannot read '" + path.string() + "': " + why};
  };
  std::error_code code;
  auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status))
    return unreadable("no such file");
  if (!std::filesystem::is_regular_file(status))
    return unreadable("not a regular file");
  RegularFile file{.size = std::filesystem::file_size(path, code)};
  file.stream.open(path, std::ios::binary);
  if (code || !file.stream)
    return unreadable("it cannot be opened");
  return file;
}

//===- Writing -===//

/// Writes all bytes to a descriptor and to the disk; false with errno set if it cannot.
static bool writeAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return false;
    bytes.remove_prefix(size_t(count));
  }
  return fsync(descriptor) == 0;
}

Expected<void> replaceFile(const std::filesystem::path &path, std::string_view bytes) {
  // mkstemp would give a file that only its owner can read; this one gets what the user's mask says.
  std::string temporary;
  int descriptor = -1;
  do {
    uint32_t noise = 0;
    if (getentropy(&noise, sizeof noise) != 0)
      break;
    temporary = path.string() + "." + std::to_string(noise) + ".tmp";
    descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EEXIST);
  if (descriptor < 0)
    return fileError("cannot write", path.string(), errno);
  bool good = writeAll(descriptor, bytes);
  int error = errno;
  if (close(descriptor) != 0 && good) {
    good = false;
    error = errno;
  }
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0)
    return {};
  if (good)
    error = errno;
  unlink(temporary.c_str());
  return fileError("cannot write", path.string(), error);
}

std::string temporaryName(std::string_view suffix) {
  const char *folder = std::getenv("TMPDIR");
  return std::string(folder && *folder ? folder : "/tmp") + "/minic-XXXXXX" + std::string(suffix);
}

Expected<PrivateFolder> PrivateFolder::create() {
  std::string name = temporaryName("");
  if (!mkdtemp(name.data()))
    return Diagnostic{.code = ErrorCode::UnreadableFile,
                      .message = "cannot make a folder in " + temporaryName("") + ": " + std::strerror(errno),
                      .fix = "set TMPDIR to a folder that can be written to"};
  return PrivateFolder(name);
}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  if (!path.empty())
    std::filesystem::remove_all(path, ignored);
}

} // namespace minic
