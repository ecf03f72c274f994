// The mistakes that one makes in kernels of the machine level, each planted in a kernel that is right: the parser, the verifier or
// the interpreter has to name the mistake, not only its consequence.
#include "KernelFiles.h"

using namespace minic;
using namespace minic::test;

namespace {

/// Ten blocks of K, so that the ring of four stages goes round, and two tiles in each direction.
const DimBindings gemmDims = {{"M", 256}, {"K", 640}, {"N", 512}};
const DimBindings attentionDims = {{"M", 128}, {"B", 5}};

/// The code is that of the first finding, and all words stand in what is said together.
void expectSaid(const Diagnostics &found, ErrorCode code, const std::vector<std::string> &words) {
  ASSERT_FALSE(found.empty()) << "nothing was found";
  std::string said = errorText(found);
  EXPECT_EQ(errorCodeName(found[0].code), errorCodeName(code)) << said;
  for (const std::string &word : words)
    EXPECT_NE(said.find(word), std::string::npos) << "no '" << word << "' in\n" << said;
}

/// The text does not load.
void expectRefused(const std::string &text, ErrorCode code, const std::vector<std::string> &words) {
  expectSaid(refused(text), code, words);
}

/// The text loads, and the interpreter finds the mistake.
void expectCaught(const std::string &text, const DimBindings &dims, ErrorCode code, const std::vector<std::string> &words) {
  RunResult result = runText(text, dims);
  expectSaid(result.results ? Diagnostics() : result.results.takeErrors(), code, words);
}

std::string gemm(const std::string &from, const std::string &to) { return replaced(kernelText(gemmFile), from, to); }
std::string attention(const std::string &from, const std::string &to, int which = 0) {
  return replaced(kernelText(attentionFile), from, to, which);
}

TEST(KernelFault, TheUnchangedFilesRun) {
  for (auto [file, dims] : {std::pair(gemmFile, gemmDims), {attentionFile, attentionDims}}) {
    RunResult result = runText(kernelText(file), dims);
    EXPECT_TRUE(result.results) << errorText(result.results.errors());
  }
}

//===-- A wait that is missing ----------------------------------------------------------------------------------------------===//

TEST(KernelFault, NoWaitForWhatTmaBrings) {
  expectCaught(gemm("mbarrier_wait %full, %i\n", "\n"), gemmDims, ErrorCode::UndefinedRead,
               {"role 'consumer' 0", "is read before the mbarrier_wait that covers its tma_load",
                "first: tma_load %x, %xn, %full, %i", "then: %sum = wgmma nn %xw, %wn",
                "fix: put an `mbarrier_wait` for the tma_load's phase before"});
  expectCaught(
      attention("mbarrier_wait %q_full, %c0\n", "\n"), attentionDims, ErrorCode::UndefinedRead,
      {"role 'consumer' 0", "is read before the mbarrier_wait that covers its tma_load", "first: tma_load %q, %qs, %q_full"});
  expectCaught(attention("mbarrier_wait %v_full, %prev\n", "\n"), attentionDims, ErrorCode::UndefinedRead,
               {"is read before the mbarrier_wait that covers its tma_load", "first: tma_load %v, %vn, %v_full",
                "then: %o_new = wgmma nn %p_old, %vn"});
}

TEST(KernelFault, NoWaitForTheTensorCores) {
  const std::string wait = "%prod = wgmma_wait %last, pending = 0 : tile<64x256xf32, #acc>\n";
  expectRefused(replaced(gemm(wait, "\n"), "extract_tile %prod", "extract_tile %last"), ErrorCode::OperandType,
                {"`extract_tile` takes a tile here, not %last: inflight<tile<64x256xf32"});
  // It is not enough to call it one.
  expectRefused(gemm(wait, replaced(wait, "pending = 0", "pending = 1")), ErrorCode::BadStructure,
                {"`wgmma_wait` leaves the latest 1 group in flight, and that of %last may be one of them", "no tile yet",
                 "fix: wait with `pending = 0`"});
}

TEST(KernelFault, NoWaitBeforeAStageIsReleased) {
  std::string text = gemm("%held  = wgmma_wait %sum, pending = 1 : inflight<tile<64x256xf32, #acc>>\n", "\n");
  expectCaught(replaced(text, "yield %next, %held", "yield %next, %sum"), gemmDims, ErrorCode::SharedRace,
               {"role 'producer'", "is overwritten while a wgmma in flight still reads it", "first: %sum = wgmma nn",
                "then: tma_load %x, %xn", "fix: wait with `wgmma_wait` before"});
}

TEST(KernelFault, NoWaitForTmaStores) {
  expectCaught(gemm("tma_store_wait pending = 1\n", "\n"), gemmDims, ErrorCode::SharedRace,
               {"is overwritten while a tma_store in flight still reads it", "first: tma_store %buf, %y, %row, %cj",
                "then: stmatrix %out, %buf", "fix: wait with `tma_store_wait` before"});
  // Two buffers, so one store may be pending, not two.
  expectCaught(gemm("tma_store_wait pending = 1\n", "tma_store_wait pending = 2\n"), gemmDims, ErrorCode::SharedRace,
               {"is overwritten while a tma_store in flight still reads it"});
  expectCaught(gemm("tma_store_wait pending = 0\n", "\n"), gemmDims, ErrorCode::SharedRace,
               {"the text ends while a tma_store is in flight, without a tma_store_wait", "in: tma_store %buf, %y",
                "fix: put `tma_store_wait pending = 0` at the end"});
}

TEST(KernelFault, NoBarrierAroundStmatrix) {
  expectCaught(gemm("barrier\n        stmatrix", "stmatrix"), gemmDims, ErrorCode::SharedRace,
               {"role 'consumer' 0", "two threads touch shared memory", "no barrier is between", "first: tma_store %buf, %y",
                "then: stmatrix %out, %buf", "fix: put a `barrier` between the two"});
  expectCaught(gemm("barrier\n        tma_store", "tma_store"), gemmDims, ErrorCode::SharedRace,
               {"two threads touch shared memory", "no barrier is between", "first: stmatrix %out, %buf",
                "then: tma_store %buf, %y", "fix: put a `barrier` between the two"});
}

TEST(KernelFault, NoBarrierAfterMbarrierInit) {
  expectCaught(gemm("  barrier\n\n  role", "\n  role"), gemmDims, ErrorCode::SharedRace,
               {"an mbarrier is used, and no barrier after its mbarrier_init has made it visible to all threads",
                "first: %full = mbarrier_init", "fix: put a `barrier` after the `mbarrier_init`"});
}

TEST(KernelFault, NoProxyFence) {
  expectCaught(gemm("fence_async\n", "\n"), gemmDims, ErrorCode::UndefinedRead,
               {"was written by stores, which tma_store may not see without a fence_async, and a barrier after it",
                "first: stmatrix %out, %buf", "then: tma_store %buf, %y", "fix: put a `fence_async` and then a `barrier` between"});
  // Behind the barrier it is too late: the thread that starts the store fences only what it wrote itself.
  expectCaught(gemm("fence_async\n        barrier\n", "barrier\n        fence_async\n"), gemmDims, ErrorCode::UndefinedRead,
               {"may not see without a fence_async, and a barrier after it"});
}

//===-- Stages --------------------------------------------------------------------------------------------------------------===//

TEST(KernelFault, AStageReleasedWhileItIsRead) {
  // At once after the wgmma was started, for every position.
  std::string text = gemm("mbarrier_arrive %empty, %prev, %later\n", "mbarrier_arrive %empty, %i\n");
  text = replaced(text, "%prev = sub %i1, %c1 : index\n      mbarrier_arrive %empty, %prev\n", "\n");
  expectCaught(text, gemmDims, ErrorCode::SharedRace,
               {"role 'producer'", "two roles touch shared memory", "no mbarrier orders them", "first: %sum = wgmma nn %xw, %wn",
                "then: tma_load %x, %xn", "fix: wait on an mbarrier that the other arrives at"});
  // With its condition the first position is never released.
  expectCaught(gemm("mbarrier_arrive %empty, %prev, %later\n", "mbarrier_arrive %empty, %i, %later\n"), gemmDims,
               ErrorCode::Deadlock,
               {"role 'producer' waits in: mbarrier_wait %empty, %i, lap = previous, where phase 0 has 0 of 8"});
  // Before the wait of the second product.
  std::string v = attention("      mbarrier_arrive %v_empty, %prev\n", "");
  expectCaught(replaced(v, "mbarrier_arrive %k_empty, %n\n", "mbarrier_arrive %k_empty, %n\n mbarrier_arrive %v_empty, %prev\n"),
               attentionDims, ErrorCode::SharedRace,
               {"two roles touch shared memory", "first: %o_new = wgmma nn %p_old, %vn", "then: tma_load %v, %vn"});
}

TEST(KernelFault, AStageThatIsNotAwaited) {
  expectCaught(gemm("mbarrier_wait %empty, %i, lap = previous\n", "\n"), gemmDims, ErrorCode::SharedRace,
               {"is written before the mbarrier_wait that covers its tma_load"});
  expectCaught(gemm("mbarrier_wait %empty, %i, lap = previous", "mbarrier_wait %empty, %i"), gemmDims, ErrorCode::Deadlock,
               {"role 'producer' waits in: mbarrier_wait %empty, %i, where phase 0 has 0 of 8 arrivals"});
}

TEST(KernelFault, WrongBytes) {
  expectCaught(gemm("bytes = 49152", "bytes = 40960"), gemmDims, ErrorCode::MbarrierMisuse,
               {"role 'producer'", "more bytes arrive at an mbarrier than were expected: 32768", "24576 bytes to come",
                "tma_load %w, %wn, %full"});
  expectCaught(gemm("bytes = 49152", "bytes = 65536"), gemmDims, ErrorCode::Deadlock,
               {"operations wait for each other forever",
                "role 'consumer' 0 waits in: mbarrier_wait %full, %i, where phase 0 has 1 of 1 arrival and 16384 bytes to come",
                "role 'consumer' 1 waits in: mbarrier_wait %full, %i"});
  // What stands outside the tensor counts as well: a box is a box.
  expectCaught(gemm("bytes = 49152", "bytes = 4608"), {{"M", 8}, {"K", 8}, {"N", 64}}, ErrorCode::MbarrierMisuse,
               {"more bytes arrive at an mbarrier than were expected"});
}

TEST(KernelFault, WrongCounts) {
  expectCaught(gemm("%empty  = mbarrier_init count = 8", "%empty  = mbarrier_init count = 2"), gemmDims, ErrorCode::MbarrierMisuse,
               {"mbarrier_arrive %empty, %prev"});
  expectCaught(gemm("%empty  = mbarrier_init count = 8", "%empty  = mbarrier_init count = 256"), gemmDims, ErrorCode::Deadlock,
               {"role 'producer' waits in: mbarrier_wait %empty, %i, lap = previous, where phase 0 has 8 of 256 arrivals"});
}

TEST(KernelFault, WrongSwizzle) {
  const std::string map = "tensor_map<MxKxbf16, box = [128, 64], #swizzle128>";
  std::string wrong = replaced(map, "128>", "64>");
  std::string text = replaced(gemm("%x: " + map, "%x: " + wrong), "%xm = tensor_map %x : " + map, "%xm = tensor_map %x : " + wrong);
  expectRefused(text, ErrorCode::BadLayout,
                {"`tma_load` needs a map and memory of one swizzle: %x: " + wrong + ", %xn: smem<128x64xbf16, #swizzle128>"});
  // In memory and map alike, wgmma does not take it.
  text =
      replaced(text, "%xs     = alloc_shared : smem<128x64xbf16, #swizzle128", "%xs = alloc_shared : smem<128x64xbf16, #swizzle64");
  for (int i = 0; i < 2; ++i)
    text = replaced(text, "stage %xs, %i : smem<128x64xbf16, #swizzle128>", "stage %xs, %i : smem<128x64xbf16, #swizzle64>");
  text = replaced(text, ": smem<64x64xbf16, #swizzle128>\n        %later",
                  ": smem<64x64xbf16, #swizzle64, slab = 128>\n        %later");
  expectRefused(text, ErrorCode::BadLayout, {"`wgmma` needs one stage of shared memory with #swizzle128, not %xw: smem<"});
  // The launch gives another map than the kernel asks for.
  expectRefused(gemm("%xm = tensor_map %x : " + map, "%xm = tensor_map %x : " + wrong), ErrorCode::LaunchMismatch,
                {"gives %xm: " + wrong + " for parameter %x: " + map});
}

//===-- Accumulators --------------------------------------------------------------------------------------------------------===//

/// Two accumulators in flight, which a loop carries.
std::string twoAccumulators(const std::string &yielded) {
  return R"(
    #acc = layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>
    kernel @k() at machine, threads = 128 {
      %c0 = constant 0 : index
      %c1 = constant 1 : index
      %c4 = constant 4 : index
      %xs = alloc_shared : smem<64x64xbf16, #swizzle128>
      %ws = alloc_shared : smem<64x64xbf16, #swizzle128>
      %a0 = undefined : inflight<tile<64x64xf32, #acc>>
      %b0 = undefined : inflight<tile<64x64xf32, #acc>>
      %a2, %b2 = for %c0, %c4, %c1, %a0, %b0
          { ^(%i: index, %a: inflight<tile<64x64xf32, #acc>>, %b: inflight<tile<64x64xf32, #acc>>):
        %more = compare gt %i, %c0 : i1
        %a1 = wgmma nn %xs, %ws, %a, %more : inflight<tile<64x64xf32, #acc>>
        %b1 = wgmma nt %xs, %ws, %b, %more : inflight<tile<64x64xf32, #acc>>
        yield )" +
         yielded + R"(
      } : inflight<tile<64x64xf32, #acc>>, inflight<tile<64x64xf32, #acc>>
      %a3, %b3 = wgmma_wait %a2, %b2, pending = 0 : tile<64x64xf32, #acc>, tile<64x64xf32, #acc>
      return
    })";
}

TEST(KernelFault, PermutedAccumulators) {
  load(twoAccumulators("%a1, %b1"));
  expectRefused(twoAccumulators("%b1, %a1"), ErrorCode::BadStructure,
                {"accumulators in flight change places: %a of the loop gets those of %b",
                 "which would be copied while the tensor cores write them", "fix: yield the accumulators that came in as %a"});
}

TEST(KernelFault, OtherAccumulatorsThanTheLoops) {
  std::string text = gemm("%sum   = wgmma nn %xw, %wn, %acc, %later", "%sum = wgmma nn %xw, %wn");
  expectRefused(text, ErrorCode::BadStructure,
                {"accumulators in flight change places: %acc of the loop gets accumulators that are not its own",
                 "which would be copied while the tensor cores write them"});
}

TEST(KernelFault, AccumulatorsTouchedInFlight) {
  std::string text =
      gemm("%held  = wgmma_wait %sum,", "%pos = relu %sum : inflight<tile<64x256xf32, #acc>>\n %held = wgmma_wait %pos,");
  Diagnostics found = refused(text);
  ASSERT_TRUE(says(found, ErrorCode::OperandType)) << errorText(found);
  std::string said = errorText(found);
  EXPECT_NE(said.find("`relu` reads accumulators that are in flight: the tensor cores may not have written them yet: %sum"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("fix: wait first: `wgmma_wait %sum, pending = 0`"), std::string::npos) << said;
  // Beside the wait: a second use, which would be a copy.
  expectRefused(gemm("%held  = wgmma_wait", "%pos = relu %sum : inflight<tile<64x256xf32, #acc>>\n %held = wgmma_wait"),
                ErrorCode::BadStructure,
                {"the accumulators in flight that `wgmma` gives are used 2 times: the tensor cores write one copy"});
}

TEST(KernelFault, AccumulatorsThatHoldNothing) {
  expectCaught(gemm("%later = compare gt %at, %c0 : i1", "%later = compare ge %at, %c0 : i1"), gemmDims, ErrorCode::UndefinedRead,
               {"wgmma nn %xw, %wn, %acc, %later"});
}

//===-- Roles ---------------------------------------------------------------------------------------------------------------===//

TEST(KernelFault, MoreRegistersThanTheCtaHas) {
  expectRefused(gemm("regs = 24", "regs = 40"), ErrorCode::BadStructure,
                {"the roles take 128 * 40 + 256 * 240 = 66560 registers, but the CTA starts with 384 * 168 = 64512",
                 "setmaxnreg would wait for the rest forever", "fix: lower `regs` of a role"});
  load(gemm("regs = 240", "regs = 232"));
}

TEST(KernelFault, NobodyReleasesTheStages) {
  expectCaught(gemm("mbarrier_arrive %empty, %prev, %later\n", "\n"), gemmDims, ErrorCode::Deadlock,
               {"kernel 'gemm_bias_relu_128x256'", "operations wait for each other forever",
                "role 'producer' waits in: mbarrier_wait %empty, %i, lap = previous, where phase 0 has 0 of 8 arrivals",
                "role 'consumer' 0 waits in: mbarrier_wait %full, %i, where phase 1 has 0 of 1 arrival",
                "role 'consumer' 1 waits in: mbarrier_wait %full, %i"});
}

/// Each role waits for the other's arrival, then makes its own.
const std::string crossed = R"(
  #l = layout<reg = [], lane = [0:32@1], warp = [_:2]>
  kernel @crossed(%x: buffer<32xf32>, %y: buffer<32xf32>) at machine, threads = 64 {
    %c0 = constant 0 : index
    %v = load %x, %c0, mask = [], vec = 1 : tile<32xf32, #l>
    store %v, %y, %c0, mask = [], vec = 1
    %a = mbarrier_init count = 1 : mbarrier<1>
    %b = mbarrier_init count = 1 : mbarrier<1>
    barrier
    role left, warps = 1 {
      mbarrier_wait %b, %c0
      mbarrier_arrive %a, %c0
      yield
    }
    role right, warps = 1 {
      mbarrier_wait %a, %c0
      mbarrier_arrive %b, %c0
      yield
    }
    return
  }
  plan @p(%x: buffer<32xf32>) -> (y: buffer<32xf32>) {
    %y = alloc : buffer<32xf32>
    launch @crossed(%x, %y), grid = [1]
    return %y
  })";

TEST(KernelFault, RolesThatWaitForEachOther) {
  expectCaught(crossed, {}, ErrorCode::Deadlock,
               {"operations wait for each other forever",
                "role 'left' waits in: mbarrier_wait %b, %c0, where phase 0 has 0 of 1 arrival",
                "role 'right' waits in: mbarrier_wait %a, %c0, where phase 0 has 0 of 1 arrival"});
  std::string fine =
      replaced(crossed, "mbarrier_wait %b, %c0\n      mbarrier_arrive %a, %c0", "mbarrier_arrive %a, %c0\n mbarrier_wait %b, %c0");
  RunResult result = runText(fine, {});
  EXPECT_TRUE(result.results) << errorText(result.results.errors());
}

//===-- Tensor maps ---------------------------------------------------------------------------------------------------------===//

TEST(KernelFault, UnalignedTensorMaps) {
  expectCaught(kernelText(gemmFile), {{"M", 128}, {"K", 64}, {"N", 321}}, ErrorCode::LaunchMismatch,
               {"kernel 'gemm_bias_relu_128x256'", "the parameter 'w' has rows of 642 bytes, but TMA needs a multiple of 16"});
  expectCaught(kernelText(gemmFile), {{"M", 128}, {"K", 68}, {"N", 256}}, ErrorCode::LaunchMismatch,
               {"the parameter 'x' has rows of 136 bytes"});
}

TEST(KernelFault, UnalignedTensorMapsInTheText) {
  auto text = [](const std::string &columns) {
    return "kernel @k(%x: tensor_map<64x" + columns +
           "xbf16, box = [64, 64], #swizzle128>) at machine, threads = 32 {\n  return\n}\n";
  };
  load(text("1008"));
  expectRefused(text("1001"), ErrorCode::BadLayout,
                {"parameter %x of kernel @k", "has rows of 2002 bytes, but TMA needs a multiple of 16"});
}

} // namespace
