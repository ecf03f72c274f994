#include "Runner.h"

#include "minic/IR/Printer.h"

#include <algorithm>

namespace minic::interp {

//===- LaunchState -===//

std::string programText(std::span<const int64_t> grid, uint64_t program) {
  std::string text;
  for (size_t axis = grid.size(); axis-- > 0;) {
    text = std::to_string(program % uint64_t(grid[axis])) + (text.empty() ? "" : ", ") + text;
    program /= uint64_t(grid[axis]);
  }
  return "program (" + text + ")";
}

void LaunchState::report(uint64_t program, Diagnostic found) {
  std::lock_guard lock(mutex);
  if (program > firstBad || (program == firstBad && (error || doubleStore)))
    return;
  firstBad = program;
  error = std::move(found);
  doubleStore.reset();
}

void LaunchState::report(const DoubleStore &found) {
  std::lock_guard lock(mutex);
  if (found.program > firstBad)
    return;
  auto key = [](const DoubleStore &d) { return std::tuple(d.program, d.ordinal, d.element); };
  // Within one program a double store goes before its other errors, and the first element before others: whichever of two programs
  // found it, the report is the same.
  if (doubleStore && !(key(found) < key(*doubleStore)))
    return;
  firstBad = found.program;
  doubleStore = found;
}

std::optional<Diagnostic> LaunchState::finish() const {
  if (!doubleStore)
    return error;
  const DoubleStore &d = *doubleStore;
  const LaunchBuffer &buffer = buffers[size_t(d.buffer)];
  std::string at = "'" + buffer.param->name + "' at [";
  for (size_t axis = 0; axis < buffer.strides.size(); ++axis)
    at += (axis ? ", " : "") + std::to_string(d.element / buffer.strides[axis] % std::max<int64_t>(buffer.param->shape[axis], 1));
  at += "]";
  std::string who = d.program == d.otherProgram
                        ? "by threads " + std::to_string(d.otherThread) + " and " + std::to_string(d.thread) + " of " +
                              programText(grid, d.program)
                        : "by " + programText(grid, d.otherProgram) + " and " + programText(grid, d.program);
  const Operation *op = kernel->instrs[d.ordinal]->op;
  return Diagnostic{.code = ErrorCode::LostStore,
                    .message = "kernel '" + kernel->function->name + "': the element of " + at + " is stored twice, " + who,
                    .loc = op->loc()}
      .note("in: " + printOperation(*op));
}

//===- Runner -===//

Runner::Runner(LaunchState &launch)
    : launch(launch), kernel(*launch.kernel), slots(kernel.slotTypes.size()), issued(launch.buffers.size()) {}

std::string Runner::valueName(const Value *value) const { return value->name().empty() ? "a value" : "'" + value->name() + "'"; }

bool Runner::fail(const Instr &instr, ErrorCode code, std::string message) {
  launch.report(program, Diagnostic{.code = code,
                                    .message = "kernel '" + kernel.function->name + "', " + programText(launch.grid, program) +
                                               ": " + std::move(message),
                                    .loc = instr.op->loc()}
                             .note("in: " + printOperation(*instr.op)));
  return false;
}

std::string Runner::indexText(std::span<const int64_t> shape, int64_t offset) {
  std::string text;
  for (size_t axis = shape.size(); axis-- > 0;) {
    int64_t size = std::max<int64_t>(shape[axis], 1);
    text = std::to_string(offset % size) + (text.empty() ? "" : ", ") + text;
    offset /= size;
  }
  return "[" + text + "]";
}

bool Runner::make(const Instr &instr, DType dtype, int64_t size, LaneArray &array) {
  array = LaneArray::make(dtype, size);
  return array.data || noMemory(instr);
}

int64_t Runner::index(int slot) const {
  int64_t value;
  std::memcpy(&value, slots[size_t(slot)].lanes.data.get(), sizeof value);
  return value;
}

void Runner::run(uint64_t which) {
  program = which;
  epoch = 1;
  sharedUsed = 0;
  runBody(kernel.body);
}

bool Runner::runBody(const Body &body) {
  for (const Instr &instr : body.instrs) {
    if (!exec(instr))
      return false;
    for (int slot : instr.release)
      slots[size_t(slot)] = {};
  }
  return true;
}

bool Runner::exec(const Instr &instr) {
  switch (instr.kind) {
  case OpKind::Constant:
  case OpKind::Dim:
    slots[size_t(instr.out[0])].lanes = std::get<ConstantInfo>(instr.info).value;
    return true;
  case OpKind::ProgramId:
    return programId(instr);
  case OpKind::For:
    return forLoop(instr);
  case OpKind::InBounds:
    return inBounds(instr);
  case OpKind::Broadcast:
    return broadcast(instr);
  case OpKind::Load:
    return load(instr);
  case OpKind::Store:
    return store(instr);
  case OpKind::AllocShared:
    return allocShared(instr);
  case OpKind::SharedStore:
    return sharedStore(instr);
  case OpKind::SharedLoad:
    return sharedLoad(instr);
  case OpKind::BarrierOp:
    ++epoch;
    return true;
  case OpKind::Reduce:
    return reduce(instr);
  case OpKind::Dot:
    return dot(instr);
  default:
    return elementwise(instr);
  }
}

bool Runner::elementwise(const Instr &instr) {
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

bool Runner::programId(const Instr &instr) {
  const std::vector<int64_t> &grid = std::get<ProgramIdInfo>(instr.info).grid;
  if (grid != launch.grid || instr.out.size() != grid.size())
    return fail(instr, ErrorCode::LaunchMismatch, "the launch has another grid than the kernel");
  uint64_t rest = program;
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

bool Runner::forLoop(const Instr &instr) {
  const Body &body = *std::get<ForInfo>(instr.info).body;
  int64_t lo = index(instr.in[0]), hi = index(instr.in[1]), step = index(instr.in[2]);
  if (step <= 0)
    return fail(instr, ErrorCode::CannotInterpret, "the step of a loop is " + std::to_string(step) + ", and must be positive");
  size_t carried = instr.out.size();
  std::vector<Slot> values;
  for (size_t i = 0; i < carried; ++i)
    values.push_back(slots[size_t(instr.in[3 + i])]);
  while (lo < hi) {
    LaneArray &counter = slots[size_t(body.args[0])].lanes;
    if (!make(instr, DType::Index, 1, counter))
      return false;
    writeScalar(counter.data.get(), Scalar{uint64_t(lo)}, DType::Index);
    for (size_t i = 0; i < carried; ++i)
      slots[size_t(body.args[1 + i])] = std::move(values[i]);
    if (!runBody(body))
      return false;
    for (size_t i = 0; i < carried; ++i)
      values[i] = slots[size_t(body.yields[i])]; // A copy: one value may be yielded twice.
    if (__builtin_add_overflow(lo, step, &lo))
      break;
  }
  for (size_t i = 0; i < carried; ++i)
    slots[size_t(instr.out[i])] = std::move(values[i]);
  return true;
}

bool Runner::inBounds(const Instr &instr) {
  const InBoundsInfo &info = std::get<InBoundsInfo>(instr.info);
  int64_t first = index(instr.in[0]);
  LaneArray result;
  if (!make(instr, DType::I1, info.extent, result))
    return false;
  for (int64_t t = 0; t < info.extent; ++t) {
    int64_t at;
    result.data[t] = std::byte(!__builtin_add_overflow(first, t, &at) && at < info.bound);
  }
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

bool Runner::broadcast(const Instr &instr) {
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
