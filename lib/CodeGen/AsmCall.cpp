#include "AsmCall.h"

#include <llvm/IR/InlineAsm.h>

namespace minic::codegen {

void AsmCall::addResult(llvm::Type *type, const std::string &constraint) {
  assert(operands.empty() && "results come first");
  resultTypes.push_back(type);
  constraints += (constraints.empty() ? "=" : ",=") + constraint;
}

void AsmCall::addOperand(llvm::Value *value, const std::string &constraint) {
  operands.push_back(value);
  operandTypes.push_back(value->getType());
  constraints += (constraints.empty() ? "" : ",") + constraint;
}

Registers AsmCall::emit(const std::string &text, bool convergent) {
  llvm::Type *result = resultTypes.empty()       ? ir.getVoidTy()
                       : resultTypes.size() == 1 ? resultTypes[0]
                                                 : llvm::StructType::get(ir.getContext(), resultTypes);
  auto *type = llvm::FunctionType::get(result, operandTypes, false);
  llvm::CallInst *call = ir.CreateCall(llvm::InlineAsm::get(type, text, constraints, /*hasSideEffects=*/true), operands);
  if (convergent)
    call->setConvergent();
  if (resultTypes.size() == 1)
    return {call};
  Registers values;
  for (unsigned i = 0; i < resultTypes.size(); ++i)
    values.push_back(ir.CreateExtractValue(call, i));
  return values;
}

std::string numberedOperands(size_t first, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", $" : "$") + std::to_string(first + i);
  return text;
}

} // namespace minic::codegen
