// Hooks of TileOps.def.
#include "OpVerify.h"

#include "minic/IR/Verifier.h"

#include <algorithm>
#include <bit>

namespace minic {

void verifyProgramId(Operation &op, VerifyReporter &reporter) {
  size_t axes = op.dimsAttr("grid").size();
  if (op.numResults() != axes) {
    reporter.error(op, ErrorCode::ResultCount,
                   opText(op) + " over a grid of " + countText(axes, "axis") + " gives as many results, not " +
                       std::to_string(op.numResults()));
    return;
  }
  for (unsigned i = 0; i < op.numResults(); ++i)
    expectResult(op, i, op.module().context().index(), reporter);
}

void verifyDim(Operation &op, VerifyReporter &reporter) { expectResult(op, 0, op.module().context().index(), reporter); }

void verifyRanges(Operation &op, VerifyReporter &reporter) {
  const Attribute *ranges = op.attr("ranges");
  if (!ranges)
    return;
  const AttributeList &bounds = *ranges->asList();
  bool isOrdered = bounds.size() == 2 * op.numOperands();
  for (size_t i = 0; isOrdered && i < bounds.size(); i += 2)
    isOrdered = *bounds[i].asNumber() <= *bounds[i + 1].asNumber();
  if (!isOrdered)
    reporter.error(op, ErrorCode::BadAttribute, opText(op) + ": ranges are two numbers for each operand, the lesser one first");
}

//===-- for
//--------------------------------------------------------------------------------------------------------------------------===//

void verifyFor(Operation &op, VerifyReporter &reporter) {
  for (unsigned i = 0; i < 3; ++i)
    if (!expectIndex(op, i, reporter))
      return;
  if (Operation *step = op.operand(2)->definition(); step && step->is(OpKind::Constant))
    if (const Attribute *value = step->attr("value"); value && value->asInt() && *value->asInt() <= 0) {
      reporter.error(op, ErrorCode::BadConstant,
                     opText(op) + " needs a step greater than 0, but " + operandName(op, 2) + " is " + value->str() +
                         ": the loop would not end");
      return;
    }
  unsigned carried = op.numOperands() - 3;
  if (op.numResults() != carried) {
    reporter.error(op, ErrorCode::ResultCount,
                   opText(op) + " carries " + countText(carried, "value") + " and gives as many results, not " +
                       std::to_string(op.numResults()));
    return;
  }
  std::span<Value *const> arguments = op.region().arguments();
  if (arguments.size() != carried + 1 || !arguments[0]->type().isIndex()) {
    std::string given =
        arguments.empty() ? "none" : countText(arguments.size(), "argument") + ", the first " + arguments[0]->type().str();
    reporter.error(op, ErrorCode::BadRegion,
                   "the region of " + opText(op) + " needs " + countText(carried + 1, "argument") +
                       ", the first an index, the rest what it carries; it has " + given);
    return;
  }
  for (unsigned i = 0; i < carried; ++i) {
    Type type = op.operand(i + 3)->type();
    if (!type.isTile() && !type.isScalar() && !type.isInflight()) {
      reporter.error(op, ErrorCode::OperandType, opText(op) + " carries tiles and scalars, not " + operandText(op, i + 3));
      return;
    }
    if (arguments[i + 1]->type() != type) {
      reporter
          .error(op, ErrorCode::BadRegion,
                 "argument " + std::to_string(i + 1) + " of the region of " + opText(op) + " is " + arguments[i + 1]->type().str() +
                     ", but it starts as " + operandText(op, i + 3))
          .fix = "write `" + type.str() + "`";
      return;
    }
    if (!expectResult(op, i, type, reporter))
      return;
  }
  for (unsigned i = 0; op.attr("unroll") && i < 3; ++i)
    if (Operation *bound = op.operand(i)->definition(); !bound || !bound->is(OpKind::Constant)) {
      reporter.error(op, ErrorCode::BadAttribute,
                     opText(op) + " with `unroll` needs constant bounds, but " + operandName(op, i) + " is none");
      return;
    }
  checkInflightSlots(op, reporter);
}

//===-- load and store
//---------------------------------------------------------------------------------------------------------------===//

namespace {

/// What load and store share: which operand is the buffer, and the tile that is read or written.
struct Access {
  unsigned buffer;
  Type tile;
  std::string tileText;
};

/// Each lane has an index of its own along the buffer's axis.
bool hasOwnIndices(const Operation &op, const Access &access, size_t axis) {
  return op.operand(access.buffer + 1 + unsigned(axis))->type().isTile();
}

/// The tile axis of each buffer axis; nullopt after a report.
std::optional<std::vector<int64_t>> checkDims(Operation &op, const Access &access, VerifyReporter &reporter) {
  Type buffer = op.operand(access.buffer)->type();
  size_t axes = size_t(buffer.rank());
  std::string both = operandText(op, access.buffer) + ", " + access.tileText;
  std::vector<int64_t> dims;
  if (op.attr("dims")) {
    dims = op.intsAttr("dims");
    if (dims.size() != axes) {
      reporter.error(op, ErrorCode::BadAttribute,
                     "`dims` of " + opText(op) + " is " + intsText(dims) + ", not one tile axis for each of the " +
                         countText(axes, "axis") + " of " + operandText(op, access.buffer));
      return std::nullopt;
    }
    // -1 stands where lanes have indices of their own, at the machine level where all have one; the others are distinct axes.
    std::vector<int64_t> axesOnly = dims;
    for (size_t a = axes; a-- > 0;)
      if (dims[a] == -1 && (op.function().level == Level::Machine || hasOwnIndices(op, access, a)))
        axesOnly.erase(axesOnly.begin() + int64_t(a));
    if (!expectAxes(op, "dims", axesOnly, access.tile.rank(), access.tile.str(), false, reporter))
      return std::nullopt;
  } else {
    if (access.tile.rank() != buffer.rank()) {
      reporter.error(op, ErrorCode::ShapeMismatch, opText(op) + " needs a tile and a buffer of one rank, or `dims`: " + both).fix =
          "add `dims = [...]`, the tile axis of each buffer axis";
      return std::nullopt;
    }
    for (size_t a = 0; a < axes; ++a)
      dims.push_back(int64_t(a));
  }
  bool ownIndices = false;
  for (size_t a = 0; a < axes; ++a)
    ownIndices |= hasOwnIndices(op, access, a);
  for (int t = 0; t < access.tile.rank(); ++t)
    if (std::find(dims.begin(), dims.end(), t) == dims.end() && !ownIndices && !access.tile.shape()[size_t(t)].isConstant(1)) {
      reporter.error(op, ErrorCode::ShapeMismatch,
                     opText(op) + ": tile axis " + std::to_string(t) +
                         " is no axis of the buffer, so its extent must be 1: " + both);
      return std::nullopt;
    }
  return dims;
}

bool checkFill(Operation &op, const Access &access, VerifyReporter &reporter) {
  const Attribute *fill = op.attr("fill");
  if (!fill || numberFits(*fill, access.tile.dtype()))
    return true;
  reporter.error(op, ErrorCode::BadConstant,
                 "`fill` of " + opText(op) + " is " + fill->str() + ", which is no value of " +
                     std::string(dtypeName(access.tile.dtype())));
  return false;
}

/// One positive step per buffer axis, where there are any.
bool checkSteps(Operation &op, const Access &access, VerifyReporter &reporter) {
  if (!op.attr("steps"))
    return true;
  std::vector<int64_t> steps = op.intsAttr("steps");
  if (int(steps.size()) == op.operand(access.buffer)->type().rank() &&
      std::all_of(steps.begin(), steps.end(), [](int64_t step) { return step >= 1 && step <= int64_t(1) << 40; }))
    return true;
  reporter.error(op, ErrorCode::BadAttribute,
                 "`steps` of " + opText(op) + " is " + intsText(steps) + ", not one positive number for each axis of " +
                     operandText(op, access.buffer));
  return false;
}

bool checkMask(Operation &op, const Access &access, const std::vector<int64_t> &dims, VerifyReporter &reporter) {
  Level level = op.function().level;
  const Attribute *mask = op.attr("mask");
  if (level == Level::Tile) {
    if (op.attr("mask")) {
      reporter.error(op, ErrorCode::BadAttribute,
                     opText(op) + " takes `mask` from the masked level on; at the tile level every axis is checked");
      return false;
    }
    return checkFill(op, access, reporter);
  }
  if (!mask) {
    reporter
        .error(op, ErrorCode::MissingAttribute,
               opText(op) + " at the " + std::string(levelName(level)) +
                   " level needs `mask`, the tile axes along which it is checked")
        .fix = "add `mask = []` if every lane is in bounds";
    return false;
  }
  if (!expectAxes(op, "mask", access.tile.rank(), access.tile.str(), false, reporter))
    return false;
  for (int64_t axis : op.intsAttr("mask"))
    if (std::find(dims.begin(), dims.end(), axis) == dims.end()) {
      reporter.error(op, ErrorCode::BadAxis,
                     "`mask` of " + opText(op) + " is " + intsText(op.intsAttr("mask")) + ", but no axis of " +
                         operandText(op, access.buffer) + " is tile axis " + std::to_string(axis));
      return false;
    }
  if (op.attr("fill") && op.intsAttr("mask").empty()) {
    reporter.error(op, ErrorCode::BadAttribute, opText(op) + " has `fill` but no masked axis that would be filled").fix =
        "leave `fill` out";
    return false;
  }
  return checkFill(op, access, reporter);
}

void checkVec(Operation &op, const Access &access, const std::vector<int64_t> &dims, VerifyReporter &reporter) {
  if (op.function().level != Level::Machine) {
    for (std::string_view name : {"vec", "cache", "edges"})
      if (op.attr(name))
        reporter.error(op, ErrorCode::BadAttribute,
                       opText(op) + " takes `" + std::string(name) + "` at the machine level only, not at the " +
                           std::string(levelName(op.function().level)) + " level");
    return;
  }
  if (!op.attr("vec")) {
    reporter.error(op, ErrorCode::MissingAttribute, opText(op) + " at the machine level needs `vec`, the elements of one access")
        .fix = "add `vec = 1`";
    return;
  }
  int64_t vec = op.intAttr("vec"), bytes = dtypeBytes(access.tile.dtype());
  if (vec < 1 || vec > 16 / bytes || !std::has_single_bit(uint64_t(vec))) {
    reporter.error(op, ErrorCode::BadAttribute,
                   "`vec` of " + opText(op) + " is " + std::to_string(vec) +
                       ", but one access moves a power of two of elements, at most 16 bytes: at most " +
                       std::to_string(16 / bytes) + " of " + std::string(dtypeName(access.tile.dtype())));
    return;
  }
  std::vector<int64_t> mask = op.optionalInts("mask");
  if (op.attr("edges") && (vec == 1 || dims.empty() || std::ranges::count(mask, dims.back()) == 0)) {
    reporter.error(op, ErrorCode::BadAttribute,
                   opText(op) +
                       " has `edges`, which are those of vectors along a masked axis: it needs vec > 1 and that axis in `mask`");
    return;
  }
  if (vec == 1)
    return;
  if (Type buffer = op.operand(access.buffer)->type(); buffer.isStrided()) {
    reporter
        .error(op, ErrorCode::BadLayout,
               opText(op) + " has vec = " + std::to_string(vec) + ", but elements of " + buffer.str() + " need not be neighbours")
        .fix = "write `vec = 1`";
    return;
  }
  const std::vector<Mode> &modes = access.tile.layout()->reg;
  bool contiguous =
      !dims.empty() && !modes.empty() && modes[0].axis == dims.back() && modes[0].extent % vec == 0 && modes[0].stride == 1;
  if (!contiguous)
    reporter.error(op, ErrorCode::BadLayout,
                   opText(op) + " has vec = " + std::to_string(vec) + ", so the first register mode of " + access.tileText +
                       " must be a multiple of it long, of stride 1, along the tile axis of the buffer's last axis" +
                       (dims.empty() ? "" : " (axis " + std::to_string(dims.back()) + ")"));
}

void checkAccess(Operation &op, const Access &access, VerifyReporter &reporter) {
  if (!expectOperand(op, access.buffer, TypeKind::Buffer, reporter))
    return;
  Type buffer = op.operand(access.buffer)->type();
  unsigned indices = op.numOperands() - access.buffer - 1;
  if (int64_t(indices) != buffer.rank()) {
    reporter.error(op, ErrorCode::OperandCount,
                   opText(op) + " needs one index for each axis of " + operandText(op, access.buffer) + ", " +
                       countText(size_t(buffer.rank()), "index") + ", not " + std::to_string(indices));
    return;
  }
  for (unsigned i = access.buffer + 1; i < op.numOperands(); ++i) {
    Type index = op.operand(i)->type();
    if (!op.is(OpKind::Load) || !index.isTile()) {
      if (!expectIndex(op, i, reporter))
        return;
    } else if ((index.dtype() != DType::I32 && index.dtype() != DType::I64) || index.shape() != access.tile.shape() ||
               index.layout() != access.tile.layout()) {
      reporter.error(op, ErrorCode::OperandType,
                     opText(op) + " takes as index a tile of i32 or i64 that lies as its result, " + access.tile.str() + ", not " +
                         operandText(op, i));
      return;
    }
  }
  auto dims = checkDims(op, access, reporter);
  if (dims && checkSteps(op, access, reporter) && checkMask(op, access, *dims, reporter))
    checkVec(op, access, *dims, reporter);
}

} // namespace

void verifyLoad(Operation &op, VerifyReporter &reporter) {
  Type tile = op.result()->type();
  if (!expectOperand(op, 0, TypeKind::Buffer, reporter))
    return;
  DType dtype = op.operand(0)->type().dtype();
  if (!tile.isTile()) {
    reporter.error(op, ErrorCode::TypeMismatch,
                   opText(op) + ": expected a tile of " + std::string(dtypeName(dtype)) + ", stated " + tile.str());
    return;
  }
  if (expectResult(op, 0, op.module().context().withDType(tile, dtype), reporter))
    checkAccess(op, {0, tile, "the tile: " + tile.str()}, reporter);
}

void verifyStore(Operation &op, VerifyReporter &reporter) {
  if (!expectOperand(op, 0, TypeKind::Tile, reporter) || !expectOperand(op, 1, TypeKind::Buffer, reporter))
    return;
  Type tile = op.operand(0)->type(), buffer = op.operand(1)->type();
  if (tile.dtype() != buffer.dtype()) {
    reporter
        .error(op, ErrorCode::OperandType,
               opText(op) + " needs a tile and a buffer of one element type: " + operandText(op, 0) + ", " + operandText(op, 1))
        .fix = "convert " + operandName(op, 0) + " to " + std::string(dtypeName(buffer.dtype())) + " first";
    return;
  }
  checkAccess(op, {1, tile, operandText(op, 0)}, reporter);
}

//===-- Other tile ops
//---------------------------------------------------------------------------------------------------------------===//

void verifyInBounds(Operation &op, VerifyReporter &reporter) {
  Type tile = op.result()->type();
  int64_t axis = op.intAttr("axis");
  if (!expectIndex(op, 0, reporter))
    return;
  if (!tile.isTile() || tile.dtype() != DType::I1) {
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected a tile of i1, stated " + tile.str());
    return;
  }
  if (axis < 0 || axis >= tile.rank()) {
    reporter.error(op, ErrorCode::BadAxis,
                   "`axis` of " + opText(op) + " is " + std::to_string(axis) + ", which is no axis of " + tile.str());
    return;
  }
  for (int a = 0; a < tile.rank(); ++a)
    if (a != axis && !tile.shape()[size_t(a)].isConstant(1)) {
      reporter.error(op, ErrorCode::ShapeMismatch,
                     opText(op) + " along axis " + std::to_string(axis) +
                         " gives a tile with extent 1 along every other axis, not " + tile.str());
      return;
    }
}

namespace {

bool checkDotShapes(Operation &op, VerifyReporter &reporter) {
  std::string all = ": " + operandText(op, 0) + ", " + operandText(op, 1) + ", " + operandText(op, 2);
  Type lhs = op.operand(0)->type(), rhs = op.operand(1)->type(), acc = op.operand(2)->type();
  if (lhs.rank() != acc.rank() || rhs.rank() != acc.rank()) {
    reporter.error(op, ErrorCode::ShapeMismatch, opText(op) + " needs operands of one rank" + all);
    return false;
  }
  if (!expectAxes(op, "axes", acc.rank(), operandText(op, 2), true, reporter))
    return false;
  std::vector<int64_t> axes = op.intsAttr("axes");
  for (size_t a = 0; a < acc.shape().size(); ++a) {
    const DimExpr &left = lhs.shape()[a], &right = rhs.shape()[a], &sum = acc.shape()[a];
    std::string axis = "axis " + std::to_string(a);
    if (std::find(axes.begin(), axes.end(), int64_t(a)) != axes.end()) {
      if (left != right) {
        reporter.error(op, ErrorCode::ContractedMismatch,
                       opText(op) + " contracts " + axis + ", so the extents of its operands there (" + left.str() + ", " +
                           right.str() + ") must be equal" + all);
        return false;
      }
      if (!sum.isConstant(1)) {
        reporter.error(op, ErrorCode::ShapeMismatch,
                       opText(op) + " contracts " + axis + ", so the accumulator has extent 1 there" + all);
        return false;
      }
    } else if ((left != sum && !left.isConstant(1)) || (right != sum && !right.isConstant(1))) {
      reporter.error(op, ErrorCode::ShapeMismatch,
                     opText(op) + " needs equal extents along " + axis + ", where lhs and rhs may also have 1" + all);
      return false;
    }
  }
  return true;
}

} // namespace

void verifyDot(Operation &op, VerifyReporter &reporter) {
  bool machine = op.function().level == Level::Machine;
  TypeKind source = machine ? TypeKind::Smem : TypeKind::Tile;
  if (!expectOperand(op, 0, source, reporter) || !expectOperand(op, 1, source, reporter) ||
      !expectOperand(op, 2, TypeKind::Tile, reporter))
    return;
  DType left = op.operand(0)->type().dtype(), right = op.operand(1)->type().dtype(), sum = op.operand(2)->type().dtype();
  if (left != right || sum != computeDType(left)) {
    reporter.error(op, ErrorCode::OperandType,
                   opText(op) + " needs lhs and rhs of one element type and an accumulator of " +
                       std::string(dtypeName(computeDType(left))) + ": " + operandText(op, 0) + ", " + operandText(op, 1) + ", " +
                       operandText(op, 2));
    return;
  }
  if (expectPrecision(op, reporter) && checkDotShapes(op, reporter))
    expectResult(op, 0, op.operand(2)->type(), reporter);
}

//===-- Plans
//------------------------------------------------------------------------------------------------------------------------===//

namespace {

bool sameFactors(const DimExpr &a, const DimExpr &b) { return a * DimExpr(b.getCoefficient()) == b * DimExpr(a.getCoefficient()); }

} // namespace

/// alloc, view and copy, which give buffers.
void verifyPlanMemory(Operation &op, VerifyReporter &reporter) {
  Type to = op.result()->type();
  if (!to.isBuffer()) {
    reporter.error(op, ErrorCode::TypeMismatch, opText(op) + ": expected a buffer, stated " + to.str());
    return;
  }
  if (op.is(OpKind::Alloc)) {
    auto isReturn = [](const Use &use) { return use.user->is(OpKind::Return); };
    if (to.isStrided() && std::ranges::none_of(op.result()->uses(), isReturn))
      reporter
          .error(op, ErrorCode::TypeMismatch,
                 opText(op) + " gives " + to.str() + ", and only what a caller passes has strides of its own")
          .fix = "return it, or leave `strided` out";
    return;
  }
  if (!expectOperand(op, 0, TypeKind::Buffer, reporter))
    return;
  Type from = op.operand(0)->type();
  if (from.isStrided() || to.isStrided()) {
    reporter
        .error(op, ErrorCode::TypeMismatch,
               opText(op) + " takes and gives row-major memory: " + operandText(op, 0) + ", stated " + to.str())
        .fix = "launch a kernel that copies it";
    return;
  }
  if (op.is(OpKind::Copy)) {
    expectResult(op, 0, from, reporter);
    return;
  }
  // Sizes that are not the same expression up to a factor are compared when they are known, at run time.
  DimExpr had = from.numElements() * DimExpr(dtypeBytes(from.dtype())), taken = to.numElements() * DimExpr(dtypeBytes(to.dtype()));
  if (sameFactors(had, taken) && taken.getCoefficient() > had.getCoefficient())
    reporter.error(op, ErrorCode::ShapeMismatch,
                   opText(op) + " takes more bytes than there are: " + operandText(op, 0) + " has " + had.str() + ", " + to.str() +
                       " takes " + taken.str());
}

void verifyLaunch(Operation &op, VerifyReporter &reporter) {
  const std::string &name = op.attr("kernel")->asSymbol()->name;
  Function *kernel = op.module().find(name);
  if (!kernel || kernel->kind != FunctionKind::Kernel) {
    std::vector<std::string> kernels;
    for (Function *function : op.module().functions())
      if (function->kind == FunctionKind::Kernel && kernels.size() < 100)
        kernels.push_back(function->name);
    Diagnostic &diagnostic = reporter.error(op, ErrorCode::UnknownFunction,
                                            kernel ? "@" + name + " is a " + std::string(functionKindName(kernel->kind)) +
                                                         ", and " + opText(op) + " runs kernels"
                                                   : "no kernel is named @" + name);
    if (std::string meant = didYouMean(name, kernels); !meant.empty())
      diagnostic.fix = "did you mean `@" + meant + "`?";
    return;
  }
  auto mismatch = [&](std::string why) {
    reporter.error(op, ErrorCode::LaunchMismatch, opText(op) + " of @" + name + " " + std::move(why))
        .note("the kernel", kernel->loc);
  };
  if (!kernel->resultTypes.empty())
    return mismatch("runs a function that returns scalars, which is no kernel of its own");
  if (op.numOperands() != kernel->params().size())
    return mismatch("gives " + countText(op.numOperands(), "buffer") + ", but the kernel has " +
                    countText(kernel->params().size(), "parameter"));
  for (unsigned i = 0; i < op.numOperands(); ++i)
    if (Type wanted = kernel->params()[i]->type(); op.operand(i)->type() != wanted)
      return mismatch("gives " + operandText(op, i) + " for parameter %" + kernel->params()[i]->name() + ": " + wanted.str());
  const std::vector<DimFact> &known = op.function().facts;
  for (const DimFact &fact : kernel->facts)
    if (std::ranges::find(known, fact) == known.end())
      return mismatch("is not for sizes where " + fact.str() + ", as the kernel is");
  const Attribute *grid = nullptr;
  walk(kernel->body(), [&](Operation &inner) {
    if (!grid && inner.is(OpKind::ProgramId))
      grid = inner.attr("grid");
  });
  // A kernel that does not ask where it stands runs on any grid.
  if (grid && *op.attr("grid") != *grid)
    mismatch("has grid " + op.attr("grid")->str() + ", but the kernel's program_id says " + grid->str());
}

} // namespace minic
