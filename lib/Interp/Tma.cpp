// tma: boxes that move between global and shared memory, and reads of shared memory that go on until a wait.
#include "Agent.h"

#include "minic/IR/Printer.h"

#include <algorithm>

namespace minic::interp {

void Agent::hold(AsyncReads &reads, int memory, int64_t cell) {
  cta.memory(memory).hold(cell);
  reads.cells.push_back({memory, int32_t(cell)});
}

void Agent::retireReads(std::deque<AsyncReads> &groups, int64_t pending, int32_t thread) {
  for (; int64_t(groups.size()) > pending; groups.pop_front())
    for (auto [index, cell] : groups.front().cells) {
      SharedMemory &memory = cta.memory(index);
      memory.letGo(cell);
      memory.noteRead(cell, time.observer(), thread, groups.front().instr->ordinal);
    }
}

const Operation *Agent::readerOf(int memory, int64_t cell) const {
  for (const auto *groups : {&wgmmas, &tmaStores})
    for (const AsyncReads &reads : *groups)
      for (auto [index, at] : reads.cells)
        if (index == memory && at == cell)
          return reads.instr->op;
  return nullptr;
}

bool Agent::checkEnd() {
  if (copiesStarted > time.landedGroups())
    return report(Diagnostic{.code = ErrorCode::SharedRace,
                             .message = "kernel '" + kernel.function->name +
                                        "': the text ends while a cp_async is under way, "
                                        "without a cp_async_wait",
                             .loc = kernel.function->loc,
                             .fix = "put `cp_async_commit` behind the copies and `cp_async_wait pending = 0` at the end"});
  for (const auto *groups : {&wgmmas, &tmaStores}) {
    if (groups->empty())
      continue;
    const Instr &instr = *groups->front().instr;
    bool isWgmma = groups == &wgmmas;
    Diagnostic error = fault(instr, ErrorCode::SharedRace,
                             "the text ends while a " + std::string(instr.op->info().name) + " is in flight, without a " +
                                 (isWgmma ? "wgmma_wait" : "tma_store_wait"));
    error.fix = std::string("put `") + (isWgmma ? "wgmma_wait" : "tma_store_wait") + " pending = 0` at the end";
    return report(std::move(error).note("in: " + printOperation(*instr.op)));
  }
  return true;
}

bool Agent::checkStart(const Instr &instr, const TmaInfo &info) {
  int64_t last = index(instr.in.back());
  return last % info.columnsOfStart == 0 ||
         fail(instr, ErrorCode::OutOfBounds,
              "a box starts at a multiple of 16 bytes, of " + std::to_string(info.columnsOfStart) +
                  " elements of the last axis, not at " + std::to_string(last));
}

bool Agent::tmaLoad(const Instr &instr) {
  const TmaInfo &info = std::get<TmaInfo>(instr.info);
  LaneArray box;
  if (!checkStart(instr, info) || !loadBox(instr, info.box, instr.in[0], 4, box))
    return false;
  if (info.tf32) {
    auto *elements = reinterpret_cast<float *>(box.data.get());
    std::transform(elements, elements + info.bytes / int64_t(sizeof(float)), elements, roundToTf32);
  }
  return land(instr, 2, info.bytes, slots[size_t(instr.in[1])], info.memory, box);
}

bool Agent::land(const Instr &instr, unsigned which, int64_t bytes, const Slot &to, const SharedInfo &info,
                 const LaneArray &value) {
  Position at;
  Mbarrier *mbarrier = mbarrierAt(instr, which, firstThread, at);
  if (!mbarrier)
    return false;
  if (mbarrier->bytes < bytes)
    return fail(instr, ErrorCode::MbarrierMisuse,
                "more bytes arrive at an mbarrier than were expected: " + std::to_string(bytes) + ", and its " +
                    mbarrier->stateText());
  // Landed now, but known only to those who know that the phase is over.
  size_t timeline = cta.timelineOf(*mbarrier);
  Stamp landing{mbarrier->completed + 1, instr.ordinal, noThread, uint16_t(timeline)};
  if (!writeShared(instr, to, info, value, &landing))
    return false;
  mbarrier->bytes -= bytes;
  mbarrier->settle(timeline);
  return true;
}

/// All CTAs of the cluster do the same, so one memory and one mbarrier stand for theirs.
bool Agent::clusterStore(const Instr &instr) {
  const LaneArray &value = slots[size_t(instr.in[0])].lanes;
  const SharedInfo &info = std::get<SharedInfo>(instr.info);
  return land(instr, 2, int64_t(info.cells->size()) * dtypeBytes(value.dtype), slots[size_t(instr.in[1])], info, value);
}

bool Agent::tmaStore(const Instr &instr) {
  const TmaInfo &info = std::get<TmaInfo>(instr.info);
  tmaStores.push_back({&instr, {}});
  LaneArray box{.dtype = instr.op->operand(0)->type().dtype()};
  return checkStart(instr, info) && readShared(instr, slots[size_t(instr.in[0])], info.memory, &tmaStores.back(), box) &&
         storeBox(instr, info.box, instr.in[1], 2, box);
}

} // namespace minic::interp
