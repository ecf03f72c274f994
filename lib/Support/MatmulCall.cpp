#include "minic/Support/MatmulCall.h"

#include <algorithm>
#include <array>

namespace minic {

static constexpr std::array<std::string_view, 2> epilogueNames = {"", "bias"};

std::string_view epilogueName(MatmulEpilogue epilogue) { return epilogueNames[size_t(epilogue)]; }

std::optional<MatmulEpilogue> parseEpilogue(std::string_view name) {
  for (size_t i = 0; i < epilogueNames.size(); ++i)
    if (epilogueNames[i] == name)
      return MatmulEpilogue(i);
  return std::nullopt;
}

bool hasLibraryMatmul(DType operand, DType result) {
  if (operand == DType::F16 || operand == DType::BF16)
    return result == operand || result == DType::F32;
  return (operand == DType::F32 || operand == DType::F64) && result == operand;
}

namespace {

/// The last two sizes of a matrix, as the product sees them.
struct Matrix {
  DimExpr rows, columns;
  Matrix(const MatmulOperand &operand, bool transposed)
      : rows(operand.shape[operand.shape.size() - 2]), columns(operand.shape.back()) {
    if (transposed)
      std::swap(rows, columns);
  }
};

std::string differ(const char *what, const DimExpr &a, const DimExpr &b) {
  return std::string("has different sizes of ") + what + ": " + a.str() + " and " + b.str();
}

std::optional<std::string> batchFault(const MatmulOperand &operand, const MatmulOperand &result, const char *name) {
  size_t batches = result.shape.size() - 2;
  bool repeats = operand.shape.size() == 2;
  if (!repeats &&
      !std::equal(operand.shape.begin(), operand.shape.end() - 2, result.shape.begin(), result.shape.begin() + int64_t(batches)))
    return std::string("has other batches in ") + name + " than in its result";
  return std::nullopt;
}

} // namespace

std::optional<std::string> matmulCallFault(const MatmulCall &call, std::span<const MatmulOperand> operands) {
  if (operands.size() != call.numOperands())
    return "takes " + std::to_string(call.numOperands()) + " operands (lhs, rhs, " + (call.hasBias() ? "bias, " : "") +
           "result), not " + std::to_string(operands.size());
  const MatmulOperand &lhs = operands[0], &rhs = operands[1], &result = operands.back();
  if (lhs.dtype != rhs.dtype || !hasLibraryMatmul(lhs.dtype, result.dtype))
    return "does not multiply " + std::string(dtypeName(lhs.dtype)) + " by " + std::string(dtypeName(rhs.dtype)) + " to " +
           std::string(dtypeName(result.dtype));
  size_t rank = result.shape.size();
  auto hasRank = [&](const MatmulOperand &operand) { return operand.shape.size() == rank || operand.shape.size() == 2; };
  if (rank < 2 || !hasRank(lhs) || !hasRank(rhs))
    return "needs matrices, with as many axes before them as its result has, or none";
  Matrix x(lhs, call.transposedLhs), w(rhs, call.transposedRhs), y(result, false);
  if (x.columns != w.rows)
    return differ("the contracted axis", x.columns, w.rows);
  if (x.rows != y.rows)
    return differ("rows", x.rows, y.rows);
  if (w.columns != y.columns)
    return differ("columns", w.columns, y.columns);
  for (auto [operand, name] : {std::pair(&lhs, "lhs"), std::pair(&rhs, "rhs")})
    if (auto fault = batchFault(*operand, result, name))
      return fault;
  if (call.hasBias() && (operands[2].dtype != result.dtype || operands[2].shape != std::vector{y.columns}))
    return "needs a bias of " + y.columns.str() + " elements of " + std::string(dtypeName(result.dtype));
  return std::nullopt;
}

MatmulProblem matmulProblem(const MatmulCall &call, DType operand, DType result, std::span<const std::vector<int64_t>> shapes) {
  const std::vector<int64_t> &lhs = shapes[0], &rhs = shapes[1], &to = shapes.back();
  MatmulProblem problem{.call = call, .operand = operand, .result = result};
  size_t rank = to.size();
  for (size_t axis = 0; axis + 2 < rank; ++axis)
    problem.batches *= to[axis];
  problem.rows = to[rank - 2];
  problem.columns = to[rank - 1];
  problem.depth = lhs[lhs.size() - (call.transposedLhs ? 2 : 1)];
  problem.lhsRepeats = lhs.size() < rank;
  problem.rhsRepeats = rhs.size() < rank;
  return problem;
}

} // namespace minic
