// Products on tensor cores from the graph: after each of the passes that make one, the kernel runs and gives what f64 arithmetic
// gives.
#include "CompilerTest.h"

#include <regex>

using namespace minic;
using namespace minic::test;

namespace {

constexpr double bf16Rounding = 0x1p-8, f32Rounding = 0x1p-24; // Half a unit in the last place, relative.
constexpr int64_t isNamed = -1;

/// y = relu(x w + b + r), with what is asked for.
struct Product {
  int64_t M, K, N;
  int64_t bm = 64, bn = 64, stages = 4, raster = 8;
  bool isTransposed = false, isAcross = false; ///< Whether w, and x, has the contracted axis elsewhere in memory.
  bool hasBias = false, hasResidual = false, hasRelu = false;
  bool givesBf16 = true, givesF32 = false; ///< The f32 one is x w alone.
  int64_t rowsInText = 0;                  ///< 0: M; isNamed: a name.
  int64_t multiprocessors = 3;             ///< Few, so that a program has several tiles.
  std::string warps = {};                  ///< Of mma; empty: wgmma.
  int64_t bk = 64;
};

std::string schedule(const Product &p) {
  return "#matmul<bm = " + std::to_string(p.bm) + ", bn = " + std::to_string(p.bn) + ", bk = " + std::to_string(p.bk) +
         (p.warps.empty() ? ", unit = wgmma" : ", unit = mma, warps = " + p.warps) + ", stages = " + std::to_string(p.stages) +
         ", raster = " + std::to_string(p.raster) + ">";
}

std::string graphText(const Product &p) {
  std::string rows = p.rowsInText == isNamed ? "M" : std::to_string(p.M), k = std::to_string(p.K), n = std::to_string(p.N);
  std::string matrix = "tensor<" + rows + "x" + n + "x", bf16 = matrix + "bf16>", f32 = matrix + "f32>";
  std::string text = "graph @g(%x: tensor<" + (p.isAcross ? k + "x" + rows : rows + "x" + k) + "xbf16>, %w: tensor<" +
                     (p.isTransposed ? n + "x" + k : k + "x" + n) + "xbf16>";
  if (p.hasBias)
    text += ", %b: tensor<" + n + "xbf16>";
  if (p.hasResidual)
    text += ", %r: " + bf16;
  text += ") -> (" + std::string(p.givesBf16 ? "y: " + bf16 : "") + (p.givesBf16 && p.givesF32 ? ", " : "") +
          (p.givesF32 ? "s: " + f32 : "") + ") {\n";
  if (p.isTransposed)
    text += "  %wt = transpose %w, perm = [1, 0] : tensor<" + k + "x" + n + "xbf16>\n";
  if (p.isAcross)
    text += "  %xt = transpose %x, perm = [1, 0] : tensor<" + rows + "x" + k + "xbf16>\n";
  text += "  %s = matmul " + std::string(p.isAcross ? "%xt, " : "%x, ") + std::string(p.isTransposed ? "%wt" : "%w") + " : " + f32 +
          "\n";
  std::string last = "%s";
  auto step = [&](const std::string &name, const std::string &op) {
    text += "  %" + name + " = " + op + "\n";
    last = "%" + name;
  };
  if (p.hasBias) {
    step("bf", "convert %b : tensor<" + n + "xf32>");
    step("bb", "broadcast %bf, dims = [1] : " + f32);
    step("z", "add %s, %bb : " + f32);
  }
  if (p.hasResidual) {
    std::string before = last;
    step("rf", "convert %r : " + f32);
    step("q", "add " + before + ", %rf : " + f32);
  }
  if (p.hasRelu)
    step("p", "relu " + last + " : " + f32);
  if (p.givesBf16)
    step("y", "convert " + last + " : " + bf16);
  return text + "  return " + (p.givesBf16 ? "%y" : "") + (p.givesBf16 && p.givesF32 ? ", " : "") + (p.givesF32 ? "%s" : "") +
         "\n}\n";
}

struct Ran {
  std::vector<HostTensor> inputs, results;
  std::string text; ///< Of the module that ran.
};

/// Lowers to masked, runs `passes` and then the plan, programs shuffled, over poisoned memory. `change` may change the inputs.
Ran runAfter(const Product &p, std::span<const char *const> passes, const std::function<void(std::vector<HostTensor> &)> &change) {
  Ran ran;
  CompileOptions options;
  options.anyStrides = false;
  std::string fused = lowerText(graphText(p), Stage::Fused, options);
  std::regex chosen("#matmul<[^>]*>");
  EXPECT_TRUE(std::regex_search(fused, chosen)) << fused;
  Loaded loaded = load(std::regex_replace(fused, chosen, schedule(p)), options);
  if (!loaded.module)
    return ran;
  auto lowered = lowerTo(*loaded.module, Stage::Masked, options);
  EXPECT_TRUE(lowered) << errorText(lowered.errors());
  TargetInfo target = **findTarget(loaded.module->target);
  target.multiprocessors = int(p.multiprocessors);
  PassContext context{*loaded.module, target};
  std::vector<PassStep> steps;
  for (const char *name : passes)
    steps.push_back({findPass(name), steps.empty() ? Level::Masked : Level::Machine});
  auto done = runPasses(*loaded.module, steps, context, {.hooks = levelHooks()});
  EXPECT_TRUE(done) << errorText(done.errors());
  ran.text = printModule(*loaded.module);
  auto artifact = makeArtifact(*loaded.module, options, false);
  if (!artifact) {
    ADD_FAILURE() << errorText(artifact.errors()) << ran.text;
    return ran;
  }
  DimBindings dims;
  if (p.rowsInText == isNamed)
    dims["M"] = p.M;
  uint64_t seed = 1;
  for (const TensorSpec &spec : artifact->plans[0].inputs) {
    std::vector<int64_t> shape;
    for (const DimExpr &dim : spec.shape)
      shape.push_back(dim.evaluate(dims).value_or(0));
    fillRandom(ran.inputs.emplace_back(spec.dtype, shape), seed++);
  }
  if (change)
    change(ran.inputs);
  CpuDevice device(*loaded.module, {.shuffleSeed = 7});
  auto results = runPlan(*artifact, device, ran.inputs, dims, {.poison = true});
  EXPECT_TRUE(results) << errorText(results.errors()) << ran.text;
  if (results)
    ran.results = std::move(*results);
  return ran;
}

/// The same bits for inf, a NaN for a NaN, else near.
void expectNear(double got, double want, double tolerance, int64_t m, int64_t n) {
  if (std::isfinite(want))
    ASSERT_NEAR(got, want, tolerance) << m << ", " << n;
  else
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << got << ", not " << want << ", at " << m << ", " << n;
}

void checkNumbers(const Product &p, const Ran &ran) {
  ASSERT_EQ(ran.results.size(), size_t(p.givesBf16) + size_t(p.givesF32));
  const HostTensor &x = ran.inputs[0], &w = ran.inputs[1];
  const HostTensor *bias = p.hasBias ? &ran.inputs[2] : nullptr, *residual = p.hasResidual ? &ran.inputs.back() : nullptr;
  for (int64_t m = 0; m < p.M; ++m)
    for (int64_t n = 0; n < p.N; ++n) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < p.K; ++k) {
        double product = x.get(p.isAcross ? k * p.M + m : m * p.K + k) * w.get(p.isTransposed ? n * p.K + k : k * p.N + n);
        sum += product;
        size += std::fabs(product);
      }
      // K sums of f32 in any order.
      if (p.givesF32)
        expectNear(ran.results.back().get(m * p.N + n), sum, double(p.K) * f32Rounding * size, m, n);
      for (double more : {bias ? bias->get(n) : 0, residual ? residual->get(m * p.N + n) : 0}) {
        sum += more;
        size += std::fabs(more);
      }
      double want = p.hasRelu && sum < 0 ? 0 : sum;
      // Two sums more, and one rounding to bf16.
      if (p.givesBf16)
        expectNear(ran.results[0].get(m * p.N + n), want,
                   std::fabs(want) * bf16Rounding + double(p.K + 2) * (1 + bf16Rounding) * f32Rounding * size, m, n);
      if (::testing::Test::HasFatalFailure())
        return;
    }
}

constexpr const char *wgmmaPasses[] = {"specialize-warps", "pipeline", "stage-stores", "persist"};
constexpr const char *mmaPasses[] = {"fragment-products", "multistage", "rasterize"};

/// After the first pass, the first two, and so on.
void check(const Product &p, const std::function<void(std::vector<HostTensor> &)> &change = nullptr) {
  std::span<const char *const> passes = p.warps.empty() ? std::span<const char *const>(wgmmaPasses) : mmaPasses;
  for (size_t count = 1; count <= passes.size(); ++count) {
    SCOPED_TRACE(std::string("after ") + passes[count - 1]);
    Ran ran = runAfter(p, passes.first(count), change);
    EXPECT_NE(ran.text.find(p.warps.empty() ? " = wgmma " : " = mma "), std::string::npos) << ran.text;
    checkNumbers(p, ran);
  }
}

TEST(TensorCoreMatmul, OneTile) { check({.M = 64, .K = 128, .N = 64}); }
TEST(TensorCoreMatmul, BiasAndRelu) {
  check({.M = 130, .K = 200, .N = 192, .bm = 128, .bn = 128, .hasBias = true, .hasRelu = true});
}
TEST(TensorCoreMatmul, ResidualWithRowsLeftOver) {
  check({.M = 130, .K = 72, .N = 192, .bm = 128, .bn = 256, .hasResidual = true});
}
TEST(TensorCoreMatmul, TransposedWeights) {
  check({.M = 130, .K = 136, .N = 72, .bn = 128, .isTransposed = true, .hasBias = true});
}
// Operands that TMA does not reach: they are copied first.
TEST(TensorCoreMatmul, RowsThatDoNotStartAt16Bytes) {
  check({.M = 70, .K = 77, .N = 130, .bn = 128, .hasBias = true, .hasResidual = true});
}
TEST(TensorCoreMatmul, OddColumnsOfTransposedWeights) {
  check({.M = 70, .K = 70, .N = 75, .isTransposed = true, .givesF32 = true});
}
TEST(TensorCoreMatmul, RowsThatLieAcross) {
  check({.M = 130, .K = 136, .N = 64, .bm = 128, .isAcross = true, .hasResidual = true});
}
TEST(TensorCoreMatmul, BothAcross) { check({.M = 70, .K = 72, .N = 72, .isTransposed = true, .isAcross = true, .hasBias = true}); }
TEST(TensorCoreMatmul, OneBlockOfK) { check({.M = 128, .K = 64, .N = 128, .bm = 128, .hasBias = true}); }
TEST(TensorCoreMatmul, LessThanABlockOfK) { check({.M = 8, .K = 8, .N = 64}); }
TEST(TensorCoreMatmul, SumsAlone) { check({.M = 130, .K = 72, .N = 128, .bn = 128, .givesBf16 = false, .givesF32 = true}); }
TEST(TensorCoreMatmul, SumsAndResult) {
  check({.M = 130, .K = 72, .N = 128, .bm = 128, .bn = 128, .hasBias = true, .hasRelu = true, .givesF32 = true});
}
TEST(TensorCoreMatmul, OddNumberOfStores) { check({.M = 576, .K = 72, .N = 64, .multiprocessors = 2}); }
TEST(TensorCoreMatmul, NamedRows) {
  check({.M = 200, .K = 72, .N = 128, .hasBias = true, .hasResidual = true, .rowsInText = isNamed});
}
// A launch of no programs: a tensor map cannot have a size of 0.
TEST(TensorCoreMatmul, NoRowsOfANamedSize) { check({.M = 0, .K = 72, .N = 64, .hasBias = true, .rowsInText = isNamed}); }
// TMA brings the rows that there are, and the rest of the block is 0.
TEST(TensorCoreMatmul, FewRows) { check({.M = 5, .K = 200, .N = 192, .hasBias = true}); }
TEST(TensorCoreMatmul, FewRowsForTwoConsumers) { check({.M = 66, .K = 328, .N = 128, .bm = 128, .hasResidual = true}); }
TEST(TensorCoreMatmul, FewRowsAndOneStage) { check({.M = 17, .K = 136, .N = 64, .stages = 1}); }
TEST(TensorCoreMatmul, OneStage) { check({.M = 130, .K = 200, .N = 64, .stages = 1}); }
TEST(TensorCoreMatmul, TwoStagesGoRound) { check({.M = 200, .K = 456, .N = 128, .stages = 2, .multiprocessors = 1}); }
// Bands of 2 rows of tiles, and of the one that is left.
TEST(TensorCoreMatmul, TilesInBands) { check({.M = 300, .K = 72, .N = 192, .raster = 2, .hasBias = true, .multiprocessors = 2}); }

TEST(TensorCoreMatmul, SpecialValuesStayInTheirRowsAndColumns) {
  for (bool isTransposed : {false, true}) {
    Product p{.M = 130, .K = 72, .N = 128, .bm = 128, .bn = 128, .isTransposed = isTransposed, .hasBias = true};
    check(p, [&](std::vector<HostTensor> &inputs) {
      auto setWeight = [&](int64_t k, int64_t n, double value) { inputs[1].set(isTransposed ? n * p.K + k : k * p.N + n, value); };
      inputs[0].set(129 * p.K + 71, NAN); // The last element of all, beside what TMA pads.
      inputs[0].set(63 * p.K + 0, INFINITY);
      setWeight(71, 127, NAN);
      setWeight(5, 64, -INFINITY);
    });
  }
}

//===-- The tensor cores of a warp ------------------------------------------------------------------------------------------===//

TEST(MmaMatmul, OneTile) { check({.M = 64, .K = 128, .N = 64, .warps = "[2, 2]", .bk = 32}); }
TEST(MmaMatmul, BiasAndRelu) {
  check({.M = 130, .K = 200, .N = 192, .bm = 128, .bn = 128, .hasBias = true, .hasRelu = true, .warps = "[2, 4]", .bk = 32});
}
TEST(MmaMatmul, ResidualWithRowsLeftOver) {
  check({.M = 130, .K = 72, .N = 192, .bm = 128, .bn = 256, .stages = 3, .hasResidual = true, .warps = "[2, 4]", .bk = 32});
}
TEST(MmaMatmul, TransposedWeights) {
  check({.M = 130, .K = 136, .N = 72, .bn = 128, .isTransposed = true, .hasBias = true, .warps = "[1, 4]"});
}
// Operands that copies of 16 bytes do not reach: they are copied first.
TEST(MmaMatmul, RowsThatDoNotStartAt16Bytes) {
  check({.M = 70, .K = 77, .N = 131, .bn = 128, .hasBias = true, .hasResidual = true, .warps = "[2, 2]", .bk = 16});
}
TEST(MmaMatmul, OddColumnsOfTransposedWeights) {
  check({.M = 70, .K = 70, .N = 75, .isTransposed = true, .givesF32 = true, .warps = "[4, 1]"});
}
TEST(MmaMatmul, RowsThatLieAcross) {
  check({.M = 136, .K = 136, .N = 64, .bm = 128, .isAcross = true, .hasResidual = true, .warps = "[2, 2]"});
}
TEST(MmaMatmul, BothAcross) {
  check({.M = 70, .K = 72, .N = 72, .isTransposed = true, .isAcross = true, .hasBias = true, .warps = "[2, 2]", .bk = 32});
}
TEST(MmaMatmul, ShortSweeps) {
  check({.M = 128, .K = 64, .N = 128, .bm = 128, .hasBias = true, .warps = "[2, 2]"});
  check({.M = 8, .K = 8, .N = 64, .bm = 16, .warps = "[1, 4]"});
}
TEST(MmaMatmul, OneFragmentOfColumnsForAWarp) {
  check({.M = 40, .K = 80, .N = 40, .bm = 32, .bn = 32, .hasBias = true, .warps = "[1, 4]", .bk = 16});
}
TEST(MmaMatmul, SumsAlone) {
  check({.M = 130, .K = 72, .N = 128, .bn = 128, .givesBf16 = false, .givesF32 = true, .warps = "[2, 2]"});
}
TEST(MmaMatmul, SumsAndResult) {
  check({.M = 130, .K = 72, .N = 128, .bm = 128, .hasBias = true, .hasRelu = true, .givesF32 = true, .warps = "[4, 2]"});
}
TEST(MmaMatmul, NamedRows) {
  check({.M = 200, .K = 72, .N = 128, .hasBias = true, .hasResidual = true, .rowsInText = isNamed, .warps = "[2, 2]"});
  check({.M = 0, .K = 72, .N = 64, .hasBias = true, .rowsInText = isNamed, .warps = "[2, 2]"});
}
TEST(MmaMatmul, AnyNumberOfStages) {
  for (int64_t stages : {1, 2, 3, 5})
    check({.M = 70, .K = 264, .N = 64, .stages = stages, .warps = "[2, 2]", .bk = 32});
}
// Bands of 2 rows of tiles, and of the one that is left.
TEST(MmaMatmul, TilesInBands) { check({.M = 300, .K = 72, .N = 192, .raster = 2, .hasBias = true, .warps = "[2, 2]"}); }

TEST(MmaMatmul, SpecialValuesStayInTheirRowsAndColumns) {
  Product p{.M = 130, .K = 72, .N = 128, .bm = 128, .bn = 128, .hasBias = true, .warps = "[2, 2]", .bk = 32};
  check(p, [&](std::vector<HostTensor> &inputs) {
    inputs[0].set(129 * p.K + 71, NAN); // The last element of all, beside what is filled with zeros.
    inputs[0].set(63 * p.K + 0, INFINITY);
    inputs[1].set(71 * p.N + 127, NAN);
    inputs[1].set(5 * p.N + 64, -INFINITY);
  });
}

} // namespace
