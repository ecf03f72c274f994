// fuse on graphs that nobody wrote, and on targets that take little.
#include "CompilerTest.h"

#include "minic/Transforms/Analysis/KernelResources.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"

#include <random>

using namespace minic;
using namespace minic::test;

namespace {

/// A graph of about `count` ops on tensors of 4x4 and 4 elements, kept within [-2, 2], in which every op may read any earlier one.
class RandomGraph {
public:
  RandomGraph(unsigned seed, int count) : random(seed) {
    for (int i = 0; i < count; ++i)
      addOp();
  }

  std::string text() {
    std::vector<std::string> outputs = {matrices.back(), rows.back()};
    for (int i = 0; i < 3; ++i)
      outputs.push_back(pick(i % 2 ? rows : matrices));
    std::string results, returned;
    for (size_t i = 0; i < outputs.size(); ++i) {
      bool isRow = std::find(rows.begin(), rows.end(), outputs[i]) != rows.end();
      results += (i ? ", y" : "y") + std::to_string(i) + ": " + (isRow ? row : matrix);
      returned += (i ? ", " : "") + outputs[i];
    }
    return "graph @g(%x: " + std::string(matrix) + ", %r: " + row + ") -> (" + results + ") {\n" + body + "  return " + returned +
           "\n}\n";
  }

private:
  static constexpr const char *matrix = "tensor<4x4xf32>", *row = "tensor<4xf32>";

  int below(int n) { return int(random() % unsigned(n)); }
  std::string pick(const std::vector<std::string> &from) { return from[size_t(below(int(from.size())))]; }

  std::string emit(const std::string &op, const std::string &type) {
    std::string name = "%v" + std::to_string(next++);
    body += "  " + name + " = " + op + " : " + type + "\n";
    return name;
  }

  void keep(std::string value, const char *type) {
    std::string low = emit("constant -2.0", type), high = emit("constant 2.0", type);
    value = emit("max " + value + ", " + low, type);
    (type == row ? rows : matrices).push_back(emit("min " + value + ", " + high, type));
  }

  void addOp() {
    std::string axis = std::to_string(below(2));
    switch (below(9)) {
    case 0:
      return keep(emit("exp " + pick(matrices), matrix), matrix);
    case 1:
      return rows.push_back(emit("neg " + pick(rows), row));
    case 2:
      return keep(emit("reduce sum " + pick(matrices) + ", axes = [" + axis + "]", row), row);
    case 3:
      return rows.push_back(emit("reduce max " + pick(matrices) + ", axes = [" + axis + "]", row));
    case 4:
      return matrices.push_back(emit("broadcast " + pick(rows) + ", dims = [" + axis + "]", matrix));
    case 5:
      return matrices.push_back(emit("transpose " + pick(matrices) + ", perm = [1, 0]", matrix));
    case 6:
      return matrices.push_back(emit("reshape " + emit("reshape " + pick(matrices), "tensor<16xf32>"), matrix));
    case 7:
      return keep(emit("matmul " + pick(matrices) + ", " + pick(matrices), matrix), matrix);
    default:
      return keep(emit(std::string(below(2) ? "add " : "mul ") + pick(matrices) + ", " + pick(matrices), matrix), matrix);
    }
  }

  std::mt19937 random;
  std::string body;
  std::vector<std::string> matrices = {"%x"}, rows = {"%r"};
  int next = 0;
};

TEST(Fuse, RandomGraphs) {
  // A cycle would leave an op in front of what it reads, which the verifier finds after the pass.
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::string text = RandomGraph(seed, 12 + int(seed % 30)).text();
    for (const char *numerics : {"default", "exact"}) {
      RunResult result = run(text, Stage::Plan, {.numerics = numerics}, {}, seed);
      ASSERT_TRUE(result.results) << "seed " << seed << "\n" << errorText(result.results.errors()) << text;
      ASSERT_LT(errorOf(text, result), 1e-4) << "seed " << seed << "\n" << text;
    }
  }
}

/// What each region of a graph takes, after `fuse` for a target.
std::vector<KernelResources> regionsOf(const std::string &text, const TargetInfo &target,
                                       std::initializer_list<const char *> passes = {"canonicalize", "cse", "dce", "fuse"}) {
  std::vector<KernelResources> resources;
  Loaded loaded = load(text);
  PassContext context{*loaded.module, target};
  std::vector<PassStep> steps;
  for (const char *name : passes)
    steps.push_back({findPass(name), Level::Graph});
  auto done = runPasses(*loaded.module, steps, context, {});
  EXPECT_TRUE(done) << errorText(done.errors());
  walk(loaded.module->functions().front()->body(), [&](Operation &fusion) {
    if (!fusion.is(OpKind::Fusion))
      return;
    std::vector<Operation *> ops;
    for (Operation &op : fusion.region())
      if (!op.info().terminator)
        ops.push_back(&op);
    auto space = IterationSpace::compute(ops);
    auto schedule = chooseSchedule(*space, ops, target, false);
    resources.push_back(estimateResources(*space, *schedule, ops, fusion.region().back()->operands()));
  });
  return resources;
}

/// `count` sums of matmuls or of columns of x * x_i.
std::string manyOf(const char *kind, int count, const std::string &sizes, const std::string &result) {
  std::string params, body, sum;
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    params += (i ? ", %x" : "%x") + n + ": tensor<" + sizes + "xf32>";
    if (kind == std::string("matmul")) {
      body += "  %m" + n + " = matmul %x" + n + ", %x" + n + " : " + result + "\n";
    } else {
      body += "  %p" + n + " = mul %x0, %x" + n + " : tensor<" + sizes + "xf32>\n";
      body += "  %m" + n + " = reduce sum %p" + n + ", axes = [0] : " + result + "\n";
    }
    std::string last = i ? "%s" + std::to_string(i - 1) : "%m0";
    body += "  %s" + n + " = add " + last + ", %m" + n + " : " + result + "\n";
  }
  return "graph @g(" + params + ") -> (y: " + result + ") {\n" + body + "  return %s" + std::to_string(count - 1) + "\n}\n";
}

const TargetInfo &target() { return **findTarget(defaultTarget); }

TEST(Fuse, KernelsFitTheirTarget) {
  // It would be one kernel on a target without limits. Code generation says so where shared memory does not do.
  TargetInfo unlimited = target();
  unlimited.sharedBytesPerCta = unlimited.maxRegistersPerThread = unlimited.maxParameterBytes = 1 << 30;
  std::string text = manyOf("sums of columns", 20, "512x256", "tensor<256xf32>");
  auto one = regionsOf(text, unlimited), several = regionsOf(text, target());
  ASSERT_EQ(one.size(), 1u) << text;
  EXPECT_FALSE(one[0].fit(target())) << text;
  EXPECT_GT(several.size(), 1u) << text;
  for (const KernelResources &kernel : several)
    EXPECT_TRUE(kernel.fit(target())) << text;
  EXPECT_FALSE(lowerText(text, Stage::Ptx).empty());
}

TEST(Fuse, TwoProductsOfFusedMultiplyAddsAtMost) {
  // More spill, whatever a count of registers says. The first two are one kernel, each other one adds to what is in memory.
  std::string text = manyOf("matmul", 8, "128x128", "tensor<128x128xf32>");
  auto kernels = regionsOf(text, target());
  EXPECT_EQ(kernels.size(), 7u) << text;
  for (const KernelResources &kernel : kernels)
    EXPECT_TRUE(kernel.fit(target())) << text;
  EXPECT_FALSE(lowerText(text, Stage::Ptx).empty());
}

TEST(Fuse, RowsOfAnyLengthStayInOneKernel) {
  // While a region grows, the ops so far may choose another schedule than all of them: none of those may take more registers than
  // there are. With blocks that start at aligned places 4095 elements are 2 warps of 8192, of which a thread holds 68.
  for (const char *dtype : {"bf16", "f32"})
    for (int columns : {511, 781, 1023, 1025, 2047, 4093, 4094, 4095, 5000, 8189, 8191, 8192}) {
      std::string row = "tensor<64x" + std::to_string(columns) + "x" + dtype + ">";
      std::string scale = "tensor<" + std::to_string(columns) + "x" + dtype + ">";
      std::string text = "graph @g(%x: " + row + ", %r: " + row + ", %g: " + scale + ", %b: " + scale + ") -> (y: " + row +
                         ") {\n  %s = add %x, %r : " + row + "\n  %y = layernorm %s, %g, %b, axes = [1], eps = 1e-5 : " + row +
                         "\n  return %y\n}\n";
      auto kernels = regionsOf(text, target(), {"expand-composites", "canonicalize", "cse", "dce", "fuse"});
      EXPECT_EQ(kernels.size(), 1u) << text;
    }
}

TEST(Fuse, ParametersAreCounted) {
  std::string text = "graph @g(%a: tensor<Nxf32>, %b: tensor<Nxf32>, %c: tensor<Nxf32>) -> (x: tensor<Nxf32>, y: tensor<Nxf32>) {\n"
                     "  %x = add %a, %b : tensor<Nxf32>\n"
                     "  %y = add %x, %c : tensor<Nxf32>\n"
                     "  return %x, %y\n}\n";
  auto one = regionsOf(text, target());
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].parameterBytes, 5 * 8 + 4); // a, b, c, x, y; N.
  TargetInfo small = target();
  small.maxParameterBytes = 43;
  auto two = regionsOf(text, small);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].parameterBytes, 3 * 8 + 4);
}

TEST(Fuse, LiveValuesAreCounted) {
  // 1024 elements on 128 threads: 8 registers a value. x and y are loaded before the sum, which takes the place of one of them.
  auto regions = regionsOf("graph @g(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> (z: tensor<4096xf32>) {\n"
                           "  %s = add %x, %y : tensor<4096xf32>\n"
                           "  %p = mul %s, %x : tensor<4096xf32>\n"
                           "  %z = mul %p, %s : tensor<4096xf32>\n"
                           "  return %z\n}\n",
                           target());
  ASSERT_EQ(regions.size(), 1u);
  EXPECT_EQ(regions[0].registers, 16);
  // 64 values that are all read last.
  std::string body, sums;
  for (int i = 0; i < 64; ++i) {
    std::string n = std::to_string(i), last = i ? "%s" + std::to_string(i - 1) : "%x";
    body += "  %c" + n + " = constant " + n + ".5 : tensor<4096xf32>\n  %v" + n + " = mul " +
            (i ? "%v" + std::to_string(i - 1) : "%x") + ", %c" + n + " : tensor<4096xf32>\n";
    sums += "  %s" + n + " = add " + last + ", %v" + std::to_string(63 - i) + " : tensor<4096xf32>\n";
  }
  std::string text = "graph @g(%x: tensor<4096xf32>) -> (y: tensor<4096xf32>) {\n" + body + sums + "  return %s63\n}\n";
  auto several = regionsOf(text, target());
  EXPECT_GT(several.size(), 1u);
  for (const KernelResources &kernel : several)
    EXPECT_LE(kernel.registers, 255);
}

TEST(Fuse, EqualRegionsShareAKernel) {
  std::string text = "graph @g(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<8xf32>)"
                     " -> (x: tensor<4xf32>, y: tensor<4xf32>, z: tensor<8xf32>, w: tensor<4xf32>) {\n"
                     "  %x = exp %a : tensor<4xf32>\n"
                     "  %y = exp %b : tensor<4xf32>\n"
                     "  %z = exp %c : tensor<8xf32>\n"
                     "  %w = neg %a : tensor<4xf32>\n"
                     "  return %x, %y, %z, %w\n}\n";
  RunResult result = run(text, Stage::Plan, {.eager = true}, {});
  ASSERT_TRUE(result.results) << errorText(result.results.errors());
  EXPECT_LT(errorOf(text, result), 1e-6);
  EXPECT_EQ(result.artifact.kernels.size(), 3u); // Of other sizes and of other ops there is another one.
  int launches = 0;
  for (const PlanStep &step : result.artifact.plans[0].steps)
    launches += step.kind == PlanStep::Kind::Launch;
  EXPECT_EQ(launches, 4);
}

} // namespace
