// `library_call`: what it says as data, and its hook.
#include "OpVerify.h"

#include "minic/IR/LibraryCall.h"
#include "minic/IR/Verifier.h"

#include <algorithm>

namespace minic {

MatmulCall matmulCallOf(const Operation &op) {
  MatmulCall call;
  std::string_view transposed = op.wordAttr("transposed");
  call.transposedLhs = transposed == "lhs" || transposed == "both";
  call.transposedRhs = transposed == "rhs" || transposed == "both";
  call.epilogue = *parseEpilogue(op.wordAttr("epilogue"));
  return call;
}

std::vector<NamedAttribute> libraryCallAttrs(const MatmulCall &call) {
  std::vector<NamedAttribute> attrs = {{"library", Attribute::word("cublaslt")}, {"function", Attribute::word("matmul")}};
  if (call.transposedLhs || call.transposedRhs)
    attrs.push_back({"transposed", Attribute::word(!call.transposedRhs ? "lhs" : !call.transposedLhs ? "rhs" : "both")});
  if (call.epilogue != MatmulEpilogue::None)
    attrs.push_back({"epilogue", Attribute::word(std::string(epilogueName(call.epilogue)))});
  return attrs;
}

void verifyLibraryCall(Operation &op, VerifyReporter &reporter) {
  if (op.module().numerics == "exact") {
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " adds in an order of its own, and exact numerics fix it").fix =
        "take default numerics, or launch a kernel";
    return;
  }
  std::vector<MatmulOperand> operands;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (!expectOperand(op, i, TypeKind::Buffer, reporter))
      return;
    Type type = op.operand(i)->type();
    if (type.isStrided()) {
      reporter.error(op, ErrorCode::TypeMismatch, opText(op) + " takes row-major memory: " + operandText(op, i)).fix =
          "launch a kernel that copies it";
      return;
    }
    operands.push_back({type.dtype(), type.shape()});
  }
  if (auto fault = matmulCallFault(matmulCallOf(op), operands)) {
    reporter.error(op, ErrorCode::LaunchMismatch, opText(op) + " " + *fault);
    return;
  }
  Value *result = op.operands().back();
  if (std::ranges::count(op.operands(), result) > 1)
    reporter.error(op, ErrorCode::LaunchMismatch, opText(op) + " reads what it writes: " + operandText(op, op.numOperands() - 1));
}

} // namespace minic
