// Products on tensor cores from the graph: after each of the passes that make one, the kernel runs and gives what f64 arithmetic
// gives.
#pragma once

#include "CompilerTest.h"

#include <regex>

namespace minic::test {

constexpr double bf16Rounding = 0x1p-8, f32Rounding = 0x1p-24; // Half a unit in the last place, relative.
constexpr int64_t isNamed = -1;

/// y = relu(x w + b + r - x w2 - x w3), with what is asked for.
struct Product {
  int64_t M, K, N;
  int64_t bm = 64, bn = 64, stages = 4, raster = 8;
  bool isTransposed = false, isAcross = false; ///< Whether w, and x, has the contracted axis elsewhere in memory.
  bool hasBias = false, hasResidual = false, hasRelu = false;
  bool givesRounded = true, givesSums = false; ///< y in bf16 (of integers in i32); x w alone in f32 or i32.
  int64_t rowsInText = 0;                      ///< 0: M; isNamed: a name.
  int64_t multiprocessors = 3;                 ///< Few, so that a program has several tiles.
  int64_t products = 1;                        ///< Of x, in one kernel.
  DType dtype = DType::BF16;                   ///< Of x and w.
  std::string precision;
  std::string schedule; ///< Instead of the tensor cores' one.
  std::string warps;    ///< Of mma; empty: wgmma.
  int64_t blockOfK = 0; ///< Of mma; 0: 128 bytes.

  bool isSplit() const { return precision == "bf16x6"; }
  bool isPromoted() const { return isSplit() || isStorageOnly(dtype); }
  DType operandType() const { return isSplit() ? DType::BF16 : dtype; } ///< On the tensor cores.
  int64_t bk() const { return blockOfK ? blockOfK : 128 / dtypeBytes(operandType()); }
  DType sumType() const { return computeDType(dtype); }
  DType roundedType() const { return sumType() == DType::F32 ? DType::BF16 : sumType(); } ///< Of bias, residual and y.
  /// Half a unit in the last place of a sum, and of y where it has fewer bits, relative.
  double rounding() const { return isInteger(dtype) ? 0 : dtype == DType::F64 ? 0x1p-53 : f32Rounding; }
  double lastRounding() const { return roundedType() == DType::BF16 ? bf16Rounding : 0; }
};

inline std::string scheduleText(const Product &p) {
  if (!p.schedule.empty())
    return p.schedule;
  return "#matmul<bm = " + std::to_string(p.bm) + ", bn = " + std::to_string(p.bn) + ", bk = " + std::to_string(p.bk()) +
         (p.warps.empty() ? ", unit = wgmma" : ", unit = mma, warps = " + p.warps) + ", stages = " + std::to_string(p.stages) +
         ", raster = " + std::to_string(p.raster) + ">";
}

inline std::string graphText(const Product &p) {
  std::string m = p.rowsInText == isNamed ? "M" : std::to_string(p.M), k = std::to_string(p.K), n = std::to_string(p.N);
  auto tensor = [](const std::string &sizes, DType dtype) { return "tensor<" + sizes + "x" + std::string(dtypeName(dtype)) + ">"; };
  std::string sums = tensor(m + "x" + n, p.sumType()), rounded = tensor(m + "x" + n, p.roundedType());
  std::string text = "graph @g(%x: " + tensor(p.isAcross ? k + "x" + m : m + "x" + k, p.dtype) +
                     ", %w: " + tensor(p.isTransposed ? n + "x" + k : k + "x" + n, p.dtype);
  if (p.hasBias)
    text += ", %b: " + tensor(n, p.roundedType());
  if (p.hasResidual)
    text += ", %r: " + rounded;
  for (int64_t i = 2; i <= p.products; ++i)
    text += ", %w" + std::to_string(i) + ": " + tensor(p.isTransposed ? n + "x" + k : k + "x" + n, p.dtype);
  text += ") -> (" + std::string(p.givesRounded ? "y: " + rounded : "") + (p.givesRounded && p.givesSums ? ", " : "") +
          (p.givesSums ? "s: " + sums : "") + ") {\n";
  std::string last;
  auto step = [&](const std::string &name, const std::string &op) {
    text += "  %" + name + " = " + op + "\n";
    last = "%" + name;
  };
  // A value of the rounded type in that of the sums, and back.
  auto converted = [&](const std::string &name, const std::string &from, const std::string &type) {
    if (p.roundedType() == p.sumType())
      last = "%" + from;
    else
      step(name, "convert %" + from + " : " + type);
  };
  if (p.isAcross)
    step("xt", "transpose %x, perm = [1, 0] : " + tensor(m + "x" + k, p.dtype));
  auto multiply = [&](const std::string &number) {
    if (p.isTransposed)
      step("wt" + number, "transpose %w" + number + ", perm = [1, 0] : " + tensor(k + "x" + n, p.dtype));
    step("s" + number, "matmul " + std::string(p.isAcross ? "%xt, " : "%x, ") + (p.isTransposed ? "%wt" : "%w") + number +
                           (p.precision.empty() ? "" : ", precision = " + p.precision) + " : " + sums);
  };
  multiply("");
  if (p.hasBias) {
    converted("bf", "b", tensor(n, p.sumType()));
    step("bb", "broadcast " + last + ", dims = [1] : " + sums);
    step("z", "add %s, %bb : " + sums);
  }
  if (p.hasResidual) {
    std::string before = last;
    converted("rf", "r", sums);
    step("q", "add " + before + ", " + last + " : " + sums);
  }
  for (int64_t i = 2; i <= p.products; ++i) {
    std::string before = last, number = std::to_string(i);
    multiply(number);
    step("d" + number, "sub " + before + ", %s" + number + " : " + sums);
  }
  if (p.hasRelu)
    step("p", "relu " + last + " : " + sums);
  if (p.givesRounded)
    converted("y", last.substr(1), rounded);
  return text + "  return " + (p.givesRounded ? last : "") + (p.givesRounded && p.givesSums ? ", " : "") +
         (p.givesSums ? "%s" : "") + "\n}\n";
}

struct Ran {
  std::vector<HostTensor> inputs, results;
  std::string text; ///< Of the module that ran.
};

using ChangeInputs = std::function<void(std::vector<HostTensor> &)>;

/// 8-bit integers: all that there are.
inline void fillInput(HostTensor &tensor, uint64_t seed) {
  fillRandom(tensor, seed);
  if (!isInteger(tensor.dtype()) || dtypeBytes(tensor.dtype()) > 1)
    return;
  HostTensor wide(DType::F64, tensor.shape());
  fillRandom(wide, seed);
  for (int64_t i = 0; i < tensor.numElements(); ++i)
    tensor.set(i, std::floor(wide.get(i) * 128) + (tensor.dtype() == DType::U8 ? 128 : 0));
}

/// Lowers to masked, runs `passes` and then the plan, programs shuffled, over poisoned memory. `change` may change the inputs.
inline Ran runAfter(const Product &p, std::span<const char *const> passes, const ChangeInputs &change) {
  Ran ran;
  CompileOptions options;
  options.anyStrides = false;
  std::string fused = lowerText(graphText(p), Stage::Fused, options);
  std::regex chosen("#matmul<[^>]*>");
  EXPECT_TRUE(std::regex_search(fused, chosen)) << fused;
  Loaded loaded = load(std::regex_replace(fused, chosen, scheduleText(p)), options);
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
    fillInput(ran.inputs.emplace_back(spec.dtype, shape), seed++);
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

/// To the 11 bits of significand that tf32 has, by arithmetic; not of numbers below the least normal one. TMA rounds ties to even,
/// the threads' instruction away from 0.
inline double roundedTo11Bits(double value, bool tiesAway) {
  int exponent;
  double fraction = std::ldexp(std::frexp(value, &exponent), 11);
  return std::isfinite(value) ? std::ldexp(tiesAway ? std::round(fraction) : std::nearbyint(fraction), exponent - 11) : value;
}

/// What the sum of K products may be off by, relative to the sum of their magnitudes.
inline double sumBound(const Product &p) {
  if (isInteger(p.dtype))
    return 0;
  double blocks = double((p.K + p.bk() - 1) / p.bk()), inBlock = double(std::min(p.K, p.bk()));
  // The chains of one block's six products: all but the last 64 terms are sums of at most 2^-7 of the magnitudes, which add less
  // than 2 roundings. Products that are left out are 2^-24, 2^-24 and 2^-32 of theirs.
  if (p.isSplit())
    return (inBlock + blocks + 2 + 2.01) * f32Rounding;
  double expected = p.dtype == DType::F64 ? 1 : 0; // What is compared with is rounded to f64 too.
  return (p.isPromoted() ? inBlock + blocks : double(p.K) + expected) * p.rounding(); // Else K sums, in any order.
}

/// The same bits for inf, a NaN for a NaN, else near. An infinity that was split may give either.
inline void expectNear(const Product &p, double got, double want, double tolerance, int64_t m, int64_t n) {
  if (std::isfinite(want))
    ASSERT_NEAR(got, want, tolerance) << m << ", " << n;
  else if (p.isSplit())
    ASSERT_FALSE(std::isfinite(got)) << got << ", not " << want << ", at " << m << ", " << n;
  else
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << got << ", not " << want << ", at " << m << ", " << n;
}

/// Against sums of products in 64 bits of significand: of what tf32 makes of the operands, where they are rounded.
inline void checkNumbers(const Product &p, const Ran &ran) {
  ASSERT_EQ(ran.results.size(), size_t(p.givesRounded) + size_t(p.givesSums));
  const HostTensor &x = ran.inputs[0], &w = ran.inputs[1];
  const HostTensor *bias = p.hasBias ? &ran.inputs[2] : nullptr,
                   *residual = p.hasResidual ? &ran.inputs[p.hasBias ? 3 : 2] : nullptr;
  auto operand = [&](const HostTensor &tensor, int64_t i) {
    return p.precision == "tf32" ? roundedTo11Bits(tensor.get(i), !p.warps.empty()) : tensor.get(i);
  };
  double rounding = p.rounding(), last = p.lastRounding();
  for (int64_t m = 0; m < p.M; ++m)
    for (int64_t n = 0; n < p.N; ++n) {
      long double sum = 0;
      double size = 0;
      auto multiply = [&](const HostTensor &weights, int sign) {
        for (int64_t k = 0; k < p.K; ++k) {
          long double product = static_cast<long double>(operand(x, p.isAcross ? k * p.M + m : m * p.K + k)) *
                                operand(weights, p.isTransposed ? n * p.K + k : k * p.N + n);
          sum += sign * product;
          size += std::fabs(double(product));
        }
      };
      multiply(w, 1);
      if (p.givesSums)
        expectNear(p, ran.results.back().get(m * p.N + n), double(sum), sumBound(p) * size, m, n);
      for (double more : {bias ? bias->get(n) : 0, residual ? residual->get(m * p.N + n) : 0}) {
        sum += more;
        size += std::fabs(more);
      }
      for (int64_t i = 1; i < p.products; ++i)
        multiply(ran.inputs[ran.inputs.size() - size_t(i)], -1);
      double want = p.hasRelu && sum < 0 ? 0 : double(sum);
      // Two sums more, those of other products, and one rounding to bf16.
      if (p.givesRounded)
        expectNear(p, ran.results[0].get(m * p.N + n), want,
                   std::fabs(want) * last + (sumBound(p) + double(1 + p.products) * rounding) * (1 + last) * size, m, n);
      if (::testing::Test::HasFatalFailure())
        return;
    }
}

constexpr const char *tensorCorePasses[] = {"specialize-warps", "pipeline", "stage-stores", "persist"};
constexpr const char *mmaPasses[] = {"fragment-products", "multistage", "rasterize"};

/// After the first pass, the first two, and so on. Returns the text after all.
inline std::string check(const Product &p, const ChangeInputs &change = nullptr) {
  std::string text;
  std::span<const char *const> passes = p.warps.empty() ? std::span<const char *const>(tensorCorePasses) : mmaPasses;
  for (size_t count = 1; count <= passes.size(); ++count) {
    SCOPED_TRACE(std::string("after ") + passes[count - 1]);
    Ran ran = runAfter(p, passes.first(count), change);
    EXPECT_NE(ran.text.find(p.warps.empty() ? " = wgmma " : " = mma "), std::string::npos) << ran.text;
    checkNumbers(p, ran);
    text = ran.text;
  }
  return text;
}

/// An element type that tensor cores multiply, and `precision` of the product.
struct Form {
  const char *name;
  DType dtype;
  const char *precision = "";
};

inline void PrintTo(const Form &form, std::ostream *os) { *os << form.name; }

class ProductsOfForms : public ::testing::TestWithParam<Form> {
protected:
  Product of(Product p) const {
    p.dtype = GetParam().dtype;
    p.precision = GetParam().precision;
    p.hasRelu &= !isInteger(p.dtype); // It is for floats.
    return p;
  }
};

} // namespace minic::test
