// What the hooks and the column checks share: words for messages, small questions, and what result types follow from.
#include "OpVerify.h"

#include "minic/IR/CustomOp.h"
#include "minic/IR/Verifier.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace minic {

std::string inQuotes(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string functionText(const Function &function) { return std::string(functionKindName(function.kind)) + " @" + function.name; }

std::string levelsText(LevelSet levels) {
  std::vector<std::string> names;
  for (unsigned i = 0; i <= unsigned(Level::Plan); ++i)
    if (levels & levelBit(i))
      names.emplace_back(levelName(Level(i)));
  return wordList(names);
}

bool isMathBody(const Function &function) {
  return function.kind == FunctionKind::Kernel && function.level == Level::Machine && !function.resultTypes.empty();
}

bool inScalarCode(const Operation &op) {
  const Operation *parent = op.parentOp();
  return (parent && parent->is(OpKind::Reduce)) || isMathBody(op.function());
}

bool numberFits(const Attribute &number, DType dtype) {
  if (isFloat(dtype)) {
    auto value = number.asNumber();
    return value && fitsDType(*value, dtype);
  }
  const int64_t *value = number.asInt();
  if (!value)
    return false;
  auto [least, greatest] = integerRange(dtype);
  return *value >= least && *value <= greatest;
}

std::string opText(const Operation &op) { return "`" + std::string(op.info().name) + "`"; }

std::string operandName(const Operation &op, unsigned i) {
  const std::string &name = op.operand(i)->name();
  return name.empty() ? "operand " + std::to_string(i) : "%" + name;
}

std::string operandText(const Operation &op, unsigned i) { return operandName(op, i) + ": " + op.operand(i)->type().str(); }

std::string wordList(const std::vector<std::string> &words, std::string_view conjunction) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i)
      text += i + 1 == words.size() && !conjunction.empty() ? " " + std::string(conjunction) + " " : ", ";
    text += words[i];
  }
  return text;
}

std::string countText(size_t n, std::string_view noun) {
  std::string text = std::to_string(n) + " ";
  if (n == 1)
    return text + std::string(noun);
  if (noun == "axis")
    return text + "axes";
  if (noun == "index")
    return text + "indices";
  if (noun.ends_with("y"))
    return text + std::string(noun.substr(0, noun.size() - 1)) + "ies";
  return text + std::string(noun) + "s";
}

std::string intsText(const std::vector<int64_t> &values) { return Attribute::ints(values).str(); }

bool expectResult(Operation &op, unsigned i, Type expected, VerifyReporter &reporter) {
  Type stated = op.result(i)->type();
  if (stated == expected)
    return true;
  std::string which = op.numResults() > 1 ? " (result " + std::to_string(i) + ")" : "";
  reporter.error(op, ErrorCode::TypeMismatch, opText(op) + which + ": expected " + expected.str() + ", stated " + stated.str())
      .fix = "write `" + expected.str() + "`";
  return false;
}

bool expectOperand(Operation &op, unsigned i, TypeKind kind, VerifyReporter &reporter) {
  if (op.operand(i)->type().kind() == kind)
    return true;
  std::string_view name = kind == TypeKind::Tensor   ? "a tensor"
                          : kind == TypeKind::Buffer ? "a buffer"
                          : kind == TypeKind::Tile   ? "a tile"
                          : kind == TypeKind::Smem   ? "shared memory"
                                                     : "a scalar";
  reporter.error(op, ErrorCode::OperandType, opText(op) + " takes " + std::string(name) + " here, not " + operandText(op, i));
  return false;
}

bool expectIndex(Operation &op, unsigned i, VerifyReporter &reporter) {
  if (op.operand(i)->type().isIndex())
    return true;
  reporter.error(op, ErrorCode::OperandType, opText(op) + " takes an index here, not " + operandText(op, i));
  return false;
}

bool expectAxes(Operation &op, std::string_view name, int rank, const std::string &what, bool ascending, VerifyReporter &reporter) {
  return expectAxes(op, name, op.intsAttr(name), rank, what, ascending, reporter);
}

bool expectAxes(Operation &op, std::string_view name, const std::vector<int64_t> &axes, int rank, const std::string &what,
                bool ascending, VerifyReporter &reporter) {
  auto fail = [&](const std::string &why) {
    reporter.error(op, ErrorCode::BadAxis,
                   "`" + std::string(name) + "` of " + opText(op) + " is " + intsText(axes) + ", but " + why);
    return false;
  };
  for (int64_t axis : axes)
    if (axis < 0 || axis >= rank)
      return fail(rank == 0 ? what + " has no axes" : "the axes of " + what + " are 0 to " + std::to_string(rank - 1));
  std::set<int64_t> seen;
  for (int64_t axis : axes)
    if (!seen.insert(axis).second)
      return fail("an axis may be named once, and " + std::to_string(axis) + " is named twice (of " + what + ")");
  if (ascending && !std::is_sorted(axes.begin(), axes.end())) {
    fail("the axes must ascend");
    return false;
  }
  return true;
}

std::vector<Type> inferResultTypes(const Operation &op) {
  Context &context = op.module().context();
  Type first = op.numOperands() ? op.operand(0)->type() : Type();
  switch (op.info().typeRule) {
  case TypeRule::Elementwise:
    return {first};
  case TypeRule::Compare:
    return {first ? context.withDType(first, DType::I1) : Type()};
  case TypeRule::Select:
    return {op.numOperands() > 1 ? op.operand(1)->type() : Type()};
  case TypeRule::Convert:
  case TypeRule::Bitcast:
    return {Type()};
  case TypeRule::Hook:
    break;
  }
  std::vector<Type> types(op.numResults());
  switch (op.kind()) {
  case OpKind::Transpose:
    return {transposedType(op)};
  case OpKind::Matmul:
    return {matmulType(op)};
  case OpKind::Slice:
    return {slicedType(op)};
  case OpKind::Pad:
    return {paddedType(op)};
  case OpKind::Concat:
    return {concatenatedType(op)};
  case OpKind::Gather:
    return {gatheredType(op)};
  case OpKind::Cumsum:
  case OpKind::Softmax:
  case OpKind::LayerNorm:
  case OpKind::RmsNorm:
    return {first};
  case OpKind::Mean:
    return {meanType(op)};
  case OpKind::Argmax:
    return {argmaxType(op)};
  case OpKind::Reduce:
    types.resize(op.numOperands());
    for (unsigned i = 0; i < types.size(); ++i)
      types[i] = reducedType(op, i);
    return types;
  case OpKind::Custom:
    if (const Function *custom = customOf(op)) {
      std::vector<Type> operands;
      for (const Value *operand : op.operands())
        operands.push_back(operand->type());
      if (auto sizes = unifySizes(*custom, operands))
        return customResults(*custom, *sizes);
    }
    return types;
  case OpKind::Fusion:
    if (const Operation *yield = op.numRegions() ? op.region().back() : nullptr; yield && yield->is(OpKind::Yield)) {
      types.clear();
      for (Value *value : yield->operands())
        types.push_back(value->type());
    }
    return types;
  case OpKind::For:
    types.clear();
    for (unsigned i = 3; i < op.numOperands(); ++i)
      types.push_back(op.operand(i)->type());
    return types;
  case OpKind::ProgramId: {
    const Attribute *grid = op.attr("grid");
    if (grid && grid->asDims())
      types.assign(grid->asDims()->size(), context.index());
    return types;
  }
  case OpKind::Dim:
    return {context.index()};
  case OpKind::Dot:
    return {op.numOperands() > 2 ? op.operand(2)->type() : Type()};
  case OpKind::Copy:
    return {first};
  default:
    return types;
  }
}

} // namespace minic
