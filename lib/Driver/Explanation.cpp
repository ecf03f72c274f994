#include "minic/Driver/Explanation.h"

#include "minic/IR/Combiner.h"
#include "minic/Transforms/Analysis/Bounds.h"
#include "minic/Transforms/Analysis/Padding.h"

#include <algorithm>

namespace minic {
namespace {

std::string nameOf(const Value &value) { return "%" + value.name(); }

//===- Accesses -===//

std::string whyMasked(const DimExpr &size, int64_t lanes) {
  std::string block = std::to_string(lanes);
  if (size.isMultipleOf(lanes))
    return "where a block of " + block + " starts is not known to be a multiple of it";
  if (auto number = size.constant())
    return size.str() + " is no multiple of " + block + ": the last block has " + std::to_string(*number % lanes);
  return size.str() + " may be no multiple of " + block + ", which `where " + size.str() + " % " + block + " == 0` would say it is";
}

std::string whyProved(const DimExpr &size, int64_t lanes) {
  if (lanes == 1)
    return "indices are below " + size.str();
  if (size.isMultipleOf(lanes))
    return size.str() + " is a multiple of " + std::to_string(lanes);
  return "all blocks of " + std::to_string(lanes) + " end before " + size.str();
}

void addAccess(const Operation &op, const Function &kernel, std::vector<AccessFact> &facts) {
  std::vector<int64_t> mask = op.intsAttr("mask");
  std::vector<int64_t> dims = accessDims(op), extents = accessTile(op).extents();
  for (int64_t axis : dims) {
    if (axis < 0)
      continue;
    auto [index, size] = indexAlong(op, axis);
    bool isMasked = std::ranges::find(mask, axis) != mask.end();
    if (!index || (extents[size_t(axis)] == 1 && !isMasked))
      continue; // A single element at an index that the grid gives.
    int64_t lanes = extents[size_t(axis)];
    AccessFact fact{.kernel = kernel.name,
                    .what = std::string(op.info().name) + " " + nameOf(*accessBuffer(op)),
                    .loc = op.loc(),
                    .axis = axis,
                    .isMasked = isMasked,
                    .why = isMasked ? whyMasked(size, lanes) : whyProved(size, lanes)};
    if (const Attribute *fill = op.attr("fill"); fill && isMasked)
      fact.fill = fill->str();
    facts.push_back(std::move(fact));
  }
}

//===- Padding -===//

/// How the padding of a value came to be what it is, from the load on.
std::string proofOf(const Value &value, int64_t axis, int depth = 32) {
  const Operation *op = value.definition();
  if (!op || depth == 0)
    return "";
  PaddingFact fact = paddingOf(&value, axis);
  std::string number = fact.kind == PaddingFact::Known ? fact.value.toAttr(value.type().dtype()).str() : "";
  if (op->is(OpKind::Load))
    return "load " + nameOf(*accessBuffer(*op)) + " fills " + number;
  if (op->is(OpKind::Constant))
    return "a constant";
  if (op->is(OpKind::Select))
    return "a select puts " + number + " there";
  if (op->is(OpKind::Broadcast))
    return proofOf(*op->operand(0), axis, depth - 1);
  for (const Value *operand : op->operands())
    if (paddingOf(operand, axis).kind == PaddingFact::Known && operand->definition() &&
        !operand->definition()->is(OpKind::Constant))
      if (std::string before = proofOf(*operand, axis, depth - 1); !before.empty())
        return before + "; " + std::string(op->info().name) + " gives " + number;
  return std::string(op->info().name) + " gives " + number;
}

void addPaddings(const Operation &op, const Function &kernel, std::vector<PaddingProof> &facts) {
  bool isDot = op.is(OpKind::Dot);
  unsigned operands = isDot ? 2 : op.numOperands();
  for (int64_t axis : op.intsAttr("axes"))
    for (unsigned i = 0; i < operands; ++i) {
      const Value *value = op.operand(i);
      DType dtype = value->type().dtype();
      PaddingFact fact = paddingOf(value, axis);
      PaddingProof found{.kernel = kernel.name, .loc = op.loc(), .axis = axis};
      found.what = isDot ? i == 0 ? "dot, first operand" : "dot, second operand" : "reduce " + std::string(op.wordAttr("combiner"));
      const Attribute *init = op.attr("init");
      if (isDot)
        found.identity = Scalar{}.toAttr(dtype).str();
      else
        found.identity = init ? (*init->asList())[i].str() : reductionIdentity(op.wordAttr("combiner"), dtype).str();
      if (fact.kind == PaddingFact::None) {
        found.padding = "none";
        found.proof = "every access along the axis is proved in bounds";
      } else if (fact.kind == PaddingFact::Known) {
        found.padding = fact.value.toAttr(dtype).str();
        found.proof = proofOf(*value, axis);
      } else {
        found.padding = "unknown";
        found.proof = op.attr("padding") ? "not checked, by `padding = unchecked`" : "";
      }
      facts.push_back(std::move(found));
    }
}

} // namespace

void explainMasks(const Module &module, Explanation &explanation) {
  for (Function *function : module.functions())
    if (function->kind == FunctionKind::Kernel && function->level == Level::Masked)
      walk(function->body(), [&](Operation &op) {
        if (op.is(OpKind::Load) || op.is(OpKind::Store))
          addAccess(op, *function, explanation.accesses);
        if (op.is(OpKind::Reduce) || op.is(OpKind::Dot))
          addPaddings(op, *function, explanation.paddings);
      });
}

Expected<Explanation> explain(Module &module, const CompileOptions &options) {
  CompileOptions reported = options;
  reported.fusionReport = std::make_shared<FusionReport>();
  Explanation result;
  auto regions = regionChoices(module, reported);
  if (!regions)
    return regions.takeErrors();
  result.regions = std::move(*regions);
  result.fusion = std::move(*reported.fusionReport);
  auto graph = chooseGraph(module, options.graph);
  if (!graph)
    return graph.takeErrors();
  result.customs = customUses(**graph);
  CompileOptions rest = options;
  rest.dims.clear(); // They are bound.
  rest.specializations.clear();
  rest.scheduleReport.reset(); // The first lowering told it.
  if (auto lowered = lowerTo(module, Stage::Masked, rest); !lowered)
    return lowered.takeErrors();
  explainMasks(module, result);
  return result;
}

} // namespace minic
