// Assembly text in place of an instruction that LLVM has no form for. Private to lib/CodeGen.
#pragma once

#include "Lowering.h"

#include <string>

namespace minic::codegen {

/// One piece of text with results, operands, and a constraint for each. `$0`, `$1`, ... in the text are the results, then the
/// operands, in the order in which they were added.
class AsmCall {
public:
  explicit AsmCall(IRBuilder &ir) : ir(ir) {}

  void addResult(llvm::Type *type, const std::string &constraint);
  void addOperand(llvm::Value *value, const std::string &constraint);
  /// The number of the next operand.
  size_t nextNumber() const { return resultTypes.size() + operands.size(); }
  /// Makes the call, which stays where it is among others; gives the results. `convergent`: all threads of a warp run it together.
  Registers emit(const std::string &text, bool convergent);

private:
  IRBuilder &ir;
  std::vector<llvm::Type *> resultTypes, operandTypes;
  Registers operands;
  std::string constraints;
};

/// "$2, $3, $4": `count` numbers from `first` on.
std::string numberedOperands(size_t first, size_t count);

} // namespace minic::codegen
