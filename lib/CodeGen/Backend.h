// LLVM as a library: from a module to optimized IR and PTX. Private to lib/CodeGen.
#pragma once

#include "minic/Support/Expected.h"
#include "minic/Target/TargetInfo.h"

#include <memory>
#include <string>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace minic::codegen {

/// The NVPTX back end for one target.
class Backend {
public:
  static Expected<std::unique_ptr<Backend>> create(const TargetInfo &target);
  ~Backend();

  /// Sets triple and data layout, before anything is put into the module.
  void prepare(llvm::Module &module) const;
  Expected<void> verify(const llvm::Module &module) const;
  Expected<void> optimize(llvm::Module &module) const;
  /// Changes the module on the way. What LLVM reports becomes diagnostics.
  Expected<std::string> emitPtx(llvm::Module &module) const;
  /// Of all targets: 90 for PTX 9.0.
  int newestPtx() const;

private:
  explicit Backend(std::unique_ptr<llvm::TargetMachine> machine);
  std::unique_ptr<llvm::TargetMachine> machine;
};

} // namespace minic::codegen
