// dot: chains of fused multiply-adds, one per element of acc, all advanced together along the contracted positions.
#include "Agent.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

namespace minic::interp {

namespace {

template <typename T> [[gnu::always_inline]] inline T multiplyAdd(T a, T b, T c) {
  if constexpr (std::is_same_v<T, float>)
    return __builtin_fmaf(a, b, c);
  else if constexpr (std::is_same_v<T, double>)
    return __builtin_fma(a, b, c);
  else
    return a * b + c; // uint32_t: wraps.
}

/// acc[run] = fma(lhs[k][run], rhs[k][run], acc[run]), k ascending.
template <typename T> [[gnu::always_inline]] inline void multiplyRuns(const DotInfo &info, T *acc, const T *lhs, const T *rhs) {
  for (int64_t k = 0; k < info.contracted; ++k, lhs += info.lhs.outer, rhs += info.rhs.outer)
    for (const DotInfo::Run &run : info.runs) {
      T *a = acc + run.acc;
      const T *l = lhs + run.lhs, *r = rhs + run.rhs;
      int64_t n = info.run;
      if (info.rhsStep && !info.lhsStep) {
        T left = *l;
        for (int64_t i = 0; i < n; ++i)
          a[i] = multiplyAdd(left, r[i], a[i]);
      } else if (info.lhsStep && !info.rhsStep) {
        T right = *r;
        for (int64_t i = 0; i < n; ++i)
          a[i] = multiplyAdd(l[i], right, a[i]);
      } else {
        for (int64_t i = 0; i < n; ++i)
          a[i] = multiplyAdd(l[i * info.lhsStep], r[i * info.rhsStep], a[i]);
      }
    }
}

#if defined(__x86_64__)
// Without this an fma is a library call. The same bits either way.
template <typename T> [[gnu::target("avx2,fma")]] void multiplyRunsFma(const DotInfo &info, T *acc, const T *lhs, const T *rhs) {
  multiplyRuns(info, acc, lhs, rhs);
}
#endif

template <typename T> void multiplyAll(const DotInfo &info, T *acc, const T *lhs, const T *rhs) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2"))
    return multiplyRunsFma(info, acc, lhs, rhs);
#endif
  multiplyRuns(info, acc, lhs, rhs);
}

/// The tile level's edge: contracted positions at which an operand's lane is absent are skipped.
template <typename T>
void multiplyPresent(const DotInfo &info, T *acc, const T *lhs, const T *rhs, const std::vector<uint8_t> &lhsAbsent,
                     const std::vector<uint8_t> &rhsAbsent) {
  for (int64_t k = 0; k < info.contracted; ++k)
    for (const DotInfo::Run &run : info.runs)
      for (int64_t i = 0; i < info.run; ++i) {
        size_t l = size_t(k * info.lhs.outer + run.lhs + i * info.lhsStep),
               r = size_t(k * info.rhs.outer + run.rhs + i * info.rhsStep);
        if ((!lhsAbsent.empty() && lhsAbsent[l]) || (!rhsAbsent.empty() && rhsAbsent[r]))
          continue;
        acc[run.acc + i] = multiplyAdd(lhs[l], rhs[r], acc[run.acc + i]);
      }
}

template <typename T> T elementAs(const std::byte *at, DType dtype) {
  if constexpr (std::is_same_v<T, float>)
    if (dtype != DType::F32) {
      uint16_t bits = uint16_t(*at);
      if (!isStorageOnly(dtype))
        std::memcpy(&bits, at, sizeof bits);
      return narrowToFloat(bits, dtype);
    }
  if (dtype == DType::I8)
    return T(int8_t(*at));
  if (dtype == DType::U8)
    return T(uint8_t(*at));
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

} // namespace

/// The operand in the order of the loops, [contracted][outer]; `absent` stays empty where all lanes are there.
template <typename T>
bool Agent::packOperand(const Instr &instr, unsigned which, const DotOperand &operand, std::vector<T> &packed,
                        std::vector<uint8_t> &absent) {
  const DotInfo &info = std::get<DotInfo>(instr.info);
  const Slot &slot = slots[size_t(instr.in[which])];
  DType dtype = instr.op->operand(which)->type().dtype();
  int64_t bytes = dtypeBytes(dtype);
  packed.clear();
  if (operand.cells)
    return packShared(instr, which, operand, packed);
  const std::byte *data = slot.lanes.data.get();
  if (slot.lanes.isSplat() && !slot.lanes.state) {
    packed.assign(size_t(info.contracted * operand.outer), elementAs<T>(data, dtype));
    return true;
  }
  packed.reserve(size_t(info.contracted * operand.outer));
  int64_t undefinedAt = -1;
  forEachOffset(operand.loop, operand.stride, [&](int64_t offset) {
    if (slot.lanes.state) {
      LaneState state = slot.lanes.stateAt(offset);
      if (state == Undefined)
        undefinedAt = offset;
      absent.push_back(state == Absent);
    }
    packed.push_back(elementAs<T>(data + (slot.lanes.isSplat() ? 0 : offset) * bytes, dtype));
  });
  if (undefinedAt >= 0)
    return fail(instr, ErrorCode::UndefinedRead,
                "element " + std::to_string(undefinedAt) + " of " + valueName(instr.op->operand(which)) +
                    " is undefined and is multiplied");
  return true;
}

/// The same of shared memory. A wgmma goes on reading it, and so holds the cells.
template <typename T>
bool Agent::packShared(const Instr &instr, unsigned which, const DotOperand &operand, std::vector<T> &packed) {
  const DotInfo &info = std::get<DotInfo>(instr.info);
  const Slot &slot = slots[size_t(instr.in[which])];
  SharedMemory &memory = cta.memory(slot.memory);
  DType dtype = instr.op->operand(which)->type().dtype();
  int64_t bytes = dtypeBytes(dtype), position = 0, badAt = 0;
  packed.resize(size_t(info.contracted * operand.outer));
  T *next = packed.data();
  Observer who = time.observer();
  SharedFault bad;
  forEachOffset(operand.loop, operand.stride, [&](int64_t offset) {
    if (bad)
      return;
    int64_t cell = slot.cell + (*operand.cells)[size_t(offset)];
    int32_t reader = operand.readers[size_t(position)];
    reader = reader < 0 ? reader : firstThread + reader;
    if (++position == operand.outer)
      position = 0;
    SharedFault found = info.async ? memory.checkRead(cell, who, reader, true) : memory.read(cell, who, reader, instr.ordinal);
    if (found) {
      bad = found;
      badAt = offset;
    } else if (info.async) {
      hold(wgmmas.back(), slot.memory, cell);
    }
    *next = elementAs<T>(memory.data() + cell * bytes, dtype);
    if constexpr (std::is_same_v<T, float>) // Tensor cores do not see the lower bits of f32.
      if (info.async && dtype == DType::F32)
        *next = std::bit_cast<float>(std::bit_cast<uint32_t>(*next) & ~0x1fffu);
    ++next;
  });
  if (!bad)
    return true;
  return sharedFault(instr, bad, slot.memory, slot.cell + (*operand.cells)[size_t(badAt)],
                     indexText(instr.op->operand(which)->type().extents(), badAt));
}

template <typename T> bool Agent::dotAs(const Instr &instr, const DotInfo &info, const LaneArray &acc) {
  std::vector<T> lhs, rhs;
  std::vector<uint8_t> lhsAbsent, rhsAbsent;
  if (!packOperand(instr, 0, info.lhs, lhs, lhsAbsent) || !packOperand(instr, 1, info.rhs, rhs, rhsAbsent))
    return false;
  if constexpr (std::is_same_v<T, float>)
    for (std::vector<T> *operand : {&lhs, &rhs})
      if (info.roundsToTf32)
        std::ranges::transform(*operand, operand->begin(), roundToTf32Away);
  int64_t count = kernel.elementsOf(instr.out[0]);
  LaneArray result, given = acc.expanded(count);
  if (!given.data)
    return noMemory(instr);
  if (!make(instr, info.compute, count, result))
    return false;
  for (int64_t i = 0; given.state && i < count; ++i)
    if (given.state[i] == Undefined)
      return fail(instr, ErrorCode::UndefinedRead,
                  "the accumulators of a " + std::string(instr.op->info().name) + " are undefined");
  if (given.dtype == info.compute) {
    std::memcpy(result.data.get(), given.data.get(), size_t(count * dtypeBytes(info.compute)));
  } else {
    Lanes from[] = {given.lanes(count)};
    evalElementwise(OpKind::Convert, {}, from, info.compute, result.data.get(), count);
  }
  T *out = reinterpret_cast<T *>(result.data.get());
  if (lhsAbsent.empty() && rhsAbsent.empty())
    multiplyAll(info, out, lhs.data(), rhs.data());
  else
    multiplyPresent(info, out, lhs.data(), rhs.data(), lhsAbsent, rhsAbsent);
  result.state = given.state; // An absent element of acc stays absent.
  DType dtype = instr.op->result()->type().dtype();
  if (dtype != info.compute) {
    LaneArray converted;
    if (!make(instr, dtype, count, converted))
      return false;
    Lanes from[] = {result.lanes(count)};
    evalElementwise(OpKind::Convert, {}, from, dtype, converted.data.get(), count);
    converted.state = result.state;
    result = std::move(converted);
  }
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

bool Agent::dot(const Instr &instr, const LaneArray &acc) {
  const DotInfo &info = std::get<DotInfo>(instr.info);
  switch (info.compute) {
  case DType::F64:
    return dotAs<double>(instr, info, acc);
  case DType::I64:
    return dotAs<uint64_t>(instr, info, acc);
  case DType::I32:
    return dotAs<uint32_t>(instr, info, acc);
  default:
    return dotAs<float>(instr, info, acc);
  }
}

} // namespace minic::interp
