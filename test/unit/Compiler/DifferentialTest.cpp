// Regions that no pass was written for, at every level, eager and fused, against the f64 oracle; launches and bytes against the
// model.
#include "CompilerTest.h"

#include "minic/Transforms/Analysis/Traffic.h"

using namespace minic;
using namespace minic::test;

namespace {

struct Case {
  const char *name;
  const char *text;
  int fused, eager; ///< Launches.
  double tolerance;
};

const Case cases[] = {
    {"softmax", R"(graph @g(%x: tensor<MxNxf32>) -> (y: tensor<MxNxf32>) {
  %m = reduce max %x, axes = [1] : tensor<Mxf32>
  %mb = broadcast %m, dims = [0] : tensor<MxNxf32>
  %z = sub %x, %mb : tensor<MxNxf32>
  %e = exp %z : tensor<MxNxf32>
  %s = reduce sum %e, axes = [1] : tensor<Mxf32>
  %sb = broadcast %s, dims = [0] : tensor<MxNxf32>
  %y = div %e, %sb : tensor<MxNxf32>
  return %y
})",
     1, 5, 1e-6},
    {"softmax by columns", R"(graph @g(%x: tensor<NxMxf32>) -> (y: tensor<NxMxf32>) {
  %m = reduce max %x, axes = [0] : tensor<Mxf32>
  %mb = broadcast %m, dims = [1] : tensor<NxMxf32>
  %z = sub %x, %mb : tensor<NxMxf32>
  %e = exp %z : tensor<NxMxf32>
  %s = reduce sum %e, axes = [0] : tensor<Mxf32>
  %sb = broadcast %s, dims = [1] : tensor<NxMxf32>
  %y = div %e, %sb : tensor<NxMxf32>
  return %y
})",
     1, 5, 1e-6},
    {"log-sum-exp", R"(graph @g(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) {
  %m = reduce max %x, axes = [1] : tensor<Mxf32>
  %mb = broadcast %m, dims = [0] : tensor<MxNxf32>
  %z = sub %x, %mb : tensor<MxNxf32>
  %e = exp %z : tensor<MxNxf32>
  %s = reduce sum %e, axes = [1] : tensor<Mxf32>
  %l = log %s : tensor<Mxf32>
  %y = add %l, %m : tensor<Mxf32>
  return %y
})",
     1, 6, 1e-6},
    {"max minus min", R"(graph @g(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) {
  %a = reduce max %x, axes = [1] : tensor<Mxf32>
  %b = reduce min %x, axes = [1] : tensor<Mxf32>
  %y = sub %a, %b : tensor<Mxf32>
  return %y
})",
     1, 3, 0},
    {"ratio of sums", R"(graph @g(%x: tensor<MxNxf32>, %w: tensor<MxNxf32>) -> (q: tensor<Mxf32>, b: tensor<Mxf32>) {
  %xy = mul %x, %w : tensor<MxNxf32>
  %yy = mul %w, %w : tensor<MxNxf32>
  %a = reduce sum %xy, axes = [1] : tensor<Mxf32>
  %b = reduce sum %yy, axes = [1] : tensor<Mxf32>
  %q = div %a, %b : tensor<Mxf32>
  return %q, %b
})",
     1, 5, 1e-5},
    {"matmul, exp, row sum", R"(graph @g(%x: tensor<MxKxf32>, %w: tensor<KxNxf32>) -> (e: tensor<MxNxf32>, s: tensor<Mxf32>) {
  %a = matmul %x, %w : tensor<MxNxf32>
  %e = exp %a : tensor<MxNxf32>
  %s = reduce sum %e, axes = [1] : tensor<Mxf32>
  return %e, %s
})",
     2, 3, 1e-5},
    {"relu of a linear layer", R"(graph @g(%x: tensor<MxKxf32>, %w: tensor<KxNxf32>, %b: tensor<Nxf32>) -> (y: tensor<MxNxf32>) {
  %a = matmul %x, %w : tensor<MxNxf32>
  %bias = broadcast %b, dims = [1] : tensor<MxNxf32>
  %z = add %a, %bias : tensor<MxNxf32>
  %zero = constant 0.0 : tensor<MxNxf32>
  %y = max %z, %zero : tensor<MxNxf32>
  return %y
})",
     1, 3, 1e-5},
    {"tuple reduction", R"(graph @g(%x: tensor<MxNxf32>) -> (lo: tensor<Mxf32>, hi: tensor<Mxf32>) {
  %lo, %hi = reduce %x, %x, axes = [1], init = [inf, -inf] { ^(%a: f32, %b: f32, %c: f32, %d: f32):
    %l = min %a, %c : f32
    %h = max %b, %d : f32
    yield %l, %h
  } : tensor<Mxf32>, tensor<Mxf32>
  return %lo, %hi
})",
     1, 1, 0},
    {"mean and deviation", R"(graph @g(%x: tensor<MxNxf32>) -> (v: tensor<Mxf32>) {
  %same = compare eq %x, %x : tensor<MxNxi1>
  %one = convert %same : tensor<MxNxf32>
  %n = reduce sum %one, axes = [1] : tensor<Mxf32>
  %s = reduce sum %x, axes = [1] : tensor<Mxf32>
  %u = div %s, %n : tensor<Mxf32>
  %ub = broadcast %u, dims = [0] : tensor<MxNxf32>
  %c = sub %x, %ub : tensor<MxNxf32>
  %q = mul %c, %c : tensor<MxNxf32>
  %v = reduce sum %q, axes = [1] : tensor<Mxf32>
  return %v
})",
     1, 8, 1e-5},
    {"batched and transposed", R"(graph @g(%x: tensor<3xMxNxf32>, %w: tensor<3xKxNxf32>) -> (y: tensor<3xMxKxf32>) {
  %t = transpose %w, perm = [0, 2, 1] : tensor<3xNxKxf32>
  %y = matmul %x, %t : tensor<3xMxKxf32>
  return %y
})",
     1, 1, 1e-5},
    {"bf16 rows", R"(graph @g(%x: tensor<MxNxbf16>) -> (y: tensor<MxNxbf16>, s: tensor<Mxf32>) {
  %r = relu %x : tensor<MxNxbf16>
  %y = add %r, %x : tensor<MxNxbf16>
  %s = reduce sum %x, axes = [1] : tensor<Mxf32>
  return %y, %s
})",
     2, 3, 1e-2},
    {"f16 matmul", R"(graph @g(%x: tensor<MxKxf16>, %w: tensor<KxNxf16>) -> (y: tensor<MxNxf16>) {
  %a = matmul %x, %w : tensor<MxNxf16>
  %y = relu %a : tensor<MxNxf16>
  return %y
})",
     1, 2, 2e-3},
    {"f64 rows", R"(graph @g(%x: tensor<MxNxf64>) -> (y: tensor<Mxf64>) {
  %e = exp %x : tensor<MxNxf64>
  %l = log %e : tensor<MxNxf64>
  %y = reduce sum %l, axes = [1] : tensor<Mxf64>
  return %y
})",
     1, 3, 1e-13},
    {"i32", R"(graph @g(%x: tensor<MxNxi32>, %w: tensor<NxKxi32>) -> (y: tensor<MxKxi32>, s: tensor<Mxi32>, p: tensor<MxNxi1>) {
  %y = matmul %x, %w : tensor<MxKxi32>
  %s = reduce max %x, axes = [1] : tensor<Mxi32>
  %zero = constant 0 : tensor<MxNxi32>
  %p = compare gt %x, %zero : tensor<MxNxi1>
  return %y, %s, %p
})",
     3, 3, 0},
    {"reshape between", R"(graph @g(%x: tensor<MxNxf32>) -> (y: tensor<NxMxf32>, z: tensor<NxMxf32>) {
  %a = exp %x : tensor<MxNxf32>
  %r = reshape %a : tensor<NxMxf32>
  %y = neg %r : tensor<NxMxf32>
  return %y, %r
})",
     2, 2, 1e-6},
};

/// Products that are cut along k are another launch each, which adds the pieces.
int cutProducts(const char *text, const CompileOptions &options) {
  Loaded loaded = load(text);
  std::string fused = *emitStage(*loaded.module, Stage::Fused, options);
  int count = 0;
  for (size_t at = 0; (at = fused.find("chunks = ", at)) != std::string::npos; ++at)
    ++count;
  return count;
}

DimBindings dimsOf(int64_t n) { return {{"M", 5}, {"N", n}, {"K", 19}}; }

} // namespace

TEST(Differential, AllLevelsAgreeWithTheOracle) {
  for (const Case &c : cases)
    for (int64_t n : {0, 1, 33, 781})
      for (bool eager : {false, true})
        for (Stage stage : {Stage::Tile, Stage::Masked, Stage::Plan})
          for (bool bound : {true, false}) {
            SCOPED_TRACE(std::string(c.name) + ", N = " + std::to_string(n) + (eager ? ", eager, " : ", fused, ") +
                         std::string(stageName(stage)) + (bound ? ", bound" : ", free"));
            CompileOptions options;
            options.eager = eager;
            Loaded names = load(c.text);
            if (bound)
              for (const std::string &name : names.module->functions().front()->dimNames())
                options.dims[name] = dimsOf(n)[name];
            RunResult result = run(c.text, stage, options, dimsOf(n));
            ASSERT_TRUE(result.results) << errorText(result.results.errors());
            EXPECT_LE(errorOf(c.text, result), c.tolerance);
            int launches = 0;
            for (const PlanStep &step : result.artifact.plans[0].steps)
              launches += step.kind == PlanStep::Kind::Launch;
            // Short launches of known sizes are merged in pairs (`merge-launches`).
            int all = (eager ? c.eager : c.fused) + cutProducts(c.text, options),
                least = bound && !eager && stage == Stage::Plan ? (all + 1) / 2 : all;
            EXPECT_TRUE(least <= launches && launches <= all) << launches << " launches of " << all;
          }
}

TEST(Differential, MaskingChangesNoBits) {
  for (const Case &c : cases)
    for (int64_t n : {33, 781}) {
      SCOPED_TRACE(std::string(c.name) + ", N = " + std::to_string(n));
      RunResult tile = run(c.text, Stage::Tile, {}, dimsOf(n)), masked = run(c.text, Stage::Masked, {}, dimsOf(n));
      ASSERT_TRUE(tile.results && masked.results);
      for (size_t i = 0; i < tile.results->size(); ++i)
        EXPECT_TRUE(sameBits((*tile.results)[i], (*masked.results)[i]));
    }
}

TEST(Differential, LevelsGiveTheSameBits) {
  for (const Case &c : cases)
    for (int64_t n : {33, 781}) {
      SCOPED_TRACE(std::string(c.name) + ", N = " + std::to_string(n));
      CompileOptions exact;
      exact.numerics = "exact"; // Else machine passes add in other orders.
      RunResult tile = run(c.text, Stage::Tile, exact, dimsOf(n)), masked = run(c.text, Stage::Masked, exact, dimsOf(n)),
                machine = run(c.text, Stage::Plan, exact, dimsOf(n));
      ASSERT_TRUE(tile.results && masked.results && machine.results);
      for (size_t i = 0; i < tile.results->size(); ++i) {
        EXPECT_TRUE(sameBits((*tile.results)[i], (*machine.results)[i]));
        EXPECT_TRUE(sameBits((*masked.results)[i], (*machine.results)[i]));
      }
    }
}

TEST(Differential, ExactGivesTheSameBitsEagerAndFused) {
  for (const Case &c : cases)
    for (int64_t n : {1, 33, 781, 1024}) {
      SCOPED_TRACE(std::string(c.name) + ", N = " + std::to_string(n));
      CompileOptions fused, eager;
      fused.numerics = eager.numerics = "exact";
      eager.eager = true;
      Loaded names = load(c.text);
      for (const std::string &name : names.module->functions().front()->dimNames())
        fused.dims[name] = eager.dims[name] = dimsOf(n)[name];
      RunResult a = run(c.text, Stage::Plan, fused, dimsOf(n)), b = run(c.text, Stage::Plan, eager, dimsOf(n));
      ASSERT_TRUE(a.results && b.results);
      for (size_t i = 0; i < a.results->size(); ++i)
        EXPECT_TRUE(sameBits((*a.results)[i], (*b.results)[i]));
    }
}

TEST(Differential, DistinctBytesEqualTheModel) {
  for (const Case &c : cases)
    for (bool eager : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (eager ? ", eager" : ", fused"));
      CompileOptions options;
      options.eager = eager;
      RunResult result = run(c.text, Stage::Plan, options, dimsOf(781));
      ASSERT_TRUE(result.results);
      Loaded loaded = load(c.text);
      Function *graph = loaded.module->functions().front();
      auto model = eagerTraffic(*graph, dimsOf(781));
      if (!eager) {
        ASSERT_TRUE(lowerTo(*loaded.module, Stage::Fused, options));
        model = fusedTraffic(*loaded.module->functions().front(), dimsOf(781));
      }
      ASSERT_TRUE(model);
      ASSERT_EQ(model->ops.size(), result.traffic.size());
      for (size_t i = 0; i < model->ops.size(); ++i) {
        BufferTraffic total = result.traffic[i].total();
        EXPECT_EQ(model->ops[i].bytes, total.distinctRead + total.distinctWritten) << model->ops[i].name;
        EXPECT_GE(total.issuedRead, total.distinctRead);
      }
    }
}

/// Sixteen products with 2^-24 are lost one by one in a sum of 1, and are 2^-20 where they are summed up first.
TEST(Differential, BlocksOfProductsAreSummedApart) {
  const char *text = R"(graph @g(%x: tensor<1x32xf32>, %w: tensor<32x1xf32>) -> (y: tensor<1x1xf32>) {
  %y = matmul %x, %w : tensor<1x1xf32>
  return %y
})";
  for (bool exact : {false, true})
    for (Stage stage : {Stage::Tile, Stage::Masked, Stage::Plan}) {
      CompileOptions options;
      if (exact)
        options.numerics = "exact";
      Loaded loaded = load(text, options);
      ASSERT_TRUE(lowerTo(*loaded.module, stage, options));
      auto artifact = makeArtifact(*loaded.module, options, false);
      ASSERT_TRUE(artifact);
      std::vector<HostTensor> inputs{HostTensor(DType::F32, {1, 32}), HostTensor(DType::F32, {32, 1})};
      for (int64_t k = 0; k < 32; ++k) {
        inputs[0].set(k, k == 0 ? 1.0 : 0x1p-24);
        inputs[1].set(k, 1.0);
      }
      CpuDevice device(*loaded.module, {});
      auto results = runPlan(*artifact, device, inputs, {}, {.poison = true});
      ASSERT_TRUE(results) << errorText(results.errors());
      EXPECT_EQ((*results)[0].get(0), exact ? 1.0 : 1.0 + 0x1p-20) << stageName(stage);
    }
}
