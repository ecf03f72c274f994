// Shared memory of the machine level: its views, and how agents read and write it.
#include "Agent.h"

#include "minic/IR/Printer.h"
#include "minic/IR/SharedLayout.h"

namespace minic::interp {

bool Agent::allocShared(const Instr &instr) {
  DType dtype = instr.op->result()->type().dtype();
  slots[size_t(instr.out[0])].memory = cta.allocate(dtype, std::get<AllocSharedInfo>(instr.info).cells);
  return true;
}

bool Agent::position(const Instr &instr, int slot, int64_t stages, Position &result) {
  int64_t n = index(slot);
  if (n < 0)
    return fail(instr, ErrorCode::OutOfBounds, "the ring position " + std::to_string(n) + " is negative");
  result = {n % stages, n / stages};
  return true;
}

bool Agent::stage(const Instr &instr) {
  const StageInfo &info = std::get<StageInfo>(instr.info);
  Position at;
  if (!position(instr, instr.in[1], info.stages, at))
    return false;
  Slot view = slots[size_t(instr.in[0])];
  view.cell += at.number * info.cells;
  slots[size_t(instr.out[0])] = std::move(view);
  return true;
}

bool Agent::sharedView(const Instr &instr) {
  Type whole = instr.op->operand(0)->type();
  if (!whole.swizzle()) { // The same elements under other axes.
    slots[size_t(instr.out[0])] = Slot(slots[size_t(instr.in[0])]);
    return true;
  }
  std::vector<int64_t> extents = whole.extents(), part = instr.op->result()->type().extents();
  int64_t start[] = {index(instr.in[1]), index(instr.in[2])}, step[] = {8, slabColumns(whole)};
  bool fits = true;
  for (int axis : {0, 1})
    fits &= start[axis] >= 0 && start[axis] % step[axis] == 0 && start[axis] <= extents[size_t(axis)] - part[size_t(axis)];
  if (!fits)
    return fail(instr, ErrorCode::OutOfBounds,
                "the view at [" + std::to_string(start[0]) + ", " + std::to_string(start[1]) + "] is not a box of " + whole.str() +
                    " that starts at a multiple of 8 rows and " + std::to_string(step[1]) + " columns");
  Slot view = slots[size_t(instr.in[0])];
  view.cell += elementOffset(whole, start) / dtypeBytes(whole.dtype());
  slots[size_t(instr.out[0])] = std::move(view);
  return true;
}

/// What tells that an asynchronous copy has landed.
std::string Agent::waitFor(const Stamp &copy) const {
  return time.observer().isTma(copy) ? "mbarrier_wait that covers its tma_load"
                                     : "cp_async_wait, and a barrier, that cover its cp_async";
}

Diagnostic Agent::unordered(const Instr &instr, const Stamp &earlier, const std::string &place) const {
  // What the kernel's body does is ordered by a barrier, before threads of a role as among its own.
  bool byBarrier = earlier.timeline == time.observer().self || earlier.timeline == 0;
  std::string message = time.observer().isAsync(earlier) ? place + " is written before the " + waitFor(earlier)
                        : byBarrier ? "two threads touch " + place + ", one of them writes it, and no barrier is between"
                                    : "two roles touch " + place + ", one of them writes it, and no mbarrier orders them";
  Diagnostic error = fault(instr, ErrorCode::SharedRace, std::move(message));
  bool byCopyWait = time.observer().isAsync(earlier) && !time.observer().isTma(earlier);
  error.fix = byCopyWait  ? "put a `cp_async_wait` and then a `barrier` between the two"
              : byBarrier ? "put a `barrier` between the two"
                          : "wait on an mbarrier that the other arrives at";
  return error;
}

bool Agent::sharedFault(const Instr &instr, const SharedFault &found, int memory, int64_t cell, const std::string &where) {
  std::string place = "shared memory at " + where;
  const Operation *earlier = kernel.instrs[found.earlier.op]->op;
  Diagnostic error{.code = ErrorCode::SharedRace};
  switch (found.kind) {
  case SharedFault::None:
    return true;
  case SharedFault::Undefined:
    return fail(instr, ErrorCode::UndefinedRead, place + " is read, and nothing has written it");
  case SharedFault::NotLanded:
    error = fault(instr, ErrorCode::UndefinedRead, place + " is read before the " + waitFor(found.earlier));
    error.fix = time.observer().isTma(found.earlier) ? "put an `mbarrier_wait` for the tma_load's phase before"
                                                     : "put a `cp_async_wait` for the copy's group and then a `barrier` before";
    break;
  case SharedFault::Unfenced:
    error = fault(instr, ErrorCode::UndefinedRead,
                  place + " was written by stores, which " + std::string(instr.op->info().name) +
                      " may not see without a fence_async, and a barrier after it");
    error.fix = "put a `fence_async` and then a `barrier` between the two";
    break;
  case SharedFault::InFlight:
    earlier = cta.readerOf(memory, cell);
    error = fault(instr, ErrorCode::SharedRace,
                  place + " is overwritten while a " + std::string(earlier->info().name) + " in flight still reads it");
    error.fix = earlier->is(OpKind::Wgmma) ? "wait with `wgmma_wait` before" : "wait with `tma_store_wait` before";
    break;
  case SharedFault::Race:
    error = unordered(instr, found.earlier, place);
    break;
  }
  return report(
      std::move(error).note("first: " + printOperation(*earlier), earlier->loc()).note("then: " + printOperation(*instr.op)));
}

bool Agent::writeShared(const Instr &instr, const Slot &to, const SharedInfo &info, const LaneArray &value, const Stamp *landing) {
  SharedMemory &memory = cta.memory(to.memory);
  Observer who = time.observer();
  int64_t bytes = dtypeBytes(value.dtype), count = int64_t(info.cells->size());
  for (int64_t i = 0; i < count; ++i) {
    if (value.stateAt(i) != Defined)
      return fail(instr, ErrorCode::UndefinedRead,
                  "an undefined lane of " + valueName(instr.op->operand(0)) + " is stored, at " + indexText(info.extents, i));
    int64_t cell = to.cell + (*info.cells)[size_t(i)];
    int32_t thread = writerOf(info.threads, i);
    if (SharedFault bad = memory.write(cell, who, thread, landing ? *landing : who.stamp(thread, instr.ordinal)))
      return sharedFault(instr, bad, to.memory, cell, indexText(info.extents, i));
    copyElement(memory.data() + cell * bytes, value.data.get() + (value.isSplat() ? 0 : i) * bytes, bytes);
  }
  return true;
}

bool Agent::readShared(const Instr &instr, const Slot &from, const SharedInfo &info, AsyncReads *async, LaneArray &result) {
  SharedMemory &memory = cta.memory(from.memory);
  DType dtype = result.dtype;
  Observer who = time.observer();
  int64_t bytes = dtypeBytes(dtype), count = int64_t(info.cells->size());
  if (!make(instr, dtype, count, result))
    return false;
  for (int64_t i = 0; i < count; ++i) {
    int64_t cell = from.cell + (*info.cells)[size_t(i)];
    SharedFault bad =
        async ? memory.checkRead(cell, who, firstThread, true) : memory.read(cell, who, readerOf(info.threads, i), instr.ordinal);
    if (bad)
      return sharedFault(instr, bad, from.memory, cell, indexText(info.extents, i));
    if (async)
      hold(*async, from.memory, cell);
    copyElement(result.data.get() + i * bytes, memory.data() + cell * bytes, bytes);
  }
  return true;
}

bool Agent::sharedStore(const Instr &instr) {
  return writeShared(instr, slots[size_t(instr.in[1])], std::get<SharedInfo>(instr.info), slots[size_t(instr.in[0])].lanes,
                     nullptr);
}

bool Agent::sharedLoad(const Instr &instr) {
  LaneArray result{.dtype = instr.op->result()->type().dtype()};
  if (!readShared(instr, slots[size_t(instr.in[0])], std::get<SharedInfo>(instr.info), nullptr, result))
    return false;
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

} // namespace minic::interp
