// Kernels at the tile level: lanes outside a tensor are absent.
#include "InterpTest.h"

#include <limits>

using namespace minic;
using namespace minic::test;

namespace {

const double inf = std::numeric_limits<double>::infinity();

const std::string vectorAdd = R"(
  kernel @add(%x: buffer<Nxf32>, %y: buffer<Nxf32>, %z: buffer<Nxf32>) at tile {
    %p = program_id grid = [ceildiv(N, 4)] : index
    %four = constant 4 : index
    %i = mul %p, %four : index
    %a = load %x, %i : tile<4xf32>
    %b = load %y, %i : tile<4xf32>
    %c = add %a, %b : tile<4xf32>
    store %c, %z, %i
    return
  }
)";

/// One tile of 4 at `index` of x, reduced by `word` to y[0].
std::string reduction(const std::string &word, const std::string &index) {
  return R"(
    kernel @r(%x: buffer<Nxf32>, %y: buffer<1xf32>) at tile {
      %i = constant )" +
         index + R"( : index
      %zero = constant 0 : index
      %a = load %x, %i : tile<4xf32>
      %b = reduce )" +
         word + R"( %a, axes = [0] : tile<1xf32>
      store %b, %y, %zero
      return
    }
  )";
}

TEST(Tile, VectorAddWithAPartialTile) {
  Outcome out = runKernel(vectorAdd, {3}, {iota(10), iota(10, 100)}, {HostTensor(DType::F32, {10})}, {{"N", 10}});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(numbers(out.outputs[0]), (std::vector<double>{100, 102, 104, 106, 108, 110, 112, 114, 116, 118}));
  ASSERT_EQ(out.traffic.buffers.size(), 3u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(out.traffic.buffers[size_t(i)].distinctRead, 40);
    EXPECT_EQ(out.traffic.buffers[size_t(i)].issuedRead, 40);
    EXPECT_EQ(out.traffic.buffers[size_t(i)].distinctWritten, 0);
  }
  EXPECT_EQ(out.traffic.buffers[2].distinctWritten, 40);
  EXPECT_EQ(out.traffic.total().issuedRead, 80);
  EXPECT_EQ(out.traffic.total().issuedWritten, 40);
}

TEST(Tile, SizesAroundTheTile) {
  for (int64_t n : {1, 3, 4, 5, 8, 257}) {
    Outcome out = runKernel(vectorAdd, {(n + 3) / 4}, {iota(n), iota(n, 5)}, {HostTensor(DType::F32, {n})}, {{"N", n}});
    ASSERT_EQ(out.error, "") << n;
    for (int64_t i = 0; i < n; ++i)
      EXPECT_EQ(out.outputs[0].get(i), 2.0 * double(i) + 5) << n;
  }
  Outcome none = runKernel(vectorAdd, {0}, {iota(0), iota(0)}, {HostTensor(DType::F32, {0})}, {{"N", 0}});
  EXPECT_EQ(none.error, "");
}

TEST(Tile, OrderAndThreadsChangeNothing) {
  HostTensor x(DType::F32, {1000}), y(DType::F32, {1000});
  fillRandom(x, 1);
  fillRandom(y, 2);
  Outcome one = runKernel(vectorAdd, {250}, {x, y}, {HostTensor(DType::F32, {1000})}, {{"N", 1000}}, {.threads = 1});
  ASSERT_EQ(one.error, "");
  for (uint64_t seed : {1, 2, 99}) {
    Outcome other =
        runKernel(vectorAdd, {250}, {x, y}, {HostTensor(DType::F32, {1000})}, {{"N", 1000}}, {.threads = 3, .shuffleSeed = seed});
    ASSERT_EQ(other.error, "");
    EXPECT_EQ(numbers(other.outputs[0]), numbers(one.outputs[0]));
    EXPECT_EQ(other.traffic.total().issuedRead, one.traffic.total().issuedRead);
  }
}

TEST(Tile, InBoundsIsTheMask) {
  Outcome out = runKernel(R"(
    kernel @m(%y: buffer<12xi1>) at tile {
      %p = program_id grid = [3] : index
      %four = constant 4 : index
      %i = mul %p, %four : index
      %m = in_bounds %i, axis = 0, size = N : tile<4xi1>
      store %m, %y, %i
      return
    }
  )",
                          {3}, {}, {HostTensor(DType::I1, {12})}, {{"N", 10}});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(numbers(out.outputs[0]), (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
}

TEST(Tile, ReduceSkipsAbsentLanes) {
  HostTensor x = tensor({6}, {0, 0, 0, 0, -3, -5});
  auto reduced = [&](const std::string &word, const std::string &index) {
    Outcome out = runKernel(reduction(word, index), {1}, {x}, {HostTensor(DType::F32, {1})}, {{"N", 6}});
    EXPECT_EQ(out.error, "");
    return out.outputs.empty() ? std::numeric_limits<double>::quiet_NaN() : out.outputs[0].get(0);
  };
  EXPECT_EQ(reduced("max", "4"), -3);
  EXPECT_EQ(reduced("min", "4"), -5);
  EXPECT_EQ(reduced("sum", "4"), -8);
  EXPECT_EQ(reduced("sum", "8"), 0);
  EXPECT_EQ(reduced("max", "8"), -inf);
  EXPECT_EQ(reduced("min", "8"), inf);
}

TEST(Tile, ReduceHalves) {
  // (x0 + x2) + (x1 + x3): 0 + 2. From left to right it would be 1.
  Outcome four = runKernel(reduction("sum", "0"), {1}, {tensor({4}, {1e8, 1, -1e8, 1})}, {HostTensor(DType::F32, {1})}, {{"N", 4}});
  ASSERT_EQ(four.error, "");
  EXPECT_EQ(four.outputs[0].get(0), 2);
  // Six lanes split at four: (x0 + x4) + x2 and (x1 + x5) + x3, here (1e8 - 1e8) + 1 and (1 + 1) + 1.
  Outcome six = runKernel(R"(
    kernel @r(%x: buffer<6xf32>, %y: buffer<1xf32>) at tile {
      %zero = constant 0 : index
      %a = load %x, %zero : tile<6xf32>
      %b = reduce sum %a, axes = [0] : tile<1xf32>
      store %b, %y, %zero
      return
    }
  )",
                          {1}, {tensor({6}, {1e8, 1, 1, 1, -1e8, 1})}, {HostTensor(DType::F32, {1})});
  ASSERT_EQ(six.error, "");
  EXPECT_EQ(six.outputs[0].get(0), 4);
}

TEST(Tile, ReduceInTheOrderOfTheSchedule) {
  // A thread holds 0, 1, 64, 65; lanes come last. x0 + x1 is 0 before lane 1 adds its 1; halving would lose that 1 to 1e8.
  std::vector<double> x(128);
  x[0] = 1e8, x[1] = -1e8, x[2] = 1;
  auto text = [](const std::string &schedule) {
    return R"(
      kernel @r(%x: buffer<128xf32>, %y: buffer<1xf32>) at tile)" +
           schedule + R"( {
        %zero = constant 0 : index
        %a = load %x, %zero : tile<128xf32>
        %b = reduce sum %a, axes = [0] : tile<1xf32>
        store %b, %y, %zero
        return
      }
    )";
  };
  auto run = [&](const std::string &schedule) {
    return runKernel(text(schedule), {1}, {tensor({128}, x)}, {HostTensor(DType::F32, {1})});
  };
  Outcome plain = run(""), scheduled = run(", schedule = #rows<block = [128], warps = [1], lanes = [32], vec = 2>");
  ASSERT_EQ(plain.error, "");
  ASSERT_EQ(scheduled.error, "");
  EXPECT_EQ(plain.outputs[0].get(0), 0);
  EXPECT_EQ(scheduled.outputs[0].get(0), 1);
}

TEST(Tile, RegionReducesPairs) {
  // The largest value and where it stands; two axes, the later one first.
  Outcome out = runKernel(R"(
    kernel @argmax(%x: buffer<2x3xf32>, %k: buffer<2x3xi32>, %m: buffer<1xf32>, %at: buffer<1xi32>) at tile {
      %zero = constant 0 : index
      %a = load %x, %zero, %zero, dims = [0, 1] : tile<4x4xf32>
      %b = load %k, %zero, %zero, dims = [0, 1] : tile<4x4xi32>
      %r, %s = reduce %a, %b, axes = [0, 1], init = [-inf, -1] {
      ^(%p: f32, %q: i32, %u: f32, %v: i32):
        %first = compare ge %p, %u : i1
        %value = select %first, %p, %u : f32
        %where = select %first, %q, %v : i32
        yield %value, %where
      } : tile<1x1xf32>, tile<1x1xi32>
      store %r, %m, %zero, dims = [0]
      store %s, %at, %zero, dims = [0]
      return
    }
  )",
                          {1}, {tensor({2, 3}, {-4, -9, -2, -1, -7, -3}), tensor({2, 3}, {0, 1, 2, 3, 4, 5}, DType::I32)},
                          {HostTensor(DType::F32, {1}), HostTensor(DType::I32, {1})});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(out.outputs[0].get(0), -1);
  EXPECT_EQ(out.outputs[1].get(0), 3);
}

TEST(Tile, SixteenBitSumsAccumulateInF32) {
  // In f16, 2048 + 1 is 2048.
  Outcome out =
      runKernel(R"(
    kernel @r(%x: buffer<4xf16>, %y: buffer<1xf16>, %z: buffer<1xf32>) at tile {
      %zero = constant 0 : index
      %a = load %x, %zero : tile<4xf16>
      %b = reduce sum %a, axes = [0] : tile<1xf16>
      %c = reduce sum %a, axes = [0] : tile<1xf32>
      store %b, %y, %zero
      store %c, %z, %zero
      return
    }
  )",
                {1}, {tensor({4}, {2048, 1, 0, 2}, DType::F16)}, {HostTensor(DType::F16, {1}), HostTensor(DType::F32, {1})});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(out.outputs[0].get(0), 2052) << "2051 rounds to even";
  EXPECT_EQ(out.outputs[1].get(0), 2051);
}

const std::string dotKernel = R"(
  kernel @d(%x: buffer<2x3xf32>, %w: buffer<3x2xf32>, %b: buffer<2xf32>, %y: buffer<2x2xf32>) at tile {
    %zero = constant 0 : index
    %x0 = load %x, %zero, %zero, dims = [0, 2] : tile<2x1x4xf32>
    %w0 = load %w, %zero, %zero, dims = [2, 1] : tile<1x2x4xf32>
    %b0 = load %b, %zero, dims = [1] : tile<1x2x1xf32>
    %c = constant 0.0 : tile<2x2x1xf32>
    %a = dot %x0, %w0, %c, axes = [2] : tile<2x2x1xf32>
    %bb = broadcast %b0 : tile<2x2x1xf32>
    %z = add %a, %bb : tile<2x2x1xf32>
    %r = relu %z : tile<2x2x1xf32>
    store %r, %y, %zero, %zero, dims = [0, 1]
    return
  }
)";

TEST(Tile, DotSkipsAbsentPositions) {
  Outcome out = runKernel(dotKernel, {1},
                          {tensor({2, 3}, {1, -2, 3, 0, 1, -1}), tensor({3, 2}, {1, 2, 0, -1, -1, 1}), tensor({2}, {0.5, -1})},
                          {HostTensor(DType::F32, {2, 2})});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(numbers(out.outputs[0]), (std::vector<double>{0, 6, 1.5, 0}));
}

TEST(Tile, DotOfOtherTypes) {
  auto text = [](const std::string &type, const std::string &acc) {
    std::string result = R"(
      kernel @d(%x: buffer<1x2xT>, %w: buffer<2x1xT>, %y: buffer<1x1xA>) at tile {
        %zero = constant 0 : index
        %x0 = load %x, %zero, %zero, dims = [0, 2] : tile<1x1x2xT>
        %w0 = load %w, %zero, %zero, dims = [2, 1] : tile<1x1x2xT>
        %c = constant 1 : tile<1x1x1xA>
        %a = dot %x0, %w0, %c, axes = [2] : tile<1x1x1xA>
        store %a, %y, %zero, %zero, dims = [0, 1]
        return
      }
    )";
    for (size_t at; (at = result.find("xT")) != std::string::npos;)
      result.replace(at + 1, 1, type);
    for (size_t at; (at = result.find("xA")) != std::string::npos;)
      result.replace(at + 1, 1, acc);
    return result;
  };
  auto run = [&](DType t, DType acc, std::vector<double> x, std::vector<double> w) {
    std::string one = text(std::string(dtypeName(t)), std::string(dtypeName(acc)));
    if (isFloat(acc))
      one.replace(one.find("constant 1 "), 11, "constant 1.0 ");
    Outcome out = runKernel(one, {1}, {tensor({1, 2}, x, t), tensor({2, 1}, w, t)}, {HostTensor(acc, {1, 1})});
    EXPECT_EQ(out.error, "");
    return out.outputs.empty() ? 0 : out.outputs[0].get(0);
  };
  EXPECT_EQ(run(DType::I32, DType::I32, {65536, 3}, {65536, 5}), 16) << "2^32 wraps away";
  // 257 is no bf16 and 2049 no f16: products and sums are f32.
  EXPECT_EQ(run(DType::BF16, DType::F32, {16, 3}, {16, 5}), 272);
  EXPECT_EQ(run(DType::F16, DType::F32, {64, 0}, {32, 1}), 2049);
  EXPECT_EQ(run(DType::F64, DType::F64, {1e8, 1}, {1e8, 2}), 1e16 + 2) << "1e16 + 1 is no f64";
}

TEST(Tile, LoopsCarryValues) {
  // 0 + 1 + ... + 9 in blocks of 4.
  Outcome out = runKernel(R"(
    kernel @s(%x: buffer<Nxf32>, %y: buffer<1xf32>) at tile {
      %zero = constant 0 : index
      %n = dim N : index
      %four = constant 4 : index
      %start = constant 0.0 : tile<1xf32>
      %sum = for %zero, %n, %four, %start {
      ^(%i: index, %acc: tile<1xf32>):
        %a = load %x, %i : tile<4xf32>
        %b = reduce sum %a, axes = [0] : tile<1xf32>
        %next = add %acc, %b : tile<1xf32>
        yield %next
      } : tile<1xf32>
      store %sum, %y, %zero
      return
    }
  )",
                          {1}, {iota(10)}, {HostTensor(DType::F32, {1})}, {{"N", 10}});
  ASSERT_EQ(out.error, "");
  EXPECT_EQ(out.outputs[0].get(0), 45);
}

TEST(Tile, ElementStoredByTwoPrograms) {
  const std::string text = R"(
    kernel @twice(%y: buffer<4xf32>) at tile {
      %p = program_id grid = [6] : index
      %one = constant 1.0 : tile<4xf32>
      %i = constant 2 : index
      store %one, %y, %i
      return
    }
  )";
  std::string first;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Outcome out = runKernel(text, {6}, {}, {HostTensor(DType::F32, {4})}, {}, {.threads = 1 + int(seed % 3), .shuffleSeed = seed});
    EXPECT_EQ(out.code, ErrorCode::LostStore);
    EXPECT_TRUE(has(out.error, "'y' at [2] is stored twice, by program (0) and program (1)")) << out.error;
    EXPECT_EQ(out.error, seed ? first : out.error) << "the message does not depend on the order";
    first = out.error;
  }
}

TEST(Tile, ElementNeverStored) {
  Outcome out = runKernel(vectorAdd, {2}, {iota(8), iota(8)}, {HostTensor(DType::F32, {10})}, {{"N", 8}});
  EXPECT_EQ(out.code, ErrorCode::LostStore);
  EXPECT_TRUE(has(out.error, "'z' of kernel 'add' is never stored at byte 32 of 40")) << out.error;
}

TEST(Tile, FirstErrorInProgramOrder) {
  // Programs 3, 4 and 5 read past what was written.
  const std::string text = R"(
    kernel @u(%x: buffer<12xf32>, %y: buffer<12xf32>) at tile {
      %p = program_id grid = [6] : index
      %two = constant 2 : index
      %i = mul %p, %two : index
      %a = load %x, %i : tile<2xf32>
      store %a, %y, %i
      return
    }
  )";
  Parsed module(text);
  ASSERT_TRUE(module);
  Artifact artifact;
  artifact.kernels.push_back({.name = "u"});
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CpuDevice device(*module, {.threads = 1 + int(seed % 3), .shuffleSeed = seed});
    DeviceMemory x = *device.allocate(48, nullptr), y = *device.allocate(48, nullptr);
    std::byte bytes[24] = {};
    ASSERT_TRUE(device.copyFromHost(x, bytes, nullptr));
    int64_t grid[] = {6};
    DeviceMemory buffers[] = {x, y};
    auto launch = device.prepare(artifact, 0, grid, {});
    ASSERT_TRUE(launch);
    auto launched = (*launch)->enqueue(nullptr, buffers);
    ASSERT_FALSE(launched);
    EXPECT_TRUE(has(launched.errors()[0].message, "program (3): the element of 'x' at [6]")) << launched.errors()[0].message;
  }
}

TEST(Tile, PlansRunOnTheDevice) {
  // t = x + x, then z = t + x, by two launches of one kernel.
  Parsed module(vectorAdd);
  ASSERT_TRUE(module);
  Artifact artifact;
  artifact.kernels.push_back({.name = "add", .params = std::vector<KernelParam>(3), .dims = {DimExpr::name("N")}});
  DimExpr n = DimExpr::name("N");
  TensorSpec spec{.name = "x", .dtype = DType::F32, .shape = {n}};
  Plan &plan = artifact.plans.emplace_back();
  plan.name = "g";
  plan.inputs = {spec};
  plan.results = {spec};
  plan.results[0].name = "z";
  plan.buffers = {{spec}, {spec}, {spec}};
  std::vector<DimExpr> grid = {DimExpr::ceilDiv(n, 4)};
  auto alloc = [](int result) { return PlanStep{.kind = PlanStep::Kind::Alloc, .result = result}; };
  auto launch = [&](std::vector<int> operands) {
    return PlanStep{.kind = PlanStep::Kind::Launch, .operands = std::move(operands), .kernel = 0, .grid = grid};
  };
  plan.steps = {alloc(1), launch({0, 0, 1}), alloc(2), launch({1, 0, 2})};
  plan.resultBuffers = {2};
  CpuDevice device(*module, {.countTraffic = true});
  std::vector<HostTensor> inputs = {iota(10)};
  auto results = runPlan(artifact, device, inputs, {{"N", 10}});
  ASSERT_TRUE(results) << renderDiagnostics(results.errors(), nullptr);
  EXPECT_EQ(numbers((*results)[0]), (std::vector<double>{0, 3, 6, 9, 12, 15, 18, 21, 24, 27}));
  EXPECT_EQ(device.takeTraffic().size(), 2u);
  EXPECT_TRUE(device.takeTraffic().empty());
}

TEST(Tile, MemoryThatNothingWrote) {
  Outcome out = runKernel(R"(
    kernel @u(%x: buffer<4xf32>, %y: buffer<4xf32>) at tile {
      %p = program_id grid = [1] : index
      %a = load %x, %p : tile<4xf32>
      store %a, %y, %p
      return
    }
  )",
                          {1}, {}, {HostTensor(DType::F32, {4}), HostTensor(DType::F32, {4})});
  EXPECT_EQ(out.code, ErrorCode::UndefinedRead);
  EXPECT_TRUE(has(out.error, "'x' at [0] is read, and nothing has written it")) << out.error;
}

TEST(Tile, LaunchesThatDoNotFit) {
  HostTensor x = iota(10);
  Outcome unbound = runKernel(vectorAdd, {3}, {x, x}, {HostTensor(DType::F32, {10})});
  EXPECT_EQ(unbound.code, ErrorCode::UnboundDim) << unbound.error;
  Outcome grid = runKernel(vectorAdd, {4}, {x, x}, {HostTensor(DType::F32, {10})}, {{"N", 10}});
  EXPECT_EQ(grid.code, ErrorCode::LaunchMismatch) << grid.error;
  Outcome small = runKernel(vectorAdd, {3}, {x, x}, {HostTensor(DType::F32, {9})}, {{"N", 10}});
  EXPECT_EQ(small.code, ErrorCode::OutOfBounds) << small.error;
  Outcome missing = runKernel(vectorAdd, {3}, {x}, {HostTensor(DType::F32, {10})}, {{"N", 10}});
  EXPECT_EQ(missing.code, ErrorCode::LaunchMismatch) << missing.error;
  Outcome huge = runKernel(vectorAdd, {3}, {x, x}, {HostTensor(DType::F32, {10})}, {{"N", std::numeric_limits<int64_t>::max()}});
  EXPECT_EQ(huge.code, ErrorCode::TooLarge) << huge.error;
  Outcome wide = runKernel(vectorAdd, {int64_t(1) << 40, int64_t(1) << 40}, {x, x}, {HostTensor(DType::F32, {10})}, {{"N", 10}});
  EXPECT_EQ(wide.code, ErrorCode::TooLarge) << wide.error;
}

TEST(Tile, MemoryHasLimits) {
  Context context;
  Module module(context);
  CpuDevice device(module);
  auto big = device.allocate(int64_t(9) << 30, nullptr);
  ASSERT_FALSE(big);
  EXPECT_EQ(big.errors()[0].code, ErrorCode::OutOfMemory);
  auto memory = device.allocate(16, nullptr);
  ASSERT_TRUE(memory);
  std::byte bytes[32] = {};
  EXPECT_FALSE(device.copyFromHost(*memory, bytes, nullptr));
  EXPECT_TRUE(device.copyFromHost(*memory, std::span(bytes, 16), nullptr));
  EXPECT_TRUE(device.copyToHost(std::span(bytes, 16), *memory, nullptr));
  device.release(*memory, nullptr);
  EXPECT_FALSE(device.copyToHost(std::span(bytes, 16), *memory, nullptr));
}

TEST(Tile, CopiesKeepWhatIsUndefined) {
  Context context;
  Module module(context);
  CpuDevice device(module);
  DeviceMemory a = *device.allocate(8, nullptr), b = *device.allocate(8, nullptr);
  std::byte bytes[8] = {};
  ASSERT_TRUE(device.copyFromHost(a, std::span(bytes, 4), nullptr));
  ASSERT_TRUE(device.copy(b, a, 8, nullptr));
  EXPECT_TRUE(device.copyToHost(std::span(bytes, 4), b, nullptr));
  auto whole = device.copyToHost(std::span(bytes, 8), b, nullptr);
  ASSERT_FALSE(whole);
  EXPECT_EQ(whole.errors()[0].code, ErrorCode::LostStore);
}

} // namespace
