#include "minic/IR/Builder.h"

#include "minic/IR/ScalarEval.h"

namespace minic {

Operation *Builder::create(OpKind kind, std::span<Value *const> operands, std::span<const Type> types,
                           std::vector<NamedAttribute> attrs) {
  Operation *op = module().create(kind, operands, types, std::move(attrs), location);
  block->insertBefore(op, before);
  return op;
}

Value *Builder::scalarOp(OpKind kind, std::initializer_list<Value *> operands) {
  return create(kind, operands, {(*operands.begin())->type()})->result();
}

Value *Builder::compare(std::string_view predicate, Value *lhs, Value *rhs) {
  Type type = context().withDType(lhs->type(), DType::I1);
  return create(OpKind::Compare, {lhs, rhs}, {type}, {{"predicate", Attribute::word(std::string(predicate))}})->result();
}

Value *Builder::select(Value *condition, Value *ifTrue, Value *ifFalse) {
  return create(OpKind::Select, {condition, ifTrue, ifFalse}, {ifTrue->type()})->result();
}

Value *Builder::convert(Value *value, DType to) {
  if (value->type().dtype() == to)
    return value;
  return create(OpKind::Convert, {value}, {context().withDType(value->type(), to)})->result();
}

Value *Builder::convertSum(Value *sum, DType to) {
  Value *result = convert(sum, to);
  if (result != sum)
    result->definition()->setAttr("rounding", Attribute::word("optional"));
  return result;
}

Value *Builder::constant(Type type, const Attribute &number) {
  DType dtype = type.dtype();
  return create(OpKind::Constant, {}, {type}, {{"value", Scalar::of(number, dtype).toAttr(dtype)}})->result();
}

Value *Builder::constantIndex(int64_t value) {
  return create(OpKind::Constant, {}, {context().index()}, {{"value", Attribute(value)}})->result();
}

Value *Builder::dim(const DimExpr &expr) {
  if (auto value = expr.constant())
    return constantIndex(*value);
  return create(OpKind::Dim, {}, {context().index()}, {{"expr", Attribute(expr)}})->result();
}

Operation *cloneOperation(Builder &builder, const Operation &op, ValueMap &map) {
  std::vector<Value *> operands;
  for (Value *operand : op.operands())
    operands.push_back(map(operand));
  std::vector<Type> types;
  for (Value *result : op.results())
    types.push_back(result->type());
  Operation *copy = builder.create(op.kind(), operands, types, {op.attrs().begin(), op.attrs().end()});
  copy->setLoc(op.loc());
  for (unsigned i = 0; i < op.numResults(); ++i) {
    copy->result(i)->setName(op.result(i)->name());
    map.map(op.result(i), copy->result(i));
  }
  for (unsigned r = 0; r < op.numRegions(); ++r) {
    Block &from = op.region(r), &to = copy->addRegion();
    for (Value *argument : from.arguments())
      map.map(argument, to.addArgument(argument->type(), argument->name()));
    Builder inner(to);
    for (Operation &nested : from)
      cloneOperation(inner, nested, map);
  }
  return copy;
}

Function *cloneFunction(const Function &function, std::string name) {
  return copyFunction(function, function.module(), std::move(name), function.module().after(function));
}

Function *copyFunction(const Function &function, Module &to, std::string name, Function *before) {
  Function *copy = to.addFunction(function.kind, function.level, std::move(name), before);
  copy->loc = function.loc;
  copy->resultNames = function.resultNames;
  copy->resultTypes = function.resultTypes;
  copy->facts = function.facts;
  for (const NamedAttribute &attribute : function.attrs())
    copy->setAttr(attribute.name, attribute.value);
  ValueMap map;
  for (Value *param : function.params())
    map.map(param, copy->body().addArgument(param->type(), param->name()));
  Builder builder(copy->body());
  for (const Operation &op : function.body())
    cloneOperation(builder, op, map);
  return copy;
}

std::vector<Value *> inlineBlock(Builder &builder, Block &block, std::span<Value *const> arguments, ValueMap &map) {
  for (unsigned i = 0; i < arguments.size(); ++i)
    map.map(block.argument(i), arguments[i]);
  for (Operation &op : block)
    if (!op.info().terminator)
      cloneOperation(builder, op, map);
  std::vector<Value *> results;
  for (Value *operand : block.back()->operands())
    results.push_back(map(operand));
  return results;
}

//===- Sizes -===//

namespace {

class SizeReplacer {
public:
  SizeReplacer(Module &module, const DimSizes &sizes) : context(module.context()), sizes(sizes) {}

  Type replace(Type type) {
    std::vector<DimExpr> shape;
    for (const DimExpr &dim : type.shape())
      shape.push_back(dim.substitute(sizes));
    return shape == type.shape() ? type : context.withShape(type, std::move(shape));
  }

  Attribute replace(const Attribute &attribute) {
    if (attribute.asInt())
      return attribute;
    if (auto dim = attribute.asDim())
      return Attribute(dim->substitute(sizes));
    if (const AttributeList *list = attribute.asList()) {
      AttributeList replaced;
      for (const Attribute &element : *list)
        replaced.push_back(replace(element));
      return replaced;
    }
    return attribute;
  }

  void replace(Function &function) {
    for (Value *param : function.params())
      param->setType(replace(param->type()));
    for (Type &type : function.resultTypes)
      type = replace(type);
    walk(function.body(), [&](Operation &op) {
      for (Value *result : op.results())
        result->setType(replace(result->type()));
      for (unsigned r = 0; r < op.numRegions(); ++r)
        for (Value *argument : op.region(r).arguments())
          argument->setType(replace(argument->type()));
      std::vector<NamedAttribute> attrs(op.attrs().begin(), op.attrs().end());
      for (const NamedAttribute &attribute : attrs)
        op.setAttr(attribute.name, replace(attribute.value));
    });
  }

private:
  Context &context;
  const DimSizes &sizes;
};

} // namespace

void replaceSizes(Function &function, const DimSizes &sizes) { SizeReplacer(function.module(), sizes).replace(function); }

} // namespace minic
