// Every function that minic asks a driver for. They succeed and do nothing, where FakeDriver.cpp has no better one.
#include "../../../../lib/Runtime/DriverApi.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

using namespace minic::cuda;

#define MINIC_CUDA(name, parameters)                                                                                               \
  extern "C" __attribute__((weak)) CuResult name parameters { return success; }
#include "../../../../lib/Runtime/DriverApi.def"
#undef MINIC_CUDA
