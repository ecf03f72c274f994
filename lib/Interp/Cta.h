// Runs programs (CTAs) of a prepared kernel, one after the other: what the agents of one CTA share, and whose turn it is.
#pragma once

#include "Launch.h"
#include "SharedMemory.h"

namespace minic::interp {

class Agent;

struct Mbarrier {
  int64_t count = 0;       ///< Arrivals of a phase.
  Stamp init;              ///< Its mbarrier_init.
  uint32_t completed = 0;  ///< Phases.
  int64_t arrivals = 0;    ///< In the current phase.
  int64_t bytes = 0;       ///< Expected in the current phase and not there yet.
  Clock gathering, passed; ///< What those who arrived in the current phase, and in completed ones, knew.

  /// Starts the next phase if this one is complete. `timeline` is its own.
  void settle(size_t timeline);
  /// "phase 2 has 4 of 8 arrivals and 1024 bytes to come".
  std::string stateText() const;
};

/// One worker.
class Cta {
public:
  explicit Cta(LaunchState &launch);
  ~Cta();
  void run(uint64_t program);
  const std::vector<BufferTraffic> &traffic() const { return issued; }

  // For agents.
  LaunchState &launch;
  const PreparedKernel &kernel;
  uint64_t program = 0;
  std::vector<BufferTraffic> issued;
  std::vector<Mbarrier> mbarriers;
  size_t timelineOf(const Mbarrier &mbarrier) const {
    return timelinesOfAgent * kernel.agents + size_t(&mbarrier - mbarriers.data());
  }
  /// Index of fresh shared memory; its contents are undefined.
  int allocate(DType dtype, int64_t cells);
  SharedMemory &memory(int index) { return *shared[size_t(index)]; }
  Agent &newAgent();
  /// The op of a wgmma or tma_store that is still reading this cell.
  const Operation *readerOf(int memory, int64_t cell) const;

private:
  void reportDeadlock();
  std::vector<std::unique_ptr<SharedMemory>> shared; // Kept, as agents are, from program to program: their memory is reused.
  std::vector<std::unique_ptr<Agent>> agents;
  size_t sharedUsed = 0, agentsUsed = 0;
};

} // namespace minic::interp
