// What a kernel takes, and the launches that give it: both sides change together.
#pragma once

#include "minic/IR/IR.h"

#include <functional>

namespace minic {

class KernelSignature {
public:
  explicit KernelSignature(Function &kernel) : kernel(kernel) {}

  /// A parameter more; `argument` gives what a launch passes, and may emit it before the launch.
  Value *add(Type type, const std::string &name, const std::function<Value *(Operation &launch)> &argument);
  /// One more, through which TMA sees the buffer of another one.
  Value *addTensorMap(Value *buffer, Type type);
  /// Takes parameters away that nothing in the kernel uses.
  void dropUnused();
  /// Where a parameter stands among those of the kernel and the operands of a launch.
  unsigned positionOf(const Value *param) const;
  void setGrid(std::span<const DimExpr> grid);

private:
  template <typename Visit> void forEachLaunch(Visit &&visit);
  Function &kernel;
};

} // namespace minic
