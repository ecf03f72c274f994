// What a region takes of the hardware if it becomes one kernel, before there is one.
#pragma once

#include "minic/IR/Schedule.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/IterationSpace.h"

namespace minic {

struct KernelResources {
  int64_t parameterBytes = 0; ///< One pointer per buffer, one i32 per size name.
  int64_t sharedBytes = 0;    ///< Of one CTA: parts that warps exchange, operands of dots.
  int64_t registers = 0;      ///< Of one thread, for the values that are live at once in the order of the ops. A lower bound:
                              ///< addresses and what functions compute inside are not counted.
  bool fit(const TargetInfo &target) const {
    return parameterBytes <= target.maxParameterBytes && sharedBytes <= target.sharedBytesPerCta &&
           registers <= target.maxRegistersPerThread;
  }
};

/// For the ops of a region in program order, and its results.
KernelResources estimateResources(const IterationSpace &space, const Schedule &schedule, std::span<Operation *const> ops,
                                  std::span<Value *const> outputs);

} // namespace minic
