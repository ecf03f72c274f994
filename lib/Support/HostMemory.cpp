#include "HostMemory.h"

#include <cstdlib>
#include <unistd.h>

namespace minic {

bool fitsHostMemory(int64_t bytes) {
  if (bytes < int64_t(1) << 24)
    return bytes >= 0;
  // A kernel that overcommits promises more than there is, and kills whoever touches it.
  int64_t pages = sysconf(_SC_PHYS_PAGES), pageSize = sysconf(_SC_PAGESIZE);
  if (pages > 0 && pageSize > 0 && bytes / pageSize >= pages)
    return false;
  void *probe = std::malloc(size_t(bytes));
  std::free(probe);
  return probe != nullptr;
}

} // namespace minic
