// Attributes: small immutable values on ops and functions.
#pragma once

#include "minic/Support/DType.h"
#include "minic/Support/DimExpr.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace minic {

class Attribute;
using AttributeList = std::vector<Attribute>;

/// `max`: a bare word.
struct WordAttr {
  std::string text;
  friend bool operator==(const WordAttr &, const WordAttr &) = default;
};
/// `@name`: a reference to a function of the module.
struct SymbolAttr {
  std::string name;
  friend bool operator==(const SymbolAttr &, const SymbolAttr &) = default;
};
/// `"text"`: any text, of several lines too.
struct StringAttr {
  std::string text;
  friend bool operator==(const StringAttr &, const StringAttr &) = default;
};
/// `#rows<block = [4, 1024], vec = 4>`: a named list of fields in the order written.
struct RecordAttr {
  std::string name;
  std::vector<std::pair<std::string, Attribute>> fields;
  const Attribute *find(std::string_view field) const;
  friend bool operator==(const RecordAttr &, const RecordAttr &);
};

/// A value of one of these kinds. A number with a point, an exponent, `inf` or `nan` is a float (f64 here; the op's element type
/// says how it rounds); one without is an integer; a name, a product or a ceildiv is a dim.
class Attribute {
public:
  Attribute() = default;
  Attribute(int64_t v) : value(v) {}
  Attribute(int v) : value(int64_t(v)) {}
  Attribute(double v) : value(v) {}
  Attribute(WordAttr v) : value(std::move(v)) {}
  Attribute(SymbolAttr v) : value(std::move(v)) {}
  Attribute(StringAttr v) : value(std::move(v)) {}
  Attribute(DimExpr v) { // A constant dim is an integer, so that it prints and compares as one.
    if (auto c = v.constant())
      value = *c;
    else
      value = std::move(v);
  }
  Attribute(AttributeList v) : value(std::make_shared<const AttributeList>(std::move(v))) {}
  Attribute(RecordAttr v) : value(std::make_shared<const RecordAttr>(std::move(v))) {}
  static Attribute word(std::string text) { return WordAttr{std::move(text)}; }
  static Attribute symbol(std::string name) { return SymbolAttr{std::move(name)}; }
  static Attribute string(std::string text) { return StringAttr{std::move(text)}; }
  static Attribute ints(const std::vector<int64_t> &values);
  static Attribute dims(const std::vector<DimExpr> &values);

  explicit operator bool() const { return !std::holds_alternative<std::monostate>(value); }
  const int64_t *asInt() const { return std::get_if<int64_t>(&value); }
  const double *asFloat() const { return std::get_if<double>(&value); }
  const WordAttr *asWord() const { return std::get_if<WordAttr>(&value); }
  const SymbolAttr *asSymbol() const { return std::get_if<SymbolAttr>(&value); }
  const StringAttr *asString() const { return std::get_if<StringAttr>(&value); }
  const AttributeList *asList() const;
  const RecordAttr *asRecord() const;
  /// An integer or a float as f64.
  std::optional<double> asNumber() const;
  /// An integer or a dim.
  std::optional<DimExpr> asDim() const;
  /// A list of integers; nullopt if this is anything else.
  std::optional<std::vector<int64_t>> asInts() const;
  std::optional<std::vector<DimExpr>> asDims() const;

  /// Bitwise for floats: NaN equals NaN, +0.0 differs from -0.0.
  friend bool operator==(const Attribute &, const Attribute &);
  /// Text that the parser reads; floats with the shortest digits for `dtype`.
  std::string str(DType dtype = DType::F64) const;

private:
  std::variant<std::monostate, int64_t, double, WordAttr, SymbolAttr, StringAttr, DimExpr, std::shared_ptr<const AttributeList>,
               std::shared_ptr<const RecordAttr>>
      value;
};

} // namespace minic
