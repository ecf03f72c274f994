/* Compiles a graph from C and runs it, on a GPU if there is one, else in the interpreter. Prints softmax of 0, 1, 2. */
#include "minic-c/compiler.h"

#include <stdio.h>
#include <string.h>

static const char text[] = "graph @softmax(%x: tensor<MxNxf32>) -> (y: tensor<MxNxf32>) {\n"
                           "  %m  = reduce max %x, axes = [1] : tensor<Mxf32>\n"
                           "  %mb = broadcast %m, dims = [0]  : tensor<MxNxf32>\n"
                           "  %z  = sub %x, %mb               : tensor<MxNxf32>\n"
                           "  %e  = exp %z                    : tensor<MxNxf32>\n"
                           "  %s  = reduce sum %e, axes = [1] : tensor<Mxf32>\n"
                           "  %sb = broadcast %s, dims = [0]  : tensor<MxNxf32>\n"
                           "  %y  = div %e, %sb               : tensor<MxNxf32>\n"
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
  MinicExecutable *softmax = NULL;
  MinicBuffer *x = NULL, *y = NULL;
  MinicTensor input, result;
  const int64_t shape[] = {1, 3};
  float values[] = {0.0f, 1.0f, 2.0f};
  MinicCompileOptions options;
  int failed;

  TRY(minic_device_open("auto", &device));
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.device = device; /* Compile for it. */
  TRY(minic_compile_text(text, strlen(text), &options, &artifact));
  TRY(minic_executable_load(artifact, device, NULL, 0, &softmax));

  TRY(minic_stream_create(device, &stream));
  TRY(minic_buffer_create(stream, MINIC_F32, 2, shape, &x));
  TRY(minic_buffer_create(stream, MINIC_F32, 2, shape, &y));
  TRY(minic_buffer_tensor(x, &input));
  TRY(minic_buffer_tensor(y, &result));

  /* All of this is in the order of the stream; read waits for it. */
  TRY(minic_buffer_write(x, values, sizeof values));
  TRY(minic_executable_run(softmax, stream, &input, 1, &result, 1));
  TRY(minic_buffer_read(y, values, sizeof values));
  printf("y = [%.4f, %.4f, %.4f]\n", values[0], values[1], values[2]);

done:
  failed = error != NULL;
  fputs(minic_error_message(error), stderr);
  minic_error_destroy(error);
  /* In any order. NULL gives an error, which is an object too. */
  minic_error_destroy(minic_buffer_destroy(x));
  minic_error_destroy(minic_buffer_destroy(y));
  minic_error_destroy(minic_stream_destroy(stream));
  minic_error_destroy(minic_executable_destroy(softmax));
  minic_error_destroy(minic_artifact_destroy(artifact));
  minic_error_destroy(minic_device_destroy(device));
  return failed;
}
