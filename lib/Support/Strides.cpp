#include "minic/Support/Strides.h"

#include <algorithm>

namespace minic {

std::optional<ElementSpan> elementSpan(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  ElementSpan span{0, 1};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] <= 0)
      return ElementSpan{};
    int64_t reach;
    if (__builtin_mul_overflow(shape[axis] - 1, strides[axis], &reach))
      return std::nullopt;
    int64_t &side = reach < 0 ? span.lowest : span.end;
    if (__builtin_add_overflow(side, reach, &side))
      return std::nullopt;
  }
  int64_t size;
  return __builtin_sub_overflow(span.end, span.lowest, &size) ? std::nullopt : std::optional(span);
}

std::vector<int64_t> rowMajorStrides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

bool isRowMajor(std::span<const int64_t> shape, std::span<const int64_t> strides) {
  if (strides.empty())
    return true;
  if (std::ranges::find(shape, 0) != shape.end())
    return true;
  int64_t expected = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != 1 && strides[axis] != expected)
      return false;
    if (__builtin_mul_overflow(expected, shape[axis], &expected))
      return false;
  }
  return true;
}

//===- Overlap -===//

namespace {

using Wide = __int128;

/// step * x with x in [least, most].
struct Term {
  Wide step;
  Wide least, most;
};

/// Whether a sum of terms can be a number. The largest step goes first: where the steps of a tensor nest, as those of all views of
/// a dense one do, what the others reach leaves it one or two values.
class SumSearch {
public:
  explicit SumSearch(std::vector<Term> list) {
    for (const Term &term : list)
      add(term);
    std::ranges::sort(terms, [](const Term &a, const Term &b) { return a.step > b.step; });
    low.assign(terms.size() + 1, 0);
    high.assign(terms.size() + 1, 0);
    for (size_t i = terms.size(); i-- > 0;) {
      low[i] = low[i + 1] + terms[i].step * terms[i].least;
      high[i] = high[i + 1] + terms[i].step * terms[i].most;
    }
  }
  bool finds(Wide target) { return search(0, target); }

private:
  /// Steps are positive, and no two the same: x - y takes every value between its bounds.
  void add(Term term) {
    if (term.step < 0)
      term = {-term.step, -term.most, -term.least};
    auto same = std::ranges::find(terms, term.step, &Term::step);
    if (same == terms.end()) {
      terms.push_back(term);
      return;
    }
    same->least += term.least;
    same->most += term.most;
  }
  static Wide floorDiv(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

  bool search(size_t i, Wide target) {
    if (target < low[i] || target > high[i])
      return false;
    if (i == terms.size() || ++visited > maxVisited)
      return true;
    const Term &term = terms[i];
    if (term.step == 0)
      return search(i + 1, target);
    // target - step * x lies in what the rest reaches.
    Wide from = target - high[i + 1], to = target - low[i + 1];
    Wide first = std::max<Wide>(-floorDiv(-from, term.step), term.least), last = std::min<Wide>(floorDiv(to, term.step), term.most);
    for (Wide x = first; x <= last; ++x)
      if (search(i + 1, target - term.step * x))
        return true;
    return false;
  }

  static constexpr int maxVisited = 100000;
  std::vector<Term> terms;
  std::vector<Wide> low, high; ///< Sums of the terms from here on.
  int visited = 0;
};

bool isEmpty(const StridedMemory &tensor) {
  return std::ranges::any_of(tensor.shape, [](int64_t size) { return size <= 0; });
}

} // namespace

bool overlapsItself(const StridedMemory &tensor) {
  if (isEmpty(tensor))
    return false;
  // Two elements differ by k along each axis; the first axis along which they do has k > 0.
  for (size_t first = 0; first < tensor.shape.size(); ++first) {
    if (tensor.shape[first] < 2)
      continue;
    std::vector<Term> terms;
    for (size_t axis = first; axis < tensor.shape.size(); ++axis) {
      Wide most = tensor.shape[axis] - 1;
      terms.push_back({Wide(tensor.strides[axis]), axis == first ? Wide(1) : -most, most});
    }
    if (SumSearch(std::move(terms)).finds(0))
      return true;
  }
  return false;
}

bool overlap(const StridedMemory &a, const StridedMemory &b) {
  if (isEmpty(a) || isEmpty(b))
    return false;
  std::vector<Term> terms;
  for (size_t axis = 0; axis < a.shape.size(); ++axis)
    terms.push_back({Wide(a.strides[axis]) * a.elementBytes, 0, a.shape[axis] - 1});
  for (size_t axis = 0; axis < b.shape.size(); ++axis)
    terms.push_back({-Wide(b.strides[axis]) * b.elementBytes, 0, b.shape[axis] - 1});
  terms.push_back({1, 1 - b.elementBytes, a.elementBytes - 1}); // A byte of one and a byte of the other.
  return SumSearch(std::move(terms)).finds(Wide(b.address) - Wide(a.address));
}

} // namespace minic
