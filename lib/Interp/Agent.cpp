#include "Agent.h"

#include "minic/IR/Printer.h"

#include <algorithm>

namespace minic::interp {

//===- Messages -===//

std::string Agent::valueName(const Value *value) const { return value->name().empty() ? "a value" : "'" + value->name() + "'"; }

std::string Agent::name() const {
  if (!roleOp)
    return "the kernel";
  std::string text = "role '" + std::string(roleOp->wordAttr("role")) + "'";
  return roleOp->attr("instances") ? text + " " + std::to_string(instance) : text;
}

Diagnostic Agent::fault(const Instr &instr, ErrorCode code, std::string message) const {
  return Diagnostic{.code = code,
                    .message = "kernel '" + kernel.function->name + "', " + programText(launch.grid, cta.program) +
                               (roleOp ? ", " + name() : "") + ": " + std::move(message),
                    .loc = instr.op->loc()};
}

bool Agent::report(Diagnostic error) {
  launch.report(cta.program, std::move(error));
  return false;
}

bool Agent::fail(const Instr &instr, ErrorCode code, std::string message) {
  return report(fault(instr, code, std::move(message)).note("in: " + printOperation(*instr.op)));
}

//===- Control -===//

Agent::Agent(Cta &cta, uint16_t number) : cta(cta), launch(cta.launch), kernel(cta.kernel), time(number, cta.kernel.agents) {}

void Agent::start(const Body &body) {
  blocked = false;
  wgmmas.clear();
  tmaStores.clear();
  copiesStarted = copyGroups = 0;
  frames.clear();
  frames.push_back({&body});
}

void Agent::startKernel() {
  slots.assign(kernel.slotTypes.size(), {});
  time.start(Clock(timelinesOfAgent * kernel.agents + kernel.mbarriers, 0));
  const Attribute *threads = kernel.function->attr("threads");
  warps = threads && threads->asInt() ? *threads->asInt() / 32 : 1;
  start(kernel.body);
}

void Agent::startRole(const Instr &role, int64_t which, const Agent &outer) {
  const RoleInfo &info = std::get<RoleInfo>(role.info);
  roleOp = role.op;
  instance = which;
  warps = info.warps;
  oneThread = info.oneThread;
  firstThread = int32_t((info.firstWarp + which * warps) * 32);
  slots = outer.slots;
  time.start(outer.time.knowledge());
  start(*info.body);
}

bool Agent::role(const Instr &instr) {
  const RoleInfo &info = std::get<RoleInfo>(instr.info);
  for (int64_t i = 0; i < info.instances; ++i) {
    LaneArray number;
    if (!make(instr, DType::Index, 1, number))
      return false;
    writeScalar(number.data.get(), Scalar{uint64_t(i)}, DType::Index);
    Agent &agent = cta.newAgent();
    agent.startRole(instr, i, *this);
    if (!info.body->args.empty())
      agent.slots[size_t(info.body->args[0])].lanes = std::move(number);
  }
  return true;
}

bool Agent::make(const Instr &instr, DType dtype, int64_t size, LaneArray &array) {
  array = LaneArray::make(dtype, size);
  return array.data || noMemory(instr);
}

int64_t Agent::index(int slot) const {
  int64_t value;
  std::memcpy(&value, slots[size_t(slot)].lanes.data.get(), sizeof value);
  return value;
}

Agent::Turn Agent::resume() {
  moved = false;
  Outcome outcome = run(0);
  blocked = outcome == Outcome::Blocked;
  if (blocked)
    return moved ? Turn::Waits : Turn::Stuck;
  return outcome == Outcome::Next && checkEnd() ? Turn::Done : Turn::Failed;
}

const Instr *Agent::waitsIn() const { return blocked ? &frames.back().body->instrs[frames.back().next] : nullptr; }

Agent::Outcome Agent::run(size_t depth) {
  while (frames.size() > depth) {
    Frame &frame = frames.back();
    Outcome outcome = frame.next == frame.body->instrs.size() ? endBlock() : exec(frame.body->instrs[frame.next]);
    if (outcome == Outcome::Next)
      finishInstr();
    else if (outcome != Outcome::Entered)
      return outcome;
  }
  return Outcome::Next;
}

/// The current instruction is done.
void Agent::finishInstr() {
  Frame &frame = frames.back();
  for (int slot : frame.body->instrs[frame.next].release)
    slots[size_t(slot)] = {};
  ++frame.next;
  moved = true;
}

bool Agent::runBody(const Body &body) {
  size_t depth = frames.size();
  frames.push_back({&body});
  return run(depth) == Outcome::Next;
}

Agent::Outcome Agent::exec(const Instr &instr) {
  switch (instr.kind) {
  case OpKind::For:
    return forLoop(instr);
  case OpKind::MbarrierWait:
    return mbarrierWait(instr);
  default:
    return execSimple(instr) ? Outcome::Next : Outcome::Failed;
  }
}

bool Agent::execSimple(const Instr &instr) {
  switch (instr.kind) {
  case OpKind::Constant:
  case OpKind::Dim:
    slots[size_t(instr.out[0])].lanes = std::get<ConstantInfo>(instr.info).value;
    return true;
  case OpKind::ProgramId:
    return programId(instr);
  case OpKind::Iota:
    return iota(instr);
  case OpKind::InBounds:
    return inBounds(instr);
  case OpKind::Broadcast:
    return broadcast(instr);
  case OpKind::Spread:
    return spread(instr);
  case OpKind::ConvertLayout:
    for (size_t i = 0; i < instr.in.size(); ++i)
      slots[size_t(instr.out[i])].lanes = LaneArray(slots[size_t(instr.in[i])].lanes);
    return true;
  case OpKind::Load:
    return load(instr);
  case OpKind::Store:
    return store(instr);
  case OpKind::Role:
    return role(instr);
  case OpKind::AllocShared:
    return allocShared(instr);
  case OpKind::Stage:
    return stage(instr);
  case OpKind::SharedView:
    return sharedView(instr);
  case OpKind::SharedStore:
  case OpKind::StMatrix:
    return sharedStore(instr);
  case OpKind::SharedLoad:
    return sharedLoad(instr);
  case OpKind::ClusterStore:
    return clusterStore(instr);
  case OpKind::ClusterArrive:
  case OpKind::ClusterWait:
  case OpKind::BarrierOp:
    time.meet();
    return true;
  case OpKind::LaunchWait:
    return true; // Launches run one after the other here.
  case OpKind::FenceAsync:
    time.fence();
    return true;
  case OpKind::MbarrierInit:
    return mbarrierInit(instr);
  case OpKind::MbarrierExpect:
    return mbarrierExpect(instr);
  case OpKind::MbarrierArrive:
    return mbarrierArrive(instr);
  case OpKind::TmaPrefetch:
    return true;
  case OpKind::TmaLoad:
    return tmaLoad(instr);
  case OpKind::TmaStore:
    return tmaStore(instr);
  case OpKind::TmaStoreWait:
    retireReads(tmaStores, instr.op->intAttr("pending"), firstThread);
    return true;
  case OpKind::CpAsync:
    return cpAsync(instr);
  case OpKind::CpAsyncCommit:
    ++copyGroups;
    return true;
  case OpKind::CpAsyncWait:
    time.landed(uint32_t(std::max<int64_t>(int64_t(copyGroups) - instr.op->intAttr("pending"), 0)));
    return true;
  case OpKind::LdMatrix:
    return ldMatrix(instr);
  case OpKind::Undefined:
    return undefined(instr);
  case OpKind::Wgmma:
    return wgmma(instr);
  case OpKind::WgmmaWait:
    return wgmmaWait(instr);
  case OpKind::ExtractTile:
    return extractTile(instr);
  case OpKind::Reduce:
    return reduce(instr);
  case OpKind::Dot:
  case OpKind::Mma:
    return dot(instr, slots[size_t(instr.in[2])].lanes);
  default:
    return elementwise(instr);
  }
}

bool Agent::elementwise(const Instr &instr) {
  int64_t count = 1;
  bool states = false;
  for (int slot : instr.in) {
    const LaneArray &operand = slots[size_t(slot)].lanes;
    count = std::max(count, operand.size);
    states |= operand.state != nullptr;
  }
  operandLanes.clear();
  for (int slot : instr.in)
    operandLanes.push_back(slots[size_t(slot)].lanes.lanes(count));
  DType dtype = instr.op->result()->type().dtype();
  LaneArray result;
  if (!make(instr, dtype, count, result))
    return false;
  evalElementwise(instr.kind, instr.predicate, operandLanes, dtype, result.data.get(), count);
  if (states) {
    if (!result.makeState(Defined))
      return noMemory(instr);
    // Absent wins: such a lane does not exist. A select passes over what it does not choose.
    auto merge = [&](const LaneArray &operand) {
      if (!operand.state)
        return;
      for (int64_t i = 0; i < count; ++i)
        if (LaneState s = operand.stateAt(i); s != Defined && result.state[i] != Absent)
          result.state[i] = s;
    };
    if (instr.kind != OpKind::Select) {
      for (int slot : instr.in)
        merge(slots[size_t(slot)].lanes);
    } else {
      const LaneArray &condition = slots[size_t(instr.in[0])].lanes;
      merge(condition);
      for (int64_t i = 0; i < count; ++i) {
        bool chosen = condition.data[condition.isSplat() ? 0 : i] != std::byte{0};
        LaneState first = slots[size_t(instr.in[1])].lanes.stateAt(i), second = slots[size_t(instr.in[2])].lanes.stateAt(i);
        if (first == Absent || second == Absent)
          result.state[i] = Absent;
        else if (result.state[i] == Defined)
          result.state[i] = chosen ? first : second;
      }
    }
    if (std::all_of(result.state.get(), result.state.get() + count, [](uint8_t s) { return s == Defined; }))
      result.state.reset();
  }
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

bool Agent::programId(const Instr &instr) {
  const std::vector<int64_t> &grid = std::get<ProgramIdInfo>(instr.info).grid;
  if (grid != launch.grid || instr.out.size() != grid.size())
    return fail(instr, ErrorCode::LaunchMismatch, "the launch has another grid than the kernel");
  uint64_t rest = cta.program;
  for (size_t axis = grid.size(); axis-- > 0;) {
    LaneArray value;
    if (!make(instr, DType::Index, 1, value))
      return false;
    writeScalar(value.data.get(), Scalar{rest % uint64_t(grid[axis])}, DType::Index);
    rest /= uint64_t(grid[axis]);
    slots[size_t(instr.out[axis])].lanes = std::move(value);
  }
  return true;
}

Agent::Outcome Agent::forLoop(const Instr &instr) {
  Frame frame{std::get<ForInfo>(instr.info).body.get()};
  frame.loop = &instr;
  frame.at = index(instr.in[0]);
  frame.hi = index(instr.in[1]);
  frame.step = index(instr.in[2]);
  if (frame.step <= 0) {
    fail(instr, ErrorCode::CannotInterpret, "the step of a loop is " + std::to_string(frame.step) + ", and must be positive");
    return Outcome::Failed;
  }
  for (size_t i = 0; i < instr.out.size(); ++i)
    frame.carried.push_back(slots[size_t(instr.in[3 + i])]);
  frames.push_back(std::move(frame));
  return startTrip();
}

/// The next trip of the loop in the innermost frame; after the last one, its results.
Agent::Outcome Agent::startTrip() {
  Frame &frame = frames.back();
  const Instr &loop = *frame.loop;
  bool more = frame.at < frame.hi;
  for (size_t i = 0; i < frame.carried.size(); ++i)
    slots[size_t(more ? frame.body->args[1 + i] : loop.out[i])] = std::move(frame.carried[i]);
  if (!more) {
    frames.pop_back();
    return Outcome::Next;
  }
  frame.next = 0;
  LaneArray &counter = slots[size_t(frame.body->args[0])].lanes;
  if (!make(loop, DType::Index, 1, counter))
    return Outcome::Failed;
  writeScalar(counter.data.get(), Scalar{uint64_t(frame.at)}, DType::Index);
  return Outcome::Entered;
}

/// The innermost block has come to its end.
Agent::Outcome Agent::endBlock() {
  Frame &frame = frames.back();
  if (!frame.loop) {
    frames.pop_back();
    return Outcome::Entered;
  }
  for (size_t i = 0; i < frame.carried.size(); ++i)
    frame.carried[i] = slots[size_t(frame.body->yields[i])]; // A copy: one value may be yielded twice.
  if (__builtin_add_overflow(frame.at, frame.step, &frame.at))
    frame.at = frame.hi;
  return startTrip();
}

bool Agent::iota(const Instr &instr) {
  int64_t first = index(instr.in[0]), extent = std::get<IotaInfo>(instr.info).extent;
  DType dtype = instr.op->result()->type().dtype();
  LaneArray result;
  if (!make(instr, dtype, extent, result))
    return false;
  for (int64_t t = 0; t < extent; ++t)
    writeScalar(result.data.get() + t * dtypeBytes(dtype), Scalar{uint64_t(first) + uint64_t(t)}, dtype);
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

bool Agent::inBounds(const Instr &instr) {
  const InBoundsInfo &info = std::get<InBoundsInfo>(instr.info);
  int64_t first = index(instr.in[0]);
  LaneArray result;
  if (!make(instr, DType::I1, info.extent, result))
    return false;
  for (int64_t t = 0; t < info.extent; ++t) {
    int64_t at;
    result.data[t] = std::byte(!__builtin_add_overflow(first, t, &at) && at >= 0 && at < info.bound);
  }
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

bool Agent::spread(const Instr &instr) {
  const std::vector<int32_t> &from = std::get<SpreadInfo>(instr.info).from;
  const LaneArray &operand = slots[size_t(instr.in[0])].lanes;
  LaneArray result;
  if (!make(instr, operand.dtype, int64_t(from.size()), result))
    return false;
  if (operand.state && !result.makeState(Defined))
    return noMemory(instr);
  int64_t bytes = dtypeBytes(operand.dtype);
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t at = operand.isSplat() ? 0 : from[i];
    copyElement(result.data.get() + int64_t(i) * bytes, operand.data.get() + at * bytes, bytes);
    if (operand.state)
      result.state[i] = operand.state[at];
  }
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

bool Agent::broadcast(const Instr &instr) {
  const BroadcastInfo &info = std::get<BroadcastInfo>(instr.info);
  const LaneArray &operand = slots[size_t(instr.in[0])].lanes;
  if (operand.isSplat()) {
    slots[size_t(instr.out[0])].lanes = LaneArray(operand);
    return true;
  }
  std::vector<int64_t> strides = rowMajorStrides(info.from);
  for (size_t axis = 0; axis < info.from.size(); ++axis)
    if (info.from[axis] == 1)
      strides[axis] = 0;
  int64_t bytes = dtypeBytes(operand.dtype), done = 0;
  LaneArray result;
  if (!make(instr, operand.dtype, kernel.elementsOf(instr.out[0]), result))
    return false;
  if (operand.state && !result.makeState(Defined))
    return noMemory(instr);
  // Rows along the last axis: copies of one element, or of a whole row.
  std::vector<int64_t> rows = info.to;
  int64_t run = rows.empty() ? 1 : std::exchange(rows.back(), 1);
  bool repeats = !strides.empty() && strides.back() == 0;
  forEachOffset(rows, strides, [&](int64_t offset) {
    const std::byte *from = operand.data.get() + offset * bytes;
    if (repeats)
      fillElements(result.data.get() + done * bytes, from, bytes, run);
    else
      std::memcpy(result.data.get() + done * bytes, from, size_t(run * bytes));
    if (operand.state)
      for (int64_t i = 0; i < run; ++i)
        result.state[done + i] = operand.state[offset + (repeats ? 0 : i)];
    done += run;
  });
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

} // namespace minic::interp
