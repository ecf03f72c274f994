#include "Agent.h"

#include "minic/IR/Printer.h"

namespace minic::interp {

Cta::Cta(LaunchState &launch) : launch(launch), kernel(*launch.kernel), issued(launch.buffers.size()) {}
Cta::~Cta() = default;

int Cta::allocate(DType dtype, int64_t cells) {
  if (sharedUsed == shared.size())
    shared.push_back(std::make_unique<SharedMemory>());
  shared[sharedUsed]->reset(dtype, cells, kernel.agents);
  return int(sharedUsed++);
}

Agent &Cta::newAgent() {
  if (agentsUsed == agents.size())
    agents.push_back(std::make_unique<Agent>(*this, uint16_t(agentsUsed)));
  return *agents[agentsUsed++];
}

const Operation *Cta::readerOf(int memory, int64_t cell) const {
  for (size_t i = 0; i < agentsUsed; ++i)
    if (const Operation *op = agents[i]->readerOf(memory, cell))
      return op;
  return nullptr;
}

void Cta::run(uint64_t which) {
  program = which;
  sharedUsed = agentsUsed = 0;
  mbarriers.resize(kernel.mbarriers); // mbarrier_init fills them in.
  newAgent().startKernel();
  // Round robin. An agent gives way only where it must wait, so a round in which none gets on is the end.
  bool moved = true, waiting = true;
  while (moved && waiting) {
    moved = waiting = false;
    for (size_t i = 0; i < agentsUsed; ++i) {
      Agent &agent = *agents[i];
      if (agent.isDone())
        continue;
      Agent::Turn turn = agent.resume();
      if (turn == Agent::Turn::Failed)
        return;
      moved |= turn != Agent::Turn::Stuck;
      waiting |= turn != Agent::Turn::Done;
    }
  }
  if (waiting)
    reportDeadlock();
}

void Cta::reportDeadlock() {
  Diagnostic error{.code = ErrorCode::Deadlock,
                   .message = "kernel '" + kernel.function->name + "', " + programText(launch.grid, program) +
                              ": operations wait for each other forever"};
  for (size_t i = 0; i < agentsUsed; ++i) {
    const Instr *instr = agents[i]->waitsIn();
    if (!instr)
      continue;
    if (!error.loc.inText().isValid())
      error.loc = instr->op->loc();
    error.note(agents[i]->name() + " waits in: " + printOperation(*instr->op) + ", where " + agents[i]->awaited(*instr).stateText(),
               instr->op->loc());
  }
  launch.report(program, std::move(error));
}

} // namespace minic::interp
