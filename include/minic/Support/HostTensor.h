// Tensors in host memory, their .npy files, and the ways a user names an input on the command line.
#pragma once

#include "minic/Support/DType.h"
#include "minic/Support/Expected.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// A dense row-major tensor: element type, shape (elements per axis, may hold zeros, empty for rank 0) and bytes.
class HostTensor {
public:
  HostTensor() = default;
  /// Zero-filled. The number of bytes must have been checked with `checkedBytes`.
  HostTensor(DType dtype, std::vector<int64_t> shape);

  DType dtype() const { return elementType; }
  const std::vector<int64_t> &shape() const { return dims; }
  int64_t numElements() const { return count; }
  std::span<std::byte> bytes() { return data; }
  std::span<const std::byte> bytes() const { return data; }
  template <typename T> T *as() { return reinterpret_cast<T *>(data.data()); }
  template <typename T> const T *as() const { return reinterpret_cast<const T *>(data.data()); }

  /// Element `i` (row-major) as f64; integers exactly, i1 as 0 or 1.
  double get(int64_t i) const;
  /// Stores `value` at `i`, rounded once to the element type.
  void set(int64_t i, double value);

  /// Bytes of such a tensor; nullopt if the product overflows or a dim is negative.
  static std::optional<int64_t> checkedBytes(DType dtype, std::span<const int64_t> shape);

private:
  DType elementType = DType::F32;
  std::vector<int64_t> dims;
  int64_t count = 1;
  std::vector<std::byte> data;
};

/// "2x2xf32", "f32" for rank 0.
std::string shapeString(DType dtype, std::span<const int64_t> shape);

/// Reads .npy format 1.0, 2.0 and 3.0, little-endian, C or Fortran order (NumPy reference, "NPY format"). bf16 is stored as `<V2`,
/// `|V2` or `<u2`: such a file is read as bf16 only if `expected` says so. 8-bit floats are refused, by writeNpy too. Sizes are
/// checked against the file before memory is taken.
Expected<HostTensor> readNpy(const std::filesystem::path &path, DType expected);
/// Writes format 1.0 (bf16 as `<u2`).
Expected<void> writeNpy(const std::filesystem::path &path, const HostTensor &tensor);

/// Uniform in [-1, 1), from the 64-bit hash of the index: splitmix64(seed + (i + 1) * 0x9E3779B97F4A7C15), its top 53 bits over
/// 2^52, minus 1; rounded to the element type. Integers: the top 31 bits modulo 201, minus 100. i1: the top bit.
void fillRandom(HostTensor &tensor, uint64_t seed);
/// 0, 1, 2, ... in row-major order.
void fillIota(HostTensor &tensor);
/// `[[0, 6], [1.5, 0]]`: shortest digits that read back; more than `limit` elements are elided with `...` per axis unless limit is
/// 0.
std::string tensorText(const HostTensor &tensor, int64_t limit = 1000);
/// Reads `[[1,-2],[0,1]]` (also nan, inf, true, false); the shape is the nesting's. Ragged or non-numeric text is an error.
Expected<HostTensor> parseTensorText(std::string_view text, DType dtype);
/// Shortest decimal digits that read back to the same value of type `t` (of f32 for 8-bit floats): `0.1` for the f32 nearest 0.1;
/// `nan`, `inf`, `-inf`. Floats always carry a `.`, an exponent or a name, so that they do not read as integers.
std::string floatText(double value, DType t);

/// A reader of the user's input words: `a.npy`, `random:7`, `iota`, `const:1.5`, `[[...]]`, for a parameter of this type and shape.
Expected<HostTensor> makeInput(std::string_view name, std::string_view spec, DType dtype, std::span<const int64_t> shape);
/// The shape that an input word fixes by itself (a file or a literal), used to bind dim names; nullopt for random, iota, const.
Expected<std::optional<std::vector<int64_t>>> inputShape(std::string_view name, std::string_view spec, DType dtype);

} // namespace minic
