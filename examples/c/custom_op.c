/* Declares a custom op and compiles a graph that uses it, on a GPU if there is one, else in the interpreter. Prints the negative
 * parts of 1, -2, -3, times 1, 10, 100. */
#include "minic-c/compiler.h"

#include <stdio.h>
#include <string.h>

static const char declaration[] = "custom @scaled_relu(%x: tensor<MxNxf32>, %s: tensor<Nxf32>) -> (y: tensor<MxNxf32>) {\n"
                                  "  %r  = relu %x                  : tensor<MxNxf32>\n"
                                  "  %sb = broadcast %s, dims = [1] : tensor<MxNxf32>\n"
                                  "  %y  = mul %r, %sb              : tensor<MxNxf32>\n"
                                  "  return %y\n"
                                  "}\n";

static const char text[] = "graph @gate(%x: tensor<MxNxf32>, %s: tensor<Nxf32>) -> (y: tensor<MxNxf32>) {\n"
                           "  %n = neg %x                      : tensor<MxNxf32>\n"
                           "  %y = custom @scaled_relu(%n, %s) : tensor<MxNxf32>\n"
                           "  return %y\n"
                           "}\n";

/* Leaves the function where a call fails. */
#define TRY(call)                                                                                                                  \
  do {                                                                                                                             \
    if ((error = (call)))                                                                                                          \
      goto done;                                                                                                                   \
  } while (0)

int main(void) {
  MinicError *error = NULL;
  MinicDevice *device = NULL;
  MinicStream *stream = NULL;
  MinicArtifact *artifact = NULL;
  MinicExecutable *gate = NULL;
  MinicBuffer *x = NULL, *s = NULL, *y = NULL;
  MinicTensor inputs[2], result;
  const char *customs[] = {declaration};
  const int64_t shape[] = {1, 3};
  const float scales[] = {1.0f, 10.0f, 100.0f};
  float values[] = {1.0f, -2.0f, -3.0f};
  MinicCompileOptions options;
  int failed;

  TRY(minic_device_open("auto", &device));
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.device = device; /* Compile for it. */
  options.customs = customs;
  options.num_customs = 1;
  TRY(minic_compile_text(text, strlen(text), &options, &artifact));
  TRY(minic_executable_load(artifact, device, NULL, 0, &gate));

  TRY(minic_stream_create(device, &stream));
  TRY(minic_buffer_create(stream, MINIC_F32, 2, shape, &x));
  TRY(minic_buffer_create(stream, MINIC_F32, 1, shape + 1, &s));
  TRY(minic_buffer_create(stream, MINIC_F32, 2, shape, &y));
  TRY(minic_buffer_tensor(x, &inputs[0]));
  TRY(minic_buffer_tensor(s, &inputs[1]));
  TRY(minic_buffer_tensor(y, &result));

  /* All of this is in the order of the stream; read waits for it. */
  TRY(minic_buffer_write(x, values, sizeof values));
  TRY(minic_buffer_write(s, scales, sizeof scales));
  TRY(minic_executable_run(gate, stream, inputs, 2, &result, 1));
  TRY(minic_buffer_read(y, values, sizeof values));
  printf("y = [%g, %g, %g]\n", values[0], values[1], values[2]);

done:
  failed = error != NULL;
  fputs(minic_error_message(error), stderr);
  minic_error_destroy(error);
  /* In any order. NULL gives an error, which is an object too. */
  minic_error_destroy(minic_buffer_destroy(x));
  minic_error_destroy(minic_buffer_destroy(s));
  minic_error_destroy(minic_buffer_destroy(y));
  minic_error_destroy(minic_stream_destroy(stream));
  minic_error_destroy(minic_executable_destroy(gate));
  minic_error_destroy(minic_artifact_destroy(artifact));
  minic_error_destroy(minic_device_destroy(device));
  return failed;
}
