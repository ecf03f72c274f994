#include "minic/IR/Attribute.h"

#include "minic/Support/HostTensor.h"

#include <bit>

namespace minic {

const Attribute *RecordAttr::find(std::string_view field) const {
  for (const auto &[name, value] : fields)
    if (name == field)
      return &value;
  return nullptr;
}

/// Lines stay lines, so that a text of many can be read; only what would end the string is escaped.
static std::string quotedText(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text)
    quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return quoted + "\"";
}

bool operator==(const RecordAttr &a, const RecordAttr &b) { return a.name == b.name && a.fields == b.fields; }

Attribute Attribute::ints(const std::vector<int64_t> &values) { return AttributeList(values.begin(), values.end()); }
Attribute Attribute::dims(const std::vector<DimExpr> &values) { return AttributeList(values.begin(), values.end()); }

const AttributeList *Attribute::asList() const {
  auto *list = std::get_if<std::shared_ptr<const AttributeList>>(&value);
  return list ? list->get() : nullptr;
}

const RecordAttr *Attribute::asRecord() const {
  auto *record = std::get_if<std::shared_ptr<const RecordAttr>>(&value);
  return record ? record->get() : nullptr;
}

std::optional<double> Attribute::asNumber() const {
  if (auto *i = asInt())
    return double(*i);
  if (auto *f = asFloat())
    return *f;
  return std::nullopt;
}

std::optional<DimExpr> Attribute::asDim() const {
  if (auto *i = asInt())
    return DimExpr(*i);
  if (auto *dim = std::get_if<DimExpr>(&value))
    return *dim;
  return std::nullopt;
}

std::optional<std::vector<int64_t>> Attribute::asInts() const {
  const AttributeList *list = asList();
  if (!list)
    return std::nullopt;
  std::vector<int64_t> result;
  for (const Attribute &element : *list) {
    if (!element.asInt())
      return std::nullopt;
    result.push_back(*element.asInt());
  }
  return result;
}

std::optional<std::vector<DimExpr>> Attribute::asDims() const {
  const AttributeList *list = asList();
  if (!list)
    return std::nullopt;
  std::vector<DimExpr> result;
  for (const Attribute &element : *list) {
    auto dim = element.asDim();
    if (!dim)
      return std::nullopt;
    result.push_back(std::move(*dim));
  }
  return result;
}

bool operator==(const Attribute &a, const Attribute &b) {
  if (a.value.index() != b.value.index())
    return false;
  if (auto *x = a.asFloat())
    return (*x != *x && *b.asFloat() != *b.asFloat()) || std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*b.asFloat());
  if (auto *x = a.asList())
    return *x == *b.asList();
  if (auto *x = a.asRecord())
    return *x == *b.asRecord();
  return a.value == b.value;
}

std::string Attribute::str(DType dtype) const {
  if (auto *i = asInt())
    return dtype == DType::I1 ? (*i ? "true" : "false") : std::to_string(*i);
  if (auto *f = asFloat())
    return floatText(*f, isFloat(dtype) ? dtype : DType::F64);
  if (auto *word = asWord())
    return word->text;
  if (auto *symbol = asSymbol())
    return "@" + symbol->name;
  if (auto *string = asString())
    return quotedText(string->text);
  if (auto *dim = std::get_if<DimExpr>(&value))
    return dim->str();
  if (auto *list = asList()) {
    std::string text = "[";
    for (size_t i = 0; i < list->size(); ++i)
      text += (i ? ", " : "") + (*list)[i].str(dtype);
    return text + "]";
  }
  if (auto *record = asRecord()) {
    std::string text = "#" + record->name + "<";
    for (size_t i = 0; i < record->fields.size(); ++i)
      text += (i ? ", " : "") + record->fields[i].first + " = " + record->fields[i].second.str();
    return text + ">";
  }
  return "";
}

} // namespace minic
