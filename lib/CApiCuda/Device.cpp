// The library that only runs has no interpreter.
#include "minic/CApiRuntime/Handles.h"

MinicError *minic_device_open(const char *name, MinicDevice **device) { return minic::openDevice(name, device, nullptr); }
