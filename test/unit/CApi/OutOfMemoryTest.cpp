// Every allocation of a call fails once: an error comes back, nothing is lost, nothing ends the program.
#include "CApiTest.h"

#include <cstdlib>
#include <new>

namespace {
thread_local long allocationsLeft = -1; ///< Of this thread; negative: no bound.

bool refused() { return allocationsLeft >= 0 && allocationsLeft-- == 0; }
} // namespace

// Not inlined: g++ would see that memory of one comes to the other through malloc.
[[gnu::noinline]] void *operator new(size_t size) {
  if (refused())
    throw std::bad_alloc();
  if (void *memory = std::malloc(size ? size : 1))
    return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return refused() ? nullptr : std::malloc(size ? size : 1);
}
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {

/// Does `call` again and again, with one allocation more each time, until it has all that it needs.
template <typename Call> void starve(Call call, long step = 1) {
  for (long allowed = 0; allowed < 1000000; allowed += step) {
    allocationsLeft = allowed;
    MinicError *error = call();
    bool starved = allocationsLeft < 0;
    allocationsLeft = -1;
    if (!starved) {
      EXPECT_EQ(take(error), "");
      return;
    }
    if (error) {
      EXPECT_STREQ(minic_error_code(error), "E0905");
      EXPECT_STREQ(minic_error_message(error), "error: there is no memory left [E0905]\n");
      EXPECT_EQ(minic_error_kind(error), MINIC_ERROR_ENVIRONMENT);
      minic_error_destroy(error);
    }
  }
  FAIL() << "never enough";
}

TEST_F(OnCpu, OutOfMemory) {
  const int64_t shape[] = {2, 2};
  starve([&] {
    MinicStream *made;
    MinicError *error = minic_stream_create(device, &made);
    return error ? error : minic_stream_destroy(made);
  });
  starve([&] {
    MinicBuffer *made;
    MinicError *error = minic_buffer_create(stream, MINIC_F32, 2, shape, &made);
    return error ? error : minic_buffer_destroy(made);
  });
  starve([&] {
    MinicExecutable *made;
    MinicError *error = minic_executable_load(artifact, device, nullptr, 0, &made);
    return error ? error : minic_executable_destroy(made);
  });
  starve(
      [&] {
        MinicText *text;
        MinicError *error = minic_emit_text(scaleText, strlen(scaleText), "plan", nullptr, &text);
        return error ? error : minic_text_destroy(text);
      },
      61);
}

/// The error itself finds no memory.
TEST(OutOfMemory, ForAnError) {
  allocationsLeft = 0;
  MinicError *error = minic_stream_synchronize(nullptr);
  allocationsLeft = -1;
  EXPECT_STREQ(minic_error_code(error), "E0905");
  minic_error_destroy(error);
  EXPECT_STREQ(minic_error_code(error), "E0905"); // It is always there.
}

} // namespace
