#include "minic/Transforms/Analysis/Traffic.h"

#include "MatmulChoice.h"

#include "minic/IR/Schedule.h"
#include "minic/Transforms/Analysis/IterationSpace.h"

#include <set>

namespace minic {
namespace {

/// The tensor in memory that a value is read from, through free ops; null for constants. What is read at other indices counts as
/// many elements as are read.
const Value *sourceOf(const Value *value) {
  while (Operation *op = value->definition()) {
    if (op->is(OpKind::Iota) || op->is(OpKind::Size) || (op->is(OpKind::Constant) && op->attr("value")->asNumber()))
      return nullptr;
    if (!isFreeInRegion(*op) || op->is(OpKind::Constant) || readsFromMemory(*op, 0))
      break;
    value = op->operand(0);
  }
  return value;
}

/// Adds up formulas, and numbers where sizes are given.
class Counter {
public:
  explicit Counter(const DimBindings *dims) : dims(dims) {}

  void add(const Value *value) {
    if (!value || !seen.insert(value).second)
      return;
    DimExpr size = value->type().numElements() * DimExpr(dtypeBytes(value->type().dtype()));
    launch.byteFormula = launch.byteFormula + size;
    launch.bytes += evaluate(size, value->type());
  }
  void add(Work work, Type type) {
    work.flops = evaluate(work.formula, type);
    for (Work &same : launch.work)
      if (same.dtype == work.dtype && same.onTensorCores == work.onTensorCores && same.parts == work.parts) {
        same.formula = same.formula + work.formula;
        same.flops += work.flops;
        return;
      }
    launch.work.push_back(std::move(work));
  }
  void next(TrafficModel &model, const Operation &op, std::string name) {
    launch.name = std::move(name);
    launch.loc = op.loc();
    model.bytes += launch.bytes;
    ++model.launches;
    model.ops.push_back(std::move(launch));
    launch = {};
    seen.clear();
  }
  std::optional<Diagnostic> failure;

private:
  int64_t evaluate(const DimExpr &formula, Type type) {
    if (!dims || failure)
      return 0;
    if (auto number = formula.evaluate(*dims))
      return *number;
    failure = Diagnostic{.code = ErrorCode::UnboundDim,
                         .message = "the size of " + type.str() + " is not known",
                         .fix = "bind its names with --dim NAME=VALUE"};
    return 0;
  }

  const DimBindings *dims;
  std::set<const Value *> seen; // Membership only.
  OpTraffic launch;
};

DimExpr productFlops(const Operation &product) {
  return product.result()->type().numElements() * product.operand(0)->type().shape().back() * DimExpr(2);
}

/// What an op of a region computes; nothing if no floats are computed, only moved.
void addWork(const Operation &op, bool onTensorCores, Counter &counter) {
  if (op.numOperands() == 0 || isFreeInRegion(op) || !isFloat(op.operand(0)->type().dtype()))
    return;
  Work work{.dtype = op.operand(0)->type().dtype()};
  switch (op.info().axes) {
  case AxisRule::Contract: {
    auto form = onTensorCores ? tensorCoreForm(op) : std::nullopt;
    work.onTensorCores = form.has_value();
    work.parts = form && form->parts > 1 ? form->products : 1;
    work.formula = productFlops(op);
    break;
  }
  case AxisRule::Reduce:
  case AxisRule::Scan:
    work.formula = op.operand(0)->type().numElements() * DimExpr(op.numResults());
    break;
  default:
    if (!op.info().elementwise || op.is(OpKind::Convert) || op.is(OpKind::Bitcast) || op.is(OpKind::Select))
      return;
    work.formula = op.result()->type().numElements();
  }
  counter.add(std::move(work), op.operand(0)->type());
}

/// Whether a schedule gives products to tensor cores; cuBLASLt does wherever it can.
bool usesTensorCores(const Operation &fusion) {
  const Attribute *schedule = fusion.attr("schedule");
  const RecordAttr *record = schedule ? schedule->asRecord() : nullptr;
  return record && (record->name == "library" || record->find("unit"));
}

bool isReturned(const Operation &op) {
  for (Value *result : op.results())
    for (const Use &use : result->uses())
      if (use.user->is(OpKind::Return) || use.user->is(OpKind::Reshape) || use.user->is(OpKind::Custom))
        return true;
  return false;
}

std::string nameOf(const Operation &op) {
  std::string_view combiner = op.wordAttr("combiner");
  std::string name(combiner.empty() ? op.info().name : combiner);
  return op.numResults() && !op.result()->name().empty() ? name + " %" + op.result()->name() : name;
}

} // namespace

int64_t OpTraffic::flops() const {
  int64_t total = 0;
  for (const Work &part : work)
    total += part.flops;
  return total;
}

DimExpr OpTraffic::flopFormula() const {
  DimExpr total;
  for (const Work &part : work)
    total = total + part.formula;
  return total;
}

Expected<TrafficModel> eagerTraffic(const Function &graph, const DimBindings &dims) {
  TrafficModel model;
  Counter counter(&dims);
  for (Operation &op : graph.body()) {
    if (op.info().terminator || op.is(OpKind::Reshape) || (isFreeInRegion(op) && !isReturned(op)))
      continue;
    for (Value *operand : op.operands())
      counter.add(sourceOf(operand));
    for (Value *result : op.results())
      counter.add(result);
    counter.next(model, op, nameOf(op));
  }
  if (counter.failure)
    return *counter.failure;
  return model;
}

static TrafficModel countFused(const Function &fused, Counter &counter) {
  TrafficModel model;
  for (Operation &op : fused.body()) {
    if (op.is(OpKind::Custom)) {
      for (Value *value : op.operands())
        counter.add(value);
      for (Value *result : op.results())
        counter.add(result);
      counter.next(model, op, nameOf(op));
    }
    if (!op.is(OpKind::Fusion))
      continue;
    for (unsigned i = 0; i < op.numOperands(); ++i)
      for (const Use &use : op.region().argument(i)->uses())
        counter.add(readsFromMemory(*use.user, use.index) ? use.user->result() : op.operand(i));
    for (Value *result : op.results())
      counter.add(result);
    std::string name;
    for (Operation &inner : op.region()) {
      if (!inner.info().terminator && !isFreeInRegion(inner)) {
        std::string_view combiner = inner.wordAttr("combiner");
        name += (name.empty() ? "" : " + ") + std::string(combiner.empty() ? inner.info().name : combiner);
      }
      addWork(inner, usesTensorCores(op), counter);
    }
    counter.next(model, op, name.empty() ? "copy" : name);
  }
  return model;
}

Expected<TrafficModel> fusedTraffic(const Function &fused, const DimBindings &dims) {
  Counter counter(&dims);
  TrafficModel model = countFused(fused, counter);
  if (counter.failure)
    return *counter.failure;
  return model;
}

TrafficModel fusedFormulas(const Function &fused) {
  Counter counter(nullptr);
  return countFused(fused, counter);
}

Expected<int64_t> matmulFlops(const Function &graph, const DimBindings &dims) {
  int64_t total = 0;
  std::optional<Diagnostic> failure;
  walk(graph.body(), [&](Operation &op) {
    if (op.info().axes != AxisRule::Contract)
      return;
    if (auto value = productFlops(op).evaluate(dims))
      total += *value;
    else
      failure = Diagnostic{.code = ErrorCode::UnboundDim, .message = "the size of a matmul is not known", .loc = op.loc()};
  });
  if (failure)
    return *failure;
  return total;
}

} // namespace minic
