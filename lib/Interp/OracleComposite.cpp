#include "OracleComposite.h"

#include "Prepare.h"
#include "minic/Support/HostTensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace minic::interp {

namespace {

/// Offsets of the elements of one row, and of the first element of each.
struct Rows {
  std::vector<int64_t> elements, starts;

  Rows(std::span<const int64_t> shape, const std::vector<int64_t> &axes) {
    std::vector<int64_t> strides = rowMajorStrides(shape), inner(shape.begin(), shape.end()), outer = inner;
    for (size_t a = 0; a < shape.size(); ++a)
      (std::find(axes.begin(), axes.end(), int64_t(a)) == axes.end() ? inner : outer)[a] = 1;
    forEachOffset(inner, strides, [&](int64_t offset) { elements.push_back(offset); });
    forEachOffset(outer, strides, [&](int64_t offset) { starts.push_back(offset); });
  }
};

double meanOf(const double *row, const Rows &rows, auto &&term) {
  double sum = 0;
  for (int64_t offset : rows.elements)
    sum += term(row[offset]);
  return sum / double(rows.elements.size());
}

void softmax(const double *row, const Rows &rows, double *out) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t offset : rows.elements)
    largest = std::isnan(row[offset]) || row[offset] > largest ? row[offset] : largest;
  for (int64_t offset : rows.elements)
    sum += out[offset] = std::exp(row[offset] - largest);
  for (int64_t offset : rows.elements)
    out[offset] /= sum;
}

void normalize(const Operation &op, const double *row, const Rows &rows, std::span<const LaneArray> operands, double *out) {
  double mean = op.is(OpKind::LayerNorm) ? meanOf(row, rows, [](double v) { return v; }) : 0;
  double variance = meanOf(row, rows, [&](double v) { return (v - mean) * (v - mean); });
  double scale = 1 / std::sqrt(variance + *op.attr("eps")->asNumber());
  auto parameter = [&](size_t i, size_t position, double otherwise) {
    return operands.size() > i ? reinterpret_cast<const double *>(operands[i].data.get())[position] : otherwise;
  };
  for (size_t i = 0; i < rows.elements.size(); ++i) {
    int64_t offset = rows.elements[i];
    out[offset] = (row[offset] - mean) * scale * parameter(1, i, 1) + parameter(2, i, 0);
  }
}

template <typename T> int64_t largestIn(const T *row, const Rows &rows) {
  int64_t best = 0;
  for (size_t i = 1; i < rows.elements.size(); ++i) {
    T value = row[rows.elements[i]], kept = row[rows.elements[size_t(best)]];
    if (value > kept || (value != value && kept == kept))
      best = int64_t(i);
  }
  return best;
}

int64_t largestIn(const LaneArray &array, int64_t start, const Rows &rows) {
  const std::byte *row = array.data.get() + start * dtypeBytes(array.dtype);
  switch (array.dtype) {
  case DType::F64:
    return largestIn(reinterpret_cast<const double *>(row), rows);
  case DType::I64:
    return largestIn(reinterpret_cast<const int64_t *>(row), rows);
  case DType::I32:
    return largestIn(reinterpret_cast<const int32_t *>(row), rows);
  case DType::I8:
    return largestIn(reinterpret_cast<const int8_t *>(row), rows);
  default:
    return largestIn(reinterpret_cast<const uint8_t *>(row), rows);
  }
}

} // namespace

void evalComposite(const Operation &op, std::span<const int64_t> shape, std::span<const LaneArray> operands, std::byte *out) {
  Rows rows(shape, op.attr("axes") ? op.intsAttr("axes") : std::vector<int64_t>{op.intAttr("axis")});
  const double *x = reinterpret_cast<const double *>(operands[0].data.get());
  double *y = reinterpret_cast<double *>(out);
  DType result = op.result()->type().dtype();
  for (size_t i = 0; i < rows.starts.size(); ++i) {
    int64_t start = rows.starts[i];
    if (op.is(OpKind::Softmax))
      softmax(x + start, rows, y + start);
    else if (op.is(OpKind::Mean))
      y[i] = meanOf(x + start, rows, [](double v) { return v; });
    else if (op.is(OpKind::Argmax))
      writeScalar(out + int64_t(i) * dtypeBytes(result),
                  Scalar{uint64_t(rows.elements.empty() ? integerRange(result).greatest : largestIn(operands[0], start, rows))},
                  result);
    else
      normalize(op, x + start, rows, operands, y + start);
  }
}

} // namespace minic::interp
