// A matrix product that a library computes: what the IR, artifacts and devices say of one.
#pragma once

#include "minic/Support/DType.h"
#include "minic/Support/DimExpr.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// What is done with each element of a product before it is stored.
enum class MatmulEpilogue : uint8_t { None, Bias };
/// "bias"; empty for none.
std::string_view epilogueName(MatmulEpilogue epilogue);
std::optional<MatmulEpilogue> parseEpilogue(std::string_view name);

/// result = epilogue(lhs * rhs), of row-major tensors: the last two axes are multiplied, those before them are batches. Operands
/// are lhs, rhs, a bias along the result's columns if the epilogue has one, and the result. An operand of two axes is the same in
/// every batch. 16-bit floats are summed in f32 and may give f32; all others are computed in their own type.
struct MatmulCall {
  bool transposedLhs = false, transposedRhs = false; ///< The last two axes lie the other way round in memory.
  MatmulEpilogue epilogue = MatmulEpilogue::None;

  bool hasBias() const { return epilogue == MatmulEpilogue::Bias; }
  size_t numOperands() const { return hasBias() ? 4 : 3; }
  friend bool operator==(const MatmulCall &, const MatmulCall &) = default;
};

struct MatmulOperand {
  DType dtype = DType::F32;
  std::vector<DimExpr> shape;
};
/// Whether products of this type, with results of that one, can be asked of a library.
bool hasLibraryMatmul(DType operand, DType result);
/// Why a call does not fit its operands; nullopt if it does. The text goes on after what calls: "takes 3 operands, not 2". Sizes
/// are equal where their expressions are.
std::optional<std::string> matmulCallFault(const MatmulCall &call, std::span<const MatmulOperand> operands);

/// A call for sizes that are known.
struct MatmulProblem {
  MatmulCall call;
  DType operand = DType::F32, result = DType::F32;
  int64_t batches = 1, rows = 1, columns = 1, depth = 1;
  bool lhsRepeats = false, rhsRepeats = false; ///< The same matrix in every batch.
  std::string name;                            ///< What it computes, for messages.

  bool isEmpty() const { return batches == 0 || rows == 0 || columns == 0; }
};
/// Of operands that fit; `shapes` are theirs, as numbers.
MatmulProblem matmulProblem(const MatmulCall &call, DType operand, DType result, std::span<const std::vector<int64_t>> shapes);

} // namespace minic
