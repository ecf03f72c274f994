// Hooks of softmax, layernorm, rmsnorm, mean, argmax, cumsum and size.
#include "OpVerify.h"

#include "minic/IR/Verifier.h"

#include <algorithm>

namespace minic {

static bool checkAxis(Operation &op, VerifyReporter &reporter) {
  int64_t axis = op.intAttr("axis");
  if (axis >= 0 && axis < op.operand(0)->type().rank())
    return true;
  reporter.error(op, ErrorCode::BadAxis,
                 "`axis` of " + opText(op) + " is " + std::to_string(axis) + ", which is no axis of " + operandText(op, 0));
  return false;
}

static bool isTensorOperand(const Operation &op) {
  return op.numOperands() && op.operand(0)->type() && op.operand(0)->type().isTensor();
}

/// The operand's type without `axes`.
static Type without(const Operation &op, const std::vector<int64_t> &axes, DType dtype) {
  std::vector<DimExpr> shape;
  for (int64_t a = 0; a < op.operand(0)->type().rank(); ++a)
    if (std::find(axes.begin(), axes.end(), a) == axes.end())
      shape.push_back(op.operand(0)->type().shape()[size_t(a)]);
  return op.module().context().tensor(dtype, std::move(shape));
}

Type meanType(const Operation &op) {
  const Attribute *attribute = op.attr("axes");
  auto axes = attribute ? attribute->asInts() : std::nullopt;
  return isTensorOperand(op) && axes ? without(op, *axes, op.operand(0)->type().dtype()) : Type();
}

Type argmaxType(const Operation &op) {
  const Attribute *attribute = op.attr("axis");
  return isTensorOperand(op) && attribute && attribute->asInt() ? without(op, {*attribute->asInt()}, DType::I64) : Type();
}

/// softmax and cumsum.
void verifyAlongAxis(Operation &op, VerifyReporter &reporter) {
  if (expectOperand(op, 0, TypeKind::Tensor, reporter) && checkAxis(op, reporter))
    expectResult(op, 0, op.operand(0)->type(), reporter);
}

void verifyMean(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tensor, reporter) ||
      !expectAxes(op, "axes", op.operand(0)->type().rank(), operandText(op, 0), true, reporter))
    return;
  Type expected = meanType(op), stated = op.result()->type();
  if (stated.dtype() == computeDType(expected.dtype()))
    expected = op.module().context().withDType(expected, stated.dtype());
  expectResult(op, 0, expected, reporter);
}

void verifyArgmax(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tensor, reporter) || !checkAxis(op, reporter))
    return;
  Type expected = argmaxType(op), stated = op.result()->type();
  if (stated.dtype() == DType::I32)
    expected = op.module().context().withDType(expected, DType::I32);
  expectResult(op, 0, expected, reporter);
}

void verifyNorm(Operation &op, VerifyReporter &reporter) {
  size_t most = op.is(OpKind::LayerNorm) ? 3 : 2;
  if (op.numOperands() < 1 || op.numOperands() > most) {
    reporter.error(op, ErrorCode::OperandCount,
                   opText(op) +
                       (most == 3 ? " takes a tensor, a scale and a shift, the last ones if wanted, not "
                                  : " takes a tensor and, if wanted, a scale, not ") +
                       countText(op.numOperands(), "operand"));
    return;
  }
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (!expectOperand(op, i, TypeKind::Tensor, reporter))
      return;
  Type type = op.operand(0)->type();
  if (!expectAxes(op, "axes", type.rank(), operandText(op, 0), true, reporter))
    return;
  std::vector<DimExpr> sizes;
  for (int64_t axis : op.intsAttr("axes"))
    sizes.push_back(type.shape()[size_t(axis)]);
  for (unsigned i = 1; i < op.numOperands(); ++i)
    if (Type given = op.operand(i)->type(), wanted = op.module().context().tensor(type.dtype(), sizes);
        given.shape() != wanted.shape() || (given.dtype() != type.dtype() && given.dtype() != computeDType(type.dtype()))) {
      reporter.error(op, ErrorCode::ShapeMismatch,
                     opText(op) + " needs a scale and a shift with the sizes of its axes, " + wanted.str() + ", not " +
                         operandText(op, i));
      return;
    }
  if (double eps = *op.attr("eps")->asNumber(); !(eps >= 0)) {
    reporter.error(op, ErrorCode::BadAttribute, "`eps` of " + opText(op) + " is " + op.attr("eps")->str() + ", not 0 or more");
    return;
  }
  expectResult(op, 0, type, reporter);
}

/// A rank 0 tensor.
void verifySize(Operation &op, VerifyReporter &reporter) {
  Type type = op.result()->type();
  if (!type.isTensor() || type.rank() != 0 || type.dtype() != DType::I64)
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected tensor<i64>, stated " + type.str()).fix =
        "convert and broadcast it after";
}

} // namespace minic
