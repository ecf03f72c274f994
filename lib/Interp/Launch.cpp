#include "Launch.h"

#include "minic/IR/Printer.h"

#include <algorithm>
#include <tuple>

namespace minic::interp {

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
  std::string at = "'" + buffer.param->name + "' at " + buffer.param->placeText(d.element);
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

} // namespace minic::interp
