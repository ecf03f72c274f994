/* The C interface of minic: what all of it shares. C99.
 *
 * Objects are handles: pointers to types that are never defined, which the library looks up in a table of its own. A handle that is
 * NULL, was destroyed, is of another kind, or never came from this library gives an error that names the argument.
 *
 * A function that can fail returns a MinicError *, NULL if all is well, and then has set its out-parameters; if it fails they are
 * NULL or unchanged. Nothing aborts, exits or throws.
 *
 * Threads: every function may be called from any thread at any time, also with handles that other threads use or destroy.
 *
 * Lifetime: each object keeps alive what it needs, so handles may be destroyed in any order. Pointers that a function gives to data
 * inside an object are valid until the object's handle is destroyed. What a caller passes in is read before the function returns
 * and not kept, but for the memory of tensors, which must stay until the stream has done the work.
 *
 * A process that forks: handles of the parent are errors in the child. The child may make its own, but CUDA refuses to work in the
 * child of a process that used it. */
#ifndef MINIC_C_BASE_H
#define MINIC_C_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MINIC_API __attribute__((visibility("default")))
#else
#define MINIC_API
#endif

/* The version of this interface. Within one major version functions and fields are only added; structs that may grow begin with
 * their own size. */
#define MINIC_API_MAJOR 1
#define MINIC_API_MINOR 2
#define MINIC_API_VERSION ((MINIC_API_MAJOR << 16) | MINIC_API_MINOR)

/* MINIC_API_VERSION as the library was built. A program fits if the major versions are equal and its minor version is not greater.
 */
MINIC_API uint32_t minic_api_version(void);
/* The release, "0.1.0". Static. */
MINIC_API const char *minic_version(void);

/* What went wrong. */
typedef struct MinicError MinicError;

/* Which side has to act. */
typedef enum MinicErrorKind {
  MINIC_ERROR_NONE = 0,       /* No error (NULL), or one that was destroyed. */
  MINIC_ERROR_DATA = 1,       /* Something in files, texts or tensors. */
  MINIC_ERROR_USAGE = 2,      /* An option or argument: a bad handle, an unknown word, a NULL. */
  MINIC_ERROR_ENVIRONMENT = 3 /* The device, the driver, memory. */
} MinicErrorKind;

MINIC_API MinicErrorKind minic_error_kind(const MinicError *error);
/* "E0602"; `docs/errors.md` lists all. Empty if there is no error. */
MINIC_API const char *minic_error_code(const MinicError *error);
/* Everything there is to say, as the command line prints it: place, message, code, source line, notes and fix; several errors in
 * one text where there are several. Ends with a line end. Empty if there is no error. */
MINIC_API const char *minic_error_message(const MinicError *error);
/* What to do about it, or empty. */
MINIC_API const char *minic_error_fix(const MinicError *error);
/* NULL and destroyed errors are left alone. */
MINIC_API void minic_error_destroy(MinicError *error);

/* A text or other bytes that the library made. */
typedef struct MinicText MinicText;

/* The bytes, with a zero after the last that `size` (may be NULL) does not count. NULL if the handle is not good. */
MINIC_API const char *minic_text_data(const MinicText *text, size_t *size);
MINIC_API MinicError *minic_text_destroy(MinicText *text);

/* Types of elements. A boolean is a byte that holds 0 or 1. */
typedef enum MinicDType {
  MINIC_F64 = 1,
  MINIC_F32 = 2,
  MINIC_F16 = 3,
  MINIC_BF16 = 4,
  MINIC_I64 = 5,
  MINIC_I32 = 6,
  MINIC_I1 = 7,
  MINIC_I8 = 9, /* 8 is not used. */
  MINIC_U8 = 10,
  MINIC_F8E4M3 = 11,
  MINIC_F8E5M2 = 12
} MinicDType;

#ifdef __cplusplus
}
#endif

#endif
