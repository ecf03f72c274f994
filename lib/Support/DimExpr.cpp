#include "minic/Support/DimExpr.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>

namespace minic {

using Factor = DimExpr::Factor;

/// The coefficient of a product that does not fit int64. It stays what it is through products and quotients, and has no value.
static constexpr int64_t overflowed = INT64_MAX;

static std::string sumText(const std::vector<DimExpr> &terms) {
  std::string text;
  for (const DimExpr &term : terms) {
    std::string word = term.str();
    bool negative = word[0] == '-';
    if (!text.empty())
      text += negative ? " - " : " + ";
    text += negative && !text.empty() ? word.substr(1) : word;
  }
  return text;
}

static std::string factorText(const Factor &factor) {
  if (factor.sumOf)
    return "(" + sumText(*factor.sumOf) + ")";
  if (!factor.ceilDivOf)
    return factor.name;
  return "ceildiv(" + factor.ceilDivOf->first.str() + ", " + factor.ceilDivOf->second.str() + ")";
}

static std::strong_ordering compare(const Factor &a, const Factor &b) {
  // Names before quotients before sums.
  auto kind = [](const Factor &factor) { return factor.isName() ? 0 : factor.ceilDivOf ? 1 : 2; };
  if (auto order = kind(a) <=> kind(b); order != 0)
    return order;
  if (a.isName())
    return a.name.compare(b.name) <=> 0;
  if (a.sumOf)
    return *a.sumOf <=> *b.sumOf;
  if (auto order = a.ceilDivOf->first <=> b.ceilDivOf->first; order != 0)
    return order;
  return a.ceilDivOf->second <=> b.ceilDivOf->second;
}

std::strong_ordering operator<=>(const DimExpr &a, const DimExpr &b) {
  size_t common = std::min(a.factors.size(), b.factors.size());
  for (size_t i = 0; i < common; ++i)
    if (auto order = compare(a.factors[i], b.factors[i]); order != 0)
      return order;
  if (auto order = a.factors.size() <=> b.factors.size(); order != 0)
    return order;
  return a.coefficient <=> b.coefficient;
}

bool operator==(const DimExpr &a, const DimExpr &b) { return (a <=> b) == 0; }

DimExpr DimExpr::name(std::string_view name) {
  DimExpr result(1);
  result.factors.push_back({std::string(name), nullptr});
  return result;
}

DimExpr operator*(const DimExpr &a, const DimExpr &b) {
  DimExpr result;
  if (__builtin_mul_overflow(a.coefficient, b.coefficient, &result.coefficient))
    result.coefficient = overflowed;
  if ((a.coefficient == overflowed && b.coefficient > 0) || (b.coefficient == overflowed && a.coefficient > 0))
    result.coefficient = overflowed;
  if (result.coefficient == 0)
    return result;
  std::merge(a.factors.begin(), a.factors.end(), b.factors.begin(), b.factors.end(), std::back_inserter(result.factors),
             [](const Factor &x, const Factor &y) { return compare(x, y) < 0; });
  return result;
}

void DimExpr::appendTerms(std::vector<DimExpr> &terms) const {
  if (factors.size() != 1 || !factors[0].sumOf) {
    terms.push_back(*this);
    return;
  }
  for (const DimExpr &term : *factors[0].sumOf)
    terms.push_back(term * DimExpr(coefficient));
}

DimExpr operator+(const DimExpr &a, const DimExpr &b) {
  if (a.isConstant(overflowed) || b.isConstant(overflowed))
    return overflowed;
  std::vector<DimExpr> parts, terms;
  a.appendTerms(parts);
  b.appendTerms(parts);
  // Those with names first, the constant last.
  std::sort(parts.begin(), parts.end(),
            [](const DimExpr &x, const DimExpr &y) { return x.isConstant() != y.isConstant() ? y.isConstant() : x < y; });
  int64_t divisor = 0;
  for (const DimExpr &part : parts) {
    auto same = [](const Factor &x, const Factor &y) { return compare(x, y) == 0; };
    if (!terms.empty() &&
        std::equal(terms.back().factors.begin(), terms.back().factors.end(), part.factors.begin(), part.factors.end(), same)) {
      if (__builtin_add_overflow(terms.back().coefficient, part.coefficient, &terms.back().coefficient))
        return overflowed;
    } else {
      terms.push_back(part);
    }
    if (terms.back().coefficient == 0)
      terms.pop_back();
  }
  if (terms.empty())
    return 0;
  if (terms.size() == 1)
    return terms[0];
  for (const DimExpr &term : terms)
    divisor = std::gcd(divisor, term.coefficient);
  for (DimExpr &term : terms)
    term.coefficient /= divisor;
  DimExpr result(divisor);
  result.factors.push_back({"", nullptr, std::make_shared<const std::vector<DimExpr>>(std::move(terms))});
  return result;
}

/// Takes the factors of `b` out of `a` if all are there.
static bool removeFactors(std::vector<Factor> &a, const std::vector<Factor> &b) {
  for (const Factor &factor : b) {
    auto it = std::find_if(a.begin(), a.end(), [&](const Factor &x) { return compare(x, factor) == 0; });
    if (it == a.end())
      return false;
    a.erase(it);
  }
  return true;
}

DimExpr DimExpr::ceilDiv(const DimExpr &a, const DimExpr &b) {
  if (a.isConstant(0))
    return 0;
  if (a.isConstant(overflowed))
    return a;
  if (a.isConstant() && b.isConstant() && b.coefficient > 0)
    return a.coefficient / b.coefficient + (a.coefficient % b.coefficient != 0);
  if (b.coefficient > 0 && a.coefficient != overflowed && a.coefficient % b.coefficient == 0) {
    DimExpr quotient(a.coefficient / b.coefficient);
    quotient.factors = a.factors;
    if (removeFactors(quotient.factors, b.factors))
      return quotient;
  }
  DimExpr result(1);
  result.factors.push_back({"", std::make_shared<const std::pair<DimExpr, DimExpr>>(a, b)});
  return result;
}

std::optional<int64_t> DimExpr::evaluateFactor(const Factor &factor, const DimBindings &bindings) {
  if (factor.sumOf) {
    int64_t sum = 0;
    for (const DimExpr &term : *factor.sumOf) {
      auto value = term.evaluateSigned(bindings);
      if (!value || __builtin_add_overflow(sum, *value, &sum))
        return std::nullopt;
    }
    return sum < 0 ? std::nullopt : std::optional(sum);
  }
  if (!factor.ceilDivOf) {
    auto it = bindings.find(factor.name);
    return it == bindings.end() || it->second < 0 ? std::nullopt : std::optional(it->second);
  }
  auto a = factor.ceilDivOf->first.evaluate(bindings), b = factor.ceilDivOf->second.evaluate(bindings);
  if (!a || !b)
    return std::nullopt;
  if (*a == 0)
    return 0;
  return *b > 0 ? std::optional(*a / *b + (*a % *b != 0)) : std::nullopt;
}

std::optional<int64_t> DimExpr::evaluate(const DimBindings &bindings) const {
  auto value = evaluateSigned(bindings);
  return value && *value >= 0 ? value : std::nullopt;
}

std::optional<int64_t> DimExpr::evaluateSigned(const DimBindings &bindings) const {
  int64_t value = coefficient;
  bool fits = coefficient != overflowed, zero = false;
  for (const Factor &factor : factors) {
    auto next = evaluateFactor(factor, bindings);
    if (!next)
      return std::nullopt;
    zero |= *next == 0;
    fits = fits && !__builtin_mul_overflow(value, *next, &value);
  }
  // A zero wins over an overflow, whatever the order of the factors.
  if (zero)
    return 0;
  return fits ? std::optional(value) : std::nullopt;
}

DimExpr DimExpr::bind(const DimBindings &bindings) const { return substitute({bindings.begin(), bindings.end()}); }

DimExpr DimExpr::substitute(const std::map<std::string, DimExpr, std::less<>> &sizes) const {
  DimExpr result(coefficient);
  for (const Factor &factor : factors) {
    if (factor.ceilDivOf)
      result = result * ceilDiv(factor.ceilDivOf->first.substitute(sizes), factor.ceilDivOf->second.substitute(sizes));
    else if (factor.sumOf) {
      DimExpr sum;
      for (const DimExpr &term : *factor.sumOf)
        sum = sum + term.substitute(sizes);
      result = result * sum;
    } else if (auto it = sizes.find(factor.name); it != sizes.end())
      result = result * it->second;
    else
      result = result * name(factor.name);
  }
  return result;
}

void DimExpr::collectNames(std::vector<std::string> &names) const {
  for (const Factor &factor : factors) {
    if (factor.ceilDivOf) {
      factor.ceilDivOf->first.collectNames(names);
      factor.ceilDivOf->second.collectNames(names);
    } else if (factor.sumOf) {
      for (const DimExpr &term : *factor.sumOf)
        term.collectNames(names);
    } else if (std::find(names.begin(), names.end(), factor.name) == names.end()) {
      names.push_back(factor.name);
    }
  }
}

std::string DimExpr::str() const {
  if (factors.empty())
    return std::to_string(coefficient);
  if (coefficient == 1 && factors.size() == 1 && factors[0].sumOf)
    return sumText(*factors[0].sumOf);
  if (coefficient == -1)
    return "-" + (DimExpr(1) * *this * DimExpr(-1)).str();
  std::string text = coefficient == 1 ? "" : std::to_string(coefficient);
  for (const Factor &factor : factors)
    text += (text.empty() ? "" : "*") + factorText(factor);
  return text;
}

static bool isWordCharacter(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool isDimName(std::string_view text) {
  if (text.empty() || text[0] < 'A' || text[0] > 'Z')
    return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return isWordCharacter(c) && c != 'x'; });
}

namespace {

constexpr int maxNesting = 16;
/// Longer expressions are not sizes of anything, and sorting factors in one by one is not linear.
constexpr size_t maxFactors = 64;

/// sum := ['-'] product { ('+' | '-') product }; product := factor { '*' factor };
/// factor := integer | name | 'ceildiv' '(' sum ',' sum ')' | '(' sum ')'
class DimParser {
public:
  explicit DimParser(std::string_view text) : text(text) {}
  std::optional<DimExpr> whole() {
    auto result = sum(0);
    skipSpace();
    bool negative = result && result->isConstant() && result->getCoefficient() < 0;
    return at == text.size() && !negative ? result : std::nullopt;
  }

private:
  void skipSpace() {
    while (at < text.size() && text[at] == ' ')
      ++at;
  }
  bool eat(char c) {
    skipSpace();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  std::optional<DimExpr> sum(int depth) {
    bool negative = eat('-');
    auto result = product(depth);
    if (result && negative)
      result = *result * DimExpr(-1);
    size_t terms = 1;
    while (result) {
      bool plus = eat('+');
      if (!plus && !eat('-'))
        break;
      auto next = product(depth);
      if (!next || ++terms > maxFactors)
        return std::nullopt;
      result = plus ? *result + *next : *result - *next;
      if (result->getCoefficient() == overflowed)
        return std::nullopt;
    }
    return result;
  }
  std::optional<DimExpr> product(int depth) {
    auto result = factor(depth);
    while (result && eat('*')) {
      auto next = factor(depth);
      if (!next)
        return std::nullopt;
      result = *result * *next;
      if (result->getCoefficient() == overflowed || result->getFactors().size() > maxFactors)
        return std::nullopt;
    }
    return result;
  }
  std::optional<DimExpr> factor(int depth) {
    if (depth > maxNesting)
      return std::nullopt;
    if (eat('(')) {
      auto inner = sum(depth + 1);
      return inner && eat(')') ? inner : std::nullopt;
    }
    size_t start = at;
    while (at < text.size() && isWordCharacter(text[at]))
      ++at;
    std::string_view word = text.substr(start, at - start);
    if (word == "ceildiv") {
      if (!eat('('))
        return std::nullopt;
      auto a = sum(depth + 1);
      if (!a || !eat(','))
        return std::nullopt;
      auto b = sum(depth + 1);
      if (!b || !eat(')') || b->getCoefficient() == 0)
        return std::nullopt;
      return DimExpr::ceilDiv(*a, *b);
    }
    if (isDimName(word))
      return DimExpr::name(word);
    int64_t value;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value == overflowed)
      return std::nullopt;
    return DimExpr(value);
  }
  std::string_view text;
  size_t at = 0;
};

} // namespace

std::optional<DimExpr> parseDimExpr(std::string_view text) { return DimParser(text).whole(); }

} // namespace minic
