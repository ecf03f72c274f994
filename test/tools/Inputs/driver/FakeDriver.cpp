// A libcuda.so.1 that is what the environment says:
//   FAKE_CUDA_ABORT=1         loading it ends the process
//   FAKE_CUDA_INIT=34         what cuInit answers (0)
//   FAKE_CUDA_VERSION=11040   the driver's CUDA version (12080)
//   FAKE_CUDA_DEVICES=2       how many devices it has (1), each with 80 GiB
//   FAKE_CUDA_NAME=A100       what they are called (Fake GPU)
//   FAKE_CUDA_CAPABILITY=75   their compute capability (90)
//   FAKE_CUDA_STAMP=b         what the cubins that it links bear (nothing); it takes no cubins that bear another one
//   FAKE_CUDA_PTX=218         what loading PTX answers, with a line for the log (0)
//   FAKE_CUDA_LINK=218        what the linker answers, with a line for the log (0)
//   FAKE_CUDA_CUBIN=2         what loading a cubin answers that bears the right stamp (0)
//   FAKE_CUDA_REFUSE=ex2      loading PTX answers 218 and names the first line that holds this, as ptxas does
//   FAKE_CUDA_LOG=FILE        a line for each link and load goes there: "link", "ptx", "cubin" or "refused", with
//                             " lines" behind it where line info is asked for
// Their memory is the host's, and a launch does nothing: what runs is what libraries do to it
// (unit/Runtime/Inputs/FakeCublasLt.cpp).
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int setting(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

__attribute__((constructor)) void loaded() {
  if (setting("FAKE_CUDA_ABORT", 0))
    std::abort();
}

void note(const char *what) {
  const char *path = std::getenv("FAKE_CUDA_LOG");
  if (std::FILE *file = path ? std::fopen(path, "a") : nullptr) {
    std::fprintf(file, "%s\n", what);
    std::fclose(file);
  }
}

/// What stands before the PTX in a cubin: no text, as in real ones.
std::string cubinHead() {
  const char *stamp = std::getenv("FAKE_CUDA_STAMP");
  return std::string("\177ELF\0", 5) + (stamp ? stamp : "") + "\n";
}

/// Writes a line into the error log that the options name (CU_JIT_ERROR_LOG_BUFFER); gives `result`.
int logged(int result, const char *line, unsigned count, const int *options, void **values) {
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == 5)
      std::strcpy(static_cast<char *>(values[i]), line);
  return result;
}

/// "ptx", or "ptx lines" if the options ask for line info (CU_JIT_GENERATE_LINE_INFO).
std::string withLines(const char *what, unsigned count, const int *options, void **values) {
  std::string text = what;
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == 13 && values[i])
      text += " lines";
  return text;
}

/// What ptxas says of the first line of the text that holds what FAKE_CUDA_REFUSE says; empty if none does.
std::string refusal(const char *text) {
  const char *refused = std::getenv("FAKE_CUDA_REFUSE"), *at = refused ? std::strstr(text, refused) : nullptr;
  if (!at)
    return "";
  long line = 1 + std::count(text, at, '\n');
  return "ptxas application ptx input, line " + std::to_string(line) + "; error   : made up\nptxas fatal   : Ptx assembly aborted";
}

struct Link {
  unsigned count;
  int *options;
  void **values; // Its owner keeps both, as cuda.h asks.
  std::string cubin;
};

} // namespace

extern "C" {

int cuInit(unsigned) { return setting("FAKE_CUDA_INIT", 0); }

int cuDriverGetVersion(int *version) {
  *version = setting("FAKE_CUDA_VERSION", 12080);
  return 0;
}

int cuDeviceGetCount(int *count) {
  *count = setting("FAKE_CUDA_DEVICES", 1);
  return 0;
}

int cuDeviceGetName(char *name, int length, int) {
  const char *text = std::getenv("FAKE_CUDA_NAME");
  std::snprintf(name, size_t(length), "%s", text ? text : "Fake GPU");
  return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int) {
  *bytes = size_t(80) << 30;
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int) {
  int capability = setting("FAKE_CUDA_CAPABILITY", 90);
  *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 0; // Major, minor.
  return 0;
}

//===- Code -===//

int cuLinkCreate_v2(unsigned count, int *options, void **values, void **state) {
  *state = new Link{count, options, values, cubinHead()};
  return 0;
}

int cuLinkAddData_v2(void *state, int type, void *data, size_t bytes, const char *, unsigned, int *, void **) {
  Link &link = *static_cast<Link *>(state);
  const char *text = static_cast<const char *>(data);
  if (type != 1 || bytes == 0 || text[bytes - 1] != '\0') // CU_JIT_INPUT_PTX
    return 1;
  if (int result = setting("FAKE_CUDA_LINK", 0))
    return logged(result, "ptxas fatal : the linker does not like it", link.count, link.options, link.values);
  link.cubin += text;
  // Code for what one capability has is linked for that: CU_JIT_TARGET.
  for (unsigned i = 0; i < link.count; ++i)
    if (link.options[i] == 9) {
      auto target = reinterpret_cast<size_t>(link.values[i]);
      bool accelerated = link.cubin.find(".target sm_90a") != std::string::npos;
      return target == size_t(setting("FAKE_CUDA_CAPABILITY", 90)) + (accelerated ? 0x10000 : 0) ? 0 : 209;
    }
  return 1;
}

int cuLinkComplete(void *state, void **cubin, size_t *bytes) {
  Link &link = *static_cast<Link *>(state);
  note(withLines("link", link.count, link.options, link.values).c_str());
  *cubin = link.cubin.data();
  *bytes = link.cubin.size();
  return 0;
}

int cuLinkDestroy(void *state) {
  Link *link = static_cast<Link *>(state);
  link->cubin.assign(link->cubin.size(), '?'); // Whoever still reads it gets something else.
  delete link;
  return 0;
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
  std::string head = cubinHead();
  bool isCubin = std::memcmp(image, head.data(), 5) == 0;
  if (isCubin && std::memcmp(image, head.data(), head.size()) != 0) {
    note("refused");
    return 209; // CUDA_ERROR_NO_BINARY_FOR_GPU
  }
  note(isCubin ? "cubin" : withLines("ptx", count, options, values).c_str());
  if (std::string text = isCubin ? "" : refusal(static_cast<const char *>(image)); !text.empty())
    return logged(218, text.c_str(), count, options, values); // CUDA_ERROR_INVALID_PTX
  if (int result = setting(isCubin ? "FAKE_CUDA_CUBIN" : "FAKE_CUDA_PTX", 0))
    return logged(result, "ptxas fatal : made up", count, options, values);
  *module = const_cast<void *>(image);
  return 0;
}

//===- Memory -===//

int cuMemAlloc_v2(unsigned long long *memory, size_t bytes) {
  *memory = reinterpret_cast<unsigned long long>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return *memory ? 0 : 2; // CUDA_ERROR_OUT_OF_MEMORY
}

int cuMemFree_v2(unsigned long long memory) {
  std::free(reinterpret_cast<void *>(memory));
  return 0;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  *memory = std::malloc(bytes);
  return *memory ? 0 : 2;
}

int cuMemFreeHost(void *memory) {
  std::free(memory);
  return 0;
}

int cuMemGetAddressRange_v2(unsigned long long *, size_t *, unsigned long long) { return 1; } // It does not say.

int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *) {
  std::memcpy(reinterpret_cast<void *>(to), from, bytes);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *) {
  std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
  return 0;
}

int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes, void *) {
  std::memmove(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
  return 0;
}

int cuMemsetD8Async(unsigned long long memory, unsigned char value, size_t bytes, void *) {
  std::memset(reinterpret_cast<void *>(memory), value, bytes);
  return 0;
}

} // extern "C"
