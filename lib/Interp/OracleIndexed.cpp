#include "OracleIndexed.h"

#include "Prepare.h"

#include <algorithm>

namespace minic::interp {

namespace {

/// Where an element of the result comes from: an element of `source`, or a number where that is null.
struct Pick {
  const LaneArray *source;
  int64_t element;
  Scalar number;
};

using Index = std::span<const int64_t>;

/// Fills the result with what `at` picks for each index.
template <typename At> void fill(std::span<const int64_t> shape, LaneArray &result, At &&at) {
  int64_t bytes = dtypeBytes(result.dtype), count = result.size;
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    auto [source, element, number] = at(index);
    if (source)
      copyElement(result.data.get() + i * bytes, source->data.get() + (source->isSplat() ? 0 : element) * bytes, bytes);
    else
      writeScalar(result.data.get() + i * bytes, number, result.dtype);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];)
      index[axis] = 0;
  }
}

std::vector<int64_t> sizesOf(const Operation &op, std::string_view name, const DimBindings &dims, size_t rank) {
  std::vector<int64_t> result(rank, 0);
  if (op.attr(name))
    for (size_t a = 0; a < rank; ++a)
      result[a] = op.dimsAttr(name)[a].evaluate(dims).value_or(0);
  return result;
}

int64_t rowAt(const LaneArray &rows, int64_t which) {
  if (rows.isSplat())
    which = 0;
  return rows.dtype == DType::I32 ? reinterpret_cast<const int32_t *>(rows.data.get())[which]
                                  : reinterpret_cast<const int64_t *>(rows.data.get())[which];
}

} // namespace

void evalIndexed(const Operation &op, const DimBindings &dims, std::span<const IndexedOperand> operands,
                 std::span<const int64_t> shape, LaneArray &result) {
  std::vector<std::vector<int64_t>> strides;
  for (const IndexedOperand &operand : operands)
    strides.push_back(rowMajorStrides(operand.shape));
  switch (op.kind()) {
  case OpKind::Iota: {
    size_t axis = size_t(op.intAttr("axis"));
    return fill(shape, result, [&](Index index) { return Pick{nullptr, 0, Scalar{uint64_t(index[axis])}}; });
  }
  case OpKind::Slice: {
    std::vector<int64_t> starts = sizesOf(op, "starts", dims, shape.size()), steps = op.optionalInts("steps");
    return fill(shape, result, [&](Index index) {
      int64_t element = 0;
      for (size_t a = 0; a < index.size(); ++a)
        element += (starts[a] + index[a] * (steps.empty() ? 1 : steps[a])) * strides[0][a];
      return Pick{&operands[0].lanes, element, {}};
    });
  }
  case OpKind::Pad: {
    DType dtype = op.result()->type().dtype();
    std::vector<int64_t> low = sizesOf(op, "low", dims, shape.size());
    Scalar value = Scalar::of(*op.attr("value"), dtype);
    if (isFloat(dtype))
      value = Scalar::of(value.toDouble(dtype), DType::F64);
    return fill(shape, result, [&](Index index) {
      int64_t element = 0;
      for (size_t a = 0; a < index.size(); ++a) {
        int64_t at = index[a] - low[a];
        if (at < 0 || at >= operands[0].shape[a])
          return Pick{nullptr, 0, value};
        element += at * strides[0][a];
      }
      return Pick{&operands[0].lanes, element, {}};
    });
  }
  case OpKind::Concat: {
    size_t axis = size_t(op.intAttr("axis"));
    return fill(shape, result, [&](Index index) {
      size_t i = 0;
      int64_t at = index[axis], element = 0;
      while (at >= operands[i].shape[axis])
        at -= operands[i++].shape[axis];
      for (size_t a = 0; a < index.size(); ++a)
        element += (a == axis ? at : index[a]) * strides[i][a];
      return Pick{&operands[i].lanes, element, {}};
    });
  }
  default: { // Gather.
    size_t axis = size_t(op.intAttr("axis")), rowAxes = operands[1].shape.size();
    const std::vector<int64_t> &table = operands[0].shape;
    return fill(shape, result, [&](Index index) {
      if (table[axis] == 0)
        return Pick{nullptr, 0, {}};
      int64_t which = 0, element = 0;
      for (size_t a = 0; a < rowAxes; ++a)
        which += index[axis + a] * strides[1][a];
      int64_t row = std::clamp<int64_t>(rowAt(operands[1].lanes, which), 0, table[axis] - 1);
      for (size_t a = 0; a < table.size(); ++a)
        element += (a == axis ? row : index[a < axis ? a : a + rowAxes - 1]) * strides[0][a];
      return Pick{&operands[0].lanes, element, {}};
    });
  }
  }
}

} // namespace minic::interp
