// Handles that are null, destroyed, of another kind or made up, and null arguments: errors that name the argument.
#include "CApiTest.h"

#include <atomic>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

TEST(Handles, Null) {
  MinicTensor seen;
  MinicStream *stream;
  EXPECT_ERROR(minic_buffer_tensor(nullptr, &seen), "E1101", "argument 'buffer' is NULL, expected a buffer");
  EXPECT_ERROR(minic_stream_create(nullptr, &stream), "E1101", "argument 'device' is NULL, expected a device");
  EXPECT_ERROR(minic_stream_synchronize(nullptr), "E1101", "argument 'stream'");
  EXPECT_ERROR(minic_stream_wait(nullptr, nullptr), "E1101", "argument 'event'");
  EXPECT_ERROR(minic_event_synchronize(nullptr), "E1101", "argument 'event'");
  EXPECT_ERROR(minic_event_elapsed(nullptr, nullptr, nullptr), "E1101", "argument 'from'");
  EXPECT_ERROR(minic_artifact_save(nullptr, "x.mnc"), "E1101", "argument 'artifact'");
  EXPECT_ERROR(minic_executable_run(nullptr, nullptr, nullptr, 0, nullptr, 0), "E1101", "argument 'executable'");
  EXPECT_ERROR(minic_captured_run_launch(nullptr, nullptr), "E1101", "argument 'run' is NULL, expected a captured run");
  EXPECT_ERROR(minic_device_destroy(nullptr), "E1101", "argument 'device'");
  EXPECT_EQ(minic_text_data(nullptr, nullptr), nullptr);
}

TEST(Handles, MadeUp) {
  MinicTensor seen;
  long local = 0;
  for (void *bits : {static_cast<void *>(&local), reinterpret_cast<void *>(~uintptr_t(0)), reinterpret_cast<void *>(0x11111111),
                     reinterpret_cast<void *>(0x00000001FFFFFF06), reinterpret_cast<void *>(0x7FFFFFFF00000006)})
    EXPECT_ERROR(minic_buffer_tensor(static_cast<MinicBuffer *>(bits), &seen), "E1101",
                 "argument 'buffer' is no handle of minic, expected a buffer");
}

TEST_F(OnCpu, DestroyedHandles) {
  MinicBuffer *gone = buffer({2});
  MinicTensor seen;
  EXPECT_FINE(minic_buffer_destroy(gone));
  EXPECT_ERROR(minic_buffer_destroy(gone), "E1101", "argument 'buffer' was destroyed already");
  EXPECT_ERROR(minic_buffer_tensor(gone, &seen), "E1101", "argument 'buffer' was destroyed already");
  MinicBuffer *next = buffer({2}); // Takes the place, under another handle.
  EXPECT_NE(next, gone);
  EXPECT_ERROR(minic_buffer_tensor(gone, &seen), "E1101", "argument 'buffer' was destroyed already");
  EXPECT_FINE(minic_buffer_destroy(next));
  EXPECT_FINE(minic_executable_destroy(executable));
  EXPECT_ERROR(minic_executable_run(executable, stream, nullptr, 0, nullptr, 0), "E1101", "argument 'executable' was destroyed");
  EXPECT_FINE(minic_stream_destroy(stream));
  MinicBuffer *none;
  EXPECT_ERROR(minic_buffer_create(stream, MINIC_F32, 0, nullptr, &none), "E1101", "argument 'stream' was destroyed already");
  EXPECT_EQ(none, nullptr);
}

TEST_F(OnCpu, AnotherKind) {
  EXPECT_ERROR(minic_stream_synchronize(reinterpret_cast<MinicStream *>(device)), "E1101",
               "argument 'stream' is a handle of another kind, expected a stream");
  MinicBuffer *input = buffer({1});
  EXPECT_ERROR(minic_executable_run(reinterpret_cast<MinicExecutable *>(input), nullptr, nullptr, 0, nullptr, 0), "E1101",
               "expected an executable");
  EXPECT_FINE(minic_buffer_destroy(input));
}

TEST(Handles, Errors) {
  MinicError *error = minic_stream_synchronize(nullptr);
  EXPECT_EQ(minic_error_kind(error), MINIC_ERROR_USAGE);
  minic_error_destroy(error);
  minic_error_destroy(error);
  minic_error_destroy(nullptr);
  EXPECT_EQ(minic_error_kind(error), MINIC_ERROR_NONE);
  EXPECT_STREQ(minic_error_message(error), "");
  EXPECT_STREQ(minic_error_code(nullptr), "");
  EXPECT_STREQ(minic_error_fix(nullptr), "");
}

TEST_F(OnCpu, NullArguments) {
  MinicDevice *none;
  EXPECT_ERROR(minic_device_open(nullptr, &none), "E1102", "argument 'name' is NULL");
  EXPECT_ERROR(minic_device_open("cpu", nullptr), "E1102", "argument 'device' is NULL, expected a place for the result");
  EXPECT_ERROR(minic_device_open("tpu", &none), "E1102", "argument 'name' is 'tpu', expected auto, cuda, cuda:N or cpu");
  EXPECT_ERROR(minic_device_open("cuda:x", &none), "E1102", "argument 'name' is 'cuda:x'");
  EXPECT_ERROR(minic_device_info(device, nullptr), "E1102", "argument 'info' is NULL");
  EXPECT_ERROR(minic_artifact_read(nullptr, &artifact), "E1102", "argument 'path' is NULL");
  EXPECT_EQ(artifact, nullptr);
  size_t count;
  EXPECT_ERROR(minic_executable_inputs(executable, nullptr, &count), "E1102", "argument 'specs' is NULL");
  EXPECT_ERROR(minic_executable_run(executable, stream, nullptr, 2, nullptr, 1), "E1102", "argument 'inputs' is NULL");
  MinicBuffer *made;
  EXPECT_ERROR(minic_buffer_create(stream, MINIC_F32, 2, nullptr, &made), "E1102", "argument 'shape' has no shape");
  EXPECT_ERROR(minic_buffer_create(stream, MINIC_F32, 65, nullptr, &made), "E1102", "argument 'shape' has a rank");
  EXPECT_ERROR(minic_buffer_create(stream, 8, 0, nullptr, &made), "E1102", "argument 'dtype' is 8");
  EXPECT_ERROR(minic_compile_text(nullptr, 3, nullptr, &artifact), "E1102", "argument 'text' is NULL");
  MinicText *text;
  EXPECT_ERROR(minic_emit_text("", 0, "sass", nullptr, &text), "E1102", "argument 'stage' is 'sass', expected graph");
  EXPECT_ERROR(minic_emit_text("", 0, nullptr, nullptr, &text), "E1102", "argument 'stage' is NULL");
  EXPECT_ERROR(minic_device_adopt(nullptr, &none), "E1102", "argument 'context' is NULL");
}

TEST_F(OnCpu, StructsThatGrow) {
  struct {
    MinicDeviceInfo info;
    int later;
  } newer = {};
  newer.info.struct_size = sizeof newer;
  newer.later = 7;
  ASSERT_FINE(minic_device_info(device, &newer.info));
  EXPECT_STREQ(newer.info.name, "cpu");
  EXPECT_EQ(newer.info.struct_size, sizeof newer);
  EXPECT_EQ(newer.later, 0);

  MinicDeviceInfo older = {};
  older.struct_size = offsetof(MinicDeviceInfo, kind);
  older.kind = MINIC_DEVICE_CUDA;
  ASSERT_FINE(minic_device_info(device, &older));
  EXPECT_STREQ(older.name, "cpu");
  EXPECT_EQ(older.kind, MINIC_DEVICE_CUDA); // Beyond its size.
  older.struct_size = 0;
  EXPECT_ERROR(minic_device_info(device, &older), "E1102", "argument 'info' has struct_size 0");
}

TEST_F(OnCpu, AnyOrderOfDestruction) {
  MinicBuffer *x = buffer({1, 2}, {1, 2}), *w = buffer({2}, {10, 100}), *y = buffer({1, 2});
  MinicTensor inputs[] = {view(x), view(w)}, result = view(y);
  MinicCapturedRun *run;
  ASSERT_FINE(minic_executable_capture(executable, inputs, 2, &result, 1, &run));
  EXPECT_FINE(minic_device_destroy(device));
  EXPECT_FINE(minic_artifact_destroy(artifact));
  EXPECT_FINE(minic_executable_destroy(executable));
  EXPECT_FINE(minic_stream_destroy(stream));
  EXPECT_FINE(minic_captured_run_launch(run, nullptr));
  EXPECT_EQ(read(y, 2), (std::vector<float>{20, 400}));
  EXPECT_FINE(minic_captured_run_destroy(run));
  for (MinicBuffer *one : {x, w, y})
    EXPECT_FINE(minic_buffer_destroy(one));
}

TEST_F(OnCpu, OpenedAgainIsTheSame) {
  MinicDevice *second;
  ASSERT_FINE(minic_device_open("cpu", &second));
  MinicStream *other;
  ASSERT_FINE(minic_stream_create(second, &other));
  MinicBuffer *x = nullptr, *w = buffer({2}, {10, 100}), *y = buffer({1, 2});
  const int64_t shape[] = {1, 2};
  ASSERT_FINE(minic_buffer_create(other, MINIC_F32, 2, shape, &x));
  const float values[] = {3, 4};
  ASSERT_FINE(minic_buffer_write(x, values, sizeof values));
  MinicTensor inputs[] = {view(x), view(w)}, result = view(y);
  EXPECT_FINE(minic_executable_run(executable, other, inputs, 2, &result, 1));
  EXPECT_EQ(read(y, 2), (std::vector<float>{60, 800}));
  for (MinicBuffer *one : {x, w, y})
    EXPECT_FINE(minic_buffer_destroy(one));
  EXPECT_FINE(minic_stream_destroy(other));
  EXPECT_FINE(minic_device_destroy(second));
}

/// What the child of a fork says, which must not crash.
std::string inChild(const std::function<std::string()> &body) {
  int ends[2];
  if (pipe(ends))
    return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    std::string text = body();
    (void)!write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char bytes[256];
  for (ssize_t n; (n = ::read(ends[0], bytes, sizeof bytes)) > 0;)
    text.append(bytes, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  return text;
}

TEST_F(OnCpu, AfterFork) {
  EXPECT_NE(inChild([&] {
              return take(minic_stream_synchronize(stream));
            }).find("argument 'stream' belongs to the process that this one was forked from"),
            std::string::npos);
  EXPECT_NE(inChild([&] { return take(minic_device_destroy(device)); }).find("forked from"), std::string::npos);
  // The child may make its own.
  EXPECT_EQ(inChild([&]() -> std::string {
              MinicDevice *mine;
              MinicArtifact *compiled;
              MinicExecutable *loaded;
              for (MinicError *error :
                   {minic_device_open("cpu", &mine), minic_compile_text(scaleText, strlen(scaleText), nullptr, &compiled),
                    minic_executable_load(compiled, mine, nullptr, 0, &loaded)})
                if (error)
                  return minic_error_message(error);
              float x = 3, w = 5, y = 0;
              MinicTensor inputs[] = {tensor(&x, {1, 1}), tensor(&w, {1})}, result = tensor(&y, {1, 1});
              std::vector<int64_t> two = {1, 1}, one = {1};
              inputs[0].shape = result.shape = two.data();
              inputs[1].shape = one.data();
              if (MinicError *error = minic_executable_run_host(loaded, inputs, 2, &result, 1))
                return minic_error_message(error);
              return std::to_string(int(y));
            }),
            "30");
  EXPECT_FINE(minic_stream_synchronize(stream)); // The parent's are as they were.
}

TEST_F(OnCpu, ThreadsUseAndDestroy) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0, destroyed = 0;
  MinicBuffer *shared = buffer({4}, {1, 2, 3, 4});
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        MinicStream *mine;
        ASSERT_FINE(minic_stream_create(device, &mine));
        MinicTensor seen;
        std::string error = take(minic_buffer_tensor(shared, &seen));
        good += error.empty();
        ASSERT_TRUE(error.empty() || error.find("'buffer' was destroyed already") != std::string::npos) << error;
        if (i > 1000)
          destroyed += take(minic_buffer_destroy(shared)).empty();
        ASSERT_FINE(minic_stream_destroy(mine));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_GE(good, 1000);
  EXPECT_EQ(destroyed, 1); // By whoever came first.
}

} // namespace
