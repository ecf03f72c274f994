#include "minic/Support/HostTensor.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <fstream>

namespace minic {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t maxHeader = 1 << 16;

Diagnostic bad(const std::filesystem::path &path, std::string message) {
  return {.code = ErrorCode::BadNpy, .message = "'" + path.string() + "': " + std::move(message)};
}

struct Header {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

/// The value after `'key':` in the header's dictionary (a Python literal with three fixed keys; NumPy reference, "NPY format").
std::optional<std::string_view> field(std::string_view text, std::string_view key) {
  size_t at = text.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos)
    return std::nullopt;
  at = text.find(':', at);
  if (at == std::string_view::npos)
    return std::nullopt;
  at = text.find_first_not_of(' ', at + 1);
  return at == std::string_view::npos ? std::nullopt : std::optional(text.substr(at));
}

std::optional<Header> parseHeader(std::string_view text) {
  Header header;
  auto descr = field(text, "descr"), order = field(text, "fortran_order"), shape = field(text, "shape");
  if (!descr || !order || !shape || (*descr)[0] != '\'' || (*shape)[0] != '(')
    return std::nullopt;
  size_t end = descr->find('\'', 1);
  if (end == std::string_view::npos)
    return std::nullopt;
  header.descr = descr->substr(1, end - 1);
  header.fortran = order->substr(0, 4) == "True";
  if (!header.fortran && order->substr(0, 5) != "False")
    return std::nullopt;
  size_t at = 1;
  while (true) {
    at = shape->find_first_not_of(" ,", at);
    if (at == std::string_view::npos)
      return std::nullopt;
    if ((*shape)[at] == ')')
      return header;
    int64_t dim;
    auto [next, error] = std::from_chars(shape->data() + at, shape->data() + shape->size(), dim);
    if (error != std::errc() || dim < 0 || header.shape.size() >= 64)
      return std::nullopt;
    header.shape.push_back(dim);
    at = size_t(next - shape->data());
  }
}

/// The element type of a descr, given what the reader expects.
std::optional<DType> typeOf(std::string_view descr, DType expected) {
  if (expected == DType::BF16 && (descr == "<V2" || descr == "|V2" || descr == "<u2"))
    return DType::BF16;
  static constexpr std::pair<std::string_view, DType> table[] = {{"<f8", DType::F64}, {"<f4", DType::F32}, {"<f2", DType::F16},
                                                                 {"<i8", DType::I64}, {"<i4", DType::I32}, {"|b1", DType::I1}};
  for (auto [text, type] : table)
    if (text == descr)
      return type;
  return std::nullopt;
}

/// Column-major bytes to row-major.
void transposeFortran(std::span<const std::byte> from, HostTensor &to) {
  size_t size = size_t(dtypeBytes(to.dtype()));
  const auto &shape = to.shape();
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0; i < to.numElements(); ++i) {
    int64_t source = 0;
    for (size_t axis = shape.size(); axis-- > 0;)
      source = source * shape[axis] + index[axis];
    std::memcpy(to.bytes().data() + size_t(i) * size, from.data() + size_t(source) * size, size);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis])
        break;
      index[axis] = 0;
    }
  }
}

} // namespace

Expected<HostTensor> readNpy(const std::filesystem::path &path, DType expected) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    return bad(path, "is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Diagnostic{.code = ErrorCode::UnreadableFile, .message = "cannot open '" + path.string() + "'"};
  uint64_t fileSize = std::filesystem::file_size(path, code);
  unsigned char start[12] = {};
  file.read(reinterpret_cast<char *>(start), 10);
  if (file.gcount() != 10 || std::memcmp(start, magic.data(), magic.size()) != 0)
    return bad(path, "not a .npy file");
  size_t headerSize = start[8] | size_t(start[9]) << 8, dataStart = 10 + headerSize;
  if (start[6] == 2 || start[6] == 3) {
    file.read(reinterpret_cast<char *>(start + 10), 2);
    headerSize |= size_t(start[10]) << 16 | size_t(start[11]) << 24;
    dataStart = 12 + headerSize;
  } else if (start[6] != 1) {
    return bad(path, "format version " + std::to_string(start[6]) + " is not known");
  }
  if (headerSize > maxHeader || code || dataStart > fileSize)
    return bad(path, "the header is cut off or too large");
  std::string text(headerSize, '\0');
  file.read(text.data(), std::streamsize(headerSize));
  auto header = parseHeader(text);
  if (!file || !header)
    return bad(path, "the header is damaged");
  auto dtype = typeOf(header->descr, expected);
  if (!dtype)
    return bad(path, "element type '" + header->descr.substr(0, 16) + "' is not supported (little-endian f8, f4, f2, i8, i4, b1; u2 for bf16)");
  auto bytes = HostTensor::checkedBytes(*dtype, header->shape);
  if (!bytes || uint64_t(*bytes) > fileSize - dataStart)
    return bad(path, "holds fewer bytes than its shape needs");

  HostTensor tensor(*dtype, header->shape);
  if (!header->fortran) {
    file.read(reinterpret_cast<char *>(tensor.bytes().data()), *bytes);
  } else {
    std::vector<std::byte> columns(static_cast<size_t>(*bytes));
    file.read(reinterpret_cast<char *>(columns.data()), *bytes);
    transposeFortran(columns, tensor);
  }
  if (file.gcount() != *bytes)
    return bad(path, "could not be read to its end");
  if (tensor.dtype() == DType::I1)
    for (std::byte &b : tensor.bytes())
      b = std::byte(b != std::byte(0)); // Whatever is not 0 is true.
  return tensor;
}

Expected<void> writeNpy(const std::filesystem::path &path, const HostTensor &tensor) {
  static constexpr std::pair<DType, std::string_view> table[] = {{DType::F64, "<f8"}, {DType::F32, "<f4"},  {DType::F16, "<f2"},
                                                                 {DType::BF16, "<u2"}, {DType::I64, "<i8"}, {DType::I32, "<i4"},
                                                                 {DType::I1, "|b1"},  {DType::Index, "<i8"}};
  std::string header = "{'descr': '";
  for (auto [type, descr] : table)
    if (type == tensor.dtype())
      header += descr;
  header += "', 'fortran_order': False, 'shape': (";
  for (int64_t dim : tensor.shape())
    header += std::to_string(dim) + ",";
  header += "), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  std::ofstream file(path, std::ios::binary);
  file.write(magic.data(), std::streamsize(magic.size()));
  file.put(1).put(0).put(char(header.size() & 0xff)).put(char(header.size() >> 8));
  file.write(header.data(), std::streamsize(header.size()));
  file.write(reinterpret_cast<const char *>(tensor.bytes().data()), std::streamsize(tensor.bytes().size()));
  file.close();
  if (!file)
    return Diagnostic{.code = ErrorCode::UnreadableFile, .message = "cannot write '" + path.string() + "'"};
  return {};
}

} // namespace minic
