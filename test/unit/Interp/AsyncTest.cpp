// Roles, mbarriers and tma_load: what they compute, and what is said about texts that would race or hang.
#include "InterpTest.h"

using namespace minic;
using namespace minic::test;

namespace {

//===-- tma_load ------------------------------------------------------------------------------------------------------------===//

/// y[box at (r, c)] = x there, through shared memory of the box's shape; each program one box.
std::string tmaCopy(const std::string &type, const std::string &box, const std::string &swizzle, const std::string &layout) {
  return "#l = layout<" + layout + R"(>
    kernel @k(%x: tensor_map<20x)" +
         type + ", box = [" + box + "]" + swizzle + ">, %y: buffer<32x" + type + R"(>) at machine, threads = 32 {
      %i, %j = program_id grid = [2, 2] : index, index
      %zero = constant 0 : index
      %rows = constant 16 : index
      %columns = constant COLUMNS : index
      %row = mul %i, %rows : index
      %column = mul %j, %columns : index
      %s = alloc_shared : smem<SHAPE)" +
         swizzle + R"(>
      %b = mbarrier_init count = 1 : mbarrier<1>
      barrier // after mbarrier_init
      mbarrier_expect %b, %zero, bytes = BYTES
      tma_load %x, %s, %b, %zero, %row, %column
      mbarrier_wait %b, %zero
      %t = shared_load %s : tile<SHAPE, #l>
      store %t, %y, %row, %column, mask = [1], vec = 1
      return
    }
  )";
}

std::string filled(std::string text, std::initializer_list<std::pair<std::string_view, std::string>> holes) {
  for (const auto &[name, value] : holes)
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, name.size(), value);
  return text;
}

struct CopyShape {
  DType dtype;
  int64_t columns, box, swizzle; ///< Elements of a row, elements of a row of the box, bytes.
};

Outcome runTmaCopy(const CopyShape &shape, const HostTensor &x) {
  std::string type = std::to_string(shape.columns) + "x" + std::string(dtypeName(shape.dtype));
  std::string swizzle = shape.swizzle ? ", #swizzle" + std::to_string(shape.swizzle) : "";
  std::string box = std::to_string(shape.box),
              layout = "reg = [0:16@1, 1:" + std::to_string(shape.box / 32) + "@32], lane = [1:32@1], warp = []";
  std::string text =
      filled(tmaCopy(type, "16, " + box, swizzle, layout), {{"COLUMNS", box},
                                                            {"SHAPE", "16x" + box + "x" + std::string(dtypeName(shape.dtype))},
                                                            {"BYTES", std::to_string(16 * shape.box * dtypeBytes(shape.dtype))}});
  return runKernel(text, {2, 2}, {x}, {HostTensor(shape.dtype, {32, shape.columns})});
}

TEST(Async, TmaLoadsBoxes) {
  // Swizzles of all widths, boxes of one and of several slabs, edges along both axes.
  for (CopyShape shape : {CopyShape{DType::BF16, 48, 32, 0},
                          {DType::F32, 36, 32, 128},
                          {DType::BF16, 40, 32, 64},
                          {DType::BF16, 48, 32, 32},
                          {DType::BF16, 192, 128, 128},
                          {DType::F32, 96, 64, 128}}) {
    HostTensor x = random(shape.dtype, {20, shape.columns}, 21);
    Outcome out = runTmaCopy(shape, x);
    ASSERT_EQ(out.error, "");
    for (int64_t i = 0; i < 32 * shape.columns; ++i)
      EXPECT_EQ(out.outputs[0].get(i), i < x.numElements() ? x.get(i) : 0) << i << ", swizzle " << shape.swizzle;
    EXPECT_EQ(out.traffic.buffers[0].issuedRead, x.numElements() * dtypeBytes(shape.dtype));
  }
}

TEST(Async, BoxesStartAtWholePieces) {
  // The index is no constant, so that the verifier cannot know it.
  const std::string text = R"(
  kernel @k(%x: tensor_map<8x192xbf16, box = [8, 128], #swizzle128>, %y: buffer<2xf32>) at machine, threads = 32 {
    %p = program_id grid = [2] : index
    %zero = constant 0 : index
    %step = constant 64 : index
    %at = mul %p, %step : index
    %s = alloc_shared : smem<8x128xbf16, #swizzle128>
    %b = mbarrier_init count = 1 : mbarrier<1>
    barrier
    mbarrier_expect %b, %zero, bytes = 2048
    tma_load %x, %s, %b, %zero, %zero, %at
    mbarrier_wait %b, %zero
    %t = constant 1.0 : tile<1xf32, #layout<reg = [], lane = [_:32], warp = []>>
    store %t, %y, %p, mask = [], vec = 1
    return
  })";
  HostTensor x = random(DType::BF16, {8, 192}, 23);
  EXPECT_EQ(runKernel(text, {2}, {x}, {HostTensor(DType::F32, {2})}).error, "");
  EXPECT_EQ(runKernel(replaced(text, "constant 64", "constant 8"), {2}, {x}, {HostTensor(DType::F32, {2})}).error, "");
  Outcome out = runKernel(replaced(text, "constant 64", "constant 4"), {2}, {x}, {HostTensor(DType::F32, {2})});
  EXPECT_EQ(out.code, ErrorCode::OutOfBounds);
  EXPECT_TRUE(has(out.error, "starts at a multiple of 16 bytes, of 8 elements of the last axis, not at 4")) << out.error;
}

/// y = x by a tma_load of 8x32, with what the tests plant.
const std::string load = R"(
  #l = layout<reg = [0:8@1], lane = [1:32@1], warp = []>
  kernel @k(%x: tensor_map<8x32xf32, box = [8, 32], #swizzle128>, %y: buffer<8x32xf32>) at machine, threads = 32 {
    %zero = constant 0 : index
    %one = constant 1 : index
    %s = alloc_shared : smem<8x32xf32, #swizzle128>
    %b = mbarrier_init count = 1 : mbarrier<1>
    barrier // after mbarrier_init
    mbarrier_expect %b, %zero, bytes = 1024
    tma_load %x, %s, %b, %zero, %zero, %zero
    mbarrier_wait %b, %zero
    %t = shared_load %s : tile<8x32xf32, #l>
    store %t, %y, %zero, %zero, mask = [], vec = 1
    return
  }
)";

Outcome runLoad(std::string_view from = "return", std::string_view to = "return") {
  HostTensor x = random(DType::F32, {8, 32}, 22);
  Outcome out = runKernel(replaced(load, from, to), {1}, {x}, {HostTensor(DType::F32, {8, 32})});
  if (out.error.empty()) {
    EXPECT_EQ(numbers(out.outputs[0]), numbers(x));
  }
  return out;
}

TEST(Async, TmaLoadNeedsAWait) {
  EXPECT_EQ(runLoad().error, "");
  Outcome out = runLoad("mbarrier_wait %b, %zero", "");
  EXPECT_EQ(out.code, ErrorCode::UndefinedRead);
  EXPECT_TRUE(has(out.error, "at [0, 0] is read before the mbarrier_wait that covers its tma_load")) << out.error;
  EXPECT_TRUE(has(out.error, "first: tma_load %x")) << out.error;
  // A wait for another phase: the hardware would let it pass, and the data may not be there.
  Outcome previous = runLoad("mbarrier_wait %b, %zero", "mbarrier_wait %b, %one, lap = previous");
  EXPECT_EQ(previous.error, ""); // Of lap 1, the lap before is the right one.
  Outcome later = runLoad("mbarrier_wait %b, %zero", "mbarrier_wait %b, %one");
  EXPECT_EQ(later.code, ErrorCode::Deadlock) << later.error;
}

TEST(Async, TmaLoadOverwritesNothingUnordered) {
  const std::string again = "mbarrier_expect %b, %one, bytes = 1024\n tma_load %x, %s, %b, %one, %zero, %zero\n ";
  Outcome early = runLoad("mbarrier_wait %b, %zero", again + "mbarrier_wait %b, %one");
  EXPECT_EQ(early.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(early.error, "is written before the mbarrier_wait that covers its tma_load")) << early.error;
  Outcome ordered = runLoad("mbarrier_wait %b, %zero", "mbarrier_wait %b, %zero\n " + again + "mbarrier_wait %b, %one");
  EXPECT_EQ(ordered.error, "");
  Outcome unread = runLoad("return", again + "mbarrier_wait %b, %one\n return");
  EXPECT_EQ(unread.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(unread.error, "first: %t = shared_load")) << unread.error;
  EXPECT_EQ(runLoad("return", "barrier\n " + again + "mbarrier_wait %b, %one\n return").error, "");
}

TEST(Async, BytesMustBeExpected) {
  Outcome more = runLoad("bytes = 1024", "bytes = 1008");
  EXPECT_EQ(more.code, ErrorCode::MbarrierMisuse);
  EXPECT_TRUE(has(more.error, "more bytes arrive at an mbarrier than were expected: 1024")) << more.error;
  Outcome fewer = runLoad("bytes = 1024", "bytes = 2048");
  EXPECT_EQ(fewer.code, ErrorCode::Deadlock);
  EXPECT_TRUE(has(fewer.error, "the kernel waits in: mbarrier_wait %b, %zero, where phase 0 has 1 of 1 arrival and 1024 bytes to "
                               "come"))
      << fewer.error;
}

TEST(Async, ArrivalsAreCounted) {
  Outcome many =
      runLoad("mbarrier_expect %b, %zero, bytes = 1024", "mbarrier_expect %b, %zero, bytes = 1024\n mbarrier_arrive %b, %zero");
  EXPECT_EQ(many.code, ErrorCode::MbarrierMisuse);
  EXPECT_TRUE(has(many.error, "1 arrival more at an mbarrier whose phase 0 has 1 of 1 arrival and 1024 bytes to come"))
      << many.error;
  Outcome few = runLoad("count = 1", "count = 2");
  EXPECT_EQ(few.code, ErrorCode::Deadlock);
  EXPECT_TRUE(has(few.error, "phase 0 has 1 of 2 arrivals")) << few.error;
}

TEST(Async, WaitsSeeTheLatestPhaseOnly) {
  // Phase 1 completes before anybody waits for phase 0: whether the wait passes is a matter of time.
  Outcome out = runLoad("mbarrier_wait %b, %zero", "mbarrier_expect %b, %zero, bytes = 0\n mbarrier_wait %b, %zero");
  EXPECT_EQ(out.code, ErrorCode::MbarrierMisuse);
  EXPECT_TRUE(has(out.error, "it waits for phase 0 by its parity, but 2 phases are complete")) << out.error;
}

TEST(Async, MbarriersStartBehindABarrier) {
  Outcome out = runLoad("barrier // after mbarrier_init", "");
  EXPECT_EQ(out.code, ErrorCode::SharedRace); // The first thread may use it, but all threads wait.
  EXPECT_TRUE(has(out.error, "no barrier after its mbarrier_init")) << out.error;
  EXPECT_TRUE(has(out.error, "then: mbarrier_wait")) << out.error;
}

TEST(Async, RingPositionsCountUp) {
  Outcome out = runLoad("mbarrier_wait %b, %zero", "%minus = sub %zero, %one : index\n mbarrier_wait %b, %minus");
  EXPECT_EQ(out.code, ErrorCode::OutOfBounds);
  EXPECT_TRUE(has(out.error, "the ring position -1 is negative")) << out.error;
}

TEST(Async, TmaLoadReadsWhatIsDefined) {
  Outcome out = runKernel(load, {1}, {}, {HostTensor(DType::F32, {8, 32}), HostTensor(DType::F32, {8, 32})});
  EXPECT_EQ(out.code, ErrorCode::UndefinedRead);
  EXPECT_TRUE(has(out.error, "'x' at [0, 0] is read, and nothing has written it")) << out.error;
}

//===-- Roles ---------------------------------------------------------------------------------------------------------------===//

/// A ring of two stages: `give` stores numbers to it, two instances of `take` read them and add 1. y[2 n + i] of instance i.
const std::string ring = R"(
  #l = layout<reg = [], lane = [0:32@1], warp = [0:2@32]>
  kernel @k(%x: buffer<320xf32>, %y: buffer<640xf32>) at machine, threads = 192 {
    %zero = constant 0 : index
    %one = constant 1 : index
    %two = constant 2 : index
    %five = constant 5 : index
    %c64 = constant 64 : index
    %s = alloc_shared : smem<64xf32, stages = 2>
    %full = mbarrier_init count = 2 : mbarrier<2>
    %empty = mbarrier_init count = 4 : mbarrier<2>
    barrier // after mbarrier_init
    role give, warps = 2 {
      for %zero, %five, %one { ^(%n: index):
        mbarrier_wait %empty, %n, lap = previous
        %at = mul %n, %c64 : index
        %v = load %x, %at, mask = [], vec = 1 : tile<64xf32, #l>
        %to = stage %s, %n : smem<64xf32>
        shared_store %v, %to
        mbarrier_arrive %full, %n
        yield
      }
      yield
    }
    role take, warps = 2, instances = 2 { ^(%i: index):
      %ones = constant 1.0 : tile<64xf32, #l>
      for %zero, %five, %one { ^(%n: index):
        mbarrier_wait %full, %n
        %from = stage %s, %n : smem<64xf32>
        %v = shared_load %from : tile<64xf32, #l>
        mbarrier_arrive %empty, %n // when it has read
        %w = add %v, %ones : tile<64xf32, #l>
        %pair = mul %n, %two : index
        %number = add %pair, %i : index
        %at = mul %number, %c64 : index
        store %w, %y, %at, mask = [], vec = 1
        yield
      }
      yield
    }
    return
  }
)";

Outcome runRing(const std::string &text) {
  HostTensor x = random(DType::F32, {320}, 23);
  Outcome out = runKernel(text, {1}, {x}, {HostTensor(DType::F32, {640})});
  for (int64_t n = 0; n < 640 && out.error.empty(); ++n)
    EXPECT_EQ(out.outputs[0].get(n), float(x.get(n / 128 * 64 + n % 64)) + 1.0f);
  return out;
}

TEST(Async, RolesShareARing) { EXPECT_EQ(runRing(ring).error, ""); }

TEST(Async, RolesRaceWithoutMbarriers) {
  Outcome full = runRing(replaced(ring, "mbarrier_wait %full, %n", ""));
  EXPECT_EQ(full.code, ErrorCode::SharedRace) << full.error;
  EXPECT_TRUE(has(full.error, "role 'take' 0: two roles touch shared memory at [0]")) << full.error;
  EXPECT_TRUE(has(full.error, "first: shared_store %v, %to")) << full.error;
  EXPECT_TRUE(has(full.error, "fix: wait on an mbarrier that the other arrives at")) << full.error;
  // One instance is waited for, the other is not.
  std::string one = replaced(ring, "mbarrier_arrive %empty, %n // when it has read",
                             "%mine = compare eq %i, %zero : i1\n mbarrier_arrive %empty, %n, %mine");
  Outcome half = runRing(replaced(one, "count = 4", "count = 2"));
  EXPECT_EQ(half.code, ErrorCode::SharedRace) << half.error;
  EXPECT_TRUE(has(half.error, "role 'give': two roles touch")) << half.error;
}

TEST(Async, ArrivalsComeAfterTheReads) {
  std::string early = replaced(ring, "mbarrier_arrive %empty, %n // when it has read", "");
  Outcome out = runRing(replaced(early, "%v = shared_load", "mbarrier_arrive %empty, %n\n %v = shared_load"));
  EXPECT_EQ(out.code, ErrorCode::SharedRace) << out.error;
  EXPECT_TRUE(has(out.error, "first: %v = shared_load %from")) << out.error;
}

TEST(Async, RolesThatWaitForEachOther) {
  // As many arrivals as one instance makes, asked of both.
  Outcome out = runRing(replaced(ring, "count = 4", "count = 6"));
  EXPECT_EQ(out.code, ErrorCode::Deadlock);
  EXPECT_TRUE(has(out.error, "kernel 'k', program (0): operations wait for each other forever")) << out.error;
  EXPECT_TRUE(has(out.error, "role 'give' waits in: mbarrier_wait %empty, %n, lap = previous, where phase 0 has 4 of 6 arrivals"))
      << out.error;
  EXPECT_TRUE(has(out.error, "role 'take' 1 waits in: mbarrier_wait %full, %n, where phase 1 has 0 of 2 arrivals")) << out.error;
}

TEST(Async, ParityIsAllThatTheHardwareKnows) {
  // Phase 1 of an mbarrier that has completed none: its parity is that of phase -1, which counts as over.
  Outcome out =
      runLoad("mbarrier_expect %b, %zero, bytes = 1024", "mbarrier_wait %b, %one\n mbarrier_expect %b, %zero, bytes = 1024");
  EXPECT_EQ(out.code, ErrorCode::MbarrierMisuse);
  EXPECT_TRUE(has(out.error, "it waits for phase 1 by its parity, but 0 phases are complete")) << out.error;
}

/// Threads of the body store, a role reads.
std::string bodyThenRole(const std::string &between) {
  return R"(
    #four = layout<reg = [], lane = [0:32@1], warp = [0:4@32]>
    #two = layout<reg = [0:2@64], lane = [0:32@1], warp = [0:2@32]>
    kernel @k(%x: buffer<128xf32>, %y: buffer<128xf32>) at machine, threads = 128 {
      %zero = constant 0 : index
      %s = alloc_shared : smem<128xf32>
      %v = load %x, %zero, mask = [], vec = 1 : tile<128xf32, #four>
      shared_store %v, %s
      )" +
         between + R"(
      role idle, warps = 2 {
        yield
      }
      role work, warps = 2 {
        %w = shared_load %s : tile<128xf32, #two>
        store %w, %y, %zero, mask = [], vec = 1
        yield
      }
      return
    }
  )";
}

TEST(Async, ABarrierOrdersTheBodyBeforeRoles) {
  HostTensor x = random(DType::F32, {128}, 24);
  Outcome out = runKernel(bodyThenRole("barrier"), {1}, {x}, {HostTensor(DType::F32, {128})});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(numbers(out.outputs[0]), numbers(x));
  Outcome race = runKernel(bodyThenRole(""), {1}, {x}, {HostTensor(DType::F32, {128})});
  EXPECT_EQ(race.code, ErrorCode::SharedRace);
  // Elements 64 and on were stored by the very threads that read them here: 0 is the first that was not.
  EXPECT_TRUE(has(race.error, "role 'work': two threads touch shared memory at [0]")) << race.error;
}

/// In each of two instances, elements change owners through a stage of its own.
std::string exchange(const std::string &between) {
  return R"(
    #l = layout<reg = [0:2@1], lane = [0:32@2], warp = [0:2@64]>
    #r = layout<reg = [0:2@64], lane = [0:32@1], warp = [0:2@32]>
    kernel @k(%x: buffer<256xf32>, %y: buffer<256xf32>) at machine, threads = 128 {
      %c128 = constant 128 : index
      %s = alloc_shared : smem<128xf32, stages = 2>
      role swap, warps = 2, instances = 2 { ^(%i: index):
        %at = mul %i, %c128 : index
        %mine = stage %s, %i : smem<128xf32>
        %v = load %x, %at, mask = [], vec = 1 : tile<128xf32, #l>
        shared_store %v, %mine
        )" +
         between + R"(
        %w = shared_load %mine : tile<128xf32, #r>
        store %w, %y, %at, mask = [], vec = 1
        yield
      }
      return
    }
  )";
}

TEST(Async, BarriersOfAnInstance) {
  HostTensor x = random(DType::F32, {256}, 25);
  Outcome out = runKernel(exchange("barrier"), {1}, {x}, {HostTensor(DType::F32, {256})});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(numbers(out.outputs[0]), numbers(x));
  Outcome race = runKernel(exchange(""), {1}, {x}, {HostTensor(DType::F32, {256})});
  EXPECT_EQ(race.code, ErrorCode::SharedRace);
  EXPECT_TRUE(has(race.error, "role 'swap' 0: two threads touch")) << race.error;
}

TEST(Async, StoresOfTwoRoles) {
  std::string text = filled(exchange("barrier"), {{"store %w, %y, %at", "store %w, %y, %c128"}});
  Outcome out = runKernel(text, {1}, {random(DType::F32, {256}, 26)}, {HostTensor(DType::F32, {256})});
  EXPECT_EQ(out.code, ErrorCode::LostStore);
  EXPECT_TRUE(has(out.error, "'y' at [128] is stored twice, by threads 0 and 64 of program (0)")) << out.error;
}

TEST(Async, ErrorsDoNotDependOnTheOrderOfPrograms) {
  std::string text = replaced(ring, "count = 4", "count = 6");
  for (uint64_t seed : {0, 1, 2}) {
    Outcome out = runKernel(text, {40}, {random(DType::F32, {320}, 23)}, {HostTensor(DType::F32, {640})}, {},
                            {.threads = 4, .shuffleSeed = seed});
    EXPECT_EQ(out.code, ErrorCode::Deadlock);
    EXPECT_TRUE(has(out.error, "program (0)")) << out.error;
  }
}

} // namespace
