// A device that keeps a trace of what is asked of it.
#pragma once

#include "minic/Artifact/Device.h"
#include "minic/Support/Trace.h"

namespace minic {

/// `device` behind a device that adds to `trace` what loading kernels, copies, launches and waits take on the host, and on a track
/// of the device's own how long each launch ran there: the time between events around it. Kernels do not overlap then, and the
/// events take time of their own, so that short kernels look longer. Without a trace it is `device` itself. The trace must outlive
/// it.
std::shared_ptr<Device> traced(std::shared_ptr<Device> device, Trace *trace);

} // namespace minic
