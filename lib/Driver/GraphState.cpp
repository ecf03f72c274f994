#include "GraphState.h"

#include "minic/IR/CustomOp.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"
#include "minic/IR/Verifier.h"

#include <algorithm>
#include <cctype>

namespace minic {

static std::string placeText(std::source_location at) {
  std::string_view file = at.file_name();
  return "at " + std::string(file.substr(file.find_last_of('/') + 1)) + ":" + std::to_string(at.line());
}

GraphState::GraphState(std::string_view name, std::source_location at) {
  if (!checkName("a graph", name, at))
    name = "main";
  function = module.addFunction(FunctionKind::Graph, Level::Graph, std::string(name));
  block = &function->body();
  result = link(OpKind::Return, {}, {}, {}, at);
}

//===- Findings -===//

void GraphState::report(Diagnostic error, std::source_location at) {
  error.loc = {};
  findings.push_back(std::move(error).note(placeText(at)));
}

bool GraphState::checkName(std::string_view what, std::string_view name, std::source_location at) {
  auto isWordChar = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  if (!name.empty() && !std::isdigit((unsigned char)name[0]) && std::all_of(name.begin(), name.end(), isWordChar))
    return true;
  report({.code = ErrorCode::UnexpectedToken,
          .message = std::string(what) + " cannot be called '" + std::string(name) + "'",
          .fix = "use letters, digits and _, and no digit first"},
         at);
  return false;
}

bool GraphState::checkDType(DType dtype, std::string_view op, std::source_location at) {
  if (dtype <= DType::Index)
    return true;
  report({.code = ErrorCode::UnknownType,
          .message = "`" + std::string(op) + "` is given element type number " + std::to_string(int(dtype)) + ", which is none"},
         at);
  return false;
}

std::optional<std::vector<DimExpr>> GraphState::dims(const Shape &shape, std::string_view op, std::source_location at) {
  std::vector<DimExpr> result;
  for (const Dim &dim : shape.sizes) {
    if (!dim.expr) {
      report({.code = ErrorCode::BadDim,
              .message = "`" + std::string(op) + "` is given '" + dim.text + "', which is no size",
              .fix = "write a number, or a name: an upper-case letter, then letters but `x`, digits and _"},
             at);
      return std::nullopt;
    }
    result.push_back(*dim.expr);
  }
  return result;
}

bool GraphState::check(Operation *op, std::source_location at) {
  Diagnostics wrong = verify(*op);
  for (Diagnostic &error : wrong)
    report(std::move(error), at);
  if (!wrong.empty())
    op->erase();
  return wrong.empty();
}

//===- Inputs and outputs -===//

Tensor GraphState::input(std::string_view name, DType dtype, const Shape &shape, std::source_location at) {
  std::string op = "input " + std::string(name);
  auto sizes = dims(shape, op, at);
  if (!checkName("an input", name, at) || !checkDType(dtype, op, at) || !sizes)
    return tensor(nullptr);
  if (auto [it, isNew] = inputs.emplace(name, at); !isNew) {
    report(Diagnostic{.code = ErrorCode::Redefinition, .message = "two inputs are called '" + std::string(name) + "'"}.note(
               "the first one is " + placeText(it->second)),
           at);
    return tensor(nullptr);
  }
  Block &body = function->body();
  Value *value = body.addArgument(context.tensor(dtype, std::move(*sizes)), name);
  Diagnostics wrong = verify(*value);
  for (Diagnostic &error : wrong)
    report(std::move(error), at);
  if (!wrong.empty())
    body.eraseArgument(value->index());
  return tensor(wrong.empty() ? value : nullptr);
}

void GraphState::output(std::string_view name, const Operand &operand) {
  std::source_location at = operand.at;
  if (!operand.tensor.graph) {
    report({.code = ErrorCode::OperandType, .message = "output '" + std::string(name) + "' is no tensor of a graph"}, at);
    return;
  }
  Call found = call("output " + std::string(name), std::span(&operand, 1), false);
  if (found.graph.get() != this) {
    report({.code = ErrorCode::OperandType, .message = "output '" + std::string(name) + "' is a tensor of another graph"}, at);
    return;
  }
  if (!found.sound || !checkName("an output", name, at))
    return;
  if (auto [it, isNew] = outputs.emplace(name, at); !isNew) {
    report(Diagnostic{.code = ErrorCode::Redefinition, .message = "two outputs are called '" + std::string(name) + "'"}.note(
               "the first one is " + placeText(it->second)),
           at);
    return;
  }
  Value *value = found.values[0];
  if (!value->type().isTensor()) {
    report({.code = ErrorCode::OperandType, .message = "output '" + std::string(name) + "' is a value of a combiner, not a tensor"},
           at);
    return;
  }
  std::vector<Value *> values(result->operands().begin(), result->operands().end());
  values.push_back(value);
  result->setOperands(values);
  function->resultNames.emplace_back(name);
  function->resultTypes.push_back(value->type());
}

//===- Custom ops -===//

/// Declarations are kept as they are written, behind the graph: there they do not move its lines.
void GraphState::declare(std::string_view text, std::source_location at) {
  std::string all = declared + (declared.empty() ? "" : "\n") + std::string(text);
  // A graph's text has its header in front, so that declarations have none.
  auto parsed = parseModule(context, SourceBuffer("declarations", "minic 1\n" + all));
  Diagnostics wrong = parsed ? verify(**parsed) : parsed.takeErrors();
  for (const Function *other : parsed ? (*parsed)->functions() : std::span<Function *const>())
    if (other->kind == FunctionKind::Graph || other->kind == FunctionKind::Plan || other->name == function->name)
      wrong.push_back({.code = ErrorCode::BadStructure,
                       .message = "@" + other->name + " cannot stand among declarations",
                       .fix = "declare custom ops and their kernels, by names that the graph does not have"});
  for (Diagnostic &error : wrong) {
    if (error.loc.isValid())
      error.message = "line " + std::to_string(error.loc.line - 1) + " of the declarations: " + error.message;
    report(std::move(error), at);
  }
  if (!wrong.empty())
    return;
  for (const Function *function : (*parsed)->functions())
    if (!module.find(function->name))
      copyFunction(*function, module, function->name);
  declared = std::move(all);
}

std::vector<Value *> GraphState::custom(std::string_view name, const std::vector<Operand> &operands, std::source_location at) {
  const Function *custom = module.find(name);
  size_t numResults = custom && custom->kind == FunctionKind::Custom ? custom->resultTypes.size() : 1;
  std::vector<Value *> results(numResults, nullptr);
  Call call = GraphState::call("custom", operands, false);
  if (call.graph && call.graph.get() != this)
    report({.code = ErrorCode::OperandType, .message = "operands of @" + std::string(name) + " are tensors of another graph"}, at);
  if (call.graph.get() != this || !call.sound)
    return results;
  std::vector<Type> types(numResults, call.values[0]->type()); // What a wrong use is checked with.
  Operation *op = link(OpKind::Custom, call.values, types, {{"op", Attribute::symbol(std::string(name))}}, at);
  std::vector<Type> inferred = inferResultTypes(*op);
  for (size_t i = 0; i < numResults; ++i)
    if (inferred[i])
      op->result(unsigned(i))->setType(inferred[i]);
  if (check(op, at))
    results.assign(op->results().begin(), op->results().end());
  return results;
}

//===- Operands -===//

GraphState::Call GraphState::call(std::string_view op, std::span<const Operand> operands, bool takesNumbers) {
  Call call{.op = std::string(op), .at = operands.empty() ? std::source_location() : operands.front().at};
  for (const Operand &operand : operands)
    if (!call.graph)
      call.graph = operand.tensor.graph;
  call.sound = call.graph != nullptr;
  std::string wrong;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto &[tensor, number, at] = operands[i];
    call.values.push_back(tensor.value);
    if (number && takesNumbers)
      continue;
    if (number)
      wrong = "is the number " + number.str() + ", not a tensor";
    else if (!tensor.graph)
      wrong = "is no tensor of a graph";
    else if (tensor.graph != call.graph)
      wrong = "is a tensor of another graph";
    else if (!tensor.value)
      call.sound = false;
    if (wrong.empty() || !call.graph)
      continue;
    call.graph->report(
        {.code = ErrorCode::OperandType, .message = "operand " + std::to_string(i) + " of `" + call.op + "` " + wrong}, at);
    call.sound = false;
    break;
  }
  return call;
}

std::vector<int64_t> GraphState::normalized(const Axes &axes, Type type) {
  std::vector<int64_t> list = axes.list;
  for (int64_t &axis : list)
    if (axis < 0 && axis >= -type.rank())
      axis += type.rank();
  std::sort(list.begin(), list.end());
  return list;
}

//===- Operations -===//

Operation *GraphState::link(OpKind kind, std::span<Value *const> operands, std::span<const Type> types,
                            std::vector<NamedAttribute> attrs, std::source_location at) {
  places.push_back(at);
  Builder builder(*block, block == &function->body() && !block->empty() ? result : nullptr);
  builder.setLoc({uint32_t(places.size()), 1});
  return builder.create(kind, operands, types, std::move(attrs));
}

Value *GraphState::make(OpKind kind, std::span<Value *const> operands, std::vector<NamedAttribute> attrs, std::source_location at,
                        std::optional<DType> as, Type type) {
  if (as && !checkDType(*as, opInfo(kind).name, at))
    return nullptr;
  Operation *op = link(kind, operands, std::span(&type, 1), std::move(attrs), at);
  if (!type)
    type = inferResultTypes(*op)[0];
  if (!type) // Nothing follows from operands that are wrong; the verifier looks at them first.
    type = operands[0]->type();
  op->result()->setType(as ? context.withDType(type, *as) : type);
  return check(op, at) ? op->result() : nullptr;
}

Value *GraphState::constant(Type type, Attribute number, std::source_location at) {
  return make(OpKind::Constant, {}, {{"value", std::move(number)}}, at, std::nullopt, type);
}

Value *GraphState::broadcast(Value *value, std::vector<DimExpr> shape, std::optional<std::vector<int64_t>> dims,
                             std::source_location at) {
  if (!dims) {
    dims.emplace();
    for (int64_t rank = value->type().rank(), axis = 0; axis < rank; ++axis)
      dims->push_back(int64_t(shape.size()) - rank + axis);
  }
  return make(OpKind::Broadcast, {&value, 1}, {{"dims", Attribute::ints(*dims)}}, at, std::nullopt,
              context.tensor(value->type().dtype(), std::move(shape)));
}

//===- Combiners -===//

bool GraphState::fillCombiner(const Call &call, Operation *op, const Combiner &combiner) {
  std::vector<Tensor> arguments;
  Block &region = op->addRegion();
  for (size_t i = 0; i < 2 * call.values.size(); ++i) {
    DType dtype = call.values[i % call.values.size()]->type().dtype();
    arguments.push_back(call.tensor(region.addArgument(context.scalar(computeDType(dtype)))));
  }
  struct Inside { // Also where the caller throws.
    Block *&block, *outer;
    Operation *op; ///< To be taken out again; null once it is whole.
    Inside(Block *&block, Operation *op) : block(block), outer(std::exchange(block, &op->region())), op(op) {}
    ~Inside() {
      block = outer;
      if (op)
        op->erase();
    }
  } inside(block, op);

  std::vector<Tensor> next = combiner(arguments);
  std::vector<Operand> operands;
  for (Tensor &tensor : next)
    operands.emplace_back(std::move(tensor), call.at);
  Call given = GraphState::call("reduce's combiner", operands, false);
  if (!given.graph)
    report({.code = ErrorCode::BadRegion,
            .message = "the combiner of `reduce` gives nothing; it must give what is accumulated next, one scalar per operand"},
           call.at);
  if (!given.sound)
    return false;
  if (given.graph != call.graph) {
    report({.code = ErrorCode::OperandType, .message = "the combiner of `reduce` gives a tensor of another graph"}, call.at);
    return false;
  }
  link(OpKind::Yield, given.values, {}, {}, call.at);
  inside.op = nullptr;
  return true;
}

std::vector<Tensor> GraphState::reduce(const Call &call, const Axes &axes, const std::vector<Operand> &identities,
                                       const Combiner &combiner) {
  std::vector<Tensor> results(call.values.size(), call.invalid());
  if (!call.sound)
    return results;
  std::vector<Type> types;
  for (Value *value : call.values)
    types.push_back(value->type());
  AttributeList init;
  for (size_t i = 0; i < identities.size(); ++i) {
    if (!numberOf(identities[i])) {
      report(
          {.code = ErrorCode::BadAttribute, .message = "identity " + std::to_string(i) + " of `reduce` is a tensor, not a number"},
          call.at);
      return results;
    }
    init.push_back(numberOf(identities[i]));
  }
  Operation *op = link(OpKind::Reduce, call.values, types,
                       {{"axes", Attribute::ints(normalized(axes, types[0]))}, {"init", Attribute(std::move(init))}}, call.at);
  if (!fillCombiner(call, op, combiner))
    return results;
  std::vector<Type> inferred = inferResultTypes(*op);
  for (size_t i = 0; i < inferred.size(); ++i)
    if (inferred[i])
      op->result(unsigned(i))->setType(inferred[i]);
  if (check(op, call.at))
    for (size_t i = 0; i < results.size(); ++i)
      results[i] = call.tensor(op->result(unsigned(i)));
  return results;
}

//===- The whole -===//

std::string GraphState::text() const { return printFunction(*function) + (declared.empty() ? "" : "\n" + declared + "\n"); }

Diagnostics GraphState::errors() const {
  if (!findings.empty() || !function->resultNames.empty())
    return findings;
  return {Diagnostic{.code = ErrorCode::NothingToCompile,
                     .message = "graph @" + function->name + " has no outputs",
                     .fix = "call output(name, tensor)"}
              .note(placeText(places.front()))};
}

/// Adds the operations of a block by the lines that the printer puts them on.
static void addLines(const Block &block, std::vector<const Operation *> &lines) {
  for (const Operation &op : block) {
    lines.push_back(&op);
    for (unsigned r = 0; r < op.numRegions(); ++r) {
      addLines(op.region(r), lines);
      lines.push_back(&op); // The closing brace.
    }
  }
}

std::vector<const Operation *> GraphState::lines() const {
  std::vector<const Operation *> lines = {nullptr}; // The function's header.
  addLines(function->body(), lines);
  return lines;
}

std::vector<FileLoc> GraphState::origins() const {
  std::vector<FileLoc> list;
  for (const Operation *op : lines()) {
    std::source_location at = places[op ? op->loc().line - 1 : 0]; // The first place is the graph's own.
    list.push_back({at.file_name(), {at.line(), at.column()}});
  }
  return list;
}

void GraphState::addOrigins(Diagnostics &list) const {
  std::vector<const Operation *> lines = this->lines();
  for (Diagnostic &finding : list)
    if (uint32_t line = finding.loc.line; line && line <= lines.size() && lines[line - 1])
      finding.note(placeText(places[lines[line - 1]->loc().line - 1]));
}

} // namespace minic
