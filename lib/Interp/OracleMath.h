// Element-wise ops in f64 for the oracle.
#pragma once

#include "Lanes.h"

#include <algorithm>

namespace minic::interp {

/// Like evalElementwise, but floats are f64 whatever type the graph gives them: `from` is the graph's element type of the first
/// operand, `to` the result's, and float lanes are f64 in memory. These are written here once more, with the C++ library's
/// functions, so that an error in the op table's forms or in lib/IR/Math shows. An op that is not written here goes by the table.
void evalInF64(OpKind kind, std::string_view predicate, DType from, DType to, std::span<const Lanes> operands, std::byte *out,
               int64_t count);

/// f64 for floats, else the type itself.
inline DType oracleDType(DType dtype) { return isFloat(dtype) ? DType::F64 : dtype; }

/// out[m][n] += lhs[m][k] * rhs[k][n], in blocks that stay in the caches; rows of lhs lie `pitch` elements apart.
template <typename T> void multiply(T *out, const T *lhs, int64_t pitch, const T *rhs, int64_t m, int64_t k, int64_t n) {
  constexpr int64_t kBlock = 64, nBlock = 1024;
  for (int64_t n0 = 0; n0 < n; n0 += nBlock)
    for (int64_t k0 = 0; k0 < k; k0 += kBlock)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t l = k0; l < std::min(k0 + kBlock, k); ++l) {
          T a = lhs[i * pitch + l];
          for (int64_t j = n0; j < std::min(n0 + nBlock, n); ++j)
            out[i * n + j] += a * rhs[l * n + j];
        }
}

} // namespace minic::interp
