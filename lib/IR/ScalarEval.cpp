// Element-wise ops on the host. An op and its types choose one loop over a block of lanes; splats and narrow types are staged to
// full blocks of the type the loop reads, so a loop knows neither. Functions with a body in IR are a list of such loops.
//
// Each loop applies one primitive and stores it, so no compiler can contract two of them into an fma.
#include "minic/IR/ScalarEval.h"

#include "minic/IR/MathLibrary.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace minic {
namespace {

//===- Primitives -===//

/// What `none` in a row's column stands for.
struct NoForm {};
[[maybe_unused]] constexpr NoForm none;

template <typename T> using Unsigned = std::make_unsigned_t<T>;
template <typename T> T wrapAdd(T a, T b) { return T(Unsigned<T>(a) + Unsigned<T>(b)); }
template <typename T> T wrapSub(T a, T b) { return T(Unsigned<T>(a) - Unsigned<T>(b)); }
template <typename T> T wrapMul(T a, T b) { return T(Unsigned<T>(a) * Unsigned<T>(b)); }
/// Whether a shift by `amount` leaves any bit: it is taken as unsigned.
template <typename T> bool isInside(T amount) {
  return Unsigned<T>(amount) < Unsigned<T>(std::numeric_limits<Unsigned<T>>::digits);
}
template <typename T> T shiftLeft(T a, T b) { return isInside(b) ? T(Unsigned<T>(a) << b) : T(0); }
template <typename T> T shiftRight(T a, T b) { return T(a >> (isInside(b) ? b : std::numeric_limits<T>::digits)); }
template <typename T> T shiftRightUnsigned(T a, T b) { return isInside(b) ? T(Unsigned<T>(a) >> b) : T(0); }

template <typename T> T signOf(T a) { return a > 0 ? T(1) : a < 0 ? T(-1) : a; }

template <typename T> T signedDiv(T a, T b) { return b == 0 ? T(-1) : b == -1 ? wrapSub(T(0), a) : T(a / b); }
template <typename T> T signedRem(T a, T b) { return b == 0 ? a : b == -1 ? T(0) : T(a % b); }

template <typename T> T ieeeMaximum(T a, T b) {
  if (a == b)
    return std::signbit(a) ? b : a;     // Zeros of different sign are equal.
  return a > b ? a : b > a ? b : a + b; // If neither is greater, one is NaN, and so is the sum.
}
template <typename T> T ieeeMinimum(T a, T b) {
  if (a == b)
    return std::signbit(a) ? a : b;
  return a < b ? a : b < a ? b : a + b;
}

/// Stand-ins for what the GPU's special function unit gives: the exact values, rounded, with denormal numbers as 0.
template <typename T> T flushed(T x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(T(0), x) : x; }
template <typename T> T exp2Approx(T x) { return flushed(std::exp2(flushed(x))); }
template <typename T> T rcpApprox(T x) { return flushed(T(1) / flushed(x)); }

template <typename T> T unsignedDiv(T a, T b) { return T(Unsigned<T>(a) / Unsigned<T>(b == 0 ? 1 : b)); }
template <typename T> T unsignedRem(T a, T b) { return T(Unsigned<T>(a) % Unsigned<T>(b == 0 ? 1 : b)); }

/// `AddForm<T>::apply(a, b, c)`: the row's host form for T.
#define MINIC_SCALAR(id, name, hostFloat, hostInt, llvmFloat, llvmInt, ...)                                                        \
  template <typename T> struct id##Form {                                                                                          \
    static auto apply([[maybe_unused]] T a, [[maybe_unused]] T b, [[maybe_unused]] T c) {                                          \
      if constexpr (std::is_floating_point_v<T>)                                                                                   \
        return hostFloat;                                                                                                          \
      else                                                                                                                         \
        return hostInt;                                                                                                            \
    }                                                                                                                              \
  };
#define MINIC_MATH(...)
#define MINIC_OP(...)
#include "minic/IR/ScalarOps.def"
#undef MINIC_SCALAR

//===- Loops -===//

/// Applies a primitive to `count` lanes. `in` always has three entries; those past the operands repeat the first.
using Loop = void (*)(const std::byte *const *in, std::byte *out, int64_t count);

constexpr size_t maxOperands = 3;

/// memcpy, as the arrays hold elements of types that their owner knows; compilers make it one move.
template <typename T> T load(const std::byte *data, int64_t lane) {
  T value;
  std::memcpy(&value, data + size_t(lane) * sizeof(T), sizeof(T));
  return value;
}
template <typename T> void store(std::byte *data, int64_t lane, T value) {
  std::memcpy(data + size_t(lane) * sizeof(T), &value, sizeof(T));
}

/// Lanes of type M in memory are computed in T. An i1 (a byte, seen as i32) is the last bit.
template <typename Form, typename T, typename M> void applyForm(const std::byte *const *in, std::byte *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T result = Form::apply(T(load<M>(in[0], i)), T(load<M>(in[1], i)), T(load<M>(in[2], i)));
    if constexpr (std::is_same_v<M, uint8_t>)
      result &= 1;
    store<M>(out, i, M(result));
  }
}

template <typename Relation, typename M> void applyCompare(const std::byte *const *in, std::byte *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    store<uint8_t>(out, i, Relation()(load<M>(in[0], i), load<M>(in[1], i)));
}

template <typename M> void applySelect(const std::byte *const *in, std::byte *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    store<M>(out, i, load<uint8_t>(in[0], i) ? load<M>(in[1], i) : load<M>(in[2], i));
}

template <size_t bytes> void copyLanes(const std::byte *const *in, std::byte *out, int64_t count) {
  std::memmove(out, in[0], size_t(count) * bytes);
}

//===- Conversions -===//

template <typename To, typename From> To truncateToInt(From x) {
  using Limits = std::numeric_limits<To>;
  // The least value is a float, the greatest may not be; one more is a power of two again. NaN fails all comparisons.
  constexpr From low = From(Limits::min()), beyond = From(To(1) << (Limits::digits - 1)) * 2;
  if (x >= low && x < beyond)
    return To(x);
  return x < low ? Limits::min() : x >= beyond ? Limits::max() : To(0);
}

/// An f64 that rounds to any narrower float as `x` does: rounded to odd, that is toward zero with the last bit set if that dropped
/// anything (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
double roundToOdd(int64_t x) {
  uint64_t magnitude = x < 0 ? 0 - uint64_t(x) : uint64_t(x);
  int drop = std::max(0, int(std::bit_width(magnitude)) - std::numeric_limits<double>::digits);
  uint64_t kept = magnitude >> drop;
  kept |= uint64_t((kept << drop) != magnitude);
  double value = double(kept << drop);
  return x < 0 ? -value : value;
}

constexpr bool isFloat8(DType t) { return t == DType::F8E4M3 || t == DType::F8E5M2; }
constexpr bool isFloat16(DType t) { return t == DType::F16 || t == DType::BF16; }

/// A value of the type that an element of `t` has in memory.
template <DType t> constexpr auto memoryValue() {
  if constexpr (t == DType::F64)
    return double();
  else if constexpr (t == DType::F32)
    return float();
  else if constexpr (isFloat16(t))
    return uint16_t();
  else if constexpr (t == DType::I32)
    return int32_t();
  else if constexpr (t == DType::I8)
    return int8_t();
  else if constexpr (t == DType::U8 || t == DType::I1 || isFloat8(t))
    return uint8_t();
  else
    return int64_t();
}

template <DType to, typename From> auto convertLane(From x) {
  using To = decltype(memoryValue<to>());
  if constexpr (to == DType::I1) {
    return To(x != From(0));
  } else if constexpr (to == DType::BF16 && std::is_same_v<From, float>) {
    return floatToBfloat(x);
  } else if constexpr (isFloat16(to) || isFloat8(to)) {
    double exact;
    if constexpr (std::is_same_v<From, int64_t>)
      exact = roundToOdd(x);
    else
      exact = double(x);
    return To(doubleToNarrow(exact, to));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return truncateToInt<To>(x);
  } else {
    return To(x); // Integers wrap (C++20, [conv.integral]); what becomes a float rounds to nearest.
  }
}

template <typename From, DType to> void applyConvert(const std::byte *const *in, std::byte *out, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    store(out, i, convertLane<to>(load<From>(in[0], i)));
}

//===- From an op and its types to a loop -===//

/// Calls `fn` with a value of the type that lanes of `dtype` have in a loop; narrow types are staged.
template <typename Fn> Loop withMemoryType(DType dtype, Fn &&fn) {
  switch (computeDType(dtype)) {
  case DType::F64:
    return fn(double());
  case DType::F32:
    return fn(float());
  case DType::I64:
  case DType::Index:
    return fn(int64_t());
  case DType::I32:
    return fn(int32_t());
  case DType::I1:
    return fn(uint8_t());
  default:
    return nullptr;
  }
}

template <typename Form, typename T, typename M> constexpr Loop formLoop() {
  if constexpr (std::is_same_v<decltype(Form::apply(T(), T(), T())), NoForm>)
    return nullptr;
  else
    return applyForm<Form, T, M>;
}

template <typename M> Loop primitiveLoop(OpKind kind) {
  using T = std::conditional_t<std::is_same_v<M, uint8_t>, int32_t, M>; // The table's forms see an i1 as an i32.
  switch (kind) {
#define MINIC_SCALAR(id, ...)                                                                                                      \
  case OpKind::id:                                                                                                                 \
    return formLoop<id##Form<T>, T, M>();
#include "minic/IR/ScalarOps.def"
#undef MINIC_SCALAR
#undef MINIC_MATH
#undef MINIC_OP
  default:
    return nullptr;
  }
}

template <typename M> Loop compareLoop(std::string_view predicate) {
  static constexpr std::pair<std::string_view, Loop> relations[] = {
      {"eq", applyCompare<std::equal_to<M>, M>}, {"ne", applyCompare<std::not_equal_to<M>, M>},
      {"lt", applyCompare<std::less<M>, M>},     {"le", applyCompare<std::less_equal<M>, M>},
      {"gt", applyCompare<std::greater<M>, M>},  {"ge", applyCompare<std::greater_equal<M>, M>},
  };
  for (auto [name, loop] : relations)
    if (name == predicate)
      return loop;
  return nullptr;
}

template <typename From> Loop convertLoop(DType to) {
  switch (to) {
  case DType::F64:
    return applyConvert<From, DType::F64>;
  case DType::F32:
    return applyConvert<From, DType::F32>;
  case DType::F16:
    return applyConvert<From, DType::F16>;
  case DType::BF16:
    return applyConvert<From, DType::BF16>;
  case DType::I64:
  case DType::Index:
    return applyConvert<From, DType::I64>;
  case DType::I32:
    return applyConvert<From, DType::I32>;
  case DType::I8:
    return applyConvert<From, DType::I8>;
  case DType::U8:
    return applyConvert<From, DType::U8>;
  case DType::I1:
    return applyConvert<From, DType::I1>;
  case DType::F8E4M3:
    return applyConvert<From, DType::F8E4M3>;
  case DType::F8E5M2:
    return applyConvert<From, DType::F8E5M2>;
  }
  return nullptr;
}

Loop selectLoop(DType dtype) {
  switch (dtypeBytes(dtype)) {
  case 1:
    return applySelect<uint8_t>;
  case 2:
    return applySelect<uint16_t>;
  case 4:
    return applySelect<uint32_t>;
  default:
    return applySelect<uint64_t>;
  }
}

/// The loop of an op that does not expand, on operands of `from` (select: of the chosen values' type).
Loop findLoop(OpKind kind, std::string_view predicate, DType from, DType to) {
  switch (kind) {
  case OpKind::Compare:
    return withMemoryType(from, [&](auto m) { return compareLoop<decltype(m)>(predicate); });
  case OpKind::Select:
    return selectLoop(to);
  case OpKind::Convert:
    return withMemoryType(from, [&](auto m) { return convertLoop<decltype(m)>(to); });
  case OpKind::Bitcast:
    assert(dtypeBytes(from) == dtypeBytes(to) && "a bitcast between sizes");
    return dtypeBytes(to) == 1 ? copyLanes<1> : dtypeBytes(to) == 4 ? copyLanes<4> : copyLanes<8>;
  default:
    return withMemoryType(from, [&](auto m) { return primitiveLoop<decltype(m)>(kind); });
  }
}

//===- Functions with a body in IR -===//

constexpr int64_t blockLanes = 128;
constexpr size_t blockBytes = size_t(blockLanes) * 8;
using BlockOfLanes = std::array<std::byte, blockBytes>;

void fillBlock(std::byte *block, const std::byte *element, size_t bytes, int64_t lanes) {
  for (int64_t i = 0; i < lanes; ++i)
    std::memcpy(block + size_t(i) * bytes, element, bytes);
}

/// A body as loops over blocks. The first slots are the parameters, then come the constants, then the results of the steps, the
/// last of which is returned.
struct MathProgram {
  struct Step {
    Loop loop;
    std::array<size_t, maxOperands> in;
  };
  size_t numParams = 0;
  std::vector<BlockOfLanes> constants;
  std::vector<Step> steps;

  void run(const std::byte *const *in, std::byte *out, int64_t count) const {
    thread_local std::vector<BlockOfLanes> scratch;
    if (scratch.size() < steps.size())
      scratch.resize(steps.size());
    size_t firstStep = numParams + constants.size();
    auto slot = [&](size_t i) {
      return i < numParams ? in[i] : i < firstStep ? constants[i - numParams].data() : scratch[i - firstStep].data();
    };
    for (size_t s = 0; s < steps.size(); ++s) {
      const std::byte *operands[maxOperands] = {slot(steps[s].in[0]), slot(steps[s].in[1]), slot(steps[s].in[2])};
      steps[s].loop(operands, s + 1 == steps.size() ? out : scratch[s].data(), count);
    }
  }
};

MathProgram compileBody(const Function &body) {
  MathProgram program;
  std::unordered_map<const Value *, size_t> slots;
  for (const Value *param : body.params())
    slots[param] = program.numParams++;
  for (const Operation &op : body.body())
    if (op.is(OpKind::Constant)) {
      DType dtype = op.result()->type().dtype();
      Scalar element = Scalar::of(*op.attr("value"), dtype);
      slots[op.result()] = program.numParams + program.constants.size();
      fillBlock(program.constants.emplace_back().data(), reinterpret_cast<const std::byte *>(&element.bits),
                size_t(dtypeBytes(dtype)), blockLanes);
    }
  size_t firstStep = program.numParams + program.constants.size();
  for (const Operation &op : body.body()) {
    if (op.is(OpKind::Constant) || op.info().terminator)
      continue;
    assert(op.info().elementwise && !op.info().expands && op.numOperands() <= maxOperands && "not a primitive");
    DType from = op.operand(op.is(OpKind::Select) ? 1 : 0)->type().dtype();
    MathProgram::Step step{findLoop(op.kind(), op.wordAttr("predicate"), from, op.result()->type().dtype()), {}};
    assert(step.loop && "a primitive without a host form");
    // Places past the operands repeat the first: a loop may load from them, and other slots hold narrower lanes.
    for (unsigned i = 0; i < maxOperands; ++i)
      step.in[i] = slots.at(op.operand(i < op.numOperands() ? i : 0));
    slots[op.result()] = firstStep + program.steps.size();
    program.steps.push_back(step);
  }
  assert(slots.at(body.terminator()->operand(0)) + 1 == firstStep + program.steps.size() && "the last operation is returned");
  return program;
}

/// Compiled at its first use in the process, and only read after that.
const MathProgram &mathProgram(OpKind kind, DType dtype) {
  struct Entry {
    std::once_flag once;
    MathProgram program;
  };
  static std::vector<Entry> entries(2 * allOps().size());
  Entry &entry = entries[2 * size_t(kind) + (dtype == DType::F64)];
  std::call_once(entry.once, [&] { entry.program = compileBody(mathBody(kind, dtype)); });
  return entry.program;
}

//===- Staging -===//

template <typename From, typename To, typename Convert>
void convertLanes(const std::byte *from, std::byte *to, int64_t count, Convert convert) {
  for (int64_t i = 0; i < count; ++i)
    store<To>(to, i, convert(load<From>(from, i)));
}

/// From a narrow type to the one that it is computed in.
void widenLanes(DType dtype, const std::byte *from, std::byte *to, int64_t count) {
  if (isFloat8(dtype))
    convertLanes<uint8_t, float>(from, to, count, [dtype](uint8_t x) { return narrowToFloat(x, dtype); });
  else if (isFloat(dtype))
    convertLanes<uint16_t, float>(from, to, count, dtype == DType::F16 ? halfToFloat : bfloatToFloat);
  else if (dtype == DType::I8)
    convertLanes<int8_t, int32_t>(from, to, count, [](int8_t x) { return int32_t(x); });
  else
    convertLanes<uint8_t, int32_t>(from, to, count, [](uint8_t x) { return int32_t(x); });
}

/// And back: floats round, integers wrap.
void narrowLanes(DType dtype, const std::byte *from, std::byte *to, int64_t count) {
  if (isFloat(dtype))
    convertLanes<float, uint16_t>(from, to, count, dtype == DType::F16 ? floatToHalf : floatToBfloat);
  else
    convertLanes<int32_t, uint8_t>(from, to, count, [](int32_t x) { return uint8_t(x); });
}

} // namespace

void evalElementwise(OpKind kind, std::string_view predicate, std::span<const Lanes> operands, DType resultType, std::byte *out,
                     int64_t count) {
  assert(!operands.empty() && operands.size() <= maxOperands && opInfo(kind).elementwise && "not an element-wise op");
  if (count <= 0)
    return;
  // Select and bitcast only move bits, and convert rounds by itself.
  bool widens = kind != OpKind::Select && kind != OpKind::Bitcast;
  bool narrows = isNarrow(resultType) && widens && kind != OpKind::Convert;
  DType from = operands[kind == OpKind::Select ? 1 : 0].dtype;
  const MathProgram *program = nullptr;
  Loop loop = nullptr;
  if (opInfo(kind).expands)
    program = &mathProgram(kind, from == DType::F64 ? DType::F64 : DType::F32);
  else
    loop = findLoop(kind, predicate, from, resultType);
  assert((program || loop) && "an op on types that its row does not take");

  std::array<std::byte[blockBytes], maxOperands> staged;
  std::byte stagedResult[blockBytes];
  for (size_t j = 0; j < operands.size(); ++j)
    if (const Lanes &operand = operands[j]; operand.splat) {
      bool wide = widens && isNarrow(operand.dtype);
      std::byte element[8];
      if (wide)
        widenLanes(operand.dtype, operand.data, element, 1);
      fillBlock(staged[j], wide ? element : operand.data, wide ? 4 : size_t(dtypeBytes(operand.dtype)),
                std::min(count, blockLanes));
    }

  size_t resultBytes = size_t(dtypeBytes(resultType));
  for (int64_t begin = 0; begin < count; begin += blockLanes) {
    int64_t lanes = std::min(blockLanes, count - begin);
    const std::byte *in[maxOperands] = {};
    for (size_t j = 0; j < operands.size(); ++j) {
      const Lanes &operand = operands[j];
      in[j] = operand.splat ? staged[j] : operand.data + size_t(begin) * size_t(dtypeBytes(operand.dtype));
      if (!operand.splat && widens && isNarrow(operand.dtype)) {
        widenLanes(operand.dtype, in[j], staged[j], lanes);
        in[j] = staged[j];
      }
    }
    for (size_t j = operands.size(); j < maxOperands; ++j)
      in[j] = in[0];
    std::byte *to = out + size_t(begin) * resultBytes;
    if (program)
      program->run(in, narrows ? stagedResult : to, lanes);
    else
      loop(in, narrows ? stagedResult : to, lanes);
    if (narrows)
      narrowLanes(resultType, stagedResult, to, lanes);
  }
}

void evalElementwise(const Operation &op, std::span<const Lanes> operands, DType resultType, std::byte *out, int64_t count) {
  evalElementwise(op.kind(), op.wordAttr("predicate"), operands, resultType, out, count);
}

//===- Scalars -===//

// The low bytes of a scalar are its memory form on little-endian hosts.
static_assert(std::endian::native == std::endian::little);

static Scalar fromMemory(const std::byte *data, DType t) {
  Scalar result;
  std::memcpy(&result.bits, data, size_t(dtypeBytes(t)));
  if (int unused = 64 - 8 * int(dtypeBytes(t)); dtypeClass(t) == DTypeClass::Int)
    result.bits = uint64_t(int64_t(result.bits << unused) >> unused);
  return result;
}

Scalar evalScalar(OpKind kind, std::string_view predicate, std::span<const Scalar> operands, DType operandType, DType resultType) {
  assert(!operands.empty() && operands.size() <= maxOperands && "not an element-wise op");
  Lanes lanes[maxOperands];
  for (size_t j = 0; j < operands.size(); ++j)
    lanes[j] = {kind == OpKind::Select && j == 0 ? DType::I1 : operandType, reinterpret_cast<const std::byte *>(&operands[j].bits)};
  std::byte result[8];
  evalElementwise(kind, predicate, std::span<const Lanes>(lanes, operands.size()), resultType, result, 1);
  return fromMemory(result, resultType);
}

Scalar convertScalar(Scalar value, DType from, DType to) { return evalScalar(OpKind::Convert, {}, {&value, 1}, from, to); }

Scalar Scalar::of(double value, DType t) {
  Scalar number{std::bit_cast<uint64_t>(value)};
  return t == DType::F64 ? number : convertScalar(number, DType::F64, t);
}

Scalar Scalar::of(const Attribute &number, DType t) {
  if (const int64_t *integer = number.asInt(); integer && !isFloat(t))
    return Scalar{uint64_t(*integer)}; // Not through f64, which i64 does not fit.
  return of(number.asNumber().value_or(0.0), t);
}

Attribute Scalar::toAttr(DType t) const { return isFloat(t) ? Attribute(toDouble(t)) : Attribute(int64_t(bits)); }

double Scalar::toDouble(DType t) const { return std::bit_cast<double>(convertScalar(*this, t, DType::F64).bits); }

} // namespace minic
