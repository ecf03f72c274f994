// What a kernel takes, and the launches that give it: both sides change together.
#pragma once

#include "minic/IR/IR.h"

namespace minic {

class KernelSignature {
public:
  explicit KernelSignature(Function &kernel) : kernel(kernel) {}

  /// A parameter more, through which TMA sees the buffer of another one.
  Value *addTensorMap(Value *buffer, Type type);
  /// Takes parameters away that nothing in the kernel uses.
  void dropUnused();
  void setGrid(std::span<const DimExpr> grid);

private:
  template <typename Visit> void forEachLaunch(Visit &&visit);
  Function &kernel;
};

} // namespace minic
