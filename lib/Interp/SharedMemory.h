// Shared memory of one CTA, and time as its agents know it: what is ordered before what, and so what is a race.
//
// Each agent (the kernel's body, an instance of a role) counts its own time. A vector clock says of every timeline up to when its
// events are known to have happened; barriers and mbarriers pass that knowledge on. Besides the agents' timelines there is one for
// the fences of each agent, one for its groups of cp_async, one for the fences after those, and one for each mbarrier, whose time
// is its completed phases: what tma_load writes happens there.
#pragma once

#include "Prepare.h"

#include <algorithm>

namespace minic::interp {

/// Agents first, then their fences, their groups of copies and the fences of these, then the mbarriers.
inline constexpr size_t timelinesOfAgent = 4;
using Clock = std::vector<uint32_t>;

inline void join(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// Who touched memory, when, and with which op.
struct Stamp {
  uint32_t time = 0; ///< On its timeline; 0: before everything.
  uint32_t op = 0;   ///< Ordinal.
  int32_t thread = noThread;
  uint16_t timeline = 0;
};

/// How an agent sees others' accesses at one moment. A small value, so that loops over elements keep it in registers.
struct Observer {
  const uint32_t *known; ///< Of every timeline.
  uint32_t now, fenced;
  uint16_t self, agents;

  /// Written by a copy that goes on by itself; by one of TMA, which is no store of a thread.
  bool isAsync(const Stamp &stamp) const { return stamp.timeline >= 2 * agents; }
  bool isTma(const Stamp &stamp) const { return stamp.timeline >= timelinesOfAgent * agents; }
  /// Whether that happened before what `thread` does now.
  bool isPast(const Stamp &stamp, int32_t thread) const {
    return stamp.time <= known[stamp.timeline] || (stamp.thread == thread && thread >= 0);
  }
  /// Whether a store that happened before is visible to tma_store and wgmma.
  bool isFenced(const Stamp &stamp, int32_t thread) const {
    return stamp.time <= known[stamp.timeline + agents] ||
           (stamp.timeline == self && stamp.thread == thread && stamp.time <= fenced);
  }
  Stamp stamp(int32_t thread, uint32_t op) const { return {now, op, thread, self}; }
};

/// An agent's time, and what it knows of the others'.
class AgentTime {
public:
  AgentTime(size_t self, size_t agents) : self(uint16_t(self)), agents(uint16_t(agents)) {}
  void start(Clock atStart) {
    known = std::move(atStart);
    now = 1;
    fenced = copied = copiedAtFence = 0;
  }
  Observer observer() const { return {known.data(), now, fenced, self, agents}; }
  const Clock &knowledge() const { return known; }

  /// All threads of the agent meet.
  void meet() { tell(known); }
  void fence() {
    fenced = now++;
    copiedAtFence = copied;
  }
  /// Each thread's groups of copies up to this one have landed.
  void landed(uint32_t group) { copied = std::max(copied, group); }
  uint32_t landedGroups() const { return copied; }
  uint16_t timelineOfCopies() const { return uint16_t(self + 2 * agents); }
  void acquire(const Clock &from) { join(known, from); }
  /// Passes on what is known: to all that happened so far where all threads do this, else to what their last meeting knew.
  void release(Clock &to, bool all) {
    join(to, known);
    if (all)
      tell(to);
  }

private:
  /// What all of its threads did so far.
  void tell(Clock &to) {
    to[self] = now++;
    to[size_t(self) + agents] = fenced;
    to[size_t(self) + 2 * size_t(agents)] = copied;
    to[size_t(self) + 3 * size_t(agents)] = copiedAtFence;
  }

  uint16_t self, agents; ///< Its timeline; how many agents there are, after whose timelines those of the fences start.
  uint32_t now = 1;
  uint32_t fenced = 0;                    ///< When all of its threads last fenced what they wrote.
  uint32_t copied = 0, copiedAtFence = 0; ///< The last group of copies that each thread waited for, and that before the fence.
  /// Of itself: when its threads last met. What one of its threads did since is ordered for that thread only.
  Clock known;
};

/// What is wrong with an access, and what came before it.
struct SharedFault {
  enum Kind : uint8_t {
    None,
    Undefined, ///< Nothing wrote what is read.
    NotLanded, ///< A tma_load or cp_async wrote what is read, and no wait covers that.
    Race,      ///< The two are not ordered.
    Unfenced,  ///< Stores wrote it, and the asynchronous reader may not see that.
    InFlight,  ///< A wgmma or tma_store is still reading what is written.
  } kind = None;
  Stamp earlier = {};
  explicit operator bool() const { return kind != None; }
};

/// One allocation, in cells of its element type.
class SharedMemory {
public:
  void reset(DType dtype, int64_t cellCount, size_t agents);
  std::byte *data() { return bytes.data(); }

  /// Whether `thread` of the agent may read the cell; `async` as wgmma and tma_store do.
  SharedFault checkRead(int64_t at, const Observer &who, int32_t thread, bool async) const {
    const Cell &cell = cells[size_t(at)];
    if (!cell.defined)
      return {SharedFault::Undefined};
    if (!who.isPast(cell.written, thread))
      return {who.isAsync(cell.written) ? SharedFault::NotLanded : SharedFault::Race, cell.written};
    if (async && !who.isTma(cell.written) && !who.isFenced(cell.written, thread))
      return {SharedFault::Unfenced, cell.written};
    return {};
  }
  void noteRead(int64_t at, const Observer &who, int32_t thread, uint32_t op) {
    ReadMark &mark = readsOf(who.self)[size_t(at)];
    // Earlier readers of this agent are still to be ordered if its threads have not met since.
    bool others = mark.time > who.known[who.self] && mark.thread != thread;
    mark = {who.now, op, others ? manyThreads : thread};
  }
  SharedFault read(int64_t at, const Observer &who, int32_t thread, uint32_t op) {
    SharedFault fault = checkRead(at, who, thread, false);
    if (!fault)
      noteRead(at, who, thread, op);
    return fault;
  }

  /// `thread` of the agent writes the cell; the write happens at `stamp`.
  SharedFault write(int64_t at, const Observer &who, int32_t thread, const Stamp &stamp) {
    Cell &cell = cells[size_t(at)];
    if (cell.readers)
      return {SharedFault::InFlight};
    if (!who.isPast(cell.written, thread))
      return {SharedFault::Race, cell.written};
    for (size_t agent = 0; agent < reads.size(); ++agent)
      if (!reads[agent].empty()) {
        const ReadMark &mark = reads[agent][size_t(at)];
        if (Stamp read{mark.time, mark.op, mark.thread, uint16_t(agent)}; !who.isPast(read, thread))
          return {SharedFault::Race, read};
      }
    cell.written = stamp;
    cell.defined = true;
    return {};
  }

  /// An asynchronous read starts, and ends.
  void hold(int64_t at) { ++cells[size_t(at)].readers; }
  void letGo(int64_t at) { --cells[size_t(at)].readers; }

private:
  struct Cell {
    Stamp written;
    uint32_t defined : 1 = 0;
    uint32_t readers : 31 = 0; ///< Asynchronous ones in flight.
  };
  /// The latest read of an agent; those before it are ordered before whatever is ordered after it.
  struct ReadMark {
    uint32_t time = 0, op = 0;
    int32_t thread = noThread;
  };
  std::vector<ReadMark> &readsOf(uint16_t agent) {
    if (reads[agent].empty())
      reads[agent].resize(cells.size());
    return reads[agent];
  }
  std::vector<std::byte> bytes;
  std::vector<Cell> cells;
  std::vector<std::vector<ReadMark>> reads; ///< By agent; empty until it reads.
};

} // namespace minic::interp
