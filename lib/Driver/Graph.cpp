#include "minic/Driver/Graph.h"

#include "GraphState.h"

#include <algorithm>

namespace minic {

DType Tensor::dtype() const { return value ? value->type().dtype() : DType::F32; }
std::vector<DimExpr> Tensor::shape() const { return value ? value->type().shape() : std::vector<DimExpr>(); }

Dim::Dim(std::string_view text) : expr(parseDimExpr(text)), text(text) {}

//===- Graphs -===//

Graph::Graph(std::string_view name, std::source_location at) : state(std::make_shared<GraphState>(name, at)) {}

/// Table entries as nested lists along the axes from `axis` on; moves `next` past them.
static Attribute tableOf(const HostTensor &values, size_t axis, int64_t &next) {
  if (axis == values.shape().size()) {
    int64_t at = next++;
    if (values.dtype() == DType::I64 || values.dtype() == DType::Index)
      return values.as<int64_t>()[at]; // Which f64 does not hold.
    double value = values.get(at);
    return isFloat(values.dtype()) ? Attribute(value) : Attribute(int64_t(value));
  }
  AttributeList list;
  for (int64_t i = 0; i < values.shape()[axis]; ++i)
    list.push_back(tableOf(values, axis + 1, next));
  return list;
}

Tensor Graph::constant(Operand number, DType dtype, const Shape &shape) {
  std::source_location at = GraphState::placeOf(number);
  auto sizes = state->dims(shape, "constant", at);
  if (!sizes || !state->checkDType(dtype, "constant", at))
    return state->tensor(nullptr);
  return state->tensor(state->constant(state->context.tensor(dtype, std::move(*sizes)), GraphState::numberOf(number), at));
}

Tensor Graph::constant(const HostTensor &values, std::source_location at) {
  std::vector<DimExpr> shape(values.shape().begin(), values.shape().end());
  int64_t next = 0;
  return state->tensor(state->constant(state->context.tensor(values.dtype(), std::move(shape)), tableOf(values, 0, next), at));
}

Tensor Graph::input(std::string_view name, DType dtype, const Shape &shape, std::source_location at) {
  return state->input(name, dtype, shape, at);
}

void Graph::output(std::string_view name, Operand tensor) { state->output(name, tensor); }
void Graph::declare(std::string_view text, std::source_location at) { state->declare(text, at); }

std::vector<Tensor> Graph::custom(std::string_view name, const std::vector<Operand> &operands, std::source_location at) {
  std::vector<Tensor> results;
  for (Value *value : state->custom(name, operands, at))
    results.push_back(state->tensor(value));
  return results;
}

std::string Graph::text() const { return state->text(); }
Diagnostics Graph::errors() const { return state->errors(); }
void Graph::addOrigins(Diagnostics &findings) const { state->addOrigins(findings); }
std::vector<FileLoc> Graph::origins() const { return state->origins(); }

//===- Element-wise ops -===//

/// The shape that all have after broadcasting; nullopt if there is none.
static std::optional<std::vector<DimExpr>> commonShape(std::span<const std::vector<DimExpr>> shapes) {
  std::vector<DimExpr> common;
  for (const std::vector<DimExpr> &shape : shapes) {
    if (shape.size() > common.size())
      common.insert(common.begin(), shape.size() - common.size(), 1);
    for (size_t i = 1; i <= shape.size(); ++i) {
      DimExpr &size = common[common.size() - i];
      const DimExpr &other = shape[shape.size() - i];
      if (size.isConstant(1))
        size = other;
      else if (size != other && !other.isConstant(1))
        return std::nullopt;
    }
  }
  return common;
}

Tensor elementwise(OpKind kind, const std::vector<Operand> &operands, std::string_view word) {
  const OpInfo &info = opInfo(kind);
  GraphState::Call call = GraphState::call(info.name, operands, true);
  if (!call.sound)
    return call.invalid();
  GraphState &graph = *call.graph;
  if (!info.elementwise) {
    graph.report({.code = ErrorCode::UnknownOp, .message = "`" + call.op + "` is no element-wise op"}, call.at);
    return call.invalid();
  }
  std::vector<std::vector<DimExpr>> shapes;
  Type model; // Of the tensor whose element type numbers take.
  bool isSelect = info.typeRule == TypeRule::Select;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!call.values[i])
      continue;
    shapes.push_back(call.values[i]->type().shape());
    if (!model && !(isSelect && i == 0))
      model = call.values[i]->type();
  }
  if (!model) {
    graph.report({.code = ErrorCode::OperandType,
                  .message = "`" + call.op + "` has numbers alone to choose from, which have no element type",
                  .fix = "make one a tensor with Graph::constant"},
                 call.at);
    return call.invalid();
  }
  // Shapes that do not fit stay as they are: the op's row says what is wrong.
  auto common = commonShape(shapes);
  for (size_t i = 0; i < operands.size(); ++i) {
    Value *&value = call.values[i];
    const Attribute &number = GraphState::numberOf(operands[i]);
    Type type = common ? graph.context.withShape(model, *common) : model;
    if (number)
      value = graph.constant(isSelect && i == 0 ? graph.context.withDType(type, DType::I1) : type, number, call.at);
    else if (common && value->type().shape() != *common)
      value = graph.broadcast(value, *common, std::nullopt, call.at);
    if (!value)
      return call.invalid();
  }
  std::vector<NamedAttribute> attrs;
  if (!word.empty())
    attrs.push_back({std::string(info.word ? info.word->name : "word"), Attribute::word(std::string(word))});
  return call.tensor(graph.make(kind, call.values, std::move(attrs), call.at));
}

Tensor convert(Operand x, DType to) {
  GraphState::Call call = GraphState::call("convert", {&x, 1}, false);
  if (!call.sound || !call.graph->checkDType(to, call.op, call.at))
    return call.invalid();
  if (call.values[0]->type().dtype() == to)
    return call.tensor(call.values[0]);
  return call.tensor(call.graph->make(OpKind::Convert, call.values, {}, call.at, to, call.values[0]->type()));
}

//===- Ops with structure -===//

Tensor broadcast(Operand x, const Shape &shape, std::optional<std::vector<int64_t>> dims) {
  GraphState::Call call = GraphState::call("broadcast", {&x, 1}, false);
  auto sizes = call.sound ? call.graph->dims(shape, call.op, call.at) : std::nullopt;
  if (!sizes)
    return call.invalid();
  return call.tensor(call.graph->broadcast(call.values[0], std::move(*sizes), std::move(dims), call.at));
}

Tensor reshape(Operand x, const Shape &shape) {
  GraphState::Call call = GraphState::call("reshape", {&x, 1}, false);
  auto sizes = call.sound ? call.graph->dims(shape, call.op, call.at) : std::nullopt;
  if (!sizes)
    return call.invalid();
  Type type = call.graph->context.tensor(call.values[0]->type().dtype(), std::move(*sizes));
  return call.tensor(call.graph->make(OpKind::Reshape, call.values, {}, call.at, std::nullopt, type));
}

Tensor transpose(Operand x, std::optional<std::vector<int64_t>> perm) {
  GraphState::Call call = GraphState::call("transpose", {&x, 1}, false);
  if (!call.sound)
    return call.invalid();
  if (!perm) {
    perm.emplace();
    for (int64_t axis = call.values[0]->type().rank(); axis-- > 0;)
      perm->push_back(axis);
  }
  return call.tensor(call.graph->make(OpKind::Transpose, call.values, {{"perm", Attribute::ints(*perm)}}, call.at));
}

Tensor matmul(Operand a, Operand b, std::optional<DType> as) {
  GraphState::Call call = GraphState::call("matmul", std::vector{std::move(a), std::move(b)}, false);
  if (!call.sound)
    return call.invalid();
  return call.tensor(call.graph->make(OpKind::Matmul, call.values, {}, call.at, as));
}

/// The result of a reduction over `reduced`, with these axes of size 1 if they are kept.
static Tensor keptDims(GraphState::Call &call, Value *value, const std::vector<int64_t> &reduced, bool keepDims) {
  if (!value || !keepDims)
    return call.tensor(value);
  Type from = call.values[0]->type();
  std::vector<DimExpr> shape = from.shape();
  std::vector<int64_t> kept;
  for (int64_t axis = 0; axis < from.rank(); ++axis)
    if (std::binary_search(reduced.begin(), reduced.end(), axis))
      shape[size_t(axis)] = 1;
    else
      kept.push_back(axis);
  return call.tensor(call.graph->broadcast(value, std::move(shape), std::move(kept), call.at));
}

static Tensor reduceBy(std::string_view combiner, const Operand &x, const Axes &axes, bool keepDims, std::optional<DType> as) {
  GraphState::Call call = GraphState::call("reduce", {&x, 1}, false);
  if (!call.sound)
    return call.invalid();
  Type from = call.values[0]->type();
  std::vector<int64_t> reduced = GraphState::normalized(axes, from);
  Value *value =
      call.graph->make(OpKind::Reduce, call.values,
                       {{"combiner", Attribute::word(std::string(combiner))}, {"axes", Attribute::ints(reduced)}}, call.at, as);
  return keptDims(call, value, reduced, keepDims);
}

Tensor sum(Operand x, const Axes &axes, bool keepDims, std::optional<DType> as) { return reduceBy("sum", x, axes, keepDims, as); }
Tensor amax(Operand x, const Axes &axes, bool keepDims) { return reduceBy("max", x, axes, keepDims, std::nullopt); }
Tensor amin(Operand x, const Axes &axes, bool keepDims) { return reduceBy("min", x, axes, keepDims, std::nullopt); }

std::vector<Tensor> reduce(const std::vector<Operand> &operands, const Axes &axes, const std::vector<Operand> &identities,
                           const Combiner &combiner) {
  GraphState::Call call = GraphState::call("reduce", operands, false);
  if (!call.sound)
    return std::vector<Tensor>(operands.size(), call.invalid());
  return call.graph->reduce(call, axes, identities, combiner);
}

//===- Reads at other indices -===//

static int64_t fromEnd(int64_t axis, Type type) { return axis < 0 && axis >= -type.rank() ? axis + type.rank() : axis; }

Tensor slice(Operand x, const Shape &starts, const Shape &limits, const std::vector<int64_t> &steps) {
  GraphState::Call call = GraphState::call("slice", {&x, 1}, false);
  auto from = call.sound ? call.graph->dims(starts, call.op, call.at) : std::nullopt;
  auto to = from ? call.graph->dims(limits, call.op, call.at) : std::nullopt;
  if (!to)
    return call.invalid();
  std::vector<NamedAttribute> attrs;
  if (!from->empty())
    attrs.push_back({"starts", Attribute::dims(*from)});
  if (!to->empty())
    attrs.push_back({"limits", Attribute::dims(*to)});
  if (!steps.empty())
    attrs.push_back({"steps", Attribute::ints(steps)});
  return call.tensor(call.graph->make(OpKind::Slice, call.values, std::move(attrs), call.at));
}

Tensor pad(Operand x, const Shape &low, const Shape &high, Operand value) {
  GraphState::Call call = GraphState::call("pad", {&x, 1}, false);
  auto before = call.sound ? call.graph->dims(low, call.op, call.at) : std::nullopt;
  auto behind = before ? call.graph->dims(high, call.op, call.at) : std::nullopt;
  if (!behind)
    return call.invalid();
  return call.tensor(call.graph->make(
      OpKind::Pad, call.values,
      {{"low", Attribute::dims(*before)}, {"high", Attribute::dims(*behind)}, {"value", GraphState::numberOf(value)}}, call.at));
}

Tensor concat(const std::vector<Operand> &operands, int64_t axis) {
  GraphState::Call call = GraphState::call("concat", operands, false);
  if (!call.sound)
    return call.invalid();
  axis = fromEnd(axis, call.values[0]->type());
  return call.tensor(call.graph->make(OpKind::Concat, call.values, {{"axis", Attribute(axis)}}, call.at));
}

Tensor gather(Operand table, Operand rows, int64_t axis) {
  GraphState::Call call = GraphState::call("gather", std::vector{std::move(table), std::move(rows)}, false);
  if (!call.sound)
    return call.invalid();
  axis = fromEnd(axis, call.values[0]->type());
  return call.tensor(call.graph->make(OpKind::Gather, call.values, {{"axis", Attribute(axis)}}, call.at));
}

Tensor iota(const Graph &graph, DType dtype, const Shape &shape, int64_t axis, std::source_location at) {
  GraphState &state = *graph.state;
  auto sizes = state.dims(shape, "iota", at);
  if (!sizes || !state.checkDType(dtype, "iota", at))
    return state.tensor(nullptr);
  Type type = state.context.tensor(dtype, std::move(*sizes));
  axis = fromEnd(axis, type);
  return state.tensor(state.make(OpKind::Iota, {}, {{"axis", Attribute(axis)}}, at, std::nullopt, type));
}

/// An op of one tensor and one axis.
static Tensor alongAxis(OpKind kind, const Operand &x, int64_t axis, std::optional<DType> as = std::nullopt) {
  GraphState::Call call = GraphState::call(opInfo(kind).name, {&x, 1}, false);
  if (!call.sound)
    return call.invalid();
  axis = fromEnd(axis, call.values[0]->type());
  return call.tensor(call.graph->make(kind, call.values, {{"axis", Attribute(axis)}}, call.at, as));
}

Tensor cumsum(Operand x, int64_t axis) { return alongAxis(OpKind::Cumsum, x, axis); }

//===- Composites -===//

Tensor mean(Operand x, const Axes &axes, bool keepDims) {
  GraphState::Call call = GraphState::call("mean", {&x, 1}, false);
  if (!call.sound)
    return call.invalid();
  std::vector<int64_t> reduced = GraphState::normalized(axes, call.values[0]->type());
  return keptDims(call, call.graph->make(OpKind::Mean, call.values, {{"axes", Attribute::ints(reduced)}}, call.at), reduced,
                  keepDims);
}

Tensor softmax(Operand x, int64_t axis) { return alongAxis(OpKind::Softmax, x, axis); }
Tensor argmax(Operand x, int64_t axis, DType as) { return alongAxis(OpKind::Argmax, x, axis, as); }

static Tensor norm(OpKind kind, const std::vector<Operand> &operands, const Axes &axes, double eps) {
  GraphState::Call call = GraphState::call(opInfo(kind).name, operands, false);
  if (!call.sound)
    return call.invalid();
  std::vector<int64_t> rows = GraphState::normalized(axes, call.values[0]->type());
  return call.tensor(call.graph->make(kind, call.values, {{"axes", Attribute::ints(rows)}, {"eps", Attribute(eps)}}, call.at));
}

Tensor layerNorm(const std::vector<Operand> &xScaleShift, const Axes &axes, double eps) {
  return norm(OpKind::LayerNorm, xScaleShift, axes, eps);
}
Tensor rmsNorm(const std::vector<Operand> &xScale, const Axes &axes, double eps) {
  return norm(OpKind::RmsNorm, xScale, axes, eps);
}

} // namespace minic
