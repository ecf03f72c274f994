// Mbarriers: arrivals, bytes and phases, and what is known after a wait.
#include "Agent.h"

#include "minic/IR/Printer.h"

namespace minic::interp {

void Mbarrier::settle(size_t timeline) {
  if (arrivals < count || bytes != 0)
    return;
  ++completed;
  join(passed, gathering);
  passed[timeline] = completed;
  std::fill(gathering.begin(), gathering.end(), 0);
  arrivals = 0;
}

std::string Mbarrier::stateText() const {
  std::string text = "phase " + std::to_string(completed) + " has " + std::to_string(arrivals) + " of " + std::to_string(count) +
                     (count == 1 ? " arrival" : " arrivals");
  return bytes ? text + " and " + std::to_string(bytes) + " bytes to come" : text;
}

bool Agent::mbarrierInit(const Instr &instr) {
  const MbarrierInfo &info = std::get<MbarrierInfo>(instr.info);
  Clock nothing(time.knowledge().size(), 0);
  for (int64_t i = 0; i < info.mbarriers; ++i)
    cta.mbarriers[info.first + size_t(i)] = {
        .count = info.count, .init = time.observer().stamp(firstThread, instr.ordinal), .gathering = nothing, .passed = nothing};
  slots[size_t(instr.out[0])].memory = int(info.first);
  return true;
}

Mbarrier *Agent::mbarrierAt(const Instr &instr, unsigned which, int32_t thread, Position &at) {
  int64_t stages = instr.op->operand(which)->type().shape()[0].getCoefficient();
  if (!position(instr, instr.in[which + 1], stages, at))
    return nullptr;
  Mbarrier &mbarrier = cta.mbarriers[size_t(slots[size_t(instr.in[which])].memory + at.number)];
  if (time.observer().isPast(mbarrier.init, thread))
    return &mbarrier;
  const Operation *init = kernel.instrs[mbarrier.init.op]->op;
  Diagnostic error = fault(instr, ErrorCode::SharedRace,
                           "an mbarrier is used, and no barrier after its mbarrier_init has made it visible to all threads");
  error.fix = "put a `barrier` after the `mbarrier_init`";
  report(std::move(error).note("first: " + printOperation(*init), init->loc()).note("then: " + printOperation(*instr.op)));
  return nullptr;
}

const Mbarrier &Agent::awaited(const Instr &wait) const {
  int64_t stages = wait.op->operand(0)->type().shape()[0].getCoefficient();
  return cta.mbarriers[size_t(slots[size_t(wait.in[0])].memory + index(wait.in[1]) % stages)];
}

bool Agent::arrive(const Instr &instr, Mbarrier &mbarrier, int64_t arrivals, bool all) {
  if (mbarrier.arrivals + arrivals > mbarrier.count)
    return fail(instr, ErrorCode::MbarrierMisuse,
                std::to_string(arrivals) + (arrivals == 1 ? " arrival" : " arrivals") + " more at an mbarrier whose " +
                    mbarrier.stateText());
  time.release(mbarrier.gathering, all || oneThread);
  mbarrier.arrivals += arrivals;
  mbarrier.settle(cta.timelineOf(mbarrier));
  return true;
}

bool Agent::mbarrierExpect(const Instr &instr) {
  Position at;
  Mbarrier *mbarrier = mbarrierAt(instr, 0, firstThread, at);
  if (!mbarrier)
    return false;
  mbarrier->bytes += instr.op->intAttr("bytes");
  return arrive(instr, *mbarrier, 1, false);
}

bool Agent::mbarrierArrive(const Instr &instr) {
  if (instr.in.size() > 2 && slots[size_t(instr.in[2])].lanes.data[0] == std::byte{0})
    return true;
  Position at;
  Mbarrier *mbarrier = mbarrierAt(instr, 0, allThreads(), at);
  return mbarrier && arrive(instr, *mbarrier, oneThread ? 1 : warps, true);
}

Agent::Outcome Agent::mbarrierWait(const Instr &instr) {
  Position at;
  Mbarrier *mbarrier = mbarrierAt(instr, 0, allThreads(), at);
  if (!mbarrier)
    return Outcome::Failed;
  // The hardware is asked only whether a phase of this parity is complete, so the answer is about the phase that is meant only
  // while that is the latest one, or the current one. -1: the lap before the first, which is over.
  int64_t phase = at.lap - (instr.op->wordAttr("lap") == "previous"), completed = mbarrier->completed;
  bool passes = (completed & 1) != (phase & 1);
  if (completed == phase + 1) {
    time.acquire(mbarrier->passed);
    return Outcome::Next;
  }
  if (!passes && completed < phase + 1)
    return Outcome::Blocked;
  fail(instr, ErrorCode::MbarrierMisuse,
       "it waits for phase " + std::to_string(phase) + " by its parity, but " + std::to_string(completed) +
           (completed == 1 ? " phase is" : " phases are") + " complete: " +
           (completed > phase + 1 ? "nothing kept the mbarrier from going on without this wait"
                                  : "it would not wait, since the phase before is not over either"));
  return Outcome::Failed;
}

} // namespace minic::interp
