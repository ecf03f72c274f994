// The library with the compiler has the interpreter too.
#include "minic/CApiRuntime/Handles.h"
#include "minic/Interp/CpuDevice.h"

using namespace minic;

MinicError *minic_device_open(const char *name, MinicDevice **device) {
  return openDevice(name, device, []() -> std::shared_ptr<Device> { return std::make_shared<CpuDevice>(); });
}
