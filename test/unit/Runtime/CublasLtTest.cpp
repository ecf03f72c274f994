// Products of cuBLASLt on a library that computes what it is asked on host memory: no GPU is needed. test/gpu/check_cublaslt.py is
// for the real one.
#include "../../../lib/Runtime/CublasLt.h"
#include "Inputs/FakeCublasLt.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <random>
#include <thread>

using namespace minic;
using namespace minic::cuda;
using minic::test::FakeCublasLt;

namespace {

class CublasLtTest : public testing::Test {
protected:
  void SetUp() override {
    const char *path = MINIC_FAKE_CUBLASLT;
    if (!std::filesystem::exists(path))
      GTEST_SKIP() << "no fake library here";
    auto opened = CublasLtApi::open({&path, 1});
    ASSERT_TRUE(opened) << opened.errors().front().message;
    api = *opened;
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    fake = reinterpret_cast<FakeCublasLt *(*)()>(dlsym(library, "fakeCublasLt"))();
    *fake = {};
  }
  void TearDown() override {
    library.reset();
    if (fake) {
      EXPECT_EQ(fake->handles, 0);
      EXPECT_EQ(fake->objects, 0);
    }
  }

  CublasLt &open() {
    auto made = CublasLt::create(api);
    EXPECT_TRUE(made);
    library = std::move(*made);
    return *library;
  }
  std::shared_ptr<const LtMatmul> find(const MatmulProblem &problem) {
    auto made = (library ? *library : open()).find(problem);
    if (made)
      return *made;
    ADD_FAILURE() << made.errors().front().message;
    return nullptr;
  }
  Diagnostic errorOf(const MatmulProblem &problem) {
    auto made = (library ? *library : open()).find(problem);
    EXPECT_FALSE(made);
    return made ? Diagnostic{.code = ErrorCode::BadFlag, .message = "no error"} : made.errors().front();
  }

  CublasLtApi api;
  FakeCublasLt *fake = nullptr;
  std::unique_ptr<CublasLt> library;
};

/// Elements of one type in host memory.
class Tensor {
public:
  Tensor(DType dtype, int64_t count) : dtype(dtype), bytes(static_cast<size_t>(count * dtypeBytes(dtype))) {}
  DeviceMemory address() { return DeviceMemory(bytes.data()); }
  int64_t size() const { return int64_t(bytes.size()) / dtypeBytes(dtype); }
  double operator[](int64_t i) const {
    if (dtype == DType::F64)
      return at<double>(i);
    return dtype == DType::F32 ? at<float>(i) : bfloatToFloat(at<uint16_t>(i));
  }
  void set(int64_t i, double value) {
    if (dtype == DType::F64)
      put(i, value);
    else if (dtype == DType::F32)
      put(i, float(value));
    else
      put(i, floatToBfloat(float(value)));
  }
  /// Small integers, so that every sum is exact in every type.
  void randomize(std::mt19937 &random) {
    for (int64_t i = 0; i < size(); ++i)
      set(i, double(int(random() % 7) - 3));
  }

private:
  template <typename T> T at(int64_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + size_t(i) * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T> void put(int64_t i, T value) { std::memcpy(bytes.data() + size_t(i) * sizeof(T), &value, sizeof(T)); }
  DType dtype;
  std::vector<std::byte> bytes;
};

/// Runs a problem on random row-major matrices and compares with the definition of a product.
void expectRight(const MatmulProblem &p, const LtMatmul &matmul, unsigned seed) {
  std::mt19937 random(seed);
  Tensor lhs(p.operand, (p.lhsRepeats ? 1 : p.batches) * p.rows * p.depth),
      rhs(p.operand, (p.rhsRepeats ? 1 : p.batches) * p.depth * p.columns);
  Tensor bias(p.result, p.columns), result(p.result, p.batches * p.rows * p.columns);
  for (Tensor *tensor : {&lhs, &rhs, &bias, &result})
    tensor->randomize(random);
  std::vector<DeviceMemory> buffers = {lhs.address(), rhs.address()};
  if (p.call.hasBias())
    buffers.push_back(bias.address());
  buffers.push_back(result.address());
  ASSERT_EQ(matmul.enqueue(nullptr, buffers), lt::success);
  for (int64_t batch = 0; batch < p.batches; ++batch)
    for (int64_t row = 0; row < p.rows; ++row)
      for (int64_t column = 0; column < p.columns; ++column) {
        int64_t x = p.lhsRepeats ? 0 : batch * p.rows * p.depth, w = p.rhsRepeats ? 0 : batch * p.depth * p.columns;
        double sum = 0;
        for (int64_t k = 0; k < p.depth; ++k)
          sum += lhs[x + (p.call.transposedLhs ? k * p.rows + row : row * p.depth + k)] *
                 rhs[w + (p.call.transposedRhs ? column * p.depth + k : k * p.columns + column)];
        sum += p.call.hasBias() ? bias[column] : 0;
        ASSERT_EQ(result[(batch * p.rows + row) * p.columns + column], sum) << "at " << batch << ", " << row << ", " << column;
      }
}

TEST_F(CublasLtTest, EveryLayoutTypeAndEpilogue) {
  unsigned seed = 0;
  for (auto [operand, result] :
       {std::pair(DType::F32, DType::F32), {DType::F64, DType::F64}, {DType::BF16, DType::F32}, {DType::BF16, DType::BF16}})
    for (bool transposedLhs : {false, true})
      for (bool transposedRhs : {false, true})
        for (MatmulEpilogue epilogue : {MatmulEpilogue::None, MatmulEpilogue::Bias})
          for (int64_t batches : {1, 3})
            for (int repeats : {0, 1, 2}) {
              MatmulProblem problem{.call = {transposedLhs, transposedRhs, epilogue},
                                    .operand = operand,
                                    .result = result,
                                    .batches = batches,
                                    .rows = 5,
                                    .columns = 3,
                                    .depth = 4,
                                    .lhsRepeats = repeats == 1,
                                    .rhsRepeats = repeats == 2};
              if (auto matmul = find(problem))
                expectRight(problem, *matmul, ++seed);
            }
}

TEST_F(CublasLtTest, SizesOfOne) {
  for (auto [rows, columns, depth] : {std::array<int64_t, 3>{1, 1, 1}, {1, 7, 5}, {7, 1, 5}, {7, 5, 1}}) {
    MatmulProblem problem{.call = {true, true, MatmulEpilogue::Bias}, .rows = rows, .columns = columns, .depth = depth};
    if (auto matmul = find(problem))
      expectRight(problem, *matmul, unsigned(rows * 100 + columns * 10 + depth));
  }
}

TEST_F(CublasLtTest, WhatIsAskedOfTheHeuristic) {
  MatmulProblem problem{.call = {false, false, MatmulEpilogue::Bias}, .rows = 8, .columns = 8, .depth = 8};
  auto first = find(problem);
  // No more than 16 bytes of alignment are promised, and parts of sums stay in the type of the sum.
  EXPECT_EQ(fake->wishes, (std::map<int, uint64_t>{{1, 32 << 20}, {3, 2}, {5, 16}, {6, 16}, {7, 16}, {8, 16}}));
  EXPECT_EQ(fake->biasWhenAsked, reinterpret_cast<const void *>(16));
  // Once for each problem, whatever it is called.
  problem.name = "'z' of 'f'";
  EXPECT_EQ(find(problem), first);
  EXPECT_EQ(fake->asked, 1);
  problem.rows = 9;
  EXPECT_NE(find(problem), first);
  problem.call.epilogue = MatmulEpilogue::None;
  find(problem);
  EXPECT_EQ(fake->asked, 3);
}

/// A matrix that all batches share multiplies all rows at once, so batches become rows.
TEST_F(CublasLtTest, BatchesOfOneMatrixAreRows) {
  find({.batches = 6, .rows = 4, .columns = 8, .depth = 8, .rhsRepeats = true});
  find({.batches = 1, .rows = 24, .columns = 8, .depth = 8});
  EXPECT_EQ(fake->asked, 1);
}

TEST_F(CublasLtTest, WorkspaceAndStream) {
  fake->workspaceBytes = 4096;
  MatmulProblem problem{.rows = 2, .columns = 2, .depth = 2};
  auto matmul = find(problem);
  ASSERT_TRUE(matmul);
  EXPECT_EQ(matmul->workspaceBytes(), 4096u);
  Tensor x(DType::F32, 4), y(DType::F32, 4);
  auto stream = reinterpret_cast<CuStream>(0x1230);
  EXPECT_EQ(matmul->enqueue(stream, std::vector<DeviceMemory>{x.address(), x.address(), y.address(), 0x5000}), lt::success);
  EXPECT_EQ(fake->lastWorkspace, reinterpret_cast<void *>(0x5000));
  EXPECT_EQ(fake->lastWorkspaceBytes, 4096u);
  EXPECT_EQ(fake->lastStream, stream);
}

/// The bias's address is a part of a description that all threads share.
TEST_F(CublasLtTest, ThreadsWithBiasesOfTheirOwn) {
  MatmulProblem problem{.call = {false, false, MatmulEpilogue::Bias}, .rows = 6, .columns = 5, .depth = 4};
  auto matmul = find(problem);
  ASSERT_TRUE(matmul);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (unsigned run = 0; run < 200; ++run)
        expectRight(problem, *matmul, i * 1000 + run);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(CublasLtTest, Errors) {
  MatmulProblem problem{.call = {false, true, MatmulEpilogue::Bias},
                        .operand = DType::F64,
                        .result = DType::F64,
                        .batches = 2,
                        .rows = 3,
                        .columns = 5,
                        .depth = 4,
                        .name = "'y' of 'f'"};
  fake->failing = "nothing found";
  Diagnostic nothing = errorOf(problem);
  EXPECT_EQ(nothing.code, ErrorCode::NoLibrary);
  EXPECT_EQ(nothing.message, "cuBLASLt cannot compute the product for 'y' of 'f' (2x3x4 by 4x5, f64 to f64, bias): "
                             "CUBLAS_STATUS_NOT_SUPPORTED");
  EXPECT_EQ(nothing.fix, "compile with --matmul=generated");
  for (const char *function : {"cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
                               "cublasLtMatmulAlgoGetHeuristic"}) {
    fake->failing = function;
    fake->status = 99;
    EXPECT_NE(errorOf(problem).message.find(": cuBLAS status 99"), std::string::npos) << function;
  }
  fake->failing = "";
  fake->workspaceBytes = maxLtWorkspace + 1; // More than it was allowed.
  EXPECT_EQ(errorOf(problem).code, ErrorCode::NoLibrary);
  fake->workspaceBytes = 0;
  problem.batches = int64_t(1) << 31;
  EXPECT_EQ(errorOf(problem).code, ErrorCode::ResourceLimit);
  problem.batches = 2;
  auto matmul = find(problem); // What failed before is asked again.
  ASSERT_TRUE(matmul);
  fake->failing = "cublasLtMatmul";
  constexpr LtStatus executionFailed = 13;
  fake->status = executionFailed;
  EXPECT_EQ(matmul->enqueue(nullptr, std::vector<DeviceMemory>(4)), executionFailed);
  EXPECT_EQ(api.describe(executionFailed), "CUBLAS_STATUS_EXECUTION_FAILED");
  fake->failing = "cublasLtCreate";
  fake->status = 15;
  auto none = CublasLt::create(api);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.errors().front().message, "cuBLASLt cannot start: CUBLAS_STATUS_NOT_SUPPORTED");
}

TEST(CublasLtApi, LibraryIsMissing) {
  const char *names[] = {"libminic-no-such-blas.so.2", "libminic-no-such-blas.so.1"};
  auto api = CublasLtApi::open(names);
  ASSERT_FALSE(api);
  const Diagnostic &error = api.errors().front();
  EXPECT_EQ(error.code, ErrorCode::NoLibrary);
  for (const char *name : names)
    EXPECT_NE(error.message.find(name), std::string::npos) << error.message;
  EXPECT_NE(error.fix.find("--matmul=generated"), std::string::npos);
}

TEST(CublasLtApi, AnotherLibrary) {
  const char *name = "libm.so.6";
  auto api = CublasLtApi::open({&name, 1});
  ASSERT_FALSE(api);
  EXPECT_EQ(api.errors().front().message, "cuBLASLt 'libm.so.6' has no function 'cublasLtGetVersion'");
}

/// Descriptions need no GPU: the real library takes our attributes, in their numbers and sizes, where there is one.
TEST(CublasLtApi, RealLibraryTakesOurAttributes) {
  const char *path = "/usr/local/cuda/lib64/libcublasLt.so.13";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "no cuBLASLt here";
  auto api = CublasLtApi::open({&path, 1});
  ASSERT_TRUE(api) << api.errors().front().message;
  EXPECT_GE(api->cublasLtGetVersion(), 120000u);
  EXPECT_EQ(api->describe(lt::notSupported), "CUBLAS_STATUS_NOT_SUPPORTED");
  // Without a handle the last step alone fails, the question for an algorithm.
  for (DType dtype : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    MatmulProblem problem{.call = {true, true, MatmulEpilogue::Bias},
                          .operand = dtype,
                          .result = dtype,
                          .batches = 3,
                          .rows = 8,
                          .columns = 8,
                          .depth = 8};
    int asked = 0;
    static int *counter;
    counter = &asked;
    CublasLtApi watched = *api;
    watched.cublasLtMatmulAlgoGetHeuristic = [](LtHandle, LtMatmulDesc, LtLayout, LtLayout, LtLayout, LtLayout, LtPreference, int,
                                                LtHeuristicResult *, int *) -> LtStatus {
      ++*counter;
      return lt::notSupported;
    };
    EXPECT_FALSE(LtMatmul::create(watched, nullptr, problem));
    EXPECT_EQ(asked, 1) << "an attribute was refused";
  }
}

} // namespace
