/* The least that gets one result from a GPU: cuInit, context, PTX, copies, one launch. No toolkit is needed to build it.

       bare_driver FOLDER RESULT

   FOLDER/launch.txt says what is launched, one thing a line:
       kernel NAME PROGRAMS THREADS SHARED               of FOLDER/kernel.ptx; SHARED: bytes that the launch adds
       buffer NAME BYTES                                 filled from FOLDER/NAME.npy; `y` is the result
       pointer NAME                                      the next parameter of the kernel: a buffer's address,
       map NAME TYPE SWIZZLE RANK SIZES STRIDES BOX      or a tensor map of it; the last axis first; numbers are cuda.h's
   Writes the result's bytes to RESULT and prints what was done when, by CLOCK_MONOTONIC. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { most = 8, axes = 5 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void fail(const char *what, int code) {
  fprintf(stderr, "%s failed (%d)\n", what, code);
  exit(1);
}

static void *driver;
static void *function(const char *name) {
  void *found = dlsym(driver, name);
  if (!found)
    fail(name, -1);
  return found;
}

/* CALL(cuInit, (unsigned), (0)): a function of the driver by its types and arguments. */
#define CALL(name, types, values)                                                                                                  \
  do {                                                                                                                             \
    int code = ((int(*) types)function(#name))values;                                                                              \
    if (code)                                                                                                                      \
      fail(#name, code);                                                                                                           \
  } while (0)

/* The whole file, with a 0 behind it. */
static char *contents(const char *folder, const char *name, const char *ending, long *size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
  FILE *file = fopen(path, "rb");
  if (!file)
    fail(path, -1);
  fseek(file, 0, SEEK_END);
  *size = ftell(file);
  rewind(file);
  char *bytes = malloc(*size + 1);
  if (!bytes || fread(bytes, 1, *size, file) != (size_t)*size)
    fail(path, -1);
  bytes[*size] = 0;
  fclose(file);
  return bytes;
}

typedef struct {
  char name[64];
  size_t bytes;
  uint64_t address;
} Buffer;

static Buffer buffers[most];
static int bufferCount;
static Buffer *buffer(const char *name) {
  for (int i = 0; i < bufferCount; ++i)
    if (!strcmp(buffers[i].name, name))
      return &buffers[i];
  fail(name, -1);
  return 0;
}

static void need(int read, int expected) {
  if (read != expected)
    fail("reading launch.txt", read);
}

int main(int count, char **words) {
  if (count != 3)
    fail("usage: bare_driver FOLDER RESULT", count);
  const char *folder = words[1];
  double begin = now();
  int device;
  void *context, *module, *kernel;
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (!driver)
    fail("opening libcuda.so.1", -1);
  CALL(cuInit, (unsigned), (0));
  CALL(cuDeviceGet, (int *, int), (&device, 0));
  CALL(cuDevicePrimaryCtxRetain, (void **, int), (&context, device));
  CALL(cuCtxPushCurrent_v2, (void *), (context));
  double opened = now();

  char path[4096], word[16], name[256];
  unsigned programs, threads, shared;
  long size;
  snprintf(path, sizeof path, "%s/launch.txt", folder);
  FILE *launch = fopen(path, "r");
  if (!launch)
    fail(path, -1);
  need(fscanf(launch, "kernel %255s %u %u %u", name, &programs, &threads, &shared), 4);
  CALL(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **),
       (&module, contents(folder, "kernel", ".ptx", &size), 0, NULL, NULL));
  CALL(cuModuleGetFunction, (void **, void *, const char *), (&kernel, module, name));
  if (shared)
    CALL(cuFuncSetAttribute, (void *, int, int), (kernel, 8, (int)shared)); /* The largest dynamic shared memory. */
  double loaded = now();

  void *parameters[most];
  static _Alignas(64) char maps[most][128];
  int parameterCount = 0;
  while (fscanf(launch, "%15s %63s", word, name) == 2) {
    if (bufferCount == most || parameterCount == most)
      fail("too much in launch.txt", most);
    if (!strcmp(word, "buffer")) {
      Buffer *fresh = &buffers[bufferCount++];
      strcpy(fresh->name, name);
      need(fscanf(launch, "%zu", &fresh->bytes), 1);
      CALL(cuMemAlloc_v2, (uint64_t *, size_t), (&fresh->address, fresh->bytes));
      if (strcmp(name, "y")) {
        char *values = contents(folder, name, ".npy", &size);
        CALL(cuMemcpyHtoDAsync_v2, (uint64_t, const void *, size_t, void *),
             (fresh->address, values + size - fresh->bytes, fresh->bytes, NULL)); /* Behind the header. */
      }
    } else if (!strcmp(word, "pointer")) {
      parameters[parameterCount++] = &buffer(name)->address;
    } else {
      int type, swizzle, rank;
      uint64_t sizes[axes], strides[axes];
      uint32_t box[axes], steps[axes] = {1, 1, 1, 1, 1};
      need(fscanf(launch, "%d %d %d", &type, &swizzle, &rank), 3);
      if (rank < 1 || rank > axes)
        fail("a tensor map's rank", rank);
      for (int i = 0; i < rank; ++i)
        need(fscanf(launch, "%lu", &sizes[i]), 1);
      for (int i = 0; i + 1 < rank; ++i)
        need(fscanf(launch, "%lu", &strides[i]), 1);
      for (int i = 0; i < rank; ++i)
        need(fscanf(launch, "%u", &box[i]), 1);
      CALL(cuTensorMapEncodeTiled,
           (void *, int, unsigned, void *, const uint64_t *, const uint64_t *, const uint32_t *, const uint32_t *, int, int, int,
            int),
           (maps[parameterCount], type, rank, (void *)buffer(name)->address, sizes, strides, box, steps, 0, swizzle, 2, 0));
      parameters[parameterCount] = maps[parameterCount];
      ++parameterCount;
    }
  }
  Buffer *result = buffer("y");
  char *values = malloc(result->bytes);
  CALL(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **),
       (kernel, programs, 1, 1, threads, 1, 1, shared, NULL, parameters, NULL));
  CALL(cuMemcpyDtoHAsync_v2, (void *, uint64_t, size_t, void *), (values, result->address, result->bytes, NULL));
  CALL(cuStreamSynchronize, (void *), (NULL));
  double done = now();

  FILE *file = fopen(words[2], "wb");
  if (!file || fwrite(values, 1, result->bytes, file) != result->bytes || fclose(file))
    fail(words[2], -1);
  printf("{\"start\": %.6f, \"open\": %.6f, \"load\": %.6f, \"result\": %.6f}\n", begin, opened, loaded, done);
  return 0;
}
