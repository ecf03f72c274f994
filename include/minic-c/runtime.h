/* The C interface of minic: devices, streams, memory, and running what was compiled. C99. Read base.h first.
 *
 * libminic_runtime holds this much, without compiler and interpreter; libminic holds it too. */
#ifndef MINIC_C_RUNTIME_H
#define MINIC_C_RUNTIME_H

#include "minic-c/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MinicDevice MinicDevice;
typedef struct MinicStream MinicStream;
typedef struct MinicEvent MinicEvent;
typedef struct MinicBuffer MinicBuffer;
typedef struct MinicArtifact MinicArtifact;
typedef struct MinicExecutable MinicExecutable;
typedef struct MinicCapturedRun MinicCapturedRun;
typedef struct MinicCache MinicCache;

/* Kinds of devices, with DLPack's numbers. */
typedef enum MinicDeviceKind {
  MINIC_DEVICE_UNSTATED = 0, /* In a tensor: the caller does not say where it lies. */
  MINIC_DEVICE_CPU = 1,      /* The interpreter, or host memory where a function asks for that. */
  MINIC_DEVICE_CUDA = 2
} MinicDeviceKind;

/* A tensor where it lies. Its layout is fixed for this major version. */
typedef struct MinicTensor {
  uint64_t memory; /* A CUDA device pointer; what minic_buffer_tensor gave; or a host pointer where a function asks for that. */
  const int64_t *shape;   /* Elements per axis; may be NULL if rank is 0. */
  const int64_t *strides; /* In elements, of any sign, 0 too; NULL: row-major. `memory` is the address of the first element. */
  int32_t dtype;          /* MinicDType. */
  int32_t rank;           /* 0 to MINIC_MAX_RANK. */
  int32_t device_kind;    /* MinicDeviceKind. */
  int32_t device_ordinal;
} MinicTensor;

#define MINIC_MAX_RANK 64

/*--- Devices ---*/

/* "auto" (the first CUDA device, else the interpreter), "cuda" or "cuda:N" (its primary context, which the other libraries of the
 * process share), or "cpu" (the interpreter, which libminic_runtime does not have). Opening a device again gives the same one.
 * Opens libcuda; nothing else does, but minic_cuda_device_count. */
MINIC_API MinicError *minic_device_open(const char *name, MinicDevice **device);
/* The device of a CUcontext that the caller made and keeps until everything made from the device is destroyed. */
MINIC_API MinicError *minic_device_adopt(void *context, MinicDevice **device);
/* How many CUDA devices this process can use; no driver is an error that says so. */
MINIC_API MinicError *minic_cuda_device_count(int *count);

typedef struct MinicDeviceInfo {
  size_t struct_size;         /* In: sizeof(MinicDeviceInfo). */
  const char *name;           /* "cuda:0" or "cpu". */
  MinicDeviceKind kind;       /* CPU or CUDA. */
  int32_t ordinal;            /* Of CUDA devices; else 0. */
  int32_t compute_capability; /* 90 for sm_90; 0 for the interpreter. */
} MinicDeviceInfo;
MINIC_API MinicError *minic_device_info(MinicDevice *device, MinicDeviceInfo *info);
MINIC_API MinicError *minic_device_destroy(MinicDevice *device);

/*--- The cache on disk (docs/cache.md), since 1.1. A library keeps nothing unless it is asked to. ---*/

/* All zero but `struct_size` is the default. */
typedef struct MinicCacheOptions {
  size_t struct_size; /* sizeof(MinicCacheOptions). */
  const char *use;    /* "on"; "refresh": what it has is not taken, and made anew; "must-hit": what it has not is an error (E0910);
                         NULL: "on". */
  const char *directory; /* NULL: MINIC_CACHE_DIR, else $XDG_CACHE_HOME/minic, else $HOME/.cache/minic. */
  uint64_t limit;        /* Bytes of all entries; 0: MINIC_CACHE_SIZE, else 1 GiB. */
  /* Is told, each thing once in a process, what a user should know: a damaged entry, a directory that cannot be written. From any
   * thread, for as long as anything uses the cache; NULL: nobody is. */
  void (*notice)(void *context, const char *message);
  void *notice_context;
} MinicCacheOptions;
/* `options` may be NULL. A directory that cannot be used is an error (E0908) that says what to do; a program may go on without. */
MINIC_API MinicError *minic_cache_open(const MinicCacheOptions *options, MinicCache **cache);

typedef struct MinicCacheInfo {
  size_t struct_size;    /* In: sizeof(MinicCacheInfo). */
  const char *directory; /* Until the cache is destroyed. */
  int32_t writable;      /* 0: what is there is served, and nothing is kept. */
  uint64_t entries, bytes, limit;
  /* Of this handle since it was opened. dropped: could not be kept; damaged: found so, or refused by the driver; evicted: made
   * room. */
  uint64_t hits, misses, kept, dropped, damaged, evicted;
} MinicCacheInfo;
MINIC_API MinicError *minic_cache_info(MinicCache *cache, MinicCacheInfo *info);
/* Devices and compilations that were given it go on using it. */
MINIC_API MinicError *minic_cache_destroy(MinicCache *cache);

/* From now on the device keeps what the driver makes of PTX, for later processes, and takes what is kept. NULL: no cache, as at
 * first. The interpreter keeps nothing. */
MINIC_API MinicError *minic_device_use_cache(MinicDevice *device, MinicCache *cache);

/*--- Streams and events ---*/

/* Work in one stream is done in order, work in two may overlap. The interpreter has one order and does the work at once. Where a
 * function takes a stream, NULL means CUDA's default stream. */
MINIC_API MinicError *minic_stream_create(MinicDevice *device, MinicStream **stream);
/* The caller's own CUstream (NULL: CUDA's default stream), which must outlive the handle. */
MINIC_API MinicError *minic_stream_borrow(MinicDevice *device, void *cuda_stream, MinicStream **stream);
/* The CUstream. */
MINIC_API MinicError *minic_stream_handle(MinicStream *stream, void **cuda_stream);
/* Waits for everything on the stream, and says what of it failed. */
MINIC_API MinicError *minic_stream_synchronize(MinicStream *stream);
/* What comes on the stream from here on waits for the event; the caller does not. */
MINIC_API MinicError *minic_stream_wait(MinicStream *stream, MinicEvent *event);
/* Work that is on the stream is still done. */
MINIC_API MinicError *minic_stream_destroy(MinicStream *stream);

MINIC_API MinicError *minic_event_create(MinicDevice *device, MinicEvent **event);
/* The event stands for everything on the stream so far. */
MINIC_API MinicError *minic_event_record(MinicEvent *event, MinicStream *stream);
MINIC_API MinicError *minic_event_synchronize(MinicEvent *event);
/* 1 if what it stands for is done, else 0. */
MINIC_API MinicError *minic_event_is_done(MinicEvent *event, int *done);
/* Milliseconds between two events that are done. */
MINIC_API MinicError *minic_event_elapsed(MinicEvent *from, MinicEvent *to, double *milliseconds);
MINIC_API MinicError *minic_event_destroy(MinicEvent *event);

/*--- Buffers ---*/

/* A dense row-major tensor of a MinicDType in device memory, for use on `stream`. Its values are undefined. */
MINIC_API MinicError *minic_buffer_create(MinicStream *stream, int32_t dtype, int32_t rank, const int64_t *shape,
                                          MinicBuffer **buffer);
/* Copies from or to host memory, in the order of the buffer's stream; `size` bytes, all of the buffer. After write the host's bytes
 * may change at once; read waits for the stream. */
MINIC_API MinicError *minic_buffer_write(MinicBuffer *buffer, const void *data, size_t size);
MINIC_API MinicError *minic_buffer_read(MinicBuffer *buffer, void *data, size_t size);
/* The buffer as a tensor. The shape belongs to the buffer. */
MINIC_API MinicError *minic_buffer_tensor(MinicBuffer *buffer, MinicTensor *tensor);
/* The buffer as a DLPack tensor that keeps the memory alive: a DLManagedTensorVersioned * (1.0) if `versioned`, else a
 * DLManagedTensor *. Whoever gets it calls its deleter, once, from any thread. The interpreter's memory is no host memory, so there
 * it is a copy. Work on the buffer's stream is not waited for. */
MINIC_API MinicError *minic_buffer_dlpack(MinicBuffer *buffer, int versioned, void **managed);
/* The memory is given back in the order of the buffer's stream: work on another stream that uses it must be waited for first. */
MINIC_API MinicError *minic_buffer_destroy(MinicBuffer *buffer);

/*--- Artifacts: compiled graphs, for one or more targets ---*/

/* Reads a .mnc file, or its bytes. */
MINIC_API MinicError *minic_artifact_read(const char *path, MinicArtifact **artifact);
MINIC_API MinicError *minic_artifact_from_bytes(const void *data, size_t size, MinicArtifact **artifact);
/* Writes a .mnc file: all of it or nothing. */
MINIC_API MinicError *minic_artifact_save(MinicArtifact *artifact, const char *path);

/* What a graph takes or gives. */
typedef struct MinicTensorSpec {
  const char *name;
  const char *const *dims; /* One per axis: "1024", "N", "4*N". */
  const int64_t *sizes;    /* One per axis; -1 where it depends on names. */
  int32_t dtype;           /* MinicDType. */
  int32_t rank;
} MinicTensorSpec;
/* `*specs` points to `*count` entries. */
MINIC_API MinicError *minic_artifact_inputs(MinicArtifact *artifact, const MinicTensorSpec **specs, size_t *count);
MINIC_API MinicError *minic_artifact_results(MinicArtifact *artifact, const MinicTensorSpec **specs, size_t *count);

typedef struct MinicArtifactInfo {
  size_t struct_size;   /* In: sizeof(MinicArtifactInfo). */
  const char *graph;    /* Its name. */
  const char *targets;  /* "sm_90a", or several with ", " between them. */
  const char *numerics; /* "exact", "default" or "fast". */
  int64_t launches;     /* Kernels that one run launches, and calls of libraries, for the first target. */
  const char *warnings; /* What the compiler had to say, or empty. */
} MinicArtifactInfo;
MINIC_API MinicError *minic_artifact_info(MinicArtifact *artifact, MinicArtifactInfo *info);
MINIC_API MinicError *minic_artifact_destroy(MinicArtifact *artifact);

/*--- Executables: artifacts on a device ---*/

/* An input that is bound when an executable is loaded: it goes to the device once and is no argument of runs any more. */
typedef struct MinicWeight {
  const char *name;          /* The input; NULL with a .safetensors file: each input that the file has. */
  const char *path;          /* A .npy or .safetensors file; or NULL: */
  const MinicTensor *tensor; /* a row-major tensor in host memory. */
} MinicWeight;
/* Of several targets the one that fits the device is taken. `weights` may be NULL if there are none. */
MINIC_API MinicError *minic_executable_load(MinicArtifact *artifact, MinicDevice *device, const MinicWeight *weights,
                                            size_t num_weights, MinicExecutable **executable);
/* What runs take: the graph's inputs without the weights, in order. */
MINIC_API MinicError *minic_executable_inputs(MinicExecutable *executable, const MinicTensorSpec **specs, size_t *count);
MINIC_API MinicError *minic_executable_results(MinicExecutable *executable, const MinicTensorSpec **specs, size_t *count);
/* The sizes of all results for inputs of these types and shapes (their memory is not looked at), one result after the other, into
 * `dims`, which has room for `capacity` numbers: the sum of the results' ranks. */
MINIC_API MinicError *minic_executable_result_dims(MinicExecutable *executable, const MinicTensor *inputs, size_t num_inputs,
                                                   int64_t *dims, size_t capacity);

/* Enqueues one run on `stream` (NULL: the default stream) and does not wait. Row-major tensors whose address is a multiple of 16
 * are the fast case. Errors name the tensor: number, type, shape, device; strides and alignment where the artifact has no plan for
 * them; elements outside the allocation; results that overlap. What fails on the device is said by the next call that waits. */
MINIC_API MinicError *minic_executable_run(MinicExecutable *executable, MinicStream *stream, const MinicTensor *inputs,
                                           size_t num_inputs, const MinicTensor *results, size_t num_results);
/* From host memory to host memory; waits. Nothing between the elements of a result is written. */
MINIC_API MinicError *minic_executable_run_host(MinicExecutable *executable, const MinicTensor *inputs, size_t num_inputs,
                                                const MinicTensor *results, size_t num_results);
MINIC_API MinicError *minic_executable_destroy(MinicExecutable *executable);

/* What became of shapes, with their strides. A run looks for its shape once; so does minic_executable_result_dims. Since 1.1. */
typedef struct MinicShapeCounts {
  size_t struct_size;    /* In: sizeof(MinicShapeCounts). */
  uint64_t hits, misses; /* It was ready, or was not. */
  uint64_t evictions;    /* Forgotten to make room: the one used longest ago. */
  uint64_t compilations; /* Since minic_executable_specialize. */
  uint64_t kept, limit;  /* How many are ready, and may be. */
} MinicShapeCounts;
MINIC_API MinicError *minic_executable_shape_counts(MinicExecutable *executable, MinicShapeCounts *counts);
/* How many shapes are kept ready: 64 at first, at least 1. */
MINIC_API MinicError *minic_executable_limit_shapes(MinicExecutable *executable, size_t limit);
/* 0: a run whose sizes are new to an executable that minic_executable_specialize was called for is an error (E0910). */
MINIC_API MinicError *minic_executable_allow_compilation(MinicExecutable *executable, int allowed);

/* Records a run on these tensors without doing it. Their memory must stay for as long as the captured run is launched. */
MINIC_API MinicError *minic_executable_capture(MinicExecutable *executable, const MinicTensor *inputs, size_t num_inputs,
                                               const MinicTensor *results, size_t num_results, MinicCapturedRun **run);
/* Does the recorded run again, on `stream` (NULL: the default stream), and does not wait. Launches of one captured run must not
 * overlap: they share the memory of its temporaries. */
MINIC_API MinicError *minic_captured_run_launch(MinicCapturedRun *run, MinicStream *stream);
MINIC_API MinicError *minic_captured_run_destroy(MinicCapturedRun *run);

#ifdef __cplusplus
}
#endif

#endif
