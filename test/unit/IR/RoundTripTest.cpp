// Text -> IR -> text gives the same text: for every op of the table, every kind of constant, and what users may write differently.
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"

#include <gtest/gtest.h>

#include <clocale>
#include <map>

using namespace minic;

namespace {

std::unique_ptr<Module> parse(Context &context, const std::string &text) {
  SourceBuffer source("test.ir", text);
  auto module = parseModule(context, source);
  if (module)
    return std::move(*module);
  ADD_FAILURE() << renderDiagnostics(module.errors(), &source) << "in\n" << text;
  return nullptr;
}

/// The printed form of `text`, which must not change by reading and printing again.
std::string roundTrip(const std::string &text, PrintOptions options = {}) {
  Context context;
  auto module = parse(context, text);
  if (!module)
    return "";
  std::string once = printModule(*module, options);
  auto again = parse(context, once);
  if (again) {
    EXPECT_EQ(printModule(*again, options), once);
  }
  return once;
}

const std::string graphHead = "graph @g(%x: tensor<4x8xf32>, %y: tensor<8x4xf32>) -> (z: tensor<4x8xf32>)";
const std::string kernelHead = "kernel @k(%b: buffer<Nx8xf32>, %i: index, %t: tile<4x8xf32>, %s: smem<4x8xf32>) at machine";
const std::string asyncHead =
    "kernel @k(%m: tensor_map<NxKxbf16, box = [64, 128], #swizzle128>, %i: index, %p: i1, %b: mbarrier<4>, "
    "%s: smem<64x128xbf16, #swizzle128, stages = 4>, %v: smem<64x128xbf16, #swizzle128, slab = 128>, "
    "%t: tile<64x128xbf16>, %f: inflight<tile<64x128xf32>>) at machine";
const std::string planHead = "plan @p(%b: buffer<Nx8xf32>) -> (c: buffer<Nx8xf32>)";
const std::string scalarHead = "kernel @k(%a: f32, %b: f32, %c: f32, %p: i1) at tile";

struct Sample {
  std::string head;
  std::vector<std::string> lines; ///< As printed: the body but its end.
  std::string end = "return";
};

/// One or more samples of each op, in printed form.
std::multimap<std::string, Sample> samples() {
  std::multimap<std::string, Sample> all = {
      {"constant", {graphHead, {"%c = constant 1.5 : tensor<4x8xf32>"}, "return %x"}},
      {"constant", {graphHead, {"%c = constant [[1, -2], [0, 3]] : tensor<2x2xi32>"}, "return %x"}},
      {"constant", {graphHead, {"%c = constant [true, false] : tensor<2xi1>"}, "return %x"}},
      {"broadcast", {graphHead, {"%c = broadcast %x, dims = [1, 2] : tensor<2x4x8xf32>"}, "return %x"}},
      {"broadcast", {kernelHead, {"%c = broadcast %t : tile<4x8xf32>"}}},
      {"reshape", {graphHead, {"%c = reshape %x : tensor<32xf32>"}, "return %x"}},
      {"transpose", {graphHead, {"%c = transpose %x, perm = [1, 0] : tensor<8x4xf32>"}, "return %x"}},
      {"reduce", {graphHead, {"%c = reduce max %x, axes = [1] : tensor<4xf32>"}, "return %x"}},
      {"reduce", {graphHead, {"%c = reduce max %x, axes = [1], chunks = [4] : tensor<2x4xf32>"}, "return %x"}},
      {"reduce",
       {graphHead,
        {"%m, %l = reduce %x, %x, axes = [1], init = [-inf, 0.0] { ^(%a: f32, %b: f32, %c: f32, %d: f32):",
         "  %e = max %a, %c : f32", "  %f = add %b, %d : f32", "  yield %e, %f", "} : tensor<4xf32>, tensor<4xf32>"},
        "return %x"}},
      {"reduce", {kernelHead, {"%c = reduce sum %t, axes = [1], over = lane, padding = unchecked : tile<4x1xf32>"}}},
      {"slice", {graphHead, {"%c = slice %x, starts = [0, 1], limits = [4, 8], steps = [2, 3] : tensor<2x3xf32>"}, "return %x"}},
      {"pad", {graphHead, {"%c = pad %x, low = [1, 0], high = [0, N], value = -inf : tensor<5x(N + 8)xf32>"}, "return %x"}},
      {"concat", {graphHead, {"%c = concat %x, %x, axis = 1 : tensor<4x16xf32>"}, "return %x"}},
      {"gather",
       {"graph @g(%x: tensor<4x8xf32>, %r: tensor<3xi64>) -> (z: tensor<4x8xf32>)",
        {"%c = gather %x, %r, axis = 0 : tensor<3x8xf32>"},
        "return %x"}},
      {"iota", {graphHead, {"%c = iota axis = 1 : tensor<4x8xi32>"}, "return %x"}},
      {"iota", {kernelHead, {"%c = iota %i, axis = 1 : tile<1x8xi64>"}}},
      {"size", {graphHead, {"%c = size M + 2*N - 1 : tensor<i64>"}, "return %x"}},
      {"cumsum", {graphHead, {"%c = cumsum %x, axis = 1 : tensor<4x8xf32>"}, "return %x"}},
      {"softmax", {graphHead, {"%c = softmax %x, axis = 1 : tensor<4x8xf32>"}, "return %x"}},
      {"layernorm",
       {"graph @g(%x: tensor<4x8xf32>, %s: tensor<8xf32>) -> (z: tensor<4x8xf32>)",
        {"%c = layernorm %x, %s, %s, axes = [1], eps = 1e-05 : tensor<4x8xf32>"},
        "return %x"}},
      {"rmsnorm",
       {graphHead,
        {"%h = convert %x : tensor<4x8xf16>", "%c = rmsnorm %h, axes = [1], eps = 1e-05 : tensor<4x8xf16>"},
        "return %x"}},
      {"mean", {graphHead, {"%c = mean %x, axes = [0, 1] : tensor<f32>"}, "return %x"}},
      {"argmax", {graphHead, {"%c = argmax %x, axis = 0 : tensor<8xi64>"}, "return %x"}},
      {"load", {kernelHead, {"%r = load %b, %i, %i, steps = [1, 2], mask = [0], vec = 1 : tile<4x8xf32>"}}},
      {"matmul", {graphHead, {"%c = matmul %x, %y : tensor<4x4xf32>"}, "return %x"}},
      {"matmul", {graphHead, {"%c = matmul %x, %y, precision = tf32 : tensor<4x4xf32>"}, "return %x"}},
      {"matmul", {graphHead, {"%c = matmul %x, %y, precision = bf16x6 : tensor<4x4xf32>"}, "return %x"}},
      {"matmul", {graphHead, {"%c = matmul %x, %y, chunks = [4] : tensor<2x4x4xf32>"}, "return %x"}},
      {"custom", {graphHead, {"%c, %d = custom @f(%x, %y) : tensor<4x8xf32>, tensor<f32>"}, "return %x"}},
      {"fusion",
       {graphHead + " at fused",
        {"%c = fusion %x, schedule = #rows<block = [4, 8], warps = [4, 1], vec = 4> { ^(%a: tensor<4x8xf32>):",
         "  %e = exp %a : tensor<4x8xf32>", "  yield %e", "} : tensor<4x8xf32>"},
        "return %x"}},
      {"yield", {kernelHead, {"for %i, %i, %i { ^(%j: index):", "  barrier", "  yield", "}"}}},
      {"return", {graphHead, {}, "return %x"}},
      {"return", {kernelHead, {}, "return"}},
      {"compare", {scalarHead, {"%r = compare lt %a, %b : i1"}}},
      {"select", {scalarHead, {"%r = select %p, %a, %b : f32"}}},
      {"convert", {scalarHead, {"%r = convert %a : bf16", "%s = convert %a, rounding = optional : f16"}}},
      {"bitcast", {scalarHead, {"%r = bitcast %a : i32"}}},
      {"program_id", {kernelHead, {"%r, %q = program_id grid = [ceildiv(N, 128), 4] : index, index"}}},
      {"dim", {kernelHead, {"%r = dim N : index"}}},
      {"dim", {kernelHead, {"%r = dim 2*M*ceildiv(N, 4) : index"}}},
      {"for",
       {kernelHead,
        {"%r, %q = for %i, %i, %i, %t, %i { ^(%k: index, %u: tile<4x8xf32>, %v: index):", "  yield %u, %k",
         "} : tile<4x8xf32>, index"}}},
      {"load", {kernelHead, {"%r = load %b, %i, %i, dims = [1, 0], mask = [0, 1], fill = -inf, vec = 4 : tile<8x4xf32>"}}},
      {"load", {kernelHead, {"%r = load %b, %i, %i : tile<4x8xf32>"}}},
      {"load", {kernelHead, {"%r = load %b, %i, %i, mask = [1], vec = 4, edges = split : tile<4x8xf32>"}}},
      {"store", {kernelHead, {"store %t, %b, %i, %i, mask = [1], vec = 4, edges = split"}}},
      {"store", {kernelHead, {"store %t, %b, %i, %i, mask = [0]"}}},
      {"in_bounds", {kernelHead, {"%r = in_bounds %i, axis = 0, size = 4*N : tile<4x1xi1>"}}},
      {"dot", {kernelHead, {"%r = dot %t, %t, %t, axes = [1] : tile<4x8xf32>"}}},
      {"dot", {kernelHead, {"%r = dot %t, %t, %t, axes = [1], precision = tf32 : tile<4x8xf32>"}}},
      {"for", {kernelHead, {"for %i, %i, %i, unroll = full { ^(%j: index):", "  yield", "}"}}},
      {"load", {kernelHead, {"%r = load %b, %i, %i, mask = [], vec = 8, cache = stream : tile<4x8xf32>"}}},
      {"store", {kernelHead, {"store %t, %b, %i, %i, mask = [], vec = 8, cache = stream"}}},
      {"role", {kernelHead, {"role maker, warps = 4, instances = 2, regs = 24, active = thread { ^(%j: index):", "  yield", "}"}}},
      {"role", {kernelHead, {"role user, warps = 1 {", "  yield", "}"}}},
      {"stage", {asyncHead, {"%r = stage %s, %i : smem<64x128xbf16, #swizzle128>"}}},
      {"shared_view", {asyncHead, {"%r = shared_view %v, %i, %i : smem<8x64xbf16, #swizzle128>"}}},
      {"stmatrix", {asyncHead, {"stmatrix %t, %v"}}},
      {"fence_async", {asyncHead, {"fence_async"}}},
      {"mbarrier_init", {asyncHead, {"%r = mbarrier_init count = 8 : mbarrier<2>"}}},
      {"mbarrier_expect", {asyncHead, {"mbarrier_expect %b, %i, bytes = 16384"}}},
      {"mbarrier_arrive", {asyncHead, {"mbarrier_arrive %b, %i"}}},
      {"mbarrier_arrive", {asyncHead, {"mbarrier_arrive %b, %i, %p"}}},
      {"mbarrier_wait", {asyncHead, {"mbarrier_wait %b, %i"}}},
      {"mbarrier_wait", {asyncHead, {"mbarrier_wait %b, %i, lap = previous"}}},
      {"tma_prefetch", {asyncHead, {"tma_prefetch %m"}}},
      {"tma_load", {asyncHead, {"tma_load %m, %v, %b, %i, %i, %i"}}},
      {"tma_store", {asyncHead, {"tma_store %v, %m, %i, %i"}}},
      {"tma_store_wait", {asyncHead, {"tma_store_wait pending = 1"}}},
      {"cp_async", {kernelHead, {"cp_async %b, %s, %i, %i, mask = [0], vec = 4"}}},
      {"cp_async_commit", {kernelHead, {"cp_async_commit"}}},
      {"cp_async_wait", {kernelHead, {"cp_async_wait pending = 2"}}},
      {"ldmatrix", {asyncHead, {"%r = ldmatrix t %v, %i, %i : tile<64x16xbf16>"}}},
      {"mma", {kernelHead, {"%r = mma %t, %t, %t : tile<4x8xf32>"}}},
      {"undefined", {asyncHead, {"%r = undefined : inflight<tile<64x8xf32>>"}}},
      {"wgmma", {asyncHead, {"%r = wgmma nt %v, %v : inflight<tile<64x64xf32>>"}}},
      {"wgmma", {asyncHead, {"%r = wgmma nn %t, %v, %f, %p : inflight<tile<64x128xf32>>"}}},
      {"wgmma_wait", {asyncHead, {"%r, %q = wgmma_wait %f, %t, pending = 0 : tile<64x128xf32>, tile<64x128xbf16>"}}},
      {"extract_tile", {asyncHead, {"%r = extract_tile %t, %i, %i : tile<64x16xbf16>"}}},
      {"tensor_map", {planHead, {"%r = tensor_map %b : tensor_map<Nx8xf32, box = [64, 8]>"}, "return %b"}},
      {"tensor_map", {planHead, {"%r = tensor_map %b : tensor_map<Nx8xf32, box = [64, 8], #swizzle128, tf32>"}, "return %b"}},
      {"alloc_shared", {kernelHead, {"%r = alloc_shared : smem<64x16xf32, strides = [1, 68]>"}}},
      {"shared_store", {kernelHead, {"shared_store %t, %s"}}},
      {"shared_load", {kernelHead, {"%r = shared_load %s : tile<4x8xf32>"}}},
      {"barrier", {kernelHead, {"barrier"}}},
      {"cluster_arrive", {kernelHead, {"cluster_arrive", "cluster_wait"}}},
      {"cluster_wait", {kernelHead, {"cluster_arrive", "cluster_wait"}}},
      {"cluster_store", {asyncHead, {"cluster_store %t, %v, %b, %i"}}},
      {"convert_layout", {kernelHead, {"%r, %q = convert_layout %t, %t : tile<4x8xf32>, tile<4x8xf32>"}}},
      {"spread", {kernelHead, {"%r = spread %t : tile<16x8xf32>"}}},
      {"launch_wait", {kernelHead, {"launch_wait"}}},
      {"exp", {graphHead, {"%c = exp %x, ranges = [-inf, 0.0] : tensor<4x8xf32>"}, "return %x"}},
      {"div", {graphHead, {"%c = div %x, %x, ranges = [-inf, inf, 0.5, 2.0] : tensor<4x8xf32>"}, "return %x"}},
      {"alloc", {planHead, {"%r = alloc : buffer<(4*N)xMx(ceildiv(N, 4))xf32>"}, "return %b"}},
      {"view", {planHead, {"%r = view %b : buffer<(8*N)xf32>"}, "return %b"}},
      {"copy", {planHead, {"%r = copy %b : buffer<Nx8xf32>"}, "return %b"}},
      {"launch", {planHead, {"launch @k(%b, %b), grid = [ceildiv(M, 128), N]"}, "return %b"}},
      {"launch", {planHead, {"launch @k(), grid = [1]"}, "return %b"}},
      {"ptx",
       {"kernel @k(%b: buffer<Nx8xf32>) at machine, threads = 32",
        {R"(ptx "f", sizes = [N, 8], shared = 512, reference = @g, text = "// \"a\" \\ }
.entry f")"}}},
      {"library_call", {planHead, {"library_call cublaslt %b, %b, %b, function = matmul, transposed = rhs"}, "return %b"}},
      {"library_call",
       {planHead, {"library_call cublaslt %b, %b, %b, %b, function = matmul, transposed = both, epilogue = bias"}, "return %b"}},
  };
  for (const OpInfo &info : allOps()) { // The element-wise rows without a word differ in nothing but name and operands.
    if (!info.elementwise || info.word || all.count(std::string(info.name)))
      continue;
    auto operands = std::count(info.operands.begin(), info.operands.end(), ',') + 1;
    std::string line = "%r = " + std::string(info.name) +
                       (operands == 1   ? " %a"
                        : operands == 2 ? " %a, %b"
                                        : " %a, %b, %c") +
                       " : f32";
    all.emplace(info.name, Sample{scalarHead, {line}});
  }
  return all;
}

std::string textOf(const Sample &sample) {
  std::string text = sample.head + " {\n";
  for (const std::string &line : sample.lines)
    text += "  " + line + "\n";
  return text + "  " + sample.end + "\n}\n";
}

std::string constantOf(const std::string &value, const std::string &type) {
  std::string text = roundTrip("graph @g() -> (z: tensor<" + type + ">) {\n  %c = constant " + value + " : tensor<" + type +
                               ">\n  return %c\n}\n");
  size_t begin = text.find("constant "), end = text.find(" : ", begin);
  return begin == std::string::npos ? "" : text.substr(begin + 9, end - begin - 9);
}

} // namespace

TEST(RoundTrip, EveryOpHasASampleThatStaysAsItIs) {
  auto all = samples();
  for (const OpInfo &info : allOps()) {
    EXPECT_TRUE(all.count(std::string(info.name))) << "no sample of " << info.name << ": add one to samples()";
    auto [begin, end] = all.equal_range(std::string(info.name));
    for (auto it = begin; it != end; ++it) {
      std::string text = textOf(it->second);
      std::string again = roundTrip(text, {.locations = false});
      EXPECT_EQ(again.substr(std::min(again.find("\n\n"), again.size())), "\n\n" + text);
      roundTrip(text); // With locations.
    }
  }
}

TEST(RoundTrip, SamplesUseEveryAttribute) {
  std::string text;
  for (const auto &[name, sample] : samples())
    text += textOf(sample);
  for (const OpInfo &info : allOps())
    for (const AttrSpec &attr : info.attrs)
      EXPECT_NE(text.find(std::string(attr.name) + " = "), std::string::npos) << info.name << " " << attr.name;
}

TEST(RoundTrip, Constants) {
  // The expected digits are numpy's: np.float32(...), np.float16(...).
  EXPECT_EQ(constantOf("0.333333343", "f32"), "0.33333334");
  EXPECT_EQ(constantOf("10.0000105", "f32"), "10.0000105");
  EXPECT_EQ(constantOf("0.1", "f32"), "0.1");
  EXPECT_EQ(constantOf("0.1", "f64"), "0.1");
  EXPECT_EQ(constantOf("0.333333343", "f64"), "0.333333343");
  EXPECT_EQ(constantOf("-0.0", "f32"), "-0.0");
  EXPECT_EQ(constantOf("0", "f32"), "0.0");
  EXPECT_EQ(constantOf("-0", "f32"), "-0.0");
  EXPECT_EQ(constantOf("1.4e-45", "f32"), "1e-45");
  EXPECT_EQ(constantOf("1e-400", "f64"), "0.0");
  EXPECT_EQ(constantOf("-1e-400", "f32"), "-0.0");
  EXPECT_EQ(constantOf("nan", "f16"), "nan");
  EXPECT_EQ(constantOf("inf", "f32"), "inf");
  EXPECT_EQ(constantOf("-inf", "bf16"), "-inf");
  EXPECT_EQ(constantOf("65504", "f16"), constantOf("65504.0", "f16"));
  EXPECT_EQ(constantOf("0x1.8p3", "f32"), "12.0");
  EXPECT_EQ(constantOf("-0x1p-149", "f32"), "-1e-45");
  EXPECT_EQ(constantOf("0x10", "f32"), "16.0");
  EXPECT_EQ(constantOf("3", "i32"), "3");
  EXPECT_EQ(constantOf("0xff", "i32"), "255");
  EXPECT_EQ(constantOf("-2147483648", "i32"), "-2147483648");
  EXPECT_EQ(constantOf("1", "i1"), "true");
  EXPECT_EQ(constantOf("false", "i1"), "false");
  EXPECT_EQ(constantOf("[[1, 2.5], [nan, -inf]]", "2x2xf32"), "[[1.0, 2.5], [nan, -inf]]");
  EXPECT_EQ(constantOf("[]", "0xf32"), "[]");
}

TEST(RoundTrip, LiteralsRoundOnce) {
  // Half-way between 1 and the next element, and a little more: as a double both are the tie, which rounds to even.
  EXPECT_EQ(constantOf("1.00048828125", "f16"), "1.0");
  EXPECT_EQ(constantOf("1.000488281250000000000000000001", "f16"), "1.001");
  EXPECT_EQ(constantOf("-1.000488281250000000000000000001", "f16"), "-1.001");
  EXPECT_EQ(constantOf("1.00146484375", "f16"), "1.002");
  EXPECT_EQ(constantOf("1.001464843749999999999999999999", "f16"), "1.001");
  EXPECT_EQ(constantOf("1.00390625", "bf16"), "1.0");
  EXPECT_EQ(constantOf("1.0039062500000000000000000000001", "bf16"), constantOf("0x1.02p0", "bf16"));
  EXPECT_EQ(constantOf("1.000000059604644775390625", "f32"), "1.0");
  EXPECT_EQ(constantOf("1.0000000596046447753906250000000000001", "f32"), "1.0000001");
  EXPECT_EQ(constantOf("0x1.00000100000000000000000000000000001p0", "f32"), "1.0000001");
  EXPECT_EQ(constantOf("0x1.000001p0", "f32"), "1.0");
  // Just below half-way from the largest element to what would come next, where the double is the tie.
  EXPECT_EQ(constantOf("65519.99999999999999999999", "f16"), constantOf("65504", "f16"));
  EXPECT_EQ(constantOf("340282356779733661637539395458142568447.9", "f32"), "3.4028235e+38");
}

TEST(RoundTrip, NumbersRoundToTheirOperandsTypes) {
  std::string text =
      roundTrip("graph @g(%v: tensor<4xf16>, %i: tensor<4xi32>) -> (tensor<f16>, tensor<i32>) {\n"
                "  %m, %a = reduce %v, %i, axes = [0], init = [1, 7] { ^(%p: f16, %q: i32, %r: f16, %s: i32): yield %p, %q }"
                " : tensor<f16>, tensor<i32>\n  return %m, %a\n}\n");
  EXPECT_NE(text.find("init = [1.0, 7]"), std::string::npos) << text;
}

TEST(RoundTrip, FreeForm) {
  std::string printed = roundTrip(
      "minic 1 module numerics=exact,target=sm_80 // comment \xff\r\n"
      "graph@g(%0:tensor< 2 x N x(4*N)x f32 >)->tensor<2xNx(4*N)xf32>at fused{%1=exp%0:tensor<2xNx(4*N)xf32>"
      "return%1}kernel@k()at tile,threads=128,note=#a<b=[x,@y,1.5],c=#d<>>{return}plan\n@p\n(\n)\n->\n(\n)\n{\nreturn\n}");
  EXPECT_EQ(printed, "minic 1\nmodule target = sm_80, numerics = exact\n\n"
                     "graph @g(%0: tensor<2xNx(4*N)xf32>) -> (result: tensor<2xNx(4*N)xf32>) at fused {\n"
                     "  %1 = exp %0 : tensor<2xNx(4*N)xf32> loc(2:75)\n  return %1 loc(2:102)\n}\n\n"
                     "kernel @k() at tile, threads = 128, note = #a<b = [x, @y, 1.5], c = #d<>> {\n  return loc(2:170)\n}\n\n"
                     "plan @p() -> () {\n  return loc(10:1)\n}\n");
  // Each token on a line of its own.
  std::string lines = "graph\n@g\n(\n%x\n:\ntensor<2xf32>\n)\n->\n(\ny\n:\ntensor<2xf32>\n)\n{\n%c\n=\nconstant\n1.0\n:\ntensor<"
                      "2xf32>\n%y\n=\nreduce\n"
                      "max\n%x\n,\naxes\n=\n[\n0\n]\n:\ntensor<f32>\nreturn\n%c\n}";
  EXPECT_NE(roundTrip(lines).find("%y = reduce max %x, axes = [0] : tensor<f32>"), std::string::npos);
}

TEST(RoundTrip, LayoutsAndTheirAliases) {
  std::string alias = "layout<reg = [1:4@1, 1:8@128], lane = [1:32@4], warp = [0:4@1]>";
  std::string text = "#mine = " + alias +
                     "\n#unused = layout<reg = [], lane = [_:32], warp = []>\n"
                     "kernel @k(%a: tile<4x1024xf32, #mine>, %b: tile<4x1024xf32, #" +
                     alias +
                     ">, %c: tile<4xf32, #layout<reg = [], lane = [_:32], "
                     "warp = [0:4@1]>>) at machine {\n  return\n}\nkernel @m(%a: tile<4x1024xf16, #mine>) at machine { return }\n";
  EXPECT_EQ(
      roundTrip(text, {.locations = false}),
      "minic 1\nmodule target = sm_90a, numerics = default\n\n#l0 = " + alias +
          "\n#l1 = layout<reg = [], lane = [_:32], warp = [0:4@1]>\n"
          "kernel @k(%a: tile<4x1024xf32, #l0>, %b: tile<4x1024xf32, #l0>, %c: tile<4xf32, #l1>) at machine {\n  return\n}\n\n"
          "kernel @m(%a: tile<4x1024xf16, #l0>) at machine {\n  return\n}\n");
}

TEST(RoundTrip, Locations) {
  std::string text = "kernel @k(%a: f32) at tile {\n  %b = exp %a : f32 loc(7:9)\n  return\n}\n";
  std::string printed = roundTrip(text);
  // In a dump, what has no place is from no line of the graph.
  EXPECT_NE(printed.find("%b = exp %a : f32 loc(7:9)\n  return\n"), std::string::npos) << printed;
  // Text that has no places is by hand, and its ops are from where they stand.
  printed = roundTrip("kernel @k(%a: f32) at tile {\n  %b = exp %a : f32\n  return\n}\n");
  EXPECT_NE(printed.find("%b = exp %a : f32 loc(2:8)\n  return loc(3:3)\n"), std::string::npos) << printed;
  // A graph's text does not move: no locations there.
  EXPECT_EQ(roundTrip("graph @g(%x: tensor<2xf32>) -> (y: tensor<2xf32>) { return %x loc(3:4) }").find("loc"), std::string::npos);
}

TEST(RoundTrip, ScopesKeepNames) {
  std::string body =
      "  %r = for %i, %i, %i, %i { ^(%k: index, %v: index):\n    %r = add %k, %v : index\n    yield %r\n  } : index\n"
      "  %q = for %i, %i, %i, %r { ^(%k: index, %v: index):\n    yield %v\n  } : index\n  %k = add %q, %q : index\n";
  std::string text = "kernel @k(%i: index) at tile {\n" + body + "  return\n}\n";
  EXPECT_NE(roundTrip(text, {.locations = false}).find(body), std::string::npos);
}

TEST(RoundTrip, DoesNotDependOnTheLocale) {
  const char *set = nullptr;
  for (const char *name : {"de_DE.UTF-8", "de_DE.utf8", "de_DE"})
    if (!set)
      set = std::setlocale(LC_NUMERIC, name);
  if (!set)
    GTEST_SKIP() << "no German locale here";
  std::string text = constantOf("1234.5", "f32");
  std::setlocale(LC_NUMERIC, "C");
  EXPECT_EQ(text, "1234.5");
}
