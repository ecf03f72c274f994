#include "minic/Support/DimFact.h"

#include "minic/Support/Text.h"

#include <algorithm>
#include <charconv>

namespace minic {

std::string DimFact::str() const {
  std::string text = size.str();
  if (multiple != 1)
    return text + " % " + std::to_string(multiple) + " == 0";
  if (least == most)
    return text + " == " + std::to_string(least);
  bool below = most != INT64_MAX;
  if (below && least > 0)
    return std::to_string(least) + " <= " + text + " <= " + std::to_string(most);
  return below ? text + " <= " + std::to_string(most) : text + " >= " + std::to_string(least);
}

namespace {

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  bool whole = !text.empty() && error == std::errc() && end == text.data() + text.size();
  return whole && value >= 0 && value <= (int64_t(1) << 62) ? std::optional(value) : std::nullopt;
}

/// A chain of terms with comparisons between them.
struct Chain {
  std::vector<std::string_view> terms, comparisons;
};
Chain split(std::string_view text) {
  Chain chain;
  size_t start = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c != '<' && c != '>' && c != '=')
      continue;
    size_t length = i + 1 < text.size() && text[i + 1] == '=' ? 2 : 1;
    chain.terms.push_back(trimmed(text.substr(start, i - start)));
    chain.comparisons.push_back(text.substr(i, length));
    i += length - 1;
    start = i + 1;
  }
  chain.terms.push_back(trimmed(text.substr(start)));
  return chain;
}

/// size COMPARISON value. False if that is no comparison.
bool narrow(DimFact &fact, std::string_view comparison, int64_t value) {
  if (comparison == "<=")
    fact.most = value;
  else if (comparison == "<")
    fact.most = value - 1;
  else if (comparison == ">=")
    fact.least = value;
  else if (comparison == ">")
    fact.least = value + 1;
  else if (comparison == "==")
    fact.least = fact.most = value;
  else
    return false;
  return true;
}

std::string_view mirrored(std::string_view comparison) {
  return comparison == "<=" ? ">=" : comparison == "<" ? ">" : comparison == ">=" ? "<=" : comparison == ">" ? "<" : comparison;
}

/// False if the text is no fact.
bool parse(std::string_view text, DimFact &fact) {
  Chain chain = split(text);
  size_t count = chain.comparisons.size();
  // Of two comparisons both point the same way.
  bool fits = count == 1 || (count == 2 && chain.comparisons[0][0] != '=' && chain.comparisons[0][0] == chain.comparisons[1][0]);
  if (!fits)
    return false;
  size_t at = count == 2 || number(chain.terms[0]) ? 1 : 0; // The term that is the size.
  std::string_view sizeText = chain.terms[at];
  if (size_t percent = sizeText.find('%'); percent != std::string_view::npos) {
    auto multiple = number(trimmed(sizeText.substr(percent + 1)));
    if (count != 1 || at != 0 || chain.comparisons[0] != "==" || number(chain.terms[1]) != 0 || !multiple || *multiple == 0)
      return false;
    fact.multiple = *multiple;
    sizeText = trimmed(sizeText.substr(0, percent));
  } else {
    for (size_t i = 0; i <= count; ++i) {
      if (i == at)
        continue;
      auto value = number(chain.terms[i]);
      std::string_view comparison = i < at ? mirrored(chain.comparisons[i]) : chain.comparisons[i - 1];
      if (!value || !narrow(fact, comparison, *value))
        return false;
    }
  }
  auto size = parseDimExpr(sizeText);
  if (!size || size->isConstant())
    return false;
  fact.size = *size;
  return true;
}

} // namespace

Expected<DimFact> parseDimFact(std::string_view text) {
  DimFact fact;
  std::string quoted = "'" + std::string(trimmed(text)) + "'";
  if (!parse(text, fact))
    return Diagnostic{.code = ErrorCode::BadDim,
                      .message = quoted + " says nothing of a size",
                      .fix = "write `N % 8 == 0`, `N == 1024`, `N >= 1`, `N <= 4096` or `1 <= N <= 4096`"};
  if (fact.least > fact.most)
    return Diagnostic{.code = ErrorCode::BadDim, .message = "no size is as " + quoted + " says"};
  return fact;
}

Expected<std::vector<DimFact>> parseDimFacts(std::string_view text) {
  std::vector<DimFact> facts;
  int depth = 0;
  for (size_t start = 0, i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      depth += (text[i] == '(') - (text[i] == ')');
      if (text[i] != ',' || depth > 0)
        continue;
    }
    auto fact = parseDimFact(text.substr(start, i - start));
    if (!fact)
      return fact.takeErrors();
    facts.push_back(std::move(*fact));
    start = i + 1;
  }
  return facts;
}

int64_t leastOf(const DimExpr &size, std::span<const DimFact> facts) {
  int64_t least = size.constant().value_or(0);
  for (const DimFact &fact : facts)
    if (fact.size == size)
      least = std::max(least, fact.least);
  return least;
}

int64_t mostOf(const DimExpr &size, std::span<const DimFact> facts) {
  int64_t most = size.constant().value_or(INT64_MAX);
  for (const DimFact &fact : facts)
    if (fact.size == size)
      most = std::min(most, fact.most);
  return most;
}

} // namespace minic
