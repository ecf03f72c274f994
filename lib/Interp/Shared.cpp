// Shared memory of the machine level.
#include "Runner.h"

#include "minic/IR/Printer.h"

namespace minic::interp {

bool Runner::allocShared(const Instr &instr) {
  const SharedInfo &info = std::get<SharedInfo>(instr.info);
  if (sharedUsed == shared.size())
    shared.push_back(std::make_unique<SharedMemory>());
  shared[sharedUsed]->reset(instr.op->result()->type().dtype(), info.storage);
  slots[size_t(instr.out[0])].memory = int(sharedUsed++);
  return true;
}

bool Runner::race(const Instr &instr, uint32_t earlier, int64_t element) {
  const Operation *first = kernel.instrs[earlier]->op;
  launch.report(program, Diagnostic{.code = ErrorCode::SharedRace,
                                    .message = "kernel '" + kernel.function->name + "', " + programText(launch.grid, program) +
                                               ": two threads touch element " + std::to_string(element) +
                                               " of shared memory, one of them writes it, and no barrier is between",
                                    .loc = instr.op->loc(),
                                    .fix = "put a `barrier` between the two"}
                             .note("first: " + printOperation(*first), first->loc())
                             .note("then: " + printOperation(*instr.op)));
  return false;
}

bool Runner::sharedStore(const Instr &instr) {
  const SharedInfo &info = std::get<SharedInfo>(instr.info);
  const LaneArray &value = slots[size_t(instr.in[0])].lanes;
  SharedMemory &memory = *shared[size_t(slots[size_t(instr.in[1])].memory)];
  size_t bytes = size_t(dtypeBytes(value.dtype));
  int64_t lane = 0, racing = -1, undefinedAt = -1;
  uint32_t earlier = 0;
  forEachOffset(info.extents, info.strides, [&](int64_t offset) {
    int64_t from = lane++;
    if (racing >= 0 || undefinedAt >= 0)
      return;
    if (value.stateAt(from) != Defined) {
      undefinedAt = from;
      return;
    }
    if (auto other = memory.noteWrite(offset, info.threads ? info.threads->writer[size_t(from)] : 0, epoch, instr.ordinal)) {
      racing = from;
      earlier = *other;
      return;
    }
    std::memcpy(memory.data() + size_t(offset) * bytes, value.data.get() + (value.isSplat() ? 0 : size_t(from)) * bytes, bytes);
  });
  if (racing >= 0)
    return race(instr, earlier, racing);
  if (undefinedAt >= 0)
    return fail(instr, ErrorCode::UndefinedRead,
                "an undefined lane of " + valueName(instr.op->operand(0)) + " is stored, at " +
                    indexText(info.extents, undefinedAt));
  return true;
}

bool Runner::sharedLoad(const Instr &instr) {
  const SharedInfo &info = std::get<SharedInfo>(instr.info);
  SharedMemory &memory = *shared[size_t(slots[size_t(instr.in[0])].memory)];
  DType dtype = instr.op->result()->type().dtype();
  size_t bytes = size_t(dtypeBytes(dtype));
  LaneArray result;
  if (!make(instr, dtype, kernel.elementsOf(instr.out[0]), result))
    return false;
  int64_t lane = 0, racing = -1, undefinedAt = -1;
  uint32_t earlier = 0;
  forEachOffset(info.extents, info.strides, [&](int64_t offset) {
    int64_t to = lane++;
    if (racing >= 0 || undefinedAt >= 0)
      return;
    if (!memory.isDefined(offset)) {
      undefinedAt = to;
      return;
    }
    if (auto other = memory.noteRead(offset, info.threads ? info.threads->reader[size_t(to)] : manyThreads, epoch, instr.ordinal)) {
      racing = to;
      earlier = *other;
      return;
    }
    std::memcpy(result.data.get() + size_t(to) * bytes, memory.data() + size_t(offset) * bytes, bytes);
  });
  if (racing >= 0)
    return race(instr, earlier, racing);
  if (undefinedAt >= 0)
    return fail(instr, ErrorCode::UndefinedRead,
                "shared memory is read at " + indexText(info.extents, undefinedAt) + ", and nothing has written it");
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

} // namespace minic::interp
