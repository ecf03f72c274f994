// The .safetensors format: u64 size of the header, the header (JSON), the elements without gaps. What is refused here is what the
// format's own reader refuses.
#include "minic/Support/Safetensors.h"

#include "HostMemory.h"
#include "RegularFile.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace minic {
namespace {

using Json = nlohmann::json;

constexpr uint64_t maxHeader = 100'000'000;
constexpr size_t maxRank = 64;
constexpr std::string_view metadataKey = "__metadata__";

constexpr std::pair<std::string_view, DType> dtypeWords[] = {
    {"F64", DType::F64}, {"F32", DType::F32},        {"F16", DType::F16},       {"BF16", DType::BF16},
    {"I64", DType::I64}, {"I32", DType::I32},        {"I8", DType::I8},         {"U8", DType::U8},
    {"BOOL", DType::I1}, {"F8_E4M3", DType::F8E4M3}, {"F8_E5M2", DType::F8E5M2}};

/// A tensor in the header; its bytes are [begin, end) of what follows the header.
struct Entry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;

  /// nullopt for what is not read.
  std::optional<DType> type() const {
    auto word = std::ranges::find(dtypeWords, dtype, [](const auto &pair) { return pair.first; });
    return word == std::end(dtypeWords) ? std::nullopt : std::optional(word->second);
  }
};

class SafetensorsReader {
public:
  SafetensorsReader(const std::filesystem::path &path, RegularFile file) : path(path), file(std::move(file)) {}

  Expected<std::map<std::string, HostTensor>> run(const std::optional<std::set<std::string>> &wanted) {
    auto text = readHeader();
    if (!text)
      return text.takeErrors();
    auto entries = parseHeader(*text);
    if (!entries)
      return entries.takeErrors();
    if (auto covered = checkCover(*entries); !covered)
      return covered.takeErrors();
    if (wanted)
      std::erase_if(*entries, [&](const Entry &entry) { return !wanted->contains(entry.name); });
    uint64_t total = 0; // At most the size of the file.
    for (const Entry &entry : *entries) {
      if (auto checked = checkElements(entry); !checked)
        return checked.takeErrors();
      total += entry.end - entry.begin;
    }
    if (!fitsHostMemory(int64_t(total)))
      return Diagnostic{.code = ErrorCode::TooLarge, .message = "'" + path.string() + "' does not fit into this machine's memory"};
    std::map<std::string, HostTensor> tensors;
    for (const Entry &entry : *entries) {
      HostTensor &tensor = tensors.emplace(entry.name, HostTensor(*entry.type(), entry.shape)).first->second;
      if (!read(entry, tensor))
        return bad("could not be read to its end");
    }
    return tensors;
  }

private:
  Diagnostic bad(const std::string &why) const {
    return {.code = ErrorCode::BadSafetensors, .message = "'" + path.string() + "' " + why};
  }
  Diagnostic badTensor(const std::string &name, const std::string &why) const {
    return bad("has a tensor '" + name.substr(0, 64) + "' " + why);
  }

  Expected<std::string> readHeader() {
    unsigned char start[8] = {};
    file.stream.read(reinterpret_cast<char *>(start), sizeof start);
    if (file.stream.gcount() != sizeof start)
      return bad("is not a .safetensors file: it has fewer than 8 bytes");
    uint64_t size = 0;
    for (int i = 8; i-- > 0;)
      size = size << 8 | start[i];
    if (size > maxHeader)
      return bad("is not a .safetensors file: its header would have " + std::to_string(size) + " bytes, the limit is " +
                 std::to_string(maxHeader));
    if (size > file.size - sizeof start)
      return bad("is cut off in its header");
    dataStart = sizeof start + size;
    std::string text(size, '\0');
    file.stream.read(text.data(), std::streamsize(size));
    if (uint64_t(file.stream.gcount()) != size)
      return bad("could not be read to the end of its header");
    return text;
  }

  Expected<std::vector<Entry>> parseHeader(const std::string &text) {
    // A JSON object keeps one of two members of the same name; here they are an error.
    std::vector<std::set<std::string>> keys;
    std::string twice;
    auto watch = [&](int, Json::parse_event_t event, Json &value) {
      if (event == Json::parse_event_t::object_start)
        keys.emplace_back();
      else if (event == Json::parse_event_t::object_end)
        keys.pop_back();
      else if (event == Json::parse_event_t::key && !keys.back().insert(value.get_ref<const std::string &>()).second)
        twice = value.get_ref<const std::string &>();
      return true;
    };
    Json header = Json::parse(text, watch, false);
    if (!header.is_object())
      return bad("has a header that is no JSON object");
    if (!twice.empty())
      return bad("names '" + twice.substr(0, 64) + "' twice");
    std::vector<Entry> entries;
    for (const auto &[name, value] : header.items()) {
      if (name == metadataKey)
        continue;
      auto entry = parseEntry(name, value);
      if (!entry)
        return badTensor(name, "that is not described as {dtype, shape, data_offsets}");
      entries.push_back(std::move(*entry));
    }
    return entries;
  }

  /// A number from 0 to 2^63 - 1.
  static bool readSize(const Json &value, uint64_t &size) {
    if (!value.is_number_unsigned())
      return false;
    size = value.get<uint64_t>();
    return size <= uint64_t(std::numeric_limits<int64_t>::max());
  }

  static std::optional<Entry> parseEntry(const std::string &name, const Json &value) {
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") || !value.contains("data_offsets"))
      return std::nullopt;
    const Json &dtype = value.at("dtype"), &shape = value.at("shape"), &offsets = value.at("data_offsets");
    Entry entry{.name = name};
    if (!dtype.is_string() || !shape.is_array() || shape.size() > maxRank || !offsets.is_array() || offsets.size() != 2 ||
        !readSize(offsets[0], entry.begin) || !readSize(offsets[1], entry.end))
      return std::nullopt;
    entry.dtype = dtype.get_ref<const std::string &>();
    for (const Json &dim : shape) {
      uint64_t size = 0;
      if (!readSize(dim, size))
        return std::nullopt;
      entry.shape.push_back(int64_t(size));
    }
    return entry;
  }

  /// The tensors, in the order of their bytes, cover the rest of the file without gap or overlap.
  Expected<void> checkCover(std::vector<Entry> &entries) const {
    std::ranges::sort(entries,
                      [](const Entry &a, const Entry &b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    uint64_t next = 0, size = file.size - dataStart;
    for (const Entry &entry : entries) {
      std::string range = "at bytes " + std::to_string(entry.begin) + " to " + std::to_string(entry.end);
      if (entry.begin != next)
        return badTensor(entry.name, range + ", but what comes before it ends at " + std::to_string(next));
      if (entry.end < entry.begin)
        return badTensor(entry.name, range + ", which is no range");
      if (entry.end > size)
        return badTensor(entry.name, range + ", but the file is cut off at " + std::to_string(size));
      next = entry.end;
    }
    if (next != size)
      return bad("has " + std::to_string(size - next) + " bytes that belong to no tensor");
    return {};
  }

  Expected<void> checkElements(const Entry &entry) const {
    auto type = entry.type();
    if (!type)
      return badTensor(entry.name, "of type '" + entry.dtype.substr(0, 16) +
                                       "', expected one of F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, I8, U8, BOOL");
    auto bytes = HostTensor::checkedBytes(*type, entry.shape);
    if (!bytes || uint64_t(*bytes) != entry.end - entry.begin)
      return badTensor(entry.name,
                       "of shape " + shapeString(*type, entry.shape) + " in " + std::to_string(entry.end - entry.begin) + " bytes");
    return {};
  }

  bool read(const Entry &entry, HostTensor &tensor) {
    auto bytes = std::streamsize(tensor.bytes().size());
    file.stream.seekg(std::streamoff(dataStart + entry.begin));
    file.stream.read(reinterpret_cast<char *>(tensor.bytes().data()), bytes);
    if (tensor.dtype() == DType::I1)
      for (std::byte &b : tensor.bytes())
        b = std::byte(b != std::byte(0)); // Whatever is not 0 is true.
    return file.stream && file.stream.gcount() == bytes;
  }

  std::filesystem::path path;
  RegularFile file;
  uint64_t dataStart = 0;
};

} // namespace

Expected<std::map<std::string, HostTensor>> readSafetensors(const std::filesystem::path &path,
                                                            const std::optional<std::set<std::string>> &wanted) {
  auto file = openRegularFile(path);
  if (!file)
    return file.takeErrors();
  return SafetensorsReader(path, std::move(*file)).run(wanted);
}

} // namespace minic
