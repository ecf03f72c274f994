// Element types: the enum, names and sizes of `DTypes.def`, and the bit conversions of the narrow floats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace minic {

enum class DType : uint8_t {
#define MINIC_DTYPE(id, spelling, bits, cls) id,
#include "minic/Support/DTypes.def"
#undef MINIC_DTYPE
};

enum class DTypeClass : uint8_t { Float, Int, UInt, Bool, Index };

std::string_view dtypeName(DType t);
std::optional<DType> parseDType(std::string_view name);
/// Size of one element in memory, in bytes (i1 is one byte holding 0 or 1).
int64_t dtypeBytes(DType t);
DTypeClass dtypeClass(DType t);
inline bool isFloat(DType t) { return dtypeClass(t) == DTypeClass::Float; }
inline bool isInteger(DType t) { return dtypeClass(t) == DTypeClass::Int || dtypeClass(t) == DTypeClass::UInt; }
/// A type whose elements are moved and converted, never computed with: the 8-bit floats.
inline bool isStorageOnly(DType t) { return t == DType::F8E4M3 || t == DType::F8E5M2; }
/// The type that arithmetic on elements of `t` runs in: 16-bit floats in f32, 8-bit integers in i32, others in their own. f32 is
/// also what 8-bit floats go through where they are converted.
DType computeDType(DType t);
/// Computed in another type than its own.
inline bool isNarrow(DType t) { return computeDType(t) != t; }
inline bool isNarrowFloat(DType t) { return isFloat(t) && isNarrow(t); }

/// What an element that is no float can be, both ends included.
struct IntegerRange {
  int64_t least, greatest;
};
IntegerRange integerRange(DType t);

/// A set of element types, as op rows use it.
class DTypeSet {
public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(DType t) : bits(1u << unsigned(t)) {}
  constexpr bool contains(DType t) const { return bits >> unsigned(t) & 1; }
  constexpr bool empty() const { return bits == 0; }
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) {
    DTypeSet r;
    r.bits = a.bits | b.bits;
    return r;
  }
  /// "f64, f32, f16, bf16": for messages and docs.
  std::string str() const;

private:
  uint32_t bits = 0;
};
constexpr DTypeSet operator|(DType a, DType b) { return DTypeSet(a) | DTypeSet(b); }

/// Conversions of the narrow floats, round to nearest even; NaN stays NaN (quiet), overflow gives infinity, denormals are kept
/// (IEEE 754-2019, section 5.4.2). f8e5m2 is as IEEE's; f8e4m3 has no infinity (OCP 8-bit Floating Point Specification,
/// revision 1.0): the codes 0x7f and 0xff are NaN, and so is what overflows its largest number 448.
float halfToFloat(uint16_t bits);
uint16_t floatToHalf(float value);
float bfloatToFloat(uint16_t bits);
uint16_t floatToBfloat(float value);
/// f64 to the 16-bit floats with one rounding.
uint16_t doubleToHalf(double value);
uint16_t doubleToBfloat(double value);
/// The same for the narrow float type `t`, of 16 bits or 8.
float narrowToFloat(uint16_t bits, DType t);
uint16_t doubleToNarrow(double value, DType t);

/// Rounds f32 to the 10 bits of mantissa that tf32 has, to nearest even; NaN and infinities stay. The tensor cores of f32 read no
/// more bits (PTX ISA, "Alternate floating-point data formats").
float roundToTf32(float value);
/// The same with ties away from 0, as cvt.rna.tf32.f32 rounds.
float roundToTf32Away(float value);

/// Rounds `value` to what an element of type `t` can hold (identity for f64; floats only).
double roundToDType(double value, DType t);
/// Whether it rounds to an element of its kind: finite, infinite or NaN (floats only).
bool fitsDType(double value, DType t);

} // namespace minic
