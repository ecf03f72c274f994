// What brings operands to mma: copies by threads into shared memory, and fragments that are read from there.
#include "Agent.h"

#include "minic/IR/Printer.h"
#include "minic/IR/SharedLayout.h"

namespace minic::interp {

bool Agent::cpAsync(const Instr &instr) {
  const TmaInfo &info = std::get<TmaInfo>(instr.info);
  LaneArray box;
  copiesStarted = copyGroups + 1;
  // Landed now, but known only to those who know that the group is over.
  Stamp landing{copiesStarted, instr.ordinal, noThread, time.timelineOfCopies()};
  return loadBox(instr, info.box, instr.in[0], 2, box) &&
         writeShared(instr, slots[size_t(instr.in[1])], info.memory, box, &landing);
}

bool Agent::ldMatrix(const Instr &instr) {
  const LdMatrixInfo &info = std::get<LdMatrixInfo>(instr.info);
  int64_t start[] = {index(instr.in[1]), index(instr.in[2])}, bytes = dtypeBytes(info.memory.dtype());
  std::vector<int64_t> whole = info.memory.extents();
  for (size_t axis : {0u, 1u})
    if (start[axis] < 0 || start[axis] % fragmentUnit(info.memory.dtype(), int(axis)) ||
        start[axis] > whole[axis] - info.extents[info.transposed ? 1 - axis : axis])
      return fail(instr, ErrorCode::OutOfBounds,
                  "the box at [" + std::to_string(start[0]) + ", " + std::to_string(start[1]) + "] is not one of " +
                      info.memory.str() + " that starts at multiples of 8, and of 16 bytes");
  CellMap cells;
  int64_t rows = info.extents[0], columns = info.extents[1];
  cells.reserve(size_t(rows * columns));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      int64_t at[] = {start[0] + (info.transposed ? column : row), start[1] + (info.transposed ? row : column)};
      cells.push_back(int32_t(elementOffset(info.memory, at) / bytes));
    }
  LaneArray result{.dtype = info.memory.dtype()};
  if (!readShared(instr, slots[size_t(instr.in[0])], {info.extents, &cells, info.threads}, nullptr, result))
    return false;
  slots[size_t(instr.out[0])].lanes = std::move(result);
  return true;
}

} // namespace minic::interp
