// Sizes of axes: integers, names bound at run time, products and sums of them and ceildiv.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// Values of dim names, e.g. {M: 4096, N: 1024}.
using DimBindings = std::map<std::string, int64_t, std::less<>>;

/// A size in the normal form `coefficient * factor * factor ...`, factors sorted; a factor is a name, ceildiv(a, b) or a sum of two
/// or more products with no common divisor, terms sorted. Equal expressions of this form compare equal; comparison is structural.
/// Only terms of sums have negative coefficients.
class DimExpr {
public:
  /// A name, unless one of the pointers is set.
  struct Factor {
    std::string name;
    std::shared_ptr<const std::pair<DimExpr, DimExpr>> ceilDivOf = nullptr;
    std::shared_ptr<const std::vector<DimExpr>> sumOf = nullptr;
    bool isName() const { return !ceilDivOf && !sumOf; }
  };

  DimExpr(int64_t value = 0) : coefficient(value) {}
  static DimExpr name(std::string_view name);
  friend DimExpr operator*(const DimExpr &a, const DimExpr &b);
  friend DimExpr operator+(const DimExpr &a, const DimExpr &b);
  friend DimExpr operator-(const DimExpr &a, const DimExpr &b) { return a + b * DimExpr(-1); }
  /// ceildiv(a, b), folded where it can be: constants, and b dividing a.
  static DimExpr ceilDiv(const DimExpr &a, const DimExpr &b);

  bool isConstant() const { return factors.empty(); }
  std::optional<int64_t> constant() const { return isConstant() ? std::optional(coefficient) : std::nullopt; }
  bool isConstant(int64_t v) const { return isConstant() && coefficient == v; }
  /// True if every value of this expression is proved to be a multiple of `m` (m > 0).
  bool isMultipleOf(int64_t m) const { return coefficient % m == 0; }

  /// The value under `bindings`; nullopt if a name is unbound, it is negative, or it overflows int64.
  std::optional<int64_t> evaluate(const DimBindings &bindings) const;
  /// The expression with the names in `sizes` replaced.
  DimExpr substitute(const std::map<std::string, DimExpr, std::less<>> &sizes) const;
  /// The same with values.
  DimExpr bind(const DimBindings &bindings) const;
  /// Adds the names that occur here, in order of first appearance.
  void collectNames(std::vector<std::string> &names) const;

  /// `4`, `N`, `4*N`, `ceildiv(N, 128)*M`, `M + 2*N - 1`. This is the text that the parser reads.
  std::string str() const;

  friend bool operator==(const DimExpr &a, const DimExpr &b);
  friend std::strong_ordering operator<=>(const DimExpr &a, const DimExpr &b);

  /// For lowering: the parts of the normal form.
  int64_t getCoefficient() const { return coefficient; }
  const std::vector<Factor> &getFactors() const { return factors; }

private:
  std::optional<int64_t> evaluateSigned(const DimBindings &bindings) const;
  static std::optional<int64_t> evaluateFactor(const Factor &factor, const DimBindings &bindings);
  /// Splits into the terms of a sum; a product is one term.
  void appendTerms(std::vector<DimExpr> &terms) const;

  int64_t coefficient;
  std::vector<Factor> factors;
};

/// What names of dims stand for.
using DimSizes = std::map<std::string, DimExpr, std::less<>>;

/// Reads the text form (whole string); nullopt if it is not one. A name starts with an upper-case letter, has letters, digits and
/// `_`, and no `x`.
std::optional<DimExpr> parseDimExpr(std::string_view text);
bool isDimName(std::string_view text);

} // namespace minic
