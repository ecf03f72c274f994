// Graphs compiled and run: results against values worked out by hand and against the f64 oracle; devices; where errors point.
#include "minic/Driver/Driver.h"

#include "../Artifact/FakeDevice.h"

#include "minic/Interp/Oracle.h"
#include "minic/Runtime/Client.h"
#include "minic/Runtime/Executable.h"
#include "minic/Target/TargetInfo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

namespace minic::test {
namespace {

HostTensor tensor(const char *text, DType dtype = DType::F32) {
  auto parsed = parseTensorText(text, dtype);
  EXPECT_TRUE(parsed) << text;
  return parsed ? *parsed : HostTensor();
}

/// Compiles for the interpreter and runs there; empty, and the test fails, if that does not work.
std::vector<HostTensor> run(const Graph &graph, const std::vector<HostTensor> &inputs, const CompileOptions &options = {}) {
  auto device = openDevice("cpu");
  EXPECT_TRUE(device);
  auto artifact = compile(graph, options, device->get());
  if (!artifact) {
    ADD_FAILURE() << renderDiagnostics(artifact.errors(), nullptr) << graph.text();
    return {};
  }
  auto executable = Executable::load(*artifact, *device);
  if (!executable) {
    ADD_FAILURE() << renderDiagnostics(executable.errors(), nullptr);
    return {};
  }
  auto results = (*executable)->run(inputs);
  if (!results) {
    ADD_FAILURE() << renderDiagnostics(results.errors(), nullptr);
    return {};
  }
  return std::move(*results);
}

/// The text of the only result.
std::string runText(const Graph &graph, const std::vector<HostTensor> &inputs) {
  std::vector<HostTensor> results = run(graph, inputs);
  return results.size() == 1 ? tensorText(results[0]) : "";
}

/// Runs on random inputs, eager and fused, and compares with the oracle: |error| <= tolerance * (1 + |value|).
void expectOracle(const Graph &graph, const DimBindings &dims, double tolerance) {
  Context context;
  SourceBuffer source("graph", graph.text());
  auto module = loadModule(context, source, {});
  ASSERT_TRUE(module) << renderDiagnostics(module.errors(), &source);
  const Function &function = *(*module)->functions().front();
  std::vector<HostTensor> inputs;
  for (const Value *param : function.params()) {
    std::vector<int64_t> shape;
    for (const DimExpr &size : param->type().shape())
      shape.push_back(*size.evaluate(dims));
    fillRandom(inputs.emplace_back(param->type().dtype(), shape), inputs.size() + 1);
  }
  auto expected = evaluateGraph(function, inputs, dims);
  ASSERT_TRUE(expected) << renderDiagnostics(expected.errors(), &source);
  for (bool eager : {false, true}) {
    std::vector<HostTensor> results = run(graph, inputs, {.eager = eager});
    ASSERT_EQ(results.size(), expected->size());
    for (size_t r = 0; r < results.size(); ++r) {
      ASSERT_EQ(results[r].shape(), (*expected)[r].shape());
      for (int64_t i = 0; i < results[r].numElements(); ++i) {
        double want = (*expected)[r].get(i);
        ASSERT_NEAR(results[r].get(i), want, tolerance * (1 + std::fabs(want))) << "result " << r << ", element " << i;
      }
    }
  }
}

//===- Results -===//

Graph linearRelu() {
  Graph g("linear_relu");
  Tensor x = g.input("x", DType::F32, {"N", "K"}), w = g.input("w", DType::F32, {"K", "M"}), b = g.input("b", DType::F32, {"M"});
  g.output("y", relu(matmul(x, w) + b));
  return g;
}

TEST(DriverTest, LinearRelu) {
  std::vector<HostTensor> inputs = {tensor("[[1, -2, 3], [0, 1, -1]]"), tensor("[[1, 2], [0, -1], [-1, 1]]"), tensor("[0.5, -1]")};
  EXPECT_EQ(runText(linearRelu(), inputs), "[[0, 6], [1.5, 0]]");
  expectOracle(linearRelu(), {{"N", 33}, {"K", 17}, {"M", 9}}, 1e-5);
}

TEST(DriverTest, ElementwiseByHand) {
  Graph g;
  Tensor x = g.input("x", DType::F32, {"N"}), i = g.input("i", DType::I32, {"N"});
  g.output("a", 1 - x / 2);
  g.output("b", max(min(x, 1), -1));
  g.output("c", select((x > 0) & (i != 2), x * x, -x));
  g.output("d", convert(x >= 1, DType::I32) + i * 10);
  g.output("e", sqrt(x * x) + rsqrt(x * 0 + 4));
  g.output("f", log(exp(x * 0)));
  g.output("g", ((x == x) ^ true) | (x <= -2));
  std::vector<HostTensor> results = run(g, {tensor("[-2, 0.5, 3]"), tensor("[1, 2, 3]", DType::I32)});
  ASSERT_EQ(results.size(), 7u);
  const char *expected[] = {"[2, 0.75, -0.5]", "[-1, 0.5, 1]", "[2, -0.5, 9]",        "[10, 20, 31]",
                            "[2.5, 1, 3.5]",   "[0, 0, 0]",    "[true, false, false]"};
  for (size_t r = 0; r < results.size(); ++r)
    EXPECT_EQ(tensorText(results[r]), expected[r]) << "result " << r;
}

TEST(DriverTest, StructureByHand) {
  Graph g;
  Tensor x = g.input("x", DType::F32, {2, 3});
  g.output("t", transpose(x));
  g.output("r", reshape(x, {3, 2}));
  g.output("b", broadcast(sum(x, 1), {2, 2}, {{0}}));
  g.output("s", sum(x, {0, 1}));
  g.output("m", x - amax(x, -1, true));
  g.output("l", amin(x, 0));
  g.output("a", mean(x, 1));
  Tensor table = g.constant(tensor("[1, 10, 100]"));
  g.output("c", x * table);
  g.output("d", table);
  g.output("e", reshape(table, {3, 1}));
  std::vector<HostTensor> results = run(g, {tensor("[[1, 2, 3], [4, 5, 9]]")});
  ASSERT_EQ(results.size(), 10u);
  const char *expected[] = {"[[1, 4], [2, 5], [3, 9]]",
                            "[[1, 2], [3, 4], [5, 9]]",
                            "[[6, 6], [18, 18]]",
                            "24",
                            "[[-2, -1, 0], [-5, -4, 0]]",
                            "[1, 2, 3]",
                            "[2, 6]",
                            "[[1, 20, 300], [4, 50, 900]]",
                            "[1, 10, 100]",
                            "[[1], [10], [100]]"};
  for (size_t r = 0; r < results.size(); ++r)
    EXPECT_EQ(tensorText(results[r]), expected[r]) << "result " << r;
}

TEST(DriverTest, BatchesShareAWeight) {
  Graph g;
  Tensor x = g.input("x", DType::F32, {"B", "N", 2}), w = g.input("w", DType::F32, {2, 2});
  g.output("y", matmul(x, w));
  // [1 2; 3 4] w = [1*5+2*7 1*6+2*8; 3*5+4*7 3*6+4*8], and the identity w = w.
  EXPECT_EQ(runText(g, {tensor("[[[1, 2], [3, 4]], [[1, 0], [0, 1]]]"), tensor("[[5, 6], [7, 8]]")}),
            "[[[19, 22], [43, 50]], [[5, 6], [7, 8]]]");
}

TEST(DriverTest, Softmax) {
  Graph rows;
  rows.output("y", softmax(rows.input("x", DType::F32, {"M", "N"})));
  // exp(0) : exp(0) and exp(0) : exp(-inf) are 1 : 1 and 1 : 0.
  EXPECT_EQ(runText(rows, {tensor("[[7, 7], [1, -inf]]")}), "[[0.5, 0.5], [1, 0]]");
  expectOracle(rows, {{"M", 5}, {"N", 781}}, 1e-6);

  Graph columns;
  columns.output("y", softmax(columns.input("x", DType::F32, {"B", 6, "N"}), 1));
  expectOracle(columns, {{"B", 2}, {"N", 7}}, 1e-6);
}

TEST(DriverTest, LayerNorm) {
  Graph g;
  Tensor x = g.input("x", DType::F32, {"M", "N"}), gamma = g.input("gamma", DType::F32, {"N"});
  Tensor centered = x - mean(x, -1, true);
  g.output("y", centered * rsqrt(mean(centered * centered, -1, true) + 1e-5) * gamma);
  expectOracle(g, {{"M", 4}, {"N", 100}}, 1e-5);
}

TEST(DriverTest, MeanOfNarrowFloats) {
  Graph g;
  g.output("y", mean(g.input("x", DType::F16, {1, 4}), 1));
  // The sum, 4 * 60000, is no f16.
  EXPECT_EQ(runText(g, {tensor("[[60000, 60000, 60000, 60000]]", DType::F16)}), "[60000]");
}

TEST(DriverTest, ArgMax) {
  Graph g;
  Tensor x = g.input("x", DType::F32, {"M", "N"}), i = g.input("i", DType::I32, {"N"});
  std::vector<Tensor> best =
      reduce({x, broadcast(i, x.shape())}, 1, {-INFINITY, 0},
             [](std::span<const Tensor> v) -> std::vector<Tensor> { return {max(v[0], v[2]), select(v[2] > v[0], v[3], v[1])}; });
  g.output("index", best[1]);
  EXPECT_EQ(runText(g, {tensor("[[1, 5, 2], [9, -1, 3]]"), tensor("[10, 11, 12]", DType::I32)}), "[11, 10]");
}

//===- Compiling -===//

TEST(DriverTest, CompileSaysAllThatIsWrong) {
  Graph g("g");
  Tensor x = g.input("x", DType::F32, {"M", 3}), y = g.input("y", DType::F32, {4});
  g.output("a", x + y);
  g.output("b", matmul(x, x));
  auto artifact = compile(g);
  ASSERT_FALSE(artifact);
  EXPECT_EQ(artifact.errors().size(), 2u);
  std::string text = renderDiagnostics(artifact.errors(), nullptr);
  EXPECT_NE(text.find("`add` needs operands of one shape: %x: tensor<Mx3xf32>, %y: tensor<4xf32> [E0306]"), std::string::npos)
      << text;
  EXPECT_NE(text.find("at DriverTest.cpp:"), std::string::npos) << text;
}

TEST(DriverTest, FindingsOfTheCompilerNameLines) {
  unsigned start = std::source_location::current().line() + 1, first = start + 2;
  Graph g("g");
  Tensor x = g.input("x", DType::F32, {"N"});
  Tensor s = reduce({x}, 0, {0}, [](std::span<const Tensor> v) {
    Tensor twice = v[1] * 1;
    return std::vector{v[0] + twice};
  })[0];
  g.output("y", exp(s));
  // One for each line of the text: the header, reduce, constant, mul, add, yield, reduce's brace, exp, return, the graph's brace.
  const unsigned lines[] = {0, first, first + 1, first + 1, first + 2, first, first, first + 4, start, 0};
  for (uint32_t i = 0; i < std::size(lines); ++i) {
    Diagnostics findings = {{.code = ErrorCode::NoSchedule, .message = "no", .loc = {i + 1, 3}}};
    g.addOrigins(findings);
    std::string note = findings[0].notes.empty() ? "" : findings[0].notes[0].message;
    EXPECT_EQ(note, lines[i] ? "at DriverTest.cpp:" + std::to_string(lines[i]) : "") << "line " << i + 1 << "\n" << g.text();
  }
  Diagnostics placeless = {{.code = ErrorCode::UnknownDim, .message = "no"}};
  g.addOrigins(placeless);
  EXPECT_TRUE(placeless[0].notes.empty());
}

TEST(DriverTest, OptionsReachTheCompiler) {
  auto artifact = compile(linearRelu(), {.target = "sm_80", .numerics = "exact", .dims = {{"K", 16}}});
  ASSERT_TRUE(artifact) << renderDiagnostics(artifact.errors(), nullptr);
  EXPECT_EQ((*artifact)->target, "sm_80");
  EXPECT_EQ((*artifact)->numerics, "exact");
  EXPECT_EQ((*artifact)->signature().inputs[0].shape, (std::vector<DimExpr>{DimExpr::name("N"), 16}));
  ASSERT_FALSE((*artifact)->kernels.empty());
  EXPECT_NE((*artifact)->kernels[0].ptx.find(".target sm_80"), std::string::npos);

  auto unknown = compile(linearRelu(), {.dims = {{"Q", 4}}});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.errors()[0].message, "no dim of the file is called Q");
}

class FakeGpu : public FakeDevice {
public:
  explicit FakeGpu(int capability) : capability(capability) {}
  int computeCapability() const override { return capability; }

private:
  int capability;
};

TEST(DriverTest, CodeIsForTheDevice) {
  auto cpu = openDevice("cpu");
  ASSERT_TRUE(cpu);
  auto interpreted = compile(linearRelu(), {}, cpu->get());
  ASSERT_TRUE(interpreted);
  EXPECT_EQ((*interpreted)->kernels[0].ptx, "");

  FakeGpu ampere(86), old(35);
  auto fit = compile(linearRelu(), {}, &ampere);
  ASSERT_TRUE(fit) << renderDiagnostics(fit.errors(), nullptr);
  EXPECT_EQ((*fit)->target, "sm_86"); // The newest target that 8.6 runs.
  EXPECT_NE((*fit)->kernels[0].ptx.find(".target sm_86"), std::string::npos);

  // What is stated wins, as the artifact may be for another machine.
  auto stated = compile(linearRelu(), {.target = "sm_89"}, &ampere);
  ASSERT_TRUE(stated);
  EXPECT_EQ((*stated)->target, "sm_89");
  auto text = compile(SourceBuffer("t.ir", "module target = sm_120\n" + linearRelu().text()), {}, &ampere);
  ASSERT_TRUE(text) << renderDiagnostics(text.errors(), nullptr);
  EXPECT_EQ((*text)->target, "sm_120");

  auto refused = compile(linearRelu(), {}, &old);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors()[0].message, "fake has compute capability 3.5, older than any target");

  auto general = compile(linearRelu());
  ASSERT_TRUE(general);
  EXPECT_EQ((*general)->target, defaultTarget);
  EXPECT_NE((*general)->kernels[0].ptx, "");
}

TEST(DriverTest, ThreadsCompileOneGraph) {
  Graph g = linearRelu();
  std::vector<std::string> texts(4);
  {
    std::vector<std::jthread> threads;
    for (std::string &text : texts)
      threads.emplace_back([&] {
        auto artifact = compile(g, {.withCode = false});
        text = artifact ? (*artifact)->text : renderDiagnostics(artifact.errors(), nullptr);
      });
  }
  for (const std::string &text : texts)
    EXPECT_EQ(text, texts[0]);
  EXPECT_NE(texts[0].find("kernel @"), std::string::npos) << texts[0];
}

TEST(DriverTest, CodeForEachSetOfSizes) {
  // `where` makes other names of its own; inputs of 3 sizes, one a multiple of a name.
  SourceBuffer source("sum.ir", "graph @sums(%x: tensor<MxNxf32>) -> (y: tensor<Mxf32>) where N % 4 == 0 {\n"
                                "  %y = reduce sum %x, axes = [1] : tensor<Mxf32>\n  return %y\n}\n");
  auto device = *openDevice("cpu");
  CompileOptions options{.specializations = {"N % 8 == 0"}};
  auto artifact = compile(source, options, device.get());
  ASSERT_TRUE(artifact) << renderDiagnostics(artifact.errors(), &source);
  auto executable = *Executable::load(*artifact, device);
  auto specialized = specializeByShape(*executable, source, options);
  ASSERT_TRUE(specialized) << renderDiagnostics(specialized.errors(), &source);
  auto sums = [&](int64_t m, int64_t n) {
    HostTensor x(DType::F32, {m, n});
    for (int64_t i = 0; i < m * n; ++i)
      x.as<float>()[i] = float(i % 17 - 8);
    std::vector<HostTensor> inputs = {x};
    auto y = executable->run(inputs);
    ASSERT_TRUE(y) << renderDiagnostics(y.errors(), nullptr);
    for (int64_t row = 0; row < m; ++row) {
      float sum = 0; // Small integers: exact in any order.
      for (int64_t column = 0; column < n; ++column)
        sum += float((row * n + column) % 17 - 8);
      EXPECT_EQ((*y)[0].as<float>()[row], sum) << m << "x" << n << ", row " << row;
    }
  };
  sums(3, 8);
  sums(1, 4);
  sums(0, 4);
  sums(5, 0);
  sums(3, 8);
  sums(2, 100);
  EXPECT_EQ(executable->shapeCounts().compilations, 5u);
  executable->allowCompilation(false);
  sums(2, 100);
  std::vector<HostTensor> wrong = {HostTensor(DType::F32, {2, 7})}, fresh = {HostTensor(DType::F32, {2, 12})};
  auto odd = executable->run(wrong);
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.errors().front().code, ErrorCode::BadInput); // No shape of the graph's.
  auto refused = executable->run(fresh);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.errors().front().code, ErrorCode::NotCached);

  auto other = specializeByShape(*executable, SourceBuffer("other.ir", "graph @g(%z: tensor<Nxf32>) -> (y: tensor<Nxf32>) {\n"
                                                                       "  %y = exp %z : tensor<Nxf32>\n  return %y\n}\n"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.errors().front().code, ErrorCode::BadArgument);
}

TEST(DriverTest, FilesOfText) {
  auto source = readSource(std::string(MINIC_EXAMPLES) + "/softmax.ir");
  ASSERT_TRUE(source);
  auto artifact = compile(*source);
  ASSERT_TRUE(artifact) << renderDiagnostics(artifact.errors(), &*source);
  EXPECT_EQ((*artifact)->signature().name, "softmax");

  auto missing = readSource("/nonexistent/a.ir");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.errors()[0].message, "cannot read '/nonexistent/a.ir': No such file or directory");
  EXPECT_FALSE(readSource(MINIC_EXAMPLES));

  auto wrong = compile(SourceBuffer("wrong.ir", "graph @g(%x: tensor<4xf32>) -> (y: tensor<4xf32>) {\n  return %z\n}\n"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(errorCodeName(wrong.errors()[0].code), "E0202");
}

//===- Devices -===//

TEST(DriverTest, Devices) {
  auto cpu = openDevice("cpu");
  ASSERT_TRUE(cpu);
  EXPECT_EQ((*cpu)->name(), "cpu");
  std::string why;
  auto any = openDevice();
  ASSERT_TRUE(any) << renderDiagnostics(any.errors(), nullptr);
  EXPECT_EQ((*any)->name(), cudaAvailable(why) ? "cuda:0" : "cpu");

  for (const char *name : {"gpu", "", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "CPU", "cpu:0"}) {
    auto device = openDevice(name);
    ASSERT_FALSE(device) << name;
    EXPECT_EQ(device.errors()[0].message, "no device is called '" + std::string(name) + "'");
    EXPECT_EQ(device.errors()[0].fix, "it is one of auto, cuda, cuda:N, cpu");
  }
  if (!why.empty()) {
    auto cuda = openDevice("cuda");
    ASSERT_FALSE(cuda);
    EXPECT_NE(errorCodeName(cuda.errors()[0].code), "E1001");
  }
}

} // namespace
} // namespace minic::test
