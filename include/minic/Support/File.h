// Files as whole strings, and names for temporary ones.
#pragma once

#include "minic/Support/Expected.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace minic {

/// All bytes of a file; a pipe is read to its end. Errors: UnreadableFile, TooLarge.
Expected<std::string> readFile(const std::filesystem::path &path);
/// What is left of an open stream; `name` is for messages.
Expected<std::string> readStream(std::FILE *stream, const std::string &name);
/// Writes a file beside `path` and gives it that name when all is written, so nobody ever sees half of it.
Expected<void> replaceFile(const std::filesystem::path &path, std::string_view bytes);
/// A pattern for mkdtemp and mkstemps in the folder for temporary files.
std::string temporaryName(std::string_view suffix);

/// A folder for temporary files that nobody else can write to, removed with what it holds.
class PrivateFolder {
public:
  /// Errors: UnreadableFile.
  static Expected<PrivateFolder> create();
  PrivateFolder(PrivateFolder &&other) noexcept : path(std::exchange(other.path, {})) {}
  PrivateFolder &operator=(PrivateFolder &&) = delete;
  ~PrivateFolder();
  std::string file(std::string_view name) const { return (path / name).string(); }

private:
  explicit PrivateFolder(std::filesystem::path path) : path(std::move(path)) {}
  std::filesystem::path path; ///< Empty once moved from.
};

} // namespace minic
