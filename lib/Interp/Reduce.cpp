// reduce: halving trees over the digits of an axis, vectorized over everything else.
#include "Agent.h"

#include <algorithm>
#include <bit>

namespace minic::interp {

/// lower = combine(lower, upper) over `count` lanes that are all there; every array holds `count` elements.
bool Agent::combine(const Instr &instr, const ReduceInfo &info, std::vector<LaneArray> &lower, const std::vector<LaneArray> &upper,
                    int64_t count) {
  if (!info.region) {
    for (size_t i = 0; i < lower.size(); ++i) {
      LaneArray result;
      if (!make(instr, lower[i].dtype, count, result))
        return false;
      Lanes operands[] = {lower[i].lanes(count), upper[i].lanes(count)};
      evalElementwise(info.combiner, {}, operands, lower[i].dtype, result.data.get(), count);
      lower[i] = std::move(result);
    }
    return true;
  }
  auto bind = [&](size_t argument, const LaneArray &lanes) {
    LaneArray &to = slots[size_t(info.region->args[argument])].lanes = lanes;
    to.state = nullptr; // The caller looks after absent lanes.
  };
  for (size_t i = 0; i < lower.size(); ++i) {
    bind(i, lower[i]);
    bind(lower.size() + i, upper[i]);
  }
  if (!runBody(*info.region))
    return false;
  for (size_t i = 0; i < lower.size(); ++i) {
    lower[i] = slots[size_t(info.region->yields[i])].lanes.expanded(count); // What does not depend on the lane is one element.
    if (!lower[i].data)
      return noMemory(instr);
  }
  return true;
}

/// `values` are arrays of [outer][extent][inner] lanes and become [outer][1][inner]. Their states, if any, are equal: a lane of one
/// operand is absent where it is of any.
bool Agent::reduceDigit(const Instr &instr, const ReduceInfo &info, std::vector<LaneArray> &values, int64_t outer, int64_t extent,
                        int64_t inner) {
  while (extent > 1) {
    // x[i] with x[i + half]; for extents that are no power of two the last ones have no partner in this round.
    int64_t half = int64_t(std::bit_floor(uint64_t(extent - 1))), pairs = extent - half;
    auto part = [&](const LaneArray &from, int64_t first, int64_t length, LaneArray &to) {
      int64_t bytes = dtypeBytes(from.dtype);
      if (!make(instr, from.dtype, outer * length * inner, to))
        return false;
      if (from.state && !to.makeState(Defined))
        return noMemory(instr);
      for (int64_t o = 0; o < outer; ++o) {
        int64_t source = (o * extent + first) * inner, target = o * length * inner;
        std::memcpy(to.data.get() + target * bytes, from.data.get() + source * bytes, size_t(length * inner * bytes));
        if (from.state)
          std::memcpy(to.state.get() + target, from.state.get() + source, size_t(length * inner));
      }
      return true;
    };
    int64_t count = outer * pairs * inner;
    std::vector<LaneArray> lower(values.size()), upper(values.size()), combined;
    for (size_t i = 0; i < values.size(); ++i)
      if (!part(values[i], 0, pairs, lower[i]) || !part(values[i], half, pairs, upper[i]))
        return false;
    combined = lower;
    if (!combine(instr, info, combined, upper, count))
      return false;
    if (lower[0].state) {
      // An absent lane is skipped: the other one stands.
      for (size_t i = 0; i < values.size(); ++i) {
        int64_t bytes = dtypeBytes(combined[i].dtype);
        if (!combined[i].makeState(Defined))
          return noMemory(instr);
        for (int64_t j = 0; j < count; ++j) {
          const LaneArray *kept = upper[i].state[j] == Absent ? &lower[i] : lower[i].state[j] == Absent ? &upper[i] : nullptr;
          if (!kept)
            continue;
          std::memcpy(combined[i].data.get() + j * bytes, kept->data.get() + j * bytes, size_t(bytes));
          combined[i].state[j] = kept->state[j];
        }
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      if (pairs == half) {
        values[i] = std::move(combined[i]);
        continue;
      }
      LaneArray next;
      if (!part(values[i], 0, half, next))
        return false;
      int64_t bytes = dtypeBytes(next.dtype);
      for (int64_t o = 0; o < outer; ++o) {
        std::memcpy(next.data.get() + o * half * inner * bytes, combined[i].data.get() + o * pairs * inner * bytes,
                    size_t(pairs * inner * bytes));
        if (next.state)
          std::memcpy(next.state.get() + o * half * inner, combined[i].state.get() + o * pairs * inner, size_t(pairs * inner));
      }
      values[i] = std::move(next);
    }
    extent = half;
  }
  return true;
}

/// `array` as [outer][size][inner] with its middle positions taken from `order`.
static bool permute(LaneArray &array, int64_t outer, int64_t inner, std::span<const int64_t> order) {
  int64_t bytes = dtypeBytes(array.dtype), size = int64_t(order.size());
  LaneArray result = LaneArray::make(array.dtype, array.size);
  if (!result.data)
    return false;
  if (array.state && !result.makeState(Defined))
    return false;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < size; ++i) {
      int64_t to = (o * size + i) * inner, from = (o * size + order[size_t(i)]) * inner;
      std::memcpy(result.data.get() + to * bytes, array.data.get() + from * bytes, size_t(inner * bytes));
      if (array.state)
        std::memcpy(result.state.get() + to, array.state.get() + from, size_t(inner));
    }
  array = std::move(result);
  return true;
}

bool Agent::reduce(const Instr &instr) {
  const ReduceInfo &info = std::get<ReduceInfo>(instr.info);
  int64_t count = kernel.elementsOf(instr.in[0]);
  std::vector<LaneArray> values(instr.in.size());
  std::shared_ptr<uint8_t[]> states; // Of all operands together.
  for (size_t i = 0; i < values.size(); ++i) {
    LaneArray operand = slots[size_t(instr.in[i])].lanes.expanded(count);
    if (!operand.data)
      return noMemory(instr);
    if (operand.state) {
      for (int64_t j = 0; j < count; ++j)
        if (operand.state[j] == Undefined)
          return fail(instr, ErrorCode::UndefinedRead,
                      "an undefined lane of " + valueName(instr.op->operand(unsigned(i))) + ", at " + indexText(info.extents, j) +
                          ", is reduced");
      if (!states) {
        LaneArray copy = operand;
        if (!copy.makeState(Defined))
          return noMemory(instr);
        states = copy.state;
      }
      for (int64_t j = 0; j < count; ++j)
        if (operand.state[j] == Absent)
          states[j] = Absent;
    }
    values[i] = operand;
    values[i].state = nullptr;
    if (operand.dtype != info.accumulators[i]) {
      Lanes from[] = {operand.lanes(count)};
      if (!make(instr, info.accumulators[i], count, values[i]))
        return false;
      evalElementwise(OpKind::Convert, {}, from, info.accumulators[i], values[i].data.get(), count);
    }
  }
  for (LaneArray &value : values)
    value.state = states;

  std::vector<int64_t> extents = info.extents;
  auto product = [&](size_t from, size_t to) {
    int64_t n = 1;
    for (size_t a = from; a < to; ++a)
      n *= extents[a];
    return n;
  };
  for (const ReduceInfo::Axis &axis : info.axes) {
    size_t a = size_t(axis.axis);
    std::vector<ReductionStep> steps = axis.steps;
    for (size_t s = 0; s < steps.size(); ++s) {
      auto [extent, stride] = steps[s];
      int64_t outer = product(0, a), inner = product(a + 1, extents.size());
      if (!reduceDigit(instr, info, values, outer * (extents[a] / (extent * stride)), extent, stride * inner))
        return false;
      extents[a] /= extent;
      // The digit is gone, and slower ones move closer.
      for (size_t later = s + 1; later < steps.size(); ++later)
        if (steps[later].stride > stride)
          steps[later].stride /= extent;
    }
    if (!axis.order.empty())
      for (LaneArray &value : values)
        if (!permute(value, product(0, a), product(a + 1, extents.size()), axis.order))
          return noMemory(instr);
  }

  int64_t left = product(0, extents.size());
  if (left != kernel.elementsOf(instr.out[0]))
    return fail(instr, ErrorCode::CannotInterpret,
                "the reduction leaves " + std::to_string(left) + " elements, not what its type says");
  for (size_t i = 0; i < values.size(); ++i) {
    LaneArray &value = values[i];
    if (value.state) {
      LaneArray filled;
      if (!make(instr, value.dtype, left, filled))
        return false;
      int64_t bytes = dtypeBytes(value.dtype);
      std::memcpy(filled.data.get(), value.data.get(), size_t(left * bytes));
      for (int64_t j = 0; j < left; ++j)
        if (value.state[j] == Absent) // Nothing was there to combine.
          writeScalar(filled.data.get() + j * bytes, info.inits[i], value.dtype);
      value = std::move(filled);
    }
    DType dtype = instr.op->result(unsigned(i))->type().dtype();
    if (value.dtype != dtype) {
      Lanes from[] = {value.lanes(left)};
      LaneArray converted;
      if (!make(instr, dtype, left, converted))
        return false;
      evalElementwise(OpKind::Convert, {}, from, dtype, converted.data.get(), left);
      value = std::move(converted);
    }
    slots[size_t(instr.out[i])].lanes = std::move(value);
  }
  return true;
}

} // namespace minic::interp
