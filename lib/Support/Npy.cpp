// The .npy format: magic, version, length of the header, the header (a Python literal), the elements (NumPy reference, "NPY
// format").
#include "Npy.h"

#include "HostMemory.h"
#include "RegularFile.h"

#include <charconv>
#include <cstring>
#include <fstream>

namespace minic {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
/// Numpy itself refuses headers above 10000 bytes.
constexpr size_t maxHeader = 1 << 16;
constexpr size_t maxRank = 64;

Diagnostic bad(const std::filesystem::path &path, std::string message, std::string fix = {}) {
  return {.code = ErrorCode::BadNpy, .message = "'" + path.string() + "' " + std::move(message), .fix = std::move(fix)};
}

struct Header {
  std::string_view descr, order;
  std::vector<int64_t> shape;
};

/// dictionary := '{' [key ':' value {',' key ':' value} [',']] '}' with the three keys of the format, in any order.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text(text) {}

  std::optional<Header> run() {
    bool seenShape = false;
    if (!eat('{'))
      return std::nullopt;
    while (!eat('}')) {
      auto key = string();
      if (!key || !eat(':'))
        return std::nullopt;
      bool known = *key == "descr" && header.descr.empty()           ? readDescr()
                   : *key == "fortran_order" && header.order.empty() ? readOrder()
                   : *key == "shape" && !seenShape                   ? (seenShape = readShape())
                                                                     : false;
      if (!known || (!eat(',') && peek() != '}'))
        return std::nullopt;
    }
    if (peek() || header.descr.empty() || header.order.empty() || !seenShape)
      return std::nullopt;
    return header;
  }

private:
  char peek() {
    at = std::min(text.find_first_not_of(" \t\n", at), text.size());
    return at < text.size() ? text[at] : '\0';
  }
  bool eat(char c) {
    if (peek() != c || at == text.size())
      return false;
    ++at;
    return true;
  }
  std::optional<std::string_view> string() {
    char quote = peek();
    size_t end = quote == '\'' || quote == '"' ? text.find(quote, at + 1) : std::string_view::npos;
    if (end == std::string_view::npos)
      return std::nullopt;
    auto result = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return result;
  }
  bool readDescr() {
    if (peek() == '[') { // A list of fields; its end does not matter, since no such type is taken.
      header.descr = "[...]";
      at = std::min(text.find(']', at), text.size() - 1) + 1;
      return true;
    }
    auto word = string();
    header.descr = word.value_or("");
    return word && !word->empty();
  }
  bool readOrder() {
    peek();
    for (std::string_view word : {"True", "False"})
      if (text.substr(at, word.size()) == word) {
        header.order = word;
        at += word.size();
        return true;
      }
    return false;
  }
  bool readShape() {
    if (!eat('('))
      return false;
    while (!eat(')')) {
      int64_t dim = 0;
      peek();
      auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), dim);
      if (error != std::errc() || dim < 0 || header.shape.size() == maxRank)
        return false;
      header.shape.push_back(dim);
      at = size_t(end - text.data());
      if (at < text.size() && text[at] == 'L') // Python 2 wrote long integers so.
        ++at;
      if (!eat(',') && peek() != ')')
        return false;
    }
    return true;
  }

  std::string_view text;
  size_t at = 0;
  Header header;
};

constexpr std::pair<std::string_view, DType> descrs[] = {{"<f8", DType::F64},  {"<f4", DType::F32}, {"<f2", DType::F16},
                                                         {"<u2", DType::BF16}, {"<i8", DType::I64}, {"<i4", DType::I32},
                                                         {"|i1", DType::I8},   {"|u1", DType::U8},  {"|b1", DType::I1}};

/// The format has no types for 8-bit floats, and bytes do not say which of the two they hold.
Diagnostic noFloat8(const std::filesystem::path &path, DType dtype, std::string fix) {
  return bad(path, "cannot hold " + std::string(dtypeName(dtype)) + ": .npy has no type for 8-bit floats", std::move(fix));
}

/// The element type of a descr, given what the reader expects.
std::optional<DType> typeOf(std::string_view descr, DType expected) {
  if (descr == "<u2" || descr == "<V2" || descr == "|V2")
    return expected == DType::BF16 ? std::optional(DType::BF16) : std::nullopt;
  for (auto [text, type] : descrs)
    if (text == descr)
      return type;
  return std::nullopt;
}

/// A file whose header is read and whose size fits it; the stream stands at the first element.
struct NpyFile {
  std::ifstream stream;
  DType dtype = DType::F32;
  bool fortran = false;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

Diagnostic badType(const std::filesystem::path &path, std::string_view descr) {
  if (descr.starts_with('>'))
    return bad(path, "holds big-endian elements ('" + std::string(descr.substr(0, 16)) + "')",
               "save it with np.save(file, x.astype(x.dtype.newbyteorder('<')))");
  return bad(path, "holds elements of type '" + std::string(descr.substr(0, 16)) +
                       "', expected one of <f8, <f4, <f2, <i8, <i4, |i1, |u1, |b1, or <u2 and V2 where bf16 is meant");
}

Expected<NpyFile> openNpy(const std::filesystem::path &path, DType expected) {
  if (isStorageOnly(expected))
    return noFloat8(path, expected, "give a .safetensors file, which has");
  auto opened = openRegularFile(path);
  if (!opened)
    return opened.takeErrors();
  uint64_t fileSize = opened->size;
  NpyFile file;
  file.stream = std::move(opened->stream);

  unsigned char start[12] = {};
  auto readStart = [&](size_t from, size_t count) {
    file.stream.read(reinterpret_cast<char *>(start) + from, std::streamsize(count));
    return size_t(file.stream.gcount()) == count;
  };
  if (!readStart(0, magic.size()) || std::memcmp(start, magic.data(), magic.size()) != 0)
    return bad(path, "is not a .npy file");
  if (!readStart(6, 4))
    return bad(path, "is cut off in its header");
  unsigned version = start[6];
  if (version < 1 || version > 3)
    return bad(path,
               "has format version " + std::to_string(version) + "." + std::to_string(start[7]) + ", expected 1.0, 2.0 or 3.0");
  size_t headerSize = start[8] | size_t(start[9]) << 8, dataStart = 10;
  if (version > 1) {
    if (!readStart(10, 2))
      return bad(path, "is cut off in its header");
    headerSize |= size_t(start[10]) << 16 | size_t(start[11]) << 24;
    dataStart = 12;
  }
  if (headerSize > maxHeader)
    return bad(path, "has a header of " + std::to_string(headerSize) + " bytes, the limit is " + std::to_string(maxHeader));
  std::string text(headerSize, '\0');
  file.stream.read(text.data(), std::streamsize(headerSize));
  dataStart += headerSize;
  if (size_t(file.stream.gcount()) != headerSize || dataStart > fileSize)
    return bad(path, "is cut off in its header");
  auto header = HeaderParser(text).run();
  if (!header)
    return bad(path, "has a damaged header");
  auto dtype = typeOf(header->descr, expected);
  if (!dtype)
    return badType(path, header->descr);
  auto bytes = HostTensor::checkedBytes(*dtype, header->shape);
  if (!bytes || uint64_t(*bytes) != fileSize - dataStart)
    return bad(path, "holds " + std::to_string(fileSize - dataStart) + " bytes of elements, but its shape " +
                         shapeString(*dtype, header->shape) + " needs " + (bytes ? std::to_string(*bytes) : "more than 2^63"));
  file.dtype = *dtype;
  file.fortran = header->order == "True";
  file.shape = std::move(header->shape);
  file.bytes = *bytes;
  return file;
}

/// Column-major elements to row-major ones.
void transposeFortran(std::span<const std::byte> from, HostTensor &to) {
  size_t size = size_t(dtypeBytes(to.dtype())), rank = to.shape().size();
  const auto &shape = to.shape();
  std::vector<int64_t> index(rank, 0), strides(rank, 1);
  for (size_t axis = 1; axis < rank; ++axis)
    strides[axis] = strides[axis - 1] * shape[axis - 1];
  int64_t source = 0;
  for (int64_t i = 0; i < to.numElements(); ++i) {
    std::memcpy(to.bytes().data() + size_t(i) * size, from.data() + size_t(source) * size, size);
    for (size_t axis = rank; axis-- > 0;) {
      source += strides[axis];
      if (++index[axis] < shape[axis])
        break;
      source -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

} // namespace

Expected<std::vector<int64_t>> readNpyShape(const std::filesystem::path &path, DType expected) {
  auto file = openNpy(path, expected);
  if (!file)
    return file.takeErrors();
  return std::move(file->shape);
}

Expected<HostTensor> readNpy(const std::filesystem::path &path, DType expected) {
  auto file = openNpy(path, expected);
  if (!file)
    return file.takeErrors();
  int64_t needed = 0;
  if (__builtin_mul_overflow(file->bytes, file->fortran ? 2 : 1, &needed) || !fitsHostMemory(needed))
    return Diagnostic{.code = ErrorCode::TooLarge, .message = "'" + path.string() + "' does not fit into this machine's memory"};
  HostTensor tensor(file->dtype, file->shape);
  std::vector<std::byte> columns(file->fortran ? size_t(file->bytes) : 0);
  std::span<std::byte> target = file->fortran ? std::span(columns) : tensor.bytes();
  file->stream.read(reinterpret_cast<char *>(target.data()), file->bytes);
  if (file->stream.gcount() != file->bytes)
    return bad(path, "could not be read to its end");
  if (file->fortran)
    transposeFortran(columns, tensor);
  if (tensor.dtype() == DType::I1)
    for (std::byte &b : tensor.bytes())
      b = std::byte(b != std::byte(0)); // Whatever is not 0 is true.
  return tensor;
}

Expected<void> writeNpy(const std::filesystem::path &path, const HostTensor &tensor) {
  auto failed = [&](const char *why) {
    return Diagnostic{.code = ErrorCode::UnreadableFile, .message = "cannot write '" + path.string() + "'" + why};
  };
  if (isStorageOnly(tensor.dtype()))
    return noFloat8(path, tensor.dtype(), "convert it to f16 in the graph, which is exact");
  if (tensor.shape().size() > maxRank)
    return failed(": more than 64 axes");
  std::string header = "{'descr': '";
  for (auto [descr, type] : descrs)
    if (type == (tensor.dtype() == DType::Index ? DType::I64 : tensor.dtype()))
      header += descr;
  header += "', 'fortran_order': False, 'shape': (";
  for (size_t axis = 0; axis < tensor.shape().size(); ++axis)
    header += (axis ? ", " : "") + std::to_string(tensor.shape()[axis]);
  header += tensor.shape().size() == 1 ? ",), }" : "), }";
  // The elements start at a multiple of 64 bytes.
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(magic.data(), std::streamsize(magic.size()));
  file.put(1).put(0).put(char(header.size() & 0xff)).put(char(header.size() >> 8));
  file.write(header.data(), std::streamsize(header.size()));
  file.write(reinterpret_cast<const char *>(tensor.bytes().data()), std::streamsize(tensor.bytes().size()));
  file.close();
  if (!file)
    return failed("");
  return {};
}

} // namespace minic
