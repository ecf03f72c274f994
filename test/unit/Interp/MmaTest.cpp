// cp_async, ldmatrix and mma: numbers in all forms, and what is read or written too early.
#include "InterpTest.h"

using namespace minic;
using namespace minic::test;

namespace {

struct Form {
  bool xAcross = false, wAcross = false; ///< x as 32x32 of k by rows, w as 16x32 of columns by k.
  std::string mask = "[]";
};

/// y = x w, 32x32 by 32x16, with copies and products in two steps; 64 threads.
std::string product(const Form &form = {}, int64_t rows = 32) {
  std::string x = form.xAcross ? "32x" + std::to_string(rows) : std::to_string(rows) + "x32", w = form.wAcross ? "16x32" : "32x16";
  std::string xSwizzle = "#swizzle64", wSwizzle = form.wAcross ? "#swizzle64" : "#swizzle32";
  auto step = [&](const std::string &n, const std::string &k, const std::string &acc) {
    std::string a = form.xAcross ? "t %xs, " + k + ", %c0" : "n %xs, %c0, " + k;
    std::string b = form.wAcross ? "t %ws, %c0, " + k : "n %ws, " + k + ", %c0";
    return "  %a" + n + " = ldmatrix " + a + " : tile<32x16xf16, #a>\n  %b" + n + " = ldmatrix " + b +
           " : tile<16x16xf16, #b>\n  %s" + n + " = mma %a" + n + ", %b" + n + ", " + acc + " : tile<32x16xf32, #acc>\n";
  };
  return R"(
#a = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:2@16]>
#b = layout<reg = [0:2@1, 0:2@8, 1:2@8], lane = [0:4@2, 1:8@1], warp = [_:2]>
#acc = layout<reg = [1:2@1, 0:2@8, 1:2@8], lane = [1:4@2, 0:8@1], warp = [0:2@16]>
kernel @k(%x: buffer<)" +
         x + "xf16>, %w: buffer<" + w + R"(xf16>, %y: buffer<32x16xf32>) at machine, threads = 64 {
  %c0 = constant 0 : index
  %c16 = constant 16 : index
  %xs = alloc_shared : smem<32x32xf16, )" +
         xSwizzle + ">\n  %ws = alloc_shared : smem<" + w + "xf16, " + wSwizzle + R"(>
  %zero = constant 0.0 : tile<32x16xf32, #acc>
  cp_async %x, %xs, %c0, %c0, mask = )" +
         form.mask + R"(, vec = 8
  cp_async %w, %ws, %c0, %c0, mask = [], vec = 8
  cp_async_commit
  cp_async_wait pending = 0
  barrier
)" + step("0", "%c0", "%zero") +
         step("1", "%c16", "%s0") + "  store %s1, %y, %c0, %c0, mask = [], vec = 2\n  return\n}\n";
}

Outcome run(const std::string &text, std::vector<int64_t> xShape = {32, 32}, std::vector<int64_t> wShape = {32, 16}) {
  HostTensor x = random(DType::F16, xShape, 5), w = random(DType::F16, wShape, 6);
  return runKernel(text, {1}, {x, w}, {HostTensor(DType::F32, {32, 16})});
}

void expectRefused(const std::string &text, ErrorCode code, const std::string &words) {
  Outcome out = run(text);
  EXPECT_EQ(out.code, code) << out.error;
  EXPECT_TRUE(has(out.error, words)) << out.error;
}

TEST(Mma, MultipliesWhatLiesInEachForm) {
  for (bool xAcross : {false, true})
    for (bool wAcross : {false, true}) {
      Outcome out =
          run(product({xAcross, wAcross}), {32, 32}, wAcross ? std::vector<int64_t>{16, 32} : std::vector<int64_t>{32, 16});
      ASSERT_EQ(out.error, "");
      HostTensor x = random(DType::F16, {32, 32}, 5), w = random(DType::F16, {32, 16}, 6);
      for (int64_t m = 0; m < 32; ++m)
        for (int64_t n = 0; n < 16; ++n) {
          double expected = 0;
          for (int64_t k = 0; k < 32; ++k)
            expected += x.get(xAcross ? k * 32 + m : m * 32 + k) * w.get(wAcross ? n * 32 + k : k * 16 + n);
          EXPECT_NEAR(out.outputs[0].get(m * 16 + n), expected, 1e-4);
        }
    }
}

TEST(Mma, WhatIsBehindAnEdgeIsZero) {
  Outcome out = run(product({.mask = "[0]"}, 30), {30, 32});
  ASSERT_EQ(out.error, "");
  for (int64_t n = 0; n < 32; ++n)
    EXPECT_EQ(out.outputs[0].get(30 * 16 + n), 0);
  EXPECT_NE(out.outputs[0].get(29 * 16), 0);
  Outcome unchecked = run(product({}, 30), {30, 32});
  EXPECT_EQ(unchecked.code, ErrorCode::OutOfBounds) << unchecked.error;
}

TEST(Mma, CopiesAreThereBehindAWaitAndABarrier) {
  const std::string early = "is read before the cp_async_wait, and a barrier, that cover its cp_async";
  expectRefused(replaced(product(), "  cp_async_wait pending = 0\n  barrier\n", "  cp_async_wait pending = 0\n"),
                ErrorCode::UndefinedRead, early);
  expectRefused(replaced(product(), "  cp_async_wait pending = 0\n", ""), ErrorCode::UndefinedRead, early);
  expectRefused(replaced(product(), "wait pending = 0", "wait pending = 1"), ErrorCode::UndefinedRead, early);
  // A wait before the commit covers nothing.
  expectRefused(
      replaced(product(), "  cp_async_commit\n  cp_async_wait pending = 0\n", "  cp_async_wait pending = 0\n  cp_async_commit\n"),
      ErrorCode::UndefinedRead, early);
}

TEST(Mma, GroupsLandOneAfterTheOther) {
  // The first of two groups is there, the second is not.
  std::string text = replaced(product(), "  cp_async %w", "  cp_async_commit\n  cp_async %w");
  EXPECT_EQ(run(text).error, "");
  expectRefused(replaced(text, "wait pending = 0", "wait pending = 1"), ErrorCode::UndefinedRead,
                "is read before the cp_async_wait, and a barrier, that cover its cp_async");
  // A group without copies counts.
  EXPECT_EQ(run(replaced(product(), "  cp_async_wait pending = 0", "  cp_async_commit\n  cp_async_wait pending = 1")).error, "");
}

TEST(Mma, MemoryThatIsReadMustNotBeFilledAgain) {
  const std::string store = "  store %s1", again = "  cp_async %x, %xs, %c0, %c0, mask = [], vec = 8\n  cp_async_commit\n";
  const std::string wait = "  cp_async_wait pending = 0\n";
  expectRefused(replaced(product(), store, again + wait + store), ErrorCode::SharedRace, "and no barrier is between");
  EXPECT_EQ(run(replaced(product(), store, "  barrier\n" + again + wait + store)).error, "");
  // Two copies to one place, without a wait between.
  expectRefused(replaced(product(), "  cp_async_commit\n  cp_async_wait", again + "  cp_async_wait"), ErrorCode::SharedRace,
                "is written before the cp_async_wait, and a barrier, that cover its cp_async");
}

TEST(Mma, NothingIsLeftUnderWay) {
  const std::string end = "  return", copy = "  barrier\n  cp_async %x, %xs, %c0, %c0, mask = [], vec = 8\n";
  for (const char *more : {"", "  cp_async_commit\n", "  cp_async_wait pending = 0\n"})
    expectRefused(replaced(product(), end, copy + more + end), ErrorCode::SharedRace,
                  "the text ends while a cp_async is under way");
  EXPECT_EQ(run(replaced(product(), end, copy + "  cp_async_commit\n  cp_async_wait pending = 0\n" + end)).error, "");
}

TEST(Mma, BoxesStartAtMultiplesOfEight) {
  expectRefused(replaced(product(), "%c16 = constant 16 : index",
                         "%p = program_id grid = [1] : index\n  %c20 = constant 20 : index\n"
                         "  %c16 = add %p, %c20 : index"),
                ErrorCode::OutOfBounds, "is not one of smem<");
}

} // namespace
