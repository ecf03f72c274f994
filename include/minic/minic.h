// All that a program needs which embeds minic.
#pragma once

#include "minic/Driver/Driver.h"
#include "minic/Driver/Graph.h"
#include "minic/Runtime/Executable.h"
#include "minic/Support/HostTensor.h"
