/* The C interface of minic: from a graph as text to an artifact. C99. Read base.h first. libminic alone holds this; none of it
 * needs a GPU or opens libcuda. */
#ifndef MINIC_C_COMPILER_H
#define MINIC_C_COMPILER_H

#include "minic-c/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value for the name of a size. */
typedef struct MinicDim {
  const char *name;
  int64_t value;
} MinicDim;

/* All zero but `struct_size` is the default. */
typedef struct MinicCompileOptions {
  size_t struct_size;   /* sizeof(MinicCompileOptions). */
  const char *name;     /* What messages call the text; NULL: "text" (or the file's path). */
  const char *target;   /* "sm_90a"; NULL: the text's own, else the device's, else "sm_90a". */
  MinicDevice *device;  /* What it is for, may be NULL: its target is taken, and for the interpreter there is no code for a GPU. */
  const char *numerics; /* "exact", "default" or "fast"; NULL: the text's own, else "default". */
  const char *mode;     /* "fused" or "eager" (one kernel for each op); NULL: "fused". */
  const char *graph;    /* Which graph or plan of the text; NULL: the only one. */
  const MinicDim *dims; /* Names of sizes that are fixed when it is compiled; may be NULL if there are none. */
  size_t num_dims;
  const char *strides; /* "any": tensors of any strides and alignment, row-major ones being the fast case; "dense": row-major ones
                          alone, which compiles faster; NULL: "any" for artifacts, "dense" for texts. */
  const char *const *specializations; /* Plans for some sizes in front of the one for all: "N % 8 == 0, M == 1"; may be NULL. */
  size_t num_specializations;
  const char *matmul; /* Whose matrix products: "generated" kernels, "cublaslt" (a library that is opened when it is first used; no
                         exact numerics), or "auto": generated ones, unless tuning found others quicker; NULL: "auto". */
  MinicCache *cache;  /* Where artifacts are kept for later processes, and taken from; NULL: nowhere. Since 1.1. */
  const char *schedules; /* Path of a file that `minic tune` wrote, which goes before what minic brings for GPUs it knows; "none":
                            neither; NULL: what minic brings. Since 1.2. */
  const char *tuned_for; /* The GPU whose schedules are taken, "NVIDIA H200"; NULL: the device's. Without either what minic brings
                            is not taken. Since 1.2. */
  const char *const *customs; /* Declarations of custom ops that the text uses, with their kernels; may be NULL. They are put behind
                                 the text. Since 1.2. */
  size_t num_customs;
  int line_info; /* Not 0: code says which lines of the text it is from, for profilers and other tools; they know the text by
                    `name`. Since 1.2. */
} MinicCompileOptions;

/* Compiles a text (at any level from graph to machine) of `length` bytes. `options` may be NULL. */
MINIC_API MinicError *minic_compile_text(const char *text, size_t length, const MinicCompileOptions *options,
                                         MinicArtifact **artifact);
MINIC_API MinicError *minic_compile_file(const char *path, const MinicCompileOptions *options, MinicArtifact **artifact);
/* The text at a stage: "graph", "fused", "tile", "masked", "machine", "plan", "llvm" or "ptx". */
MINIC_API MinicError *minic_emit_text(const char *text, size_t length, const char *stage, const MinicCompileOptions *options,
                                      MinicText **result);

/* Lets the executable compile its graph once more for each set of sizes that runs bring; code for sizes that are numbers can be
 * faster. `text` and `options` are those that its artifact was compiled with (`device` and `specializations` do not matter here).
 * How many sets are kept ready, and whether new ones may be compiled: minic_executable_limit_shapes,
 * minic_executable_allow_compilation. Since 1.1. */
MINIC_API MinicError *minic_executable_specialize(MinicExecutable *executable, const char *text, size_t length,
                                                  const MinicCompileOptions *options);

/* The LLVM that the compiler uses, "22.1.8". Static. */
MINIC_API const char *minic_llvm_version(void);

#ifdef __cplusplus
}
#endif

#endif
