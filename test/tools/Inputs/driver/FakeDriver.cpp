// A libcuda.so.1 that is what the environment says:
//   FAKE_CUDA_ABORT=1         loading it ends the process
//   FAKE_CUDA_INIT=34         what cuInit answers (0)
//   FAKE_CUDA_VERSION=11040   the driver's CUDA version (12080)
//   FAKE_CUDA_DEVICES=2       how many devices it has (1), all called "Fake GPU", with 80 GiB
//   FAKE_CUDA_CAPABILITY=75   their compute capability (90)
// Their memory is the host's, and a launch does nothing: what runs is what libraries do to it
// (unit/Runtime/Inputs/FakeCublasLt.cpp).
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

int setting(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

__attribute__((constructor)) void loaded() {
  if (setting("FAKE_CUDA_ABORT", 0))
    std::abort();
}

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
  std::snprintf(name, size_t(length), "Fake GPU");
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
