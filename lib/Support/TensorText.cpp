#include "minic/Support/HostTensor.h"

#include "ElementText.h"

#include <algorithm>
#include <cstring>

namespace minic {

//===- Writing -===//

namespace {

/// Elements shown at each end of an axis that is elided.
constexpr int64_t keptAtEnds = 3;

class TensorWriter {
public:
  TensorWriter(const HostTensor &tensor, bool elide) : tensor(tensor), shape(tensor.shape()), elide(elide) {
    strides.assign(shape.size(), 1);
    for (size_t axis = shape.size(); axis-- > 1;)
      strides[axis - 1] = strides[axis] * shape[axis];
  }

  std::string run() {
    writeAxis(0, 0);
    return std::move(text);
  }

private:
  void writeAxis(size_t axis, int64_t position) {
    if (axis == shape.size()) {
      writeElement(position);
      return;
    }
    text += "[";
    for (int64_t i = 0; i < shape[axis]; ++i) {
      text += i ? ", " : "";
      if (elide && i == keptAtEnds && shape[axis] > 2 * keptAtEnds) {
        text += "..., ";
        i = shape[axis] - keptAtEnds;
      }
      writeAxis(axis + 1, position + i * strides[axis]);
    }
    text += "]";
  }

  void writeElement(int64_t position) {
    switch (tensor.dtype()) {
    case DType::I1:
      text += tensor.get(position) != 0 ? "true" : "false";
      break;
    case DType::I32:
      text += std::to_string(tensor.as<int32_t>()[position]);
      break;
    case DType::I8:
    case DType::U8:
      text += std::to_string(int(tensor.get(position)));
      break;
    case DType::I64:
    case DType::Index:
      text += std::to_string(tensor.as<int64_t>()[position]);
      break;
    default:
      text += floatText(tensor.get(position), tensor.dtype());
      // Results read better without the point of a whole number.
      if (text.ends_with(".0"))
        text.resize(text.size() - 2);
    }
  }

  const HostTensor &tensor;
  const std::vector<int64_t> &shape;
  std::vector<int64_t> strides;
  bool elide;
  std::string text;
};

} // namespace

std::string tensorText(const HostTensor &tensor, int64_t limit) {
  // A tensor without elements can still have any number of brackets.
  constexpr int64_t bracketLimit = 1000;
  int64_t brackets = 1;
  for (int64_t dim : tensor.shape())
    if (dim == 0 || (brackets *= dim) > bracketLimit)
      break;
  if (tensor.numElements() == 0 && brackets > bracketLimit)
    return "[...]";
  return TensorWriter(tensor, limit && tensor.numElements() > limit).run();
}

//===- Reading -===//

namespace {

constexpr size_t maxNesting = 64;

/// value := '[' [value {',' value}] ']' | element
class TensorReader {
public:
  TensorReader(std::string_view text, DType dtype) : text(text), dtype(dtype) {}

  Expected<HostTensor> read() {
    if (!readValue(0))
      return error();
    skipSpace();
    if (at != text.size()) {
      fail("expected the end of the tensor");
      return error();
    }
    HostTensor tensor(dtype, shape);
    std::copy(elements.begin(), elements.end(), tensor.bytes().begin());
    return tensor;
  }

private:
  Diagnostic error() const {
    return {.code = tooDeep ? ErrorCode::TooDeep : ErrorCode::BadInput,
            .message = "bad tensor literal at character " + std::to_string(at + 1) + ": " + message,
            .fix = tooDeep ? "" : "write for example [[1, -2], [0, 1.5]]"};
  }
  bool fail(std::string why) {
    message = std::move(why);
    return false;
  }
  void skipSpace() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
      ++at;
  }

  bool readValue(size_t depth) {
    skipSpace();
    bool isList = at < text.size() && text[at] == '[';
    // The first way down fixes the rank.
    if (rank >= 0 && isList != (int64_t(depth) < rank))
      return fail(isList ? "a list where the rows before have an element" : "an element where the rows before have a list");
    if (isList)
      return readList(depth);
    rank = int64_t(depth);
    return readOne();
  }

  bool readList(size_t depth) {
    if (depth == maxNesting) {
      tooDeep = true;
      return fail("more than " + std::to_string(maxNesting) + " nested lists");
    }
    if (shape.size() == depth)
      shape.push_back(-1);
    size_t start = at++;
    int64_t count = 0;
    skipSpace();
    if (at < text.size() && text[at] == ']') {
      ++at;
      if (rank < 0)
        rank = int64_t(depth) + 1;
      if (rank != int64_t(depth) + 1)
        return at = start, fail("an empty list where the rows before have lists");
    } else {
      for (char next = ','; next == ','; ++count) {
        if (!readValue(depth + 1))
          return false;
        skipSpace();
        next = at < text.size() ? text[at] : '\0';
        if (next != ',' && next != ']')
          return fail("expected `,` or `]`");
        ++at;
      }
    }
    if (shape[depth] >= 0 && shape[depth] != count) {
      at = start;
      return fail("a row of length " + std::to_string(count) + ", but the rows before have length " + std::to_string(shape[depth]));
    }
    shape[depth] = count;
    return true;
  }

  bool readOne() {
    std::string_view word = text.substr(at, text.find_first_of(",[] \n\r\t", at) - at);
    if (word.empty())
      return fail("expected a number");
    if (word == "...")
      return fail("elements are left out; print the tensor with --full");
    std::byte element[8];
    if (const char *why = readElement(word, dtype, element))
      return fail("`" + std::string(word.substr(0, 40)) + (word.size() > 40 ? "..." : "") + "` " + why + " (" +
                  std::string(dtypeName(dtype)) + ")");
    elements.insert(elements.end(), element, element + dtypeBytes(dtype));
    at += word.size();
    return true;
  }

  std::string_view text;
  DType dtype;
  size_t at = 0;
  int64_t rank = -1;
  std::vector<int64_t> shape;
  std::vector<std::byte> elements;
  std::string message;
  bool tooDeep = false;
};

} // namespace

Expected<HostTensor> parseTensorText(std::string_view text, DType dtype) { return TensorReader(text, dtype).read(); }

} // namespace minic
