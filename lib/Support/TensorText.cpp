#include "minic/Support/HostTensor.h"

#include <array>
#include <charconv>
#include <cmath>

namespace minic {

std::string floatText(double value, DType t) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  std::to_chars_result end{};
  if (isNarrowFloat(t)) {
    // to_chars knows no 16-bit floats: the fewest digits that round back to the same value.
    for (int digits = 1; digits <= 9; ++digits) {
      end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::general, digits);
      double back = 0;
      std::from_chars(buffer.data(), end.ptr, back);
      if (roundToDType(back, t) == roundToDType(value, t))
        break;
    }
  } else if (t == DType::F32) {
    end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), float(value));
  } else {
    end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  }
  std::string text(buffer.data(), end.ptr);
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  return text;
}

static std::string elementText(const HostTensor &tensor, int64_t i) {
  double value = tensor.get(i);
  switch (dtypeClass(tensor.dtype())) {
  case DTypeClass::Float: {
    std::string text = floatText(value, tensor.dtype());
    // Results read better without the point of a whole number.
    if (text.size() > 2 && text.substr(text.size() - 2) == ".0")
      text.resize(text.size() - 2);
    return text;
  }
  case DTypeClass::Bool:
    return value != 0 ? "true" : "false";
  default:
    return std::to_string(int64_t(value));
  }
}

static void appendAxis(const HostTensor &tensor, size_t axis, int64_t &position, int64_t keep, std::string &text) {
  const auto &shape = tensor.shape();
  if (axis == shape.size()) {
    text += elementText(tensor, position++);
    return;
  }
  int64_t inner = 1;
  for (size_t a = axis + 1; a < shape.size(); ++a)
    inner *= shape[a];
  text += "[";
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (i)
      text += ", ";
    if (keep && shape[axis] > 2 * keep && i == keep) {
      text += "..., ";
      int64_t skipped = shape[axis] - 2 * keep;
      position += skipped * inner;
      i += skipped;
    }
    appendAxis(tensor, axis + 1, position, keep, text);
  }
  text += "]";
}

std::string tensorText(const HostTensor &tensor, int64_t limit) {
  std::string text;
  int64_t position = 0;
  if (tensor.numElements() == 0 && tensor.shape().size() > 1)
    return "[]";
  appendAxis(tensor, 0, position, limit && tensor.numElements() > limit ? 3 : 0, text);
  return text;
}

namespace {

constexpr int maxNesting = 64;

/// value := '[' [value {',' value}] ']' | number
class TensorReader {
public:
  TensorReader(std::string_view text, DType dtype) : text(text), dtype(dtype) {}

  Expected<HostTensor> read() {
    if (!value(0))
      return error();
    skipSpace();
    if (at != text.size()) {
      message = "text after the end of the tensor";
      return error();
    }
    HostTensor tensor(dtype, shape);
    if (tensor.numElements() != int64_t(numbers.size())) {
      message = "rows of different lengths";
      return error();
    }
    for (size_t i = 0; i < numbers.size(); ++i)
      tensor.set(int64_t(i), numbers[i]);
    return tensor;
  }

private:
  Diagnostic error() const {
    return {.code = ErrorCode::BadInput,
            .message = "the tensor literal is not well formed at character " + std::to_string(at + 1) + ": " + message,
            .fix = "write e.g. [[1, -2], [0, 1.5]]"};
  }
  bool fail(const char *why) {
    message = why;
    return false;
  }
  void skipSpace() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t'))
      ++at;
  }

  bool value(size_t depth) {
    if (depth > maxNesting)
      return fail("nested too deeply");
    skipSpace();
    if (at < text.size() && text[at] == '[')
      return list(depth);
    if (leafDepth >= 0 && leafDepth != int(depth))
      return fail("numbers at different depths");
    leafDepth = int(depth);
    return number();
  }

  bool list(size_t depth) {
    ++at;
    int64_t count = 0;
    skipSpace();
    if (at < text.size() && text[at] == ']') {
      ++at;
    } else {
      while (true) {
        if (!value(depth + 1))
          return false;
        ++count;
        skipSpace();
        if (at >= text.size())
          return fail("a ']' is missing");
        char c = text[at++];
        if (c == ']')
          break;
        if (c != ',')
          return fail("expected ',' or ']'");
      }
    }
    // Inner lists close first, so the shape is filled from its end.
    if (shape.size() <= depth)
      shape.resize(depth + 1, -1);
    if (shape[depth] >= 0 && shape[depth] != count)
      return fail("rows of different lengths");
    shape[depth] = count;
    return true;
  }

  bool number() {
    static constexpr std::pair<std::string_view, double> words[] = {
        {"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}, {"true", 1}, {"false", 0}};
    std::string_view rest = text.substr(at);
    for (auto [word, value] : words)
      if (rest.substr(0, word.size()) == word) {
        if (!isFloat(dtype) && !std::isfinite(value))
          return fail("an integer cannot be nan or inf");
        numbers.push_back(value);
        at += word.size();
        return true;
      }
    double value = 0;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error == std::errc::result_out_of_range)
      return fail("a number out of range");
    if (error != std::errc())
      return fail("expected a number");
    if (!isFloat(dtype) && (value != std::trunc(value) || std::fabs(value) > 0x1p31))
      return fail("not an integer of this type");
    numbers.push_back(value);
    at += size_t(end - rest.data());
    return true;
  }

  std::string_view text;
  DType dtype;
  size_t at = 0;
  int leafDepth = -1;
  std::vector<int64_t> shape;
  std::vector<double> numbers;
  std::string message;
};

} // namespace

Expected<HostTensor> parseTensorText(std::string_view text, DType dtype) { return TensorReader(text, dtype).read(); }

} // namespace minic
