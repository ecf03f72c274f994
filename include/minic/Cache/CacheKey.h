// What a compiled thing depends on, field by field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// Named texts in the order in which they were added. Two keys are equal if all names and texts are, in order; whoever makes keys
/// of a kind adds the same fields always. A text may be long (IR, PTX) and hold any bytes.
class CacheKey {
public:
  struct Field {
    std::string name, text;
    friend bool operator==(const Field &, const Field &) = default;
  };

  /// `kind` is the first field: what is kept, such as "artifact" or "cubin".
  explicit CacheKey(std::string kind);
  /// A name stands once.
  CacheKey &add(std::string name, std::string text);

  const std::vector<Field> &fields() const { return list; }
  /// All fields with their lengths, as entries hold them. Equal keys have equal bytes, and only they.
  std::string bytes() const;
  /// 32 hexadecimal digits, a hash of `bytes()`: other keys have other names, but for collisions, which `CacheStore::get` sees.
  std::string name() const;

  /// The fields of `bytes()`; none if these are not the bytes of a key.
  static std::vector<Field> parse(std::string_view bytes);

private:
  std::vector<Field> list;
};

} // namespace minic
