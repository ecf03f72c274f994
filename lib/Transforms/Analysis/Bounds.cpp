#include "minic/Transforms/Analysis/Bounds.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace minic {

static std::optional<int64_t> constantIndex(const Value *value) {
  Operation *op = value->definition();
  if (!op || !op->is(OpKind::Constant) || !op->attr("value")->asInt())
    return std::nullopt;
  return *op->attr("value")->asInt();
}

/// A value of the form factor * p with p in [0, bound).
struct ScaledCounter {
  int64_t factor = 1;
  DimExpr bound;
};

/// What an index is at most.
static std::optional<DimExpr> upperBound(const Value *value) {
  if (auto constant = constantIndex(value))
    return *constant;
  const Operation *op = value->definition();
  if (op && op->is(OpKind::Dim))
    return *op->attr("expr")->asDim();
  if (op && op->is(OpKind::Min)) // Of a last piece that may be shorter.
    for (const Value *operand : op->operands())
      if (auto constant = constantIndex(operand))
        return *constant;
  return std::nullopt;
}

/// `depth` bounds the walk through products.
static std::optional<ScaledCounter> asScaledCounter(const Value *value, int depth = 16) {
  Operation *op = value->definition();
  if (!op) {
    // A loop counter from 0: step * trip, with trip in [0, ceildiv(hi, step)).
    Operation *loop = value->argumentOf()->parentOp();
    if (!loop || !loop->is(OpKind::For) || value->index() != 0)
      return std::nullopt;
    auto lo = constantIndex(loop->operand(0)), step = constantIndex(loop->operand(2));
    if (!lo || *lo != 0 || !step || *step <= 0)
      return std::nullopt;
    auto hi = upperBound(loop->operand(1));
    return hi ? std::optional(ScaledCounter{*step, DimExpr::ceilDiv(*hi, *step)}) : std::nullopt;
  }
  if (op->is(OpKind::ProgramId))
    return ScaledCounter{1, op->dimsAttr("grid")[value->index()]};
  if (op->is(OpKind::Add) && depth > 0) {
    auto a = asScaledCounter(op->operand(0), depth / 2), b = asScaledCounter(op->operand(1), depth / 2);
    if (!a || !b)
      return std::nullopt;
    // As a number of two digits: slow * (bound of fast) + fast.
    for (auto [slow, fast] : {std::pair(&*a, &*b), std::pair(&*b, &*a)})
      if (auto digits = fast->bound.constant();
          digits && *digits > 0 && slow->factor % *digits == 0 && slow->factor / *digits == fast->factor)
        return ScaledCounter{fast->factor, slow->bound * DimExpr(*digits)};
    return std::nullopt;
  }
  if (op->is(OpKind::Mul) && depth > 0) {
    for (unsigned side : {0u, 1u}) {
      auto factor = constantIndex(op->operand(side));
      auto counter = factor && *factor > 0 ? asScaledCounter(op->operand(1 - side), depth - 1) : std::nullopt;
      if (!counter)
        continue;
      if (__builtin_mul_overflow(counter->factor, *factor, &counter->factor))
        return std::nullopt;
      return counter;
    }
  }
  return std::nullopt;
}

bool provedInBounds(const Value *index, int64_t lanes, const DimExpr &size) {
  auto size_ = size.constant();
  if (auto constant = constantIndex(index))
    return size_ && *constant >= 0 && *constant + lanes <= *size_;
  auto counter = asScaledCounter(index);
  if (!counter)
    return false;
  if (auto bound = counter->bound.constant(); bound && size_) {
    int64_t last;
    if (*bound <= 0)
      return true; // Never runs.
    return !__builtin_mul_overflow(*bound - 1, counter->factor, &last) && last <= *size_ - lanes;
  }
  // factor * (bound - 1) + lanes <= factor * bound = size.
  return lanes <= counter->factor && counter->bound * DimExpr(counter->factor) == size;
}

int64_t knownMultiple(const Value *index) {
  constexpr int64_t limit = 1 << 20;
  if (auto constant = constantIndex(index))
    return *constant == 0 ? limit : std::min(limit, *constant & -*constant);
  if (Operation *op = index->definition();
      op && (op->is(OpKind::Add) || op->is(OpKind::Sub) || op->is(OpKind::Min) || op->is(OpKind::Max)))
    return std::min(knownMultiple(op->operand(0)), knownMultiple(op->operand(1)));
  if (auto counter = asScaledCounter(index))
    return std::min(limit, counter->factor & -counter->factor);
  if (const Operation *loop = index->definition() ? nullptr : index->argumentOf()->parentOp();
      loop && loop->is(OpKind::For) && index->index() == 0)
    return std::min(knownMultiple(loop->operand(0)), knownMultiple(loop->operand(2)));
  return 1;
}

namespace {

/// A sum of values times numbers.
struct LinearForm {
  std::map<const Value *, int64_t> terms; // Looked up and compared only.
  int64_t constant = 0;
  bool overflows = false;

  void add(const LinearForm &other, int64_t factor) {
    int64_t product;
    overflows |= other.overflows || __builtin_mul_overflow(other.constant, factor, &product) ||
                 __builtin_add_overflow(constant, product, &constant);
    for (const auto &[value, number] : other.terms) {
      int64_t &term = terms[value];
      overflows |= __builtin_mul_overflow(number, factor, &product) || __builtin_add_overflow(term, product, &term);
    }
  }
  /// True if it is a multiple of `number` whatever the values are.
  bool isMultipleOf(int64_t number) const {
    return !overflows && constant % number == 0 &&
           std::ranges::all_of(terms, [&](const auto &term) { return term.second % number == 0; });
  }
};

LinearForm linearForm(const Value *value, int depth = 16) {
  LinearForm form;
  const Operation *op = value->definition();
  if (auto constant = constantIndex(value)) {
    form.constant = *constant;
    return form;
  }
  if (op && depth > 0 && (op->is(OpKind::Add) || op->is(OpKind::Sub))) {
    form.add(linearForm(op->operand(0), depth / 2), 1);
    form.add(linearForm(op->operand(1), depth / 2), op->is(OpKind::Add) ? 1 : -1);
    return form;
  }
  if (op && depth > 0 && op->is(OpKind::Mul))
    for (unsigned side : {0u, 1u})
      if (auto factor = constantIndex(op->operand(side))) {
        form.add(linearForm(op->operand(1 - side), depth - 1), *factor);
        return form;
      }
  form.terms[value] = 1;
  return form;
}

} // namespace

int64_t rowAlignment(const Operation &access) {
  const std::vector<DimExpr> &shape = accessBuffer(access)->type().shape();
  // Of one row: the next one starts elsewhere.
  std::vector<int64_t> extents = accessTile(access).extents(), dims = accessDims(access);
  for (size_t axis = 0; axis < extents.size(); ++axis)
    if (extents[axis] != 1 && (dims.empty() || int64_t(axis) != dims.back()))
      return 1;
  LinearForm address;
  int64_t pitch = 1;
  const Operation *beyond = nullptr;
  for (size_t a = shape.size(); a-- > 0;) {
    const Value *index = access.operand(firstIndex(access) + unsigned(a));
    const Operation *op = index->definition();
    if (a + 1 == shape.size()) {
      beyond = op && op->is(OpKind::Sub) ? op->operand(1)->definition() : nullptr;
      if (!beyond || !beyond->is(OpKind::RemU))
        return 1;
    }
    address.add(linearForm(index), pitch);
    auto extent = shape[a].constant();
    if (a > 0 && (!extent || __builtin_mul_overflow(pitch, *extent, &pitch)))
      return 1;
  }
  auto align = beyond ? constantIndex(beyond->operand(1)) : std::nullopt;
  if (!align || *align < 1 || !std::has_single_bit(uint64_t(*align)))
    return 1;
  // x - x rem align is a multiple of align.
  LinearForm start;
  start.terms[beyond->result()] = -1;
  start.add(linearForm(beyond->operand(0)), 1);
  address.add(start, -1);
  return address.isMultipleOf(*align) ? *align : 1;
}

std::vector<int64_t> accessDims(const Operation &access) {
  if (access.attr("dims"))
    return access.intsAttr("dims");
  std::vector<int64_t> dims(size_t(accessBuffer(access)->type().rank()));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

std::pair<Value *, DimExpr> indexAlong(const Operation &access, int64_t axis) {
  std::vector<int64_t> dims = accessDims(access);
  size_t a = size_t(std::ranges::find(dims, axis) - dims.begin());
  if (a == dims.size())
    return {nullptr, 0};
  return {access.operand(firstIndex(access) + unsigned(a)), accessBuffer(access)->type().shape()[a]};
}

Value *accessBuffer(const Operation &access) { return access.operand(access.is(OpKind::Store) ? 1 : 0); }
unsigned firstIndex(const Operation &access) { return access.is(OpKind::Store) ? 2 : 1; }
Type accessTile(const Operation &access) { return access.is(OpKind::Store) ? access.operand(0)->type() : access.result()->type(); }

int64_t vectorWidth(const Operation &access) {
  const Layout &layout = *accessTile(access).layout();
  std::vector<int64_t> dims = accessDims(access);
  const std::vector<DimExpr> &shape = accessBuffer(access)->type().shape();
  if (accessBuffer(access)->type().isStrided() || dims.empty() || dims.back() < 0 || layout.reg.empty() ||
      layout.reg[0].axis != dims.back() || layout.reg[0].stride != 1)
    return 1;
  if (std::vector<int64_t> steps = access.optionalInts("steps"); !steps.empty() && steps.back() != 1)
    return 1;
  // Neighbours that have indices of their own along another axis must have the same.
  for (size_t a = 0; a < dims.size(); ++a)
    if (dims[a] < 0 && access.operand(firstIndex(access) + unsigned(a))->type().isTile()) {
      const Operation *repeats = access.operand(firstIndex(access) + unsigned(a))->definition();
      if (!repeats || !repeats->is(OpKind::Broadcast) || repeats->operand(0)->type().extents()[size_t(dims.back())] != 1)
        return 1;
    }
  int64_t width = std::min(layout.reg[0].extent, 16 / dtypeBytes(accessBuffer(access)->type().dtype()));
  const Value *lastIndex = access.operand(firstIndex(access) + unsigned(dims.size()) - 1);
  width = std::min(width, knownMultiple(lastIndex));
  // A masked vector is inside or outside as a whole only if the size is a multiple of it; with other axes the row pitch must be
  // as well.
  std::vector<int64_t> mask = access.intsAttr("mask");
  bool masked = std::find(mask.begin(), mask.end(), dims.back()) != mask.end();
  while (width > 1 && (masked || dims.size() > 1) && !shape.back().isMultipleOf(width))
    width /= 2;
  return width;
}

std::vector<int64_t> unprovedAxes(const Operation &access) {
  std::vector<int64_t> extents = accessTile(access).extents(), dims = accessDims(access), axes;
  const std::vector<DimExpr> &shape = accessBuffer(access)->type().shape();
  std::vector<int64_t> steps = access.optionalInts("steps");
  for (size_t a = 0; a < dims.size(); ++a) {
    if (dims[a] < 0) // Lanes have indices of their own, which are clamped.
      continue;
    int64_t lanes = (extents[size_t(dims[a])] - 1) * (steps.empty() ? 1 : steps[a]) + 1;
    if (!provedInBounds(access.operand(firstIndex(access) + unsigned(a)), lanes, shape[a]))
      axes.push_back(dims[a]);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

} // namespace minic
