// load and store: which lanes are in bounds, and what becomes of the others.
#include "Agent.h"
#include "minic/Support/HostTensor.h"

#include <algorithm>

namespace minic::interp {

static int64_t ceilDiv(int64_t a, int64_t b) { return a / b + (a % b > 0); }

bool Agent::boxOf(const Instr &instr, const AccessInfo &info, const LaunchBuffer &buffer, size_t firstIndex, Box &box) {
  size_t rank = info.extents.size(), axes = info.dims.size();
  const std::vector<int64_t> &shape = buffer.param->shape;
  box.lo.assign(rank, 0);
  box.hi = info.extents;
  box.stride.assign(rank, 0);
  std::vector<int64_t> start(axes);
  for (size_t axis = 0; axis < axes; ++axis) {
    if (info.dims[axis] == AccessInfo::ownIndices)
      continue; // Each lane adds its own.
    start[axis] = index(instr.in[firstIndex + axis]);
    if (info.dims[axis] == AccessInfo::oneIndex) {
      if (start[axis] < 0 || start[axis] >= shape[axis])
        return fail(instr, ErrorCode::OutOfBounds,
                    "an access to '" + buffer.param->name + "' at index " + std::to_string(start[axis]) + " of axis " +
                        std::to_string(axis) + " is outside its shape " + shapeString(buffer.param->dtype, shape));
      continue;
    }
    size_t t = size_t(info.dims[axis]);
    int64_t step = info.step(axis);
    box.stride[t] += step * buffer.param->strides[axis];
    // In bounds are the t with 0 <= start + step * t < size; where that overflows, none is.
    int64_t lo, hi;
    if (__builtin_sub_overflow(int64_t(0), start[axis], &lo) || __builtin_sub_overflow(shape[axis], start[axis], &hi))
      lo = info.extents[t], hi = 0;
    else
      lo = ceilDiv(lo, step), hi = ceilDiv(hi, step);
    box.lo[t] = std::max(box.lo[t], lo);
    box.hi[t] = std::min(box.hi[t], hi);
  }
  // A lane that a checked axis drops is no access at all, so it cannot be one out of bounds.
  int outside = -1;
  for (size_t t = 0; t < rank; ++t) {
    box.whole &= box.lo[t] <= 0 && box.hi[t] >= info.extents[t];
    if (info.masked[t])
      box.empty |= box.lo[t] >= box.hi[t];
    else if (outside < 0 && (box.lo[t] > 0 || box.hi[t] < info.extents[t]))
      outside = int(t);
  }
  if (box.empty)
    return true;
  if (outside >= 0) {
    std::string at;
    for (size_t axis = 0; axis < axes; ++axis) {
      int t = info.dims[axis];
      int64_t lane = t < 0 ? 0 : box.lo[size_t(t)];
      if (t == outside)
        lane = box.lo[size_t(t)] > 0 ? 0 : std::max<int64_t>(box.hi[size_t(t)], 0);
      int64_t where;
      if (__builtin_add_overflow(start[axis], lane * info.step(axis), &where))
        where = start[axis];
      at += (axis ? ", " : "") + std::to_string(where);
    }
    return fail(instr, ErrorCode::OutOfBounds,
                "an access to '" + buffer.param->name + "' at [" + at + "] is outside its shape " +
                    shapeString(buffer.param->dtype, shape));
  }
  // In range: the box holds an element of the buffer, and the lane is a tile away from it.
  box.base = buffer.origin();
  for (size_t axis = 0; axis < axes; ++axis)
    box.base += start[axis] * buffer.param->strides[axis];
  return info.vec <= 1 || checkVector(instr, info, buffer, box);
}

bool Agent::checkVector(const Instr &instr, const AccessInfo &info, const LaunchBuffer &buffer, const Box &box) {
  size_t axis = size_t(info.vecAxis);
  auto refuse = [&](const std::string &why) {
    return fail(instr, ErrorCode::OutOfBounds,
                "an access to '" + buffer.param->name + "' moves " + std::to_string(info.vec) + " elements at once, but " + why);
  };
  if (box.stride[axis] != 1)
    return refuse("they are no neighbours in memory");
  if (!info.splitsEdges && (box.lo[axis] % info.vec || (box.hi[axis] % info.vec && box.hi[axis] < info.extents[axis])))
    return refuse("only some of them are in bounds");
  bool aligned = box.base % info.vec == 0;
  for (size_t t = 0; t < box.stride.size(); ++t)
    if (t != axis)
      aligned &= (box.hi[t] - box.lo[t] > 1 ? box.stride[t] : box.lo[t] * box.stride[t]) % info.vec == 0;
  return aligned || refuse("their address is not a multiple of that");
}

/// Rows of a box: `fn(lane, element, count)` with the first lane, its element of the buffer, and how many lanes follow along
/// `axis`.
template <typename Fn>
static void forEachRow(std::span<const int64_t> lo, std::span<const int64_t> hi, std::span<const int64_t> laneStride,
                       std::span<const int64_t> elementStride, int64_t base, size_t axis, Fn &&fn) {
  size_t rank = lo.size();
  int64_t lane = 0, element = base;
  std::vector<int64_t> at(lo.begin(), lo.end());
  for (size_t t = 0; t < rank; ++t) {
    lane += lo[t] * laneStride[t];
    element += lo[t] * elementStride[t];
  }
  int64_t count = rank ? hi[axis] - lo[axis] : 1;
  while (true) {
    if (!fn(lane, element, count))
      return;
    size_t t = rank;
    while (true) {
      if (t == 0)
        return;
      --t;
      if (t == axis)
        continue;
      ++at[t];
      lane += laneStride[t];
      element += elementStride[t];
      if (at[t] < hi[t])
        break;
      lane -= (at[t] - lo[t]) * laneStride[t];
      element -= (at[t] - lo[t]) * elementStride[t];
      at[t] = lo[t];
    }
  }
}

/// The axis to run along: the last one that is long.
static size_t rowAxis(std::span<const int64_t> extents) {
  for (size_t t = extents.size(); t-- > 0;)
    if (extents[t] > 1)
      return t;
  return extents.empty() ? 0 : extents.size() - 1;
}

static int64_t product(std::span<const int64_t> extents) {
  int64_t n = 1;
  for (int64_t extent : extents)
    n *= extent;
  return n;
}

static int64_t lanesOf(std::span<const int64_t> lo, std::span<const int64_t> hi) {
  int64_t n = 1;
  for (size_t t = 0; t < lo.size(); ++t)
    n *= hi[t] - lo[t];
  return n;
}

template <int bytes>
bool Agent::loadRows(const Instr &instr, const AccessInfo &info, int bufferIndex, const Box &box, std::byte *out) {
  LaunchBuffer &buffer = launch.buffers[size_t(bufferIndex)];
  const std::byte *data = buffer.data;
  const uint8_t *defined = buffer.defined;
  std::vector<int64_t> laneStrides = rowMajorStrides(info.extents);
  size_t axis = rowAxis(info.extents);
  int64_t stride = box.stride.empty() ? 1 : box.stride[axis], laneStride = laneStrides.empty() ? 1 : laneStrides[axis];
  int64_t bad = -1;
  forEachRow(box.lo, box.hi, laneStrides, box.stride, box.base, axis, [&](int64_t lane, int64_t element, int64_t count) {
    if (stride == 1 && laneStride == 1 && allDefined(defined, element * bytes, count * bytes)) {
      std::memcpy(out + lane * bytes, data + element * bytes, size_t(count * bytes));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        int64_t from = element + i * stride;
        if (!allDefined(defined, from * bytes, bytes)) {
          bad = from;
          return false;
        }
        std::memcpy(out + (lane + i * laneStride) * bytes, data + from * bytes, bytes);
      }
    }
    if (buffer.read)
      for (int64_t i = 0; i < count; ++i)
        std::atomic_ref(buffer.read[element + i * stride]).store(1, std::memory_order_relaxed);
    return true;
  });
  if (bad < 0)
    return true;
  return fail(instr, ErrorCode::UndefinedRead,
              "the element of '" + buffer.param->name + "' at " + buffer.param->placeText(bad) +
                  " is read, and nothing has written it");
}

bool Agent::loadBox(const Instr &instr, const AccessInfo &info, int bufferIndex, size_t firstIndex, LaneArray &result) {
  LaunchBuffer &buffer = launch.buffers[size_t(bufferIndex)];
  DType dtype = buffer.param->dtype;
  int64_t count = product(info.extents), bytes = dtypeBytes(dtype);
  Box box;
  if (!boxOf(instr, info, buffer, firstIndex, box) || !make(instr, dtype, count, result))
    return false;
  if (!box.whole) {
    std::byte outside[8] = {};
    if (info.fill)
      writeScalar(outside, *info.fill, dtype);
    fillElements(result.data.get(), outside, bytes, count);
    if (!info.fill) {
      if (!result.makeState(info.absentOutside ? Absent : Undefined))
        return noMemory(instr);
      std::vector<int64_t> strides = rowMajorStrides(info.extents);
      size_t axis = rowAxis(info.extents);
      if (!box.empty)
        forEachRow(box.lo, box.hi, strides, strides, 0, axis, [&](int64_t lane, int64_t, int64_t n) {
          for (int64_t i = 0; i < n; ++i)
            result.state[lane + i * (strides.empty() ? 1 : strides[axis])] = Defined;
          return true;
        });
    }
  }
  if (!box.empty) {
    cta.issued[size_t(bufferIndex)].issuedRead += lanesOf(box.lo, box.hi) * bytes;
    bool ok = bytes == 1   ? loadRows<1>(instr, info, bufferIndex, box, result.data.get())
              : bytes == 2 ? loadRows<2>(instr, info, bufferIndex, box, result.data.get())
              : bytes == 4 ? loadRows<4>(instr, info, bufferIndex, box, result.data.get())
                           : loadRows<8>(instr, info, bufferIndex, box, result.data.get());
    if (!ok)
      return false;
  }
  return true;
}

/// Where lanes have indices of their own along some axes: one element after the other.
bool Agent::loadLanes(const Instr &instr, const AccessInfo &info, LaneArray &result) {
  LaunchBuffer &buffer = launch.buffers[size_t(instr.in[0])];
  DType dtype = buffer.param->dtype;
  int64_t count = product(info.extents), bytes = dtypeBytes(dtype), bad = -1;
  bool noState = false;
  Box box;
  AccessInfo plain = info;
  plain.vec = 1; // What moves at once has one index, which the layout says.
  if (!boxOf(instr, plain, buffer, 1, box) || !make(instr, dtype, count, result))
    return false;
  std::memset(result.data.get(), 0, size_t(count * bytes));
  if (info.fill)
    fillElements(result.data.get(), reinterpret_cast<const std::byte *>(&info.fill->bits), bytes, count);
  if (!box.whole && !info.fill && !result.makeState(info.absentOutside ? Absent : Undefined))
    return noMemory(instr);
  bool empty = box.empty;
  for (size_t axis = 0; axis < info.dims.size(); ++axis)
    empty |= info.dims[axis] == AccessInfo::ownIndices && buffer.param->shape[axis] == 0;
  std::vector<int64_t> strides = rowMajorStrides(info.extents);
  auto load = [&](int64_t lane, int64_t element) {
    for (size_t axis = 0; axis < info.dims.size(); ++axis) {
      if (info.dims[axis] != AccessInfo::ownIndices)
        continue;
      const LaneArray &rows = slots[size_t(instr.in[1 + axis])].lanes;
      if (LaneState state = rows.stateAt(lane); state != Defined) { // Clamped, an undefined one reads some element.
        noState = !result.state && !result.makeState(Defined);
        if (!noState)
          result.state[lane] = state;
        return !noState;
      }
      Scalar row;
      std::memcpy(&row.bits, rows.data.get() + (rows.isSplat() ? 0 : lane) * dtypeBytes(rows.dtype),
                  size_t(dtypeBytes(rows.dtype)));
      int64_t at = rows.dtype == DType::I32 ? int32_t(uint32_t(row.bits)) : int64_t(row.bits);
      element += std::clamp<int64_t>(at, 0, buffer.param->shape[axis] - 1) * buffer.param->strides[axis];
    }
    if (!allDefined(buffer.defined, element * bytes, bytes)) {
      bad = element;
      return false;
    }
    copyElement(result.data.get() + lane * bytes, buffer.data + element * bytes, bytes);
    if (buffer.read)
      std::atomic_ref(buffer.read[element]).store(1, std::memory_order_relaxed);
    return true;
  };
  if (!box.empty)
    forEachRow(box.lo, box.hi, strides, box.stride, box.base, rowAxis(info.extents), [&](int64_t lane, int64_t element, int64_t n) {
      size_t axis = rowAxis(info.extents);
      int64_t step = strides.empty() ? 1 : strides[axis], stride = box.stride.empty() ? 1 : box.stride[axis];
      for (int64_t i = 0; i < n; ++i) {
        if (result.state)
          result.state[lane + i * step] = Defined;
        if (!empty && !load(lane + i * step, element + i * stride))
          return false;
      }
      return true;
    });
  if (bad >= 0)
    return fail(instr, ErrorCode::UndefinedRead,
                "the element of '" + buffer.param->name + "' at " + buffer.param->placeText(bad) +
                    " is read, and nothing has written it");
  if (noState)
    return noMemory(instr);
  cta.issued[size_t(instr.in[0])].issuedRead += (box.empty ? 0 : lanesOf(box.lo, box.hi)) * bytes;
  return true;
}

bool Agent::load(const Instr &instr) {
  LaneArray result;
  const AccessInfo &info = std::get<AccessInfo>(instr.info);
  bool ownIndices = std::find(info.dims.begin(), info.dims.end(), AccessInfo::ownIndices) != info.dims.end();
  // Parameters have the first slots.
  if (ownIndices ? !loadLanes(instr, info, result) : !loadBox(instr, info, instr.in[0], 1, result))
    return false;
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

template <int bytes>
bool Agent::storeRows(const Instr &instr, const AccessInfo &info, int bufferIndex, const Box &box, const LaneArray &value) {
  LaunchBuffer &buffer = launch.buffers[size_t(bufferIndex)];
  std::byte *data = buffer.data;
  uint8_t *defined = buffer.defined;
  std::vector<int64_t> laneStrides = rowMajorStrides(info.extents);
  size_t axis = rowAxis(info.extents);
  int64_t stride = box.stride.empty() ? 1 : box.stride[axis], laneStride = laneStrides.empty() ? 1 : laneStrides[axis];
  int64_t undefinedAt = -1, stored = 0;
  std::optional<DoubleStore> mine, others; // The first of each, by element.
  forEachRow(box.lo, box.hi, laneStrides, box.stride, box.base, axis, [&](int64_t lane, int64_t element, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t from = lane + i * laneStride, to = element + i * stride;
      if (value.state) {
        LaneState state = value.stateAt(from);
        if (state == Absent)
          continue;
        if (state == Undefined) {
          undefinedAt = to;
          return false;
        }
      }
      StoreMark mark = StoreMark::of(cta.program, instr.ordinal, writerOf(info.threads, from));
      if (auto twice = claim(buffer.marks.get(), to, mark)) {
        auto &kept = twice->program == cta.program ? mine : others;
        twice->buffer = bufferIndex;
        if (!kept || twice->element < kept->element)
          kept = twice;
        continue; // Another program is, or was, writing it.
      }
      ++stored;
      std::memcpy(data + to * bytes, value.data.get() + (value.isSplat() ? 0 : from) * bytes, bytes);
      std::memset(defined + to * bytes, 1, bytes);
      if (buffer.written)
        std::atomic_ref(buffer.written[to]).store(1, std::memory_order_relaxed);
    }
    return true;
  });
  cta.issued[size_t(bufferIndex)].issuedWritten += stored * bytes;
  if (others)
    launch.report(*others); // This program came first, so it goes on: an error of its own would go before.
  if (mine) {
    launch.report(*mine);
    return false;
  }
  if (undefinedAt >= 0)
    return fail(instr, ErrorCode::UndefinedRead,
                "an undefined lane of " + valueName(instr.op->operand(0)) + " is stored to '" + buffer.param->name + "' at " +
                    buffer.param->placeText(undefinedAt));
  return true;
}

bool Agent::storeBox(const Instr &instr, const AccessInfo &info, int bufferIndex, size_t firstIndex, const LaneArray &value) {
  LaunchBuffer &buffer = launch.buffers[size_t(bufferIndex)];
  Box box;
  if (!boxOf(instr, info, buffer, firstIndex, box))
    return false;
  if (box.empty)
    return true;
  switch (dtypeBytes(buffer.param->dtype)) {
  case 1:
    return storeRows<1>(instr, info, bufferIndex, box, value);
  case 2:
    return storeRows<2>(instr, info, bufferIndex, box, value);
  case 4:
    return storeRows<4>(instr, info, bufferIndex, box, value);
  default:
    return storeRows<8>(instr, info, bufferIndex, box, value);
  }
}

bool Agent::store(const Instr &instr) {
  return storeBox(instr, std::get<AccessInfo>(instr.info), instr.in[1], 2, slots[size_t(instr.in[0])].lanes);
}

} // namespace minic::interp
