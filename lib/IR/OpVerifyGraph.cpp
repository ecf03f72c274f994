// Hooks of GraphOps.def, and what all hooks share.
#include "OpVerify.h"

#include "minic/IR/Verifier.h"

#include <algorithm>
#include <set>

namespace minic {

//===-- constant
//---------------------------------------------------------------------------------------------------------------------===//

namespace {

/// Checks that `value` is a list nested as `shape` from axis `axis` on, of numbers that fit.
bool checkLiteral(Operation &op, const Attribute &value, size_t axis, VerifyReporter &reporter) {
  Type type = op.result()->type();
  auto fail = [&](const std::string &why) {
    reporter.error(op, ErrorCode::BadConstant, opText(op) + " of " + type.str() + ": " + why);
    return false;
  };
  const AttributeList *list = value.asList();
  if (axis == type.shape().size()) {
    if (list)
      return fail("the lists are nested deeper than its " + countText(axis, "axis"));
    if (!numberFits(value, type.dtype()))
      return fail(value.str() + " is no value of " + std::string(dtypeName(type.dtype())));
    return true;
  }
  if (!list)
    return fail(value.str() + " stands where a list along axis " + std::to_string(axis) + " is expected");
  int64_t size = type.shape()[axis].getCoefficient();
  if (int64_t(list->size()) != size)
    return fail("a list along axis " + std::to_string(axis) + " has " + countText(list->size(), "entry") + ", not " +
                std::to_string(size));
  return std::all_of(list->begin(), list->end(),
                     [&](const Attribute &entry) { return checkLiteral(op, entry, axis + 1, reporter); });
}

bool isStatic(Type type) {
  return std::all_of(type.shape().begin(), type.shape().end(), [](const DimExpr &size) { return size.isConstant(); });
}

} // namespace

void verifyConstant(Operation &op, VerifyReporter &reporter) {
  Type type = op.result()->type();
  const Attribute &value = *op.attr("value");
  if (type.isSmem()) {
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected a tile or a scalar, stated " + type.str());
    return;
  }
  if (type.isBuffer() && type.isStrided()) {
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + " is row-major memory, stated " + type.str()).fix =
        "leave `strided` out";
    return;
  }
  if (!value.asList()) {
    if (!numberFits(value, type.dtype()))
      reporter.error(op, ErrorCode::BadConstant,
                     opText(op) + " of " + type.str() + ": " + value.str() + " is no value of " +
                         std::string(dtypeName(type.dtype())));
    return;
  }
  if (!(type.isTensor() || type.isBuffer()) || !isStatic(type)) {
    reporter
        .error(op, ErrorCode::BadConstant,
               opText(op) + " of " + type.str() + ": a list is a value of tensors with integer sizes, and of buffers of plans")
        .fix = "write one number for every element";
    return;
  }
  checkLiteral(op, value, 0, reporter);
}

//===-- broadcast, reshape, transpose
//------------------------------------------------------------------------------------------------===//

namespace {

bool sizeRepeats(const DimExpr &from, const DimExpr &to) { return from == to || from.isConstant(1); }

/// A thread finds each element that it holds of the result among those that it holds of the operand: the digits of lanes and warps
/// move both alike along the axes that do not repeat.
void checkBroadcastLayout(Operation &op, VerifyReporter &reporter) {
  Type from = op.operand(0)->type(), to = op.result()->type();
  const Layout &source = *from.layout(), &target = *to.layout();
  size_t rank = from.shape().size();
  auto drop = [&](std::vector<int64_t> index) {
    for (size_t a = 0; a < rank; ++a)
      if (from.shape()[a].isConstant(1))
        index[a] = 0;
    return index;
  };
  auto thread = [&](const Layout &layout, int64_t lane, int64_t warp) {
    std::vector<int64_t> index(rank);
    layout.addThread(lane, warp, index);
    return drop(index);
  };
  auto reg = [&](const Layout &layout, int64_t r) {
    std::vector<int64_t> index(rank);
    layout.addRegister(r, index);
    return drop(index);
  };
  bool fits = source.numWarps() == target.numWarps();
  for (int64_t lane = 0; fits && lane < 32; ++lane)
    fits = thread(source, lane, 0) == thread(target, lane, 0);
  for (int64_t warp = 0; fits && warp < source.numWarps(); ++warp)
    fits = thread(source, 0, warp) == thread(target, 0, warp);
  std::set<std::vector<int64_t>> held;
  for (int64_t r = 0; fits && r < source.numRegs(); ++r)
    held.insert(reg(source, r));
  for (int64_t r = 0; fits && r < target.numRegs(); ++r)
    fits = held.count(reg(target, r)) != 0;
  if (!fits)
    reporter.error(op, ErrorCode::BadLayout,
                   opText(op) + " would move elements between threads: from " + operandText(op, 0) + " to " + to.str());
}

void broadcastTiles(Operation &op, VerifyReporter &reporter) {
  Type from = op.operand(0)->type(), to = op.result()->type();
  if (op.attr("dims")) {
    reporter.error(op, ErrorCode::BadAttribute, opText(op) + " on tiles takes no `dims`: ranks agree and axes of extent 1 repeat")
        .fix = "leave `dims` out";
    return;
  }
  bool fits = from.rank() == to.rank();
  for (int a = 0; fits && a < from.rank(); ++a)
    fits = sizeRepeats(from.shape()[a], to.shape()[a]);
  if (!fits)
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " cannot make " + to.str() + " from " + operandText(op, 0) +
                       ": ranks must agree, and extents too unless the operand's is 1");
  else if (op.function().level == Level::Machine)
    checkBroadcastLayout(op, reporter);
}

void broadcastTensors(Operation &op, VerifyReporter &reporter) {
  Type from = op.operand(0)->type(), to = op.result()->type();
  if (!op.attr("dims")) {
    reporter.error(op, ErrorCode::MissingAttribute, opText(op) + " on tensors needs `dims`: the result axis of each operand axis")
        .fix = "add `dims = [...]`, " + countText(size_t(from.rank()), "axis") + " of " + to.str();
    return;
  }
  std::vector<int64_t> dims = op.intsAttr("dims");
  if (int(dims.size()) != from.rank()) {
    reporter.error(op, ErrorCode::BadAttribute,
                   "`dims` of " + opText(op) + " is " + intsText(dims) + ", but " + operandText(op, 0) + " has " +
                       countText(size_t(from.rank()), "axis"));
    return;
  }
  if (!expectAxes(op, "dims", to.rank(), to.str(), true, reporter))
    return;
  for (size_t a = 0; a < dims.size(); ++a) {
    const DimExpr &size = from.shape()[a], &wanted = to.shape()[size_t(dims[a])];
    if (sizeRepeats(size, wanted))
      continue;
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " puts axis " + std::to_string(a) + " of " + operandText(op, 0) + " (size " + size.str() +
                       ") on axis " + std::to_string(dims[a]) + " of " + to.str() + " (size " + wanted.str() +
                       "); the sizes must be equal, or the operand's 1");
    return;
  }
}

} // namespace

void verifyBroadcast(Operation &op, VerifyReporter &reporter) {
  Type from = op.operand(0)->type(), to = op.result()->type();
  if (!from.isTensor() && !from.isTile()) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " takes a tensor or a tile, not " + operandText(op, 0));
    return;
  }
  if (from.kind() != to.kind() || from.dtype() != to.dtype()) {
    Context &context = op.module().context();
    Type expected = from.kind() == to.kind() ? context.withDType(to, from.dtype()) : Type();
    if (expected)
      expectResult(op, 0, expected, reporter);
    else
      reporter.error(op, ErrorCode::TypeMismatch,
                     opText(op) + ": expected " + (from.isTensor() ? "a tensor" : "a tile") + " of " +
                         std::string(dtypeName(from.dtype())) + ", stated " + to.str());
    return;
  }
  from.isTile() ? broadcastTiles(op, reporter) : broadcastTensors(op, reporter);
}

void verifyReshape(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tensor, reporter))
    return;
  Type from = op.operand(0)->type(), to = op.result()->type();
  if (from.dtype() != to.dtype()) {
    expectResult(op, 0, op.module().context().withDType(to, from.dtype()), reporter);
    return;
  }
  if (DimExpr before = from.numElements(), after = to.numElements(); before != after)
    reporter.error(op, ErrorCode::BadReshape,
                   opText(op) + " must keep the number of elements: " + operandText(op, 0) + " has " + before.str() + ", " +
                       to.str() + " has " + after.str());
}

Type transposedType(const Operation &op) {
  const Attribute *attribute = op.attr("perm");
  auto perm = attribute ? attribute->asInts() : std::nullopt;
  Type from = op.numOperands() == 1 ? op.operand(0)->type() : Type();
  if (!from || !from.isTensor() || !perm || int(perm->size()) != from.rank())
    return {};
  std::vector<DimExpr> shape;
  std::set<int64_t> seen;
  for (int64_t axis : *perm) {
    if (axis < 0 || axis >= from.rank() || !seen.insert(axis).second)
      return {};
    shape.push_back(from.shape()[size_t(axis)]);
  }
  return op.module().context().tensor(from.dtype(), std::move(shape));
}

void verifyTranspose(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tensor, reporter))
    return;
  Type from = op.operand(0)->type();
  std::vector<int64_t> perm = op.intsAttr("perm");
  if (int(perm.size()) != from.rank()) {
    reporter.error(op, ErrorCode::BadAxis,
                   "`perm` of " + opText(op) + " is " + intsText(perm) + ", but " + operandText(op, 0) + " has " +
                       countText(size_t(from.rank()), "axis"));
    return;
  }
  if (expectAxes(op, "perm", from.rank(), operandText(op, 0), false, reporter))
    expectResult(op, 0, transposedType(op), reporter);
}

//===-- matmul
//-----------------------------------------------------------------------------------------------------------------------===//

Type matmulType(const Operation &op) {
  if (op.numOperands() != 2)
    return {};
  Type lhs = op.operand(0)->type(), rhs = op.operand(1)->type();
  if (!lhs || !rhs || !lhs.isTensor() || !rhs.isTensor() || lhs.rank() < 2 || rhs.rank() < 2)
    return {};
  const Type &longer = lhs.rank() >= rhs.rank() ? lhs : rhs, &shorter = lhs.rank() >= rhs.rank() ? rhs : lhs;
  std::vector<DimExpr> shape = longer.shape();
  for (int a = 0; a + 2 < shorter.rank(); ++a)
    if (DimExpr &size = shape[size_t(longer.rank() - shorter.rank() + a)]; size.isConstant(1))
      size = shorter.shape()[size_t(a)];
  shape[shape.size() - 2] = lhs.shape()[size_t(lhs.rank()) - 2];
  shape.back() = rhs.shape().back();
  std::vector<int64_t> chunks = op.optionalInts("chunks");
  for (int64_t chunk : chunks)
    shape.insert(shape.begin(), DimExpr::ceilDiv(lhs.shape().back(), chunk));
  return op.module().context().tensor(isStorageOnly(lhs.dtype()) ? computeDType(lhs.dtype()) : lhs.dtype(), std::move(shape));
}

bool expectPrecision(Operation &op, VerifyReporter &reporter) {
  DType dtype = op.operand(0)->type().dtype();
  if (!op.attr("precision") || dtype == DType::F32)
    return true;
  reporter
      .error(op, ErrorCode::BadAttribute,
             "`precision` of " + opText(op) + " is for operands of f32, not of " + std::string(dtypeName(dtype)))
      .fix = "leave `precision` out";
  return false;
}

/// `chunks` has a power of two for each axis that is cut.
bool checkChunks(Operation &op, const std::string &axesText, size_t axes, VerifyReporter &reporter) {
  auto fail = [&](std::string why) {
    reporter.error(op, ErrorCode::BadAttribute, opText(op) + " " + std::move(why));
    return false;
  };
  std::vector<int64_t> chunks = op.optionalInts("chunks");
  if (op.attr("chunks") && chunks.size() != axes)
    return fail("has " + axesText + " but `chunks` has " + countText(chunks.size(), "number"));
  for (int64_t chunk : chunks)
    if (chunk < 1 || !std::has_single_bit(uint64_t(chunk)))
      return fail("needs powers of two in `chunks`, not " + std::to_string(chunk));
  return true;
}

void verifyMatmul(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tensor, reporter) || !expectOperand(op, 1, TypeKind::Tensor, reporter))
    return;
  Type lhs = op.operand(0)->type(), rhs = op.operand(1)->type();
  std::string both = ": " + operandText(op, 0) + ", " + operandText(op, 1);
  if (lhs.dtype() != rhs.dtype()) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " needs operands of one element type" + both).fix =
        "convert " + operandName(op, 1) + " to " + std::string(dtypeName(lhs.dtype())) + " first";
    return;
  }
  if (!expectPrecision(op, reporter) || !checkChunks(op, "one contracted axis", 1, reporter))
    return;
  bool repeats = op.function().level == Level::Graph;
  if (lhs.rank() < 2 || rhs.rank() < 2 || (!repeats && lhs.rank() != rhs.rank())) {
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + (repeats ? " needs operands of rank 2 or more" : " needs operands of one rank, at least 2") + both);
    return;
  }
  for (int a = 3; a <= std::min(lhs.rank(), rhs.rank()); ++a) { // From the last batch axis on.
    const DimExpr &left = lhs.shape()[size_t(lhs.rank() - a)], &right = rhs.shape()[size_t(rhs.rank() - a)];
    if (left == right || (repeats && (left.isConstant(1) || right.isConstant(1))))
      continue;
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " needs equal batch sizes" + (repeats ? " (or 1)" : "") + ", but along axis " +
                       std::to_string(lhs.rank() - a) + " they are " + left.str() + " and " + right.str() + both);
    return;
  }
  size_t rank = rhs.shape().size();
  const DimExpr &columns = lhs.shape().back(), &rows = rhs.shape()[rank - 2];
  if (columns != rows) {
    Diagnostic &diagnostic =
        reporter.error(op, ErrorCode::ContractedMismatch,
                       opText(op) + " contracts the last axis of the left operand (size " + columns.str() +
                           ") with the second last of the right one (size " + rows.str() + "), so these must be equal" + both);
    if (columns == rhs.shape()[rank - 1])
      diagnostic.fix = "transpose " + operandName(op, 1) + " first";
    return;
  }
  Type expected = matmulType(op), stated = op.result()->type();
  if (stated.dtype() == computeDType(lhs.dtype()))
    expected = op.module().context().withDType(expected, stated.dtype());
  expectResult(op, 0, expected, reporter);
}

//===-- reduce
//-----------------------------------------------------------------------------------------------------------------------===//

/// The operand's shape without the axes (tensors), with extent 1 there (tiles), or with what is left of them after one step `over`
/// some modes (machine level). The element type is the operand's.
Type reducedType(const Operation &op, unsigned i) {
  const Attribute *attribute = op.attr("axes");
  auto axes = attribute ? attribute->asInts() : std::nullopt;
  Type from = op.numOperands() > i ? op.operand(i)->type() : Type();
  if (!from || !axes || !(from.isTensor() || from.isTile()))
    return {};
  for (int64_t axis : *axes)
    if (axis < 0 || axis >= from.rank())
      return {};
  Context &context = op.module().context();
  if (from.isTensor()) {
    std::vector<DimExpr> shape;
    std::vector<int64_t> chunks = op.optionalInts("chunks");
    for (size_t i = 0; i < chunks.size(); ++i)
      shape.push_back(DimExpr::ceilDiv(from.shape()[size_t((*axes)[i])], chunks[i]));
    for (int a = 0; a < from.rank(); ++a)
      if (std::find(axes->begin(), axes->end(), a) == axes->end())
        shape.push_back(from.shape()[size_t(a)]);
    return context.tensor(from.dtype(), std::move(shape));
  }
  std::string_view over = op.wordAttr("over");
  if (over.empty() != !from.layout())
    return {};
  ModeKind modes = over == "lane" ? ModeKind::Lane : ModeKind::Reg;
  std::vector<DimExpr> extents = from.shape();
  for (int64_t axis : *axes)
    extents[size_t(axis)] = over.empty() ? 1 : reducedExtent(*from.layout(), axis, modes);
  Type type = context.withShape(from, std::move(extents));
  return over.empty() ? type : context.withLayout(type, context.layout(reducedLayout(*from.layout(), *axes, modes)));
}

namespace {

bool checkReducedOperands(Operation &op, VerifyReporter &reporter) {
  if (op.numOperands() == 0) {
    reporter.error(op, ErrorCode::OperandCount, opText(op) + " takes at least 1 operand, not 0");
    return false;
  }
  if (op.numResults() != op.numOperands()) {
    reporter.error(op, ErrorCode::ResultCount,
                   opText(op) + " of " + countText(op.numOperands(), "operand") + " gives as many results, not " +
                       std::to_string(op.numResults()));
    return false;
  }
  Type first = op.operand(0)->type();
  if (!first.isTensor() && !first.isTile()) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " takes tensors or tiles, not " + operandText(op, 0));
    return false;
  }
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Type type = op.operand(i)->type();
    if (type.kind() != first.kind() || type.shape() != first.shape() || type.layout() != first.layout()) {
      reporter.error(op, type.kind() != first.kind() ? ErrorCode::OperandType : ErrorCode::ShapeMismatch,
                     opText(op) + " needs operands of one shape" + (first.layout() ? " and layout" : "") + ": " +
                         operandText(op, 0) + ", " + operandText(op, i));
      return false;
    }
    if (!op.info().dtypes.contains(type.dtype())) {
      reporter.error(op, ErrorCode::UnsupportedDType,
                     opText(op) + " does not support " + std::string(dtypeName(type.dtype())) + " (" + operandText(op, i) +
                         "), only " + op.info().dtypes.str());
      return false;
    }
  }
  return expectAxes(op, "axes", first.rank(), operandText(op, 0), true, reporter);
}

bool checkCombiner(Operation &op, VerifyReporter &reporter) {
  auto fail = [&](ErrorCode code, std::string why) {
    reporter.error(op, code, opText(op) + " " + std::move(why));
    return false;
  };
  bool hasWord = op.attr("combiner"), hasRegion = op.numRegions() != 0;
  if (hasWord == hasRegion)
    return fail(ErrorCode::BadRegion, hasWord ? "takes a combiner word or a combiner region, not both"
                                              : "needs a combiner: sum, max or min after `reduce`, or a region");
  const Attribute *init = op.attr("init");
  if (hasWord) {
    if (op.numOperands() != 1)
      return fail(ErrorCode::OperandCount,
                  std::string(op.wordAttr("combiner")) + " takes 1 operand, not " + std::to_string(op.numOperands()));
    return !init || fail(ErrorCode::BadAttribute, "takes `init` with a combiner region only; " +
                                                      std::string(op.wordAttr("combiner")) + " has its own identity");
  }
  if (!init)
    return fail(ErrorCode::MissingAttribute, "with a combiner region needs `init`: one identity of the combiner per operand");
  const AttributeList &identities = *init->asList();
  if (identities.size() != op.numOperands())
    return fail(ErrorCode::BadAttribute,
                "has " + countText(op.numOperands(), "operand") + " but `init` has " + countText(identities.size(), "number"));
  std::vector<std::string> wanted;
  for (unsigned i = 0; i < 2 * op.numOperands(); ++i)
    wanted.emplace_back(dtypeName(computeDType(op.operand(i % op.numOperands())->type().dtype())));
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (DType dtype = computeDType(op.operand(i)->type().dtype()); !numberFits(identities[i], dtype))
      return fail(ErrorCode::BadConstant, "has " + identities[i].str() + " in `init`, which is no value of " + wanted[i]);

  std::vector<std::string> given;
  for (Value *argument : op.region().arguments())
    given.push_back(argument->type().str());
  if (given != wanted)
    return fail(ErrorCode::BadRegion, "needs a region with the arguments (" + wordList(wanted, "") +
                                          "): what is accumulated, then what " + "comes in; it has (" + wordList(given, "") + ")");
  for (Operation &inner : op.region())
    if (!inner.info().elementwise && !inner.is(OpKind::Constant) && !inner.info().terminator) {
      reporter.error(inner, ErrorCode::BadRegion,
                     opText(inner) + " cannot stand in the combiner of " + opText(op) +
                         ", which holds scalar ops and constants only");
      return false;
    }
  return true;
}

bool checkReducedPieces(Operation &op, VerifyReporter &reporter) {
  if (op.attr("chunks") && !op.operand(0)->type().isTensor()) {
    reporter.error(op, ErrorCode::BadAttribute, opText(op) + " takes `chunks` in graphs only; on tiles, loops visit the pieces");
    return false;
  }
  size_t axes = op.intsAttr("axes").size();
  return checkChunks(op, countText(axes, "entry") + " in `axes`", axes, reporter);
}

/// `over`, `padding` and the axes' modes, which are matters of levels.
bool checkReduceLevel(Operation &op, VerifyReporter &reporter) {
  Level level = op.function().level;
  auto fail = [&](ErrorCode code, std::string why) {
    reporter.error(op, code, opText(op) + " " + std::move(why));
    return false;
  };
  if (op.attr("padding") && level != Level::Masked && level != Level::Machine)
    return fail(ErrorCode::BadAttribute, "takes `padding` from the masked level on, not at the " + std::string(levelName(level)) +
                                             " level: nothing is padded there");
  if (level != Level::Machine)
    return !op.attr("over") ||
           fail(ErrorCode::BadAttribute, "takes `over` at the machine level only, not at " + std::string(levelName(level)));
  if (!op.attr("over"))
    return fail(ErrorCode::MissingAttribute, "at the machine level needs `over = reg` or `over = lane`: which modes it reduces");
  if (op.wordAttr("over") == "lane")
    for (int64_t axis : op.intsAttr("axes"))
      for (const Mode &mode : op.operand(0)->type().layout()->reg)
        if (mode.axis == axis && mode.extent > 1)
          return fail(ErrorCode::BadLayout, "over lanes needs an axis without register modes, but axis " + std::to_string(axis) +
                                                " has " + "one: " + operandText(op, 0) + "; reduce `over = reg` first");
  return true;
}

} // namespace

void verifyReduce(Operation &op, VerifyReporter &reporter) {
  if (!checkReducedOperands(op, reporter) || !checkCombiner(op, reporter) || !checkReducedPieces(op, reporter) ||
      !checkReduceLevel(op, reporter))
    return;
  for (unsigned i = 0; i < op.numResults(); ++i) {
    Type expected = reducedType(op, i), stated = op.result(i)->type();
    if (stated.dtype() == computeDType(expected.dtype()))
      expected = op.module().context().withDType(expected, stated.dtype());
    // Layouts that differ in modes of extent 1 alone are the same map.
    if (expected.layout() && stated.layout() && expected.shape() == stated.shape() &&
        stated.layout()->normalized() == *expected.layout())
      expected = op.module().context().withLayout(expected, stated.layout());
    if (!expectResult(op, i, expected, reporter))
      return;
  }
  if (op.attr("padding"))
    reporter.warning(op, ErrorCode::UncheckedPadding,
                     opText(op) + " of " + operandText(op, 0) +
                         " says `padding = unchecked`: its padded lanes are combined as they are, and "
                         "nothing proves that they are neutral");
}

//===-- fusion and terminators
//-------------------------------------------------------------------------------------------------------===//

void verifyFusion(Operation &op, VerifyReporter &reporter) {
  if (op.parentOp()) {
    reporter.error(op, ErrorCode::BadStructure,
                   opText(op) + " stands inside the region of " + opText(*op.parentOp()) +
                       "; a fusion becomes one kernel and holds no other");
    return;
  }
  if (op.region().front() && op.region().front()->info().terminator) {
    reporter.error(op, ErrorCode::BadRegion, opText(op) + " has no operation in its region, so there are no loops to run").fix =
        "use the operands instead of its results";
    return;
  }
  std::span<Value *const> arguments = op.region().arguments();
  if (arguments.size() != op.numOperands()) {
    reporter.error(op, ErrorCode::BadRegion,
                   opText(op) + " has " + countText(op.numOperands(), "operand") + " but its region " +
                       countText(arguments.size(), "argument"));
    return;
  }
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (arguments[i]->type() != op.operand(i)->type()) {
      reporter
          .error(op, ErrorCode::BadRegion,
                 "argument " + std::to_string(i) + " of the region of " + opText(op) + " is " + arguments[i]->type().str() +
                     ", but the operand is " + operandText(op, i))
          .fix = "write `" + op.operand(i)->type().str() + "`";
      return;
    }
}

void verifyYield(Operation &op, VerifyReporter &reporter) {
  Operation *parent = op.parentOp();
  if (!parent)
    return; // Reported as a function without `return`.
  Context &context = op.module().context();
  std::vector<Type> wanted;
  if (parent->is(OpKind::Reduce)) {
    for (Value *operand : parent->operands())
      wanted.push_back(context.scalar(computeDType(operand->type().dtype())));
  } else {
    for (Value *result : parent->results())
      wanted.push_back(result->type());
  }
  if (op.numOperands() != wanted.size()) {
    reporter.error(op, ErrorCode::BadRegion,
                   opText(op) + " gives " + countText(op.numOperands(), "value") + ", but " + opText(*parent) + " needs " +
                       std::to_string(wanted.size()));
    return;
  }
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (op.operand(i)->type() != wanted[i])
      reporter.error(op, ErrorCode::BadRegion,
                     opText(op) + " gives " + operandText(op, i) + " as value " + std::to_string(i) + ", but " + opText(*parent) +
                         " needs " + wanted[i].str() + " there");
}

/// Outputs of a plan are distinct buffers, and none is an input.
static void checkPlanResults(Operation &op, VerifyReporter &reporter) {
  std::set<const Value *> taken;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    const Value *value = op.operand(i);
    bool isInput = !value->definition();
    if (!isInput && taken.insert(value).second)
      continue;
    reporter
        .error(op, ErrorCode::ReturnMismatch,
               opText(op) + " gives " + operandName(op, i) +
                   (isInput ? ", which is an input: outputs have memory of their own" : " twice: outputs are distinct buffers"))
        .fix = "return a `copy` of it";
    return;
  }
}

void verifyReturn(Operation &op, VerifyReporter &reporter) {
  Function &function = op.function();
  if (op.parentOp())
    return; // Reported as a region without `yield`.
  std::string who = std::string(functionKindName(function.kind)) + " @" + function.name;
  if (op.numOperands() != function.resultTypes.size()) {
    bool kernel = function.kind == FunctionKind::Kernel && function.resultTypes.empty();
    reporter.error(op, ErrorCode::ReturnMismatch,
                   opText(op) + " gives " + countText(op.numOperands(), "value") + ", but " + who +
                       (kernel ? " returns nothing; a kernel stores to its buffers"
                               : " has " + countText(function.resultTypes.size(), "result")));
    return;
  }
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (op.operand(i)->type() != function.resultTypes[i]) {
      std::string name = i < function.resultNames.size() ? "`" + function.resultNames[i] + "`" : std::to_string(i);
      reporter.error(op, ErrorCode::ReturnMismatch,
                     "result " + name + " of " + who + " is " + function.resultTypes[i].str() + ", but " + opText(op) + " gives " +
                         operandText(op, i));
    }
  if (function.kind == FunctionKind::Plan)
    checkPlanResults(op, reporter);
}

} // namespace minic
