#include "minic/IR/CustomOp.h"

#include <algorithm>

namespace minic {

/// Of a size that a use gives: substituted again and again, sizes of nested uses would grow without bound.
static constexpr size_t maxSizeText = 1000;

static Function *named(const Module &module, const Attribute *symbol, FunctionKind kind) {
  Function *function = symbol && symbol->asSymbol() ? module.find(symbol->asSymbol()->name) : nullptr;
  return function && function->kind == kind ? function : nullptr;
}

Function *customOf(const Operation &use) {
  return named(use.module(), use.attr(use.is(OpKind::Ptx) ? "reference" : "op"), FunctionKind::Custom);
}

Function *kernelOf(const Function &custom) { return named(custom.module(), custom.attr("kernel"), FunctionKind::Kernel); }

Operation *ptxOf(const Function &kernel) {
  for (Operation &op : kernel.body())
    if (op.is(OpKind::Ptx))
      return &op;
  return nullptr;
}

std::vector<DimExpr> gridOf(const Function &kernel) {
  std::vector<DimExpr> grid{1};
  walk(kernel.body(), [&](Operation &op) {
    if (op.is(OpKind::ProgramId))
      grid = op.dimsAttr("grid");
  });
  return grid;
}

//===- Sizes -===//

namespace {

class Unifier {
public:
  Unifier(const Function &custom, std::span<const Type> operands) : custom(custom), operands(operands) {}

  Expected<DimSizes> run() {
    if (operands.size() != custom.params().size())
      return fault(ErrorCode::OperandCount,
                   "takes " + std::to_string(custom.params().size()) + " operands, not " + std::to_string(operands.size()));
    for (size_t i = 0; i < operands.size(); ++i) {
      Type wanted = custom.params()[i]->type();
      if (operands[i].dtype() != wanted.dtype())
        return fault(ErrorCode::OperandType, "takes " + wanted.str() + " as " + param(i) + ", not elements of " +
                                                 std::string(dtypeName(operands[i].dtype())));
      if (operands[i].rank() != wanted.rank())
        return fault(ErrorCode::OperandType,
                     "takes " + wanted.str() + " as " + param(i) + ", not " + std::to_string(operands[i].rank()) + " axes");
      for (int axis = 0; axis < wanted.rank(); ++axis)
        if (auto error = bind(i, axis))
          return *error;
    }
    // What is no name is known now.
    for (size_t i = 0; i < operands.size(); ++i)
      for (int axis = 0; axis < operands[i].rank(); ++axis)
        if (auto error = check(i, axis))
          return *error;
    return std::move(sizes);
  }

private:
  Diagnostic fault(ErrorCode code, std::string message) const {
    return Diagnostic{.code = code, .message = "@" + custom.name + " " + std::move(message)}.note("declared here", custom.loc);
  }
  std::string param(size_t i) const { return "%" + custom.params()[i]->name(); }
  std::string place(size_t i, int axis) const { return "axis " + std::to_string(axis) + " of " + param(i); }
  const DimExpr &wanted(size_t i, int axis) const { return custom.params()[i]->type().shape()[size_t(axis)]; }
  const DimExpr &given(size_t i, int axis) const { return operands[i].shape()[size_t(axis)]; }

  std::optional<Diagnostic> bind(size_t i, int axis) {
    std::string name = wanted(i, axis).str();
    if (!isDimName(name))
      return std::nullopt;
    auto [size, isNew] = sizes.try_emplace(name, given(i, axis));
    if (isNew) {
      boundBy[name] = place(i, axis);
      if (size->second.str().size() > maxSizeText)
        return fault(ErrorCode::BadDim, "is used with a size of more than " + std::to_string(maxSizeText) + " characters");
    }
    if (size->second == given(i, axis))
      return std::nullopt;
    return fault(ErrorCode::ShapeMismatch, "has one size " + name + ", but it is " + size->second.str() + " by " + boundBy[name] +
                                               " and " + given(i, axis).str() + " by " + place(i, axis));
  }

  std::optional<Diagnostic> check(size_t i, int axis) const {
    DimExpr size = wanted(i, axis).substitute(sizes);
    if (size == given(i, axis))
      return std::nullopt;
    std::string text = wanted(i, axis).str();
    return fault(ErrorCode::ShapeMismatch, "has " + text + " as " + place(i, axis) +
                                               (text == size.str() ? "" : ", here " + size.str()) + ", but the operand has " +
                                               given(i, axis).str());
  }

  const Function &custom;
  std::span<const Type> operands;
  DimSizes sizes;
  std::map<std::string, std::string> boundBy; ///< Places, for messages.
};

} // namespace

Expected<DimSizes> unifySizes(const Function &custom, std::span<const Type> operands) { return Unifier(custom, operands).run(); }

std::vector<Type> customResults(const Function &custom, const DimSizes &sizes) {
  std::vector<Type> types;
  for (Type type : custom.resultTypes) {
    std::vector<DimExpr> shape;
    for (const DimExpr &dim : type.shape())
      shape.push_back(dim.substitute(sizes));
    types.push_back(custom.module().context().withShape(type, std::move(shape)));
  }
  return types;
}

} // namespace minic
