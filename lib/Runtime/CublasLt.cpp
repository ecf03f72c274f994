// The library's matrices are column-major. A row-major matrix is its transpose there, so y = x w is asked for as y^T = w^T x^T:
// A is the memory of w (rhs), B that of x (lhs), D that of y, and a bias along y's columns is one along D's rows, which is where
// the library has it.
#include "CublasLt.h"

#include <algorithm>

namespace minic::cuda {

namespace {

int dataType(DType dtype) {
  switch (dtype) {
  case DType::F16:
    return lt::real16;
  case DType::BF16:
    return lt::realBf16;
  case DType::F64:
    return lt::real64;
  default:
    return lt::real32;
  }
}

std::string describe(const MatmulProblem &problem) {
  std::string sizes = (problem.batches > 1 ? std::to_string(problem.batches) + "x" : "") + std::to_string(problem.rows) + "x" +
                      std::to_string(problem.depth) + " by " + std::to_string(problem.depth) + "x" +
                      std::to_string(problem.columns);
  std::string epilogue(epilogueName(problem.call.epilogue));
  return "the product for " + problem.name + " (" + sizes + ", " + std::string(dtypeName(problem.operand)) + " to " +
         std::string(dtypeName(problem.result)) + (epilogue.empty() ? "" : ", " + epilogue) + ")";
}

/// A matrix that is the same in every batch multiplies all rows of the others at once.
MatmulProblem flattened(MatmulProblem problem) {
  if (problem.rhsRepeats && !problem.lhsRepeats && !problem.call.transposedLhs) {
    problem.rows *= problem.batches;
    problem.batches = 1;
    problem.rhsRepeats = false;
  }
  return problem;
}

std::string keyOf(const MatmulProblem &problem) {
  std::string key;
  for (int64_t number : {int64_t(problem.call.transposedLhs), int64_t(problem.call.transposedRhs), int64_t(problem.call.epilogue),
                         int64_t(problem.operand), int64_t(problem.result), problem.batches, problem.rows, problem.columns,
                         problem.depth, int64_t(problem.lhsRepeats), int64_t(problem.rhsRepeats)})
    key += std::to_string(number) + ",";
  return key;
}

} // namespace

/// Fills an LtMatmul; the first status that is no success is kept, and nothing is done after it.
class LtMatmulBuilder {
public:
  LtMatmulBuilder(const CublasLtApi &api, LtHandle handle, const MatmulProblem &problem)
      : api(api), problem(problem), made(new LtMatmul(api, handle, problem.call, problem.operand)) {}

  Expected<std::shared_ptr<const LtMatmul>> run() {
    if (problem.batches > INT32_MAX)
      return Diagnostic{.code = ErrorCode::ResourceLimit,
                        .message = describe(problem) + " has more than 2147483647 batches",
                        .fix = "compile with --matmul=generated"};
    makeDesc();
    const auto &[rows, columns, depth] = std::tie(problem.rows, problem.columns, problem.depth);
    makeLayout(made->a, problem.operand, depth, columns, problem.call.transposedRhs, problem.rhsRepeats);
    makeLayout(made->b, problem.operand, rows, depth, problem.call.transposedLhs, problem.lhsRepeats);
    makeLayout(made->d, problem.result, rows, columns, false, false);
    suggest();
    if (status == lt::success)
      return std::shared_ptr<const LtMatmul>(std::move(made));
    return Diagnostic{.code = ErrorCode::NoLibrary,
                      .message = "cuBLASLt cannot compute " + describe(problem) + ": " + api.describe(status),
                      .fix = "compile with --matmul=generated"};
  }

private:
  template <typename Call> void attempt(Call &&call) {
    if (status == lt::success)
      status = call();
  }
  template <typename T> void set(LtStatus (*setter)(T, int, const void *, size_t), T object, int attribute, const auto &value) {
    attempt([&] { return setter(object, attribute, &value, sizeof value); });
  }
  /// Makes an object that is destroyed with its owner.
  template <typename T, typename... Arguments>
  void make(LtOwned<T> &owner, LtStatus (*create)(T *, Arguments...), LtStatus (*destroy)(T),
            std::type_identity_t<Arguments>... arguments) {
    T object = nullptr;
    attempt([&] { return create(&object, arguments...); });
    if (object)
      owner = {object, LtDestroyer<T>{destroy}};
  }

  void makeDesc() {
    bool isDouble = problem.operand == DType::F64;
    make(made->desc, api.cublasLtMatmulDescCreate, api.cublasLtMatmulDescDestroy, isDouble ? lt::compute64 : lt::compute32,
         isDouble ? lt::real64 : lt::real32);
    setDesc(lt::transposeA, problem.call.transposedRhs ? lt::transposed : lt::asItIs);
    setDesc(lt::transposeB, problem.call.transposedLhs ? lt::transposed : lt::asItIs);
    setDesc(lt::epilogue, problem.call.hasBias() ? lt::epilogueBias : lt::epilogueNone);
    // Algorithms are chosen by the alignment of the bias too: this address has just that which every bias has.
    if (problem.call.hasBias())
      setDesc(lt::biasPointer, reinterpret_cast<const void *>(tensorAlignment));
  }
  void setDesc(int attribute, const auto &value) { set(api.cublasLtMatmulDescSetAttribute, made->desc.get(), attribute, value); }

  /// The memory of a row-major matrix of this many rows and columns, or of its transpose.
  void makeLayout(LtOwned<LtLayout> &layout, DType dtype, int64_t rows, int64_t columns, bool transposed, bool repeats) {
    if (transposed)
      std::swap(rows, columns);
    make(layout, api.cublasLtMatrixLayoutCreate, api.cublasLtMatrixLayoutDestroy, dataType(dtype), uint64_t(columns),
         uint64_t(rows), columns);
    if (problem.batches == 1)
      return;
    set(api.cublasLtMatrixLayoutSetAttribute, layout.get(), lt::batchCount, int32_t(problem.batches));
    set(api.cublasLtMatrixLayoutSetAttribute, layout.get(), lt::batchStride, repeats ? int64_t(0) : rows * columns);
  }

  void suggest() {
    LtOwned<LtPreference> preference;
    make(preference, api.cublasLtMatmulPreferenceCreate, api.cublasLtMatmulPreferenceDestroy);
    auto prefer = [&](int attribute, const auto &value) {
      set(api.cublasLtMatmulPreferenceSetAttribute, preference.get(), attribute, value);
    };
    prefer(lt::maxWorkspaceBytes, maxLtWorkspace);
    prefer(lt::reductionSchemes, lt::reduceInComputeType);
    for (int attribute : {lt::minAlignmentA, lt::minAlignmentB, lt::minAlignmentC, lt::minAlignmentD})
      prefer(attribute, uint32_t(tensorAlignment)); // What plans promise, whichever memory a run is given.
    int found = 0;
    attempt([&] {
      return api.cublasLtMatmulAlgoGetHeuristic(made->handle, made->desc.get(), made->a.get(), made->b.get(), made->d.get(),
                                                made->d.get(), preference.get(), 1, &made->suggestion, &found);
    });
    attempt([&] { return found ? made->suggestion.state : lt::notSupported; });
    attempt([&] { return made->suggestion.workspaceBytes <= maxLtWorkspace ? lt::success : lt::notSupported; });
  }

  const CublasLtApi &api;
  const MatmulProblem &problem;
  std::shared_ptr<LtMatmul> made;
  LtStatus status = lt::success;
};

Expected<std::shared_ptr<const LtMatmul>> LtMatmul::create(const CublasLtApi &api, LtHandle handle, const MatmulProblem &problem) {
  return LtMatmulBuilder(api, handle, problem).run();
}

LtStatus LtMatmul::enqueue(CuStream stream, std::span<const DeviceMemory> buffers) const {
  auto address = [&](size_t i) { return reinterpret_cast<void *>(buffers[i]); };
  std::unique_lock<std::mutex> lock;
  if (call.hasBias()) {
    lock = std::unique_lock(mutex);
    const void *bias = address(2);
    LtStatus status = api.cublasLtMatmulDescSetAttribute(desc.get(), lt::biasPointer, &bias, sizeof bias);
    if (status != lt::success)
      return status;
  }
  // Factors are of the type that sums have.
  static constexpr float one = 1, zero = 0;
  static constexpr double oneDouble = 1, zeroDouble = 0;
  bool isDouble = operand == DType::F64;
  const void *alpha = isDouble ? static_cast<const void *>(&oneDouble) : &one;
  const void *beta = isDouble ? static_cast<const void *>(&zeroDouble) : &zero;
  void *result = address(call.numOperands() - 1), *workspace = workspaceBytes() ? address(call.numOperands()) : nullptr;
  return api.cublasLtMatmul(handle, desc.get(), alpha, address(1), a.get(), address(0), b.get(), beta, result, d.get(), result,
                            d.get(), &suggestion.algorithm, workspace, workspaceBytes(), stream);
}

Expected<std::unique_ptr<CublasLt>> CublasLt::create(const CublasLtApi &api) {
  LtHandle handle = nullptr;
  if (LtStatus status = api.cublasLtCreate(&handle); status != lt::success)
    return Diagnostic{.code = ErrorCode::NoLibrary,
                      .message = "cuBLASLt cannot start: " + api.describe(status),
                      .fix = "compile with --matmul=generated"};
  std::unique_ptr<CublasLt> library(new CublasLt(api));
  library->handle = handle;
  return library;
}

Expected<std::shared_ptr<const LtMatmul>> CublasLt::find(const MatmulProblem &problem) {
  MatmulProblem asked = flattened(problem);
  std::lock_guard lock(mutex);
  std::shared_ptr<const LtMatmul> &matmul = known[keyOf(asked)];
  if (!matmul) {
    auto made = LtMatmul::create(api, handle, asked);
    if (!made)
      return made.takeErrors();
    matmul = std::move(*made);
  }
  return matmul;
}

} // namespace minic::cuda
