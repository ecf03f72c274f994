#include "minic/Transforms/Analysis/Traffic.h"

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

class Counter {
public:
  explicit Counter(const DimBindings &dims) : dims(dims) {}

  void add(const Value *value) {
    if (!value || !seen.insert(value).second || failure)
      return;
    DimExpr size = value->type().numElements() * DimExpr(dtypeBytes(value->type().dtype()));
    auto bytes = size.evaluate(dims);
    if (bytes)
      total += *bytes;
    else
      failure = Diagnostic{.code = ErrorCode::UnboundDim,
                           .message = "the size of " + value->type().str() + " is not known",
                           .fix = "bind its names with --dim NAME=VALUE"};
  }
  void next(TrafficModel &model, std::string name) {
    model.ops.push_back({std::move(name), total});
    model.bytes += total;
    ++model.launches;
    total = 0;
    seen.clear();
  }
  std::optional<Diagnostic> failure;

private:
  const DimBindings &dims;
  std::set<const Value *> seen; // Membership only.
  int64_t total = 0;
};

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

Expected<TrafficModel> eagerTraffic(const Function &graph, const DimBindings &dims) {
  TrafficModel model;
  Counter counter(dims);
  for (Operation &op : graph.body()) {
    if (op.info().terminator || op.is(OpKind::Reshape) || (isFreeInRegion(op) && !isReturned(op)))
      continue;
    for (Value *operand : op.operands())
      counter.add(sourceOf(operand));
    for (Value *result : op.results())
      counter.add(result);
    counter.next(model, nameOf(op));
  }
  if (counter.failure)
    return *counter.failure;
  return model;
}

Expected<TrafficModel> fusedTraffic(const Function &fused, const DimBindings &dims) {
  TrafficModel model;
  Counter counter(dims);
  for (Operation &op : fused.body()) {
    if (op.is(OpKind::Custom)) {
      for (Value *value : op.operands())
        counter.add(value);
      for (Value *result : op.results())
        counter.add(result);
      counter.next(model, nameOf(op));
    }
    if (!op.is(OpKind::Fusion))
      continue;
    for (unsigned i = 0; i < op.numOperands(); ++i)
      for (const Use &use : op.region().argument(i)->uses())
        counter.add(readsFromMemory(*use.user, use.index) ? use.user->result() : op.operand(i));
    for (Value *result : op.results())
      counter.add(result);
    std::string name;
    for (Operation &inner : op.region())
      if (!inner.info().terminator && !isFreeInRegion(inner)) {
        std::string_view combiner = inner.wordAttr("combiner");
        name += (name.empty() ? "" : " + ") + std::string(combiner.empty() ? inner.info().name : combiner);
      }
    counter.next(model, name.empty() ? "copy" : name);
  }
  if (counter.failure)
    return *counter.failure;
  return model;
}

Expected<int64_t> matmulFlops(const Function &graph, const DimBindings &dims) {
  int64_t total = 0;
  std::optional<Diagnostic> failure;
  walk(graph.body(), [&](Operation &op) {
    if (op.info().axes != AxisRule::Contract)
      return;
    DimExpr flops = op.result()->type().numElements() * op.operand(0)->type().shape().back() * DimExpr(2);
    if (auto value = flops.evaluate(dims))
      total += *value;
    else
      failure = Diagnostic{.code = ErrorCode::UnboundDim, .message = "the size of a matmul is not known", .loc = op.loc()};
  });
  if (failure)
    return *failure;
  return total;
}

} // namespace minic
