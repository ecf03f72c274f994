// Hooks of the ops that read their operands at indices of their own: slice, pad, concat, gather; and iota.
#include "OpVerify.h"

#include "minic/IR/Verifier.h"

#include <algorithm>

namespace minic {
namespace {

/// The list of sizes of attribute `name`, or one `fallback` per axis; nullopt if it is no such list.
std::optional<std::vector<DimExpr>> sizesOr(const Operation &op, std::string_view name, std::vector<DimExpr> fallback) {
  const Attribute *attribute = op.attr(name);
  return attribute ? attribute->asDims() : std::optional(std::move(fallback));
}

/// A size is proved not to be negative: no term is.
bool isProvedSize(const DimExpr &size) {
  if (size.getCoefficient() < 0)
    return false;
  return std::all_of(size.getFactors().begin(), size.getFactors().end(), [](const DimExpr::Factor &factor) {
    return !factor.sumOf || std::all_of(factor.sumOf->begin(), factor.sumOf->end(), isProvedSize);
  });
}

struct Window {
  std::vector<DimExpr> starts, limits;
  std::vector<int64_t> steps;
};

std::optional<Window> windowOf(const Operation &op) {
  const std::vector<DimExpr> &shape = op.operand(0)->type().shape();
  auto starts = sizesOr(op, "starts", std::vector<DimExpr>(shape.size(), 0)), limits = sizesOr(op, "limits", shape);
  if (!starts || !limits)
    return std::nullopt;
  return Window{*starts, *limits, op.attr("steps") ? op.intsAttr("steps") : std::vector<int64_t>(shape.size(), 1)};
}

bool checkCount(Operation &op, std::string_view name, size_t count, size_t rank, VerifyReporter &reporter) {
  if (count == rank)
    return true;
  reporter.error(op, ErrorCode::BadAttribute,
                 "`" + std::string(name) + "` of " + opText(op) + " has " + countText(count, "entry") + ", but " +
                     operandText(op, 0) + " has " + countText(rank, "axis"));
  return false;
}

} // namespace

Type slicedType(const Operation &op) {
  Type from = op.numOperands() == 1 ? op.operand(0)->type() : Type();
  auto window = from && from.isTensor() ? windowOf(op) : std::nullopt;
  size_t rank = from ? from.shape().size() : 0;
  if (!window || window->starts.size() != rank || window->limits.size() != rank || window->steps.size() != rank)
    return {};
  std::vector<DimExpr> shape;
  for (size_t a = 0; a < rank; ++a) {
    if (window->steps[a] < 1)
      return {};
    shape.push_back(DimExpr::ceilDiv(window->limits[a] - window->starts[a], window->steps[a]));
  }
  return op.module().context().tensor(from.dtype(), std::move(shape));
}

void verifySlice(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tensor, reporter))
    return;
  const std::vector<DimExpr> &shape = op.operand(0)->type().shape();
  auto window = windowOf(op);
  if (!window || !checkCount(op, "starts", window->starts.size(), shape.size(), reporter) ||
      !checkCount(op, "limits", window->limits.size(), shape.size(), reporter) ||
      !checkCount(op, "steps", window->steps.size(), shape.size(), reporter))
    return;
  for (size_t a = 0; a < shape.size(); ++a) {
    std::string where = " along axis " + std::to_string(a) + " of " + operandText(op, 0);
    const DimExpr &start = window->starts[a], &limit = window->limits[a];
    if (window->steps[a] < 1) {
      reporter.error(op, ErrorCode::BadAttribute,
                     opText(op) + " has step " + std::to_string(window->steps[a]) + where + "; steps are 1 or more");
      return;
    }
    // limit - start is a size of the result, so a run refuses negative ones.
    DimExpr taken = limit - start;
    if (!isProvedSize(start) || (taken.isConstant() && taken.getCoefficient() < 0) || !isProvedSize(shape[a] - limit)) {
      Diagnostic &error =
          reporter.error(op, ErrorCode::OutOfBounds,
                         opText(op) + " takes [" + start.str() + ", " + limit.str() + ")" + where + ", and 0 <= " + start.str() +
                             " <= " + limit.str() + " <= " + shape[a].str() + " is not so for all sizes");
      if (!shape[a].isConstant())
        error.fix = "write the limit in terms of " + shape[a].str() + ", or give the size a value";
      return;
    }
  }
  expectResult(op, 0, slicedType(op), reporter);
}

Type paddedType(const Operation &op) {
  Type from = op.numOperands() == 1 ? op.operand(0)->type() : Type();
  const Attribute *low = op.attr("low"), *high = op.attr("high");
  auto before = low ? low->asDims() : std::nullopt, behind = high ? high->asDims() : std::nullopt;
  if (!from || !from.isTensor() || !before || !behind || int(before->size()) != from.rank() || int(behind->size()) != from.rank())
    return {};
  std::vector<DimExpr> shape;
  for (size_t a = 0; a < before->size(); ++a)
    shape.push_back((*before)[a] + from.shape()[a] + (*behind)[a]);
  return op.module().context().tensor(from.dtype(), std::move(shape));
}

void verifyPad(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tensor, reporter))
    return;
  Type from = op.operand(0)->type();
  for (std::string_view name : {"low", "high"}) {
    auto sizes = op.dimsAttr(name);
    if (!checkCount(op, name, sizes.size(), size_t(from.rank()), reporter))
      return;
    for (const DimExpr &size : sizes)
      if (!isProvedSize(size)) {
        reporter
            .error(op, ErrorCode::BadAttribute,
                   "`" + std::string(name) + "` of " + opText(op) + " has " + size.str() + ", which may be negative")
            .fix = "take elements away with `slice`";
        return;
      }
  }
  if (const Attribute &value = *op.attr("value"); !numberFits(value, from.dtype())) {
    reporter.error(op, ErrorCode::BadConstant,
                   "`value` of " + opText(op) + " is " + value.str() + ", which is no value of " +
                       std::string(dtypeName(from.dtype())));
    return;
  }
  expectResult(op, 0, paddedType(op), reporter);
}

Type concatenatedType(const Operation &op) {
  Type first = op.numOperands() ? op.operand(0)->type() : Type();
  const Attribute *attribute = op.attr("axis");
  const int64_t *axis = attribute ? attribute->asInt() : nullptr;
  if (!first || !first.isTensor() || !axis || *axis < 0 || *axis >= first.rank())
    return {};
  std::vector<DimExpr> shape = first.shape();
  for (unsigned i = 1; i < op.numOperands(); ++i) {
    Type next = op.operand(i)->type();
    if (!next || !next.isTensor() || next.rank() != first.rank())
      return {};
    shape[size_t(*axis)] = shape[size_t(*axis)] + next.shape()[size_t(*axis)];
  }
  return op.module().context().tensor(first.dtype(), std::move(shape));
}

void verifyConcat(Operation &op, VerifyReporter &reporter) {
  if (op.numOperands() == 0) {
    reporter.error(op, ErrorCode::OperandCount, opText(op) + " needs at least one operand");
    return;
  }
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (!expectOperand(op, i, TypeKind::Tensor, reporter))
      return;
  Type first = op.operand(0)->type();
  int64_t axis = op.intAttr("axis");
  if (axis < 0 || axis >= first.rank()) {
    reporter.error(op, ErrorCode::BadAxis,
                   "`axis` of " + opText(op) + " is " + std::to_string(axis) + ", which is no axis of " + operandText(op, 0));
    return;
  }
  for (unsigned i = 1; i < op.numOperands(); ++i) {
    Type next = op.operand(i)->type();
    bool fits = next.dtype() == first.dtype() && next.rank() == first.rank();
    for (int a = 0; fits && a < first.rank(); ++a)
      fits = a == axis || next.shape()[size_t(a)] == first.shape()[size_t(a)];
    if (fits)
      continue;
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " needs operands of one element type that agree but for axis " + std::to_string(axis) + ": " +
                       operandText(op, 0) + ", " + operandText(op, i));
    return;
  }
  expectResult(op, 0, concatenatedType(op), reporter);
}

Type gatheredType(const Operation &op) {
  if (op.numOperands() != 2)
    return {};
  Type table = op.operand(0)->type(), rows = op.operand(1)->type();
  const Attribute *attribute = op.attr("axis");
  const int64_t *axis = attribute ? attribute->asInt() : nullptr;
  if (!table || !rows || !table.isTensor() || !rows.isTensor() || !axis || *axis < 0 || *axis >= table.rank())
    return {};
  std::vector<DimExpr> shape = table.shape();
  shape.erase(shape.begin() + *axis);
  shape.insert(shape.begin() + *axis, rows.shape().begin(), rows.shape().end());
  return op.module().context().tensor(table.dtype(), std::move(shape));
}

void verifyGather(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tensor, reporter) || !expectOperand(op, 1, TypeKind::Tensor, reporter))
    return;
  Type rows = op.operand(1)->type();
  if (rows.dtype() != DType::I32 && rows.dtype() != DType::I64) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " takes rows of i32 or i64, not " + operandText(op, 1)).fix =
        "convert " + operandName(op, 1) + " first";
    return;
  }
  if (int64_t axis = op.intAttr("axis"); axis < 0 || axis >= op.operand(0)->type().rank()) {
    reporter.error(op, ErrorCode::BadAxis,
                   "`axis` of " + opText(op) + " is " + std::to_string(axis) + ", which is no axis of " + operandText(op, 0));
    return;
  }
  expectResult(op, 0, gatheredType(op), reporter);
}

void verifyIota(Operation &op, VerifyReporter &reporter) {
  Type type = op.result()->type();
  bool tile = type.isTile();
  if ((!tile && !type.isTensor()) || (type.dtype() != DType::I32 && type.dtype() != DType::I64)) {
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected a tensor or a tile of i32 or i64, stated " + type.str())
        .fix = "count in i64 and convert";
    return;
  }
  if (op.numOperands() != (tile ? 1u : 0u)) {
    reporter.error(op, ErrorCode::OperandCount,
                   opText(op) + (tile ? " of a tile needs the index it counts from" : " of a tensor takes no operand"));
    return;
  }
  if (tile && !expectIndex(op, 0, reporter))
    return;
  int64_t axis = op.intAttr("axis");
  if (axis < 0 || axis >= std::max(type.rank(), int(tile))) { // A kernel without loops has tiles without axes.
    reporter.error(op, ErrorCode::BadAxis,
                   "`axis` of " + opText(op) + " is " + std::to_string(axis) + ", which is no axis of " + type.str());
    return;
  }
  for (int a = 0; tile && a < type.rank(); ++a)
    if (a != axis && !type.shape()[size_t(a)].isConstant(1)) {
      reporter.error(op, ErrorCode::ShapeMismatch,
                     opText(op) + " along axis " + std::to_string(axis) +
                         " gives a tile with extent 1 along every other axis, not " + type.str());
      return;
    }
}

} // namespace minic
