// Directories that go away, stores with a clock of their own, and children that may do what the test's process may not.
#pragma once

#include "minic/Cache/CacheStore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace minic {

using Clock = std::chrono::system_clock;

inline std::string readBytes(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void writeBytes(const std::filesystem::path &path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

/// Sets a variable, or unsets it, until the end of the block.
class Variable {
public:
  Variable(const char *name, const char *value) : name(name) {
    if (const char *old = std::getenv(name))
      before = old;
    set(value);
  }
  ~Variable() { set(before ? before->c_str() : nullptr); }

private:
  void set(const char *value) { value ? setenv(name, value, 1) : unsetenv(name); }
  const char *name;
  std::optional<std::string> before;
};

/// What a function says in a child process; as user 65534 if this one is root and `dropRoot` is set.
inline std::string inChild(const std::function<std::string()> &body, bool dropRoot = false) {
  int ends[2];
  if (pipe(ends) != 0)
    return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    std::string text = "could not drop root";
    if (!dropRoot || geteuid() != 0 || (setgid(65534) == 0 && setuid(65534) == 0))
      text = body();
    ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == ssize_t(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(count));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "the child died";
}

/// Lets a file belong to the user that `inChild` changes to; if this process is not root, it does already.
inline void giveToUser(const std::filesystem::path &path) {
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 65534, gid_t(-1)), 0);
  }
}

/// Puts an empty file system in a directory, for this process alone; false where that is not allowed. For use in a child.
inline bool mountTmpfs(const std::filesystem::path &directory, const std::string &mountOptions) {
  uid_t user = geteuid();
  gid_t group = getegid();
  if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0)
    return false;
  if (user != 0) { // Or the user would be nobody, who owns no files.
    std::ofstream("/proc/self/uid_map") << user << " " << user << " 1\n";
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/gid_map") << group << " " << group << " 1\n";
  }
  return geteuid() == user && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("minic", directory.c_str(), "tmpfs", 0, (mountOptions + ",mode=700").c_str()) == 0;
}

class CacheTest : public testing::Test {
protected:
  CacheTest() {
    const char *folder = std::getenv("TMPDIR");
    std::string pattern = std::string(folder && *folder ? folder : "/tmp") + "/minic-cache-XXXXXX";
    base = mkdtemp(pattern.data());
    directory = base / "cache";
  }
  ~CacheTest() override {
    chmod(directory.c_str(), 0700);
    std::filesystem::remove_all(base);
  }

  CacheOptions options(std::optional<uint64_t> limit = {}) {
    return {.directory = directory.string(), .limit = limit, .notice = [this](const Diagnostic &diagnostic) {
              EXPECT_EQ(diagnostic.severity, Severity::Warning);
              notices.push_back(renderDiagnostic(diagnostic, nullptr));
            }};
  }
  std::unique_ptr<CacheStore> open(CacheOptions options) {
    auto store = CacheStore::open(std::move(options));
    if (!store) {
      ADD_FAILURE() << renderDiagnostics(store.errors(), nullptr);
      std::abort();
    }
    return std::move(*store);
  }
  std::unique_ptr<CacheStore> open() { return open(options()); }

  static CacheKey key(std::string ir, std::string target = "sm_90a") {
    CacheKey key("artifact");
    key.add("ir", std::move(ir)).add("target", std::move(target));
    return key;
  }
  std::filesystem::path fileOf(const CacheKey &key) const { return directory / (key.name() + ".entry"); }
  /// Names of all files, sorted.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(directory))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }
  uint64_t bytesOfAll() const {
    uint64_t bytes = 0;
    for (const auto &entry : std::filesystem::directory_iterator(directory))
      bytes += entry.file_size();
    return bytes;
  }
  static void setTime(const std::filesystem::path &path, Clock::time_point time) {
    timespec at{.tv_sec = Clock::to_time_t(time), .tv_nsec = 0}, times[2] = {at, at};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }
  static Clock::time_point timeOf(const std::filesystem::path &path) {
    struct stat status = {};
    EXPECT_EQ(stat(path.c_str(), &status), 0);
    return Clock::from_time_t(status.st_mtim.tv_sec);
  }
  std::string allNotices() const {
    std::string text;
    for (const std::string &notice : notices)
      text += notice;
    return text;
  }

  std::filesystem::path base, directory;
  std::vector<std::string> notices;
};

} // namespace minic
