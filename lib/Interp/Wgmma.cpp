// Tensor cores, and parts of tiles.
#include "Agent.h"

namespace minic::interp {

bool Agent::undefined(const Instr &instr) {
  LaneArray nothing;
  if (!make(instr, instr.op->result()->type().dtype(), 1, nothing))
    return false;
  std::memset(nothing.data.get(), 0, size_t(dtypeBytes(nothing.dtype)));
  if (!nothing.makeState(Undefined))
    return noMemory(instr);
  slots[size_t(instr.out[0])].lanes = std::move(nothing);
  return true;
}

bool Agent::wgmma(const Instr &instr) {
  bool accumulates = instr.in.size() > 2 && (instr.in.size() < 4 || slots[size_t(instr.in[3])].lanes.data[0] != std::byte{0});
  wgmmas.push_back({&instr, {}});
  if (accumulates)
    return dot(instr, slots[size_t(instr.in[2])].lanes);
  LaneArray zero;
  DType dtype = instr.op->result()->type().dtype();
  if (!make(instr, dtype, 1, zero))
    return false;
  writeScalar(zero.data.get(), Scalar{0}, dtype);
  return dot(instr, zero);
}

bool Agent::wgmmaWait(const Instr &instr) {
  // Each warp waits for its own part, so the threads are not ordered by this.
  retireReads(wgmmas, instr.op->intAttr("pending"), manyThreads);
  for (size_t i = 0; i < instr.out.size(); ++i)
    slots[size_t(instr.out[i])] = Slot(slots[size_t(instr.in[i])]);
  return true;
}

bool Agent::extractTile(const Instr &instr) {
  const PartInfo &info = std::get<PartInfo>(instr.info);
  std::vector<int64_t> strides = rowMajorStrides(info.whole);
  int64_t start = 0;
  for (size_t axis = 0; axis < info.whole.size(); ++axis) {
    int64_t at = index(instr.in[1 + axis]);
    if (at < 0 || at % info.part[axis] || at > info.whole[axis] - info.part[axis])
      return fail(instr, ErrorCode::OutOfBounds,
                  "the part at " + std::to_string(at) + " along axis " + std::to_string(axis) + " is not a multiple of " +
                      std::to_string(info.part[axis]) + " inside the tile's " + std::to_string(info.whole[axis]));
    start += at * strides[axis];
  }
  const LaneArray &tile = slots[size_t(instr.in[0])].lanes;
  if (tile.isSplat()) {
    slots[size_t(instr.out[0])].lanes = LaneArray(tile);
    return true;
  }
  LaneArray result;
  if (!make(instr, tile.dtype, kernel.elementsOf(instr.out[0]), result))
    return false;
  if (tile.state && !result.makeState(Defined))
    return noMemory(instr);
  int64_t bytes = dtypeBytes(tile.dtype), done = 0;
  forEachOffset(info.part, strides, [&](int64_t offset) {
    std::memcpy(result.data.get() + done * bytes, tile.data.get() + (start + offset) * bytes, size_t(bytes));
    if (tile.state)
      result.state[done] = tile.state[start + offset];
    ++done;
  });
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

} // namespace minic::interp
