#include "SharedMemory.h"

namespace minic::interp {

void SharedMemory::reset(DType dtype, int64_t cellCount, size_t agents) {
  bytes.assign(size_t(cellCount * dtypeBytes(dtype)), std::byte{0});
  cells.assign(size_t(cellCount), Cell());
  reads.resize(agents);
  for (std::vector<ReadMark> &marks : reads)
    marks.clear();
}

} // namespace minic::interp
