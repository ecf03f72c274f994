#include "CodeGenTest.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace minic::test {

Parsed::Parsed(const std::string &text) {
  SourceBuffer source("test.ir", text);
  auto parsed = parseModule(context, source);
  if (!parsed) {
    ADD_FAILURE() << renderDiagnostics(parsed.errors(), &source);
    return;
  }
  Diagnostics found = verify(**parsed);
  if (hasErrors(found)) {
    ADD_FAILURE() << renderDiagnostics(found, &source);
    return;
  }
  module = std::move(*parsed);
}

const TargetInfo &target(std::string_view name) {
  auto found = findTarget(name);
  EXPECT_TRUE(bool(found)) << name;
  return **found;
}

static std::string valueOf(Expected<std::string> text) {
  if (text)
    return *text;
  ADD_FAILURE() << renderDiagnostics(text.errors(), nullptr);
  return "";
}

std::string ptxOf(const std::string &text, std::string_view targetName) {
  Parsed module(text);
  return module ? valueOf(emitPtx(*module, target(targetName))) : "";
}

std::string llvmOf(const std::string &text, std::string_view targetName) {
  Parsed module(text);
  return module ? valueOf(emitLLVM(*module, target(targetName), false)) : "";
}

std::string errorsOf(const std::string &text, std::string_view targetName) {
  Parsed module(text);
  if (!module)
    return "";
  auto kernels = emitKernels(*module, target(targetName));
  return kernels ? "" : renderDiagnostics(kernels.errors(), nullptr);
}

size_t count(const std::string &text, std::string_view word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size()))
    ++found;
  return found;
}

std::string ptxasPath() {
  std::string folders = std::getenv("PATH") ? std::getenv("PATH") : "";
  folders += ":/usr/local/cuda/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    size_t end = std::min(folders.find(':', begin), folders.size());
    std::string path = folders.substr(begin, end - begin) + "/ptxas";
    if (access(path.c_str(), X_OK) == 0)
      return path;
    begin = end + 1;
  }
  return "";
}

std::string ptxasComplaints(const std::string &ptx, std::string_view targetName) {
  static int number = 0;
  auto file =
      std::filesystem::temp_directory_path() / ("minic-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".ptx");
  std::ofstream(file) << ptx;
  std::string command = ptxasPath() + " -v -arch=" + std::string(targetName) + " " + file.string() + " -o /dev/null 2>&1", said;
  FILE *pipe = popen(command.c_str(), "r");
  if (!pipe)
    return "ptxas cannot be run";
  char buffer[4096];
  while (size_t size = fread(buffer, 1, sizeof buffer, pipe))
    said.append(buffer, size);
  int status = pclose(pipe);
  std::filesystem::remove(file);
  if (status != 0)
    return said;
  std::string complaints;
  for (size_t i = count(said, "spill stores") - count(said, " 0 bytes spill stores"); i-- > 0;)
    complaints += "spills ";
  return complaints;
}

} // namespace minic::test
