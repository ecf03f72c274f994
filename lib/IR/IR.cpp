#include "minic/IR/IR.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace minic {

//===- Value -===//

void Value::replaceAllUsesWith(Value *other) {
  assert(other != this);
  while (!useList.empty()) {
    Use use = useList.back();
    use.user->setOperand(use.index, other);
  }
}

//===- Operation -===//

Operation *Operation::parentOp() const { return parentBlock ? parentBlock->parentOp() : nullptr; }

Function &Operation::function() const { return parentBlock->function(); }

void Operation::setOperand(unsigned i, Value *value) {
  Value *&slot = operandList[i];
  if (slot == value)
    return;
  if (slot) {
    // The last use takes the place of this one.
    auto &uses = slot->useList;
    unsigned place = usePlaces[i];
    assert((uses[place] == Use{this, i}));
    uses[place] = uses.back();
    uses[place].user->usePlaces[uses[place].index] = place;
    uses.pop_back();
  }
  slot = value;
  if (value) {
    usePlaces[i] = unsigned(value->useList.size());
    value->useList.push_back({this, i});
  }
}

void Operation::setOperands(std::span<Value *const> newOperands) {
  std::vector<Value *> copy(newOperands.begin(), newOperands.end()); // May alias operandList.
  for (unsigned i = 0; i < operandList.size(); ++i)
    setOperand(i, nullptr);
  operandList.assign(copy.size(), nullptr);
  usePlaces.assign(copy.size(), 0);
  for (unsigned i = 0; i < copy.size(); ++i)
    setOperand(i, copy[i]);
}

static const Attribute *findAttr(const std::vector<NamedAttribute> &attributes, std::string_view name) {
  for (const NamedAttribute &attribute : attributes)
    if (attribute.name == name)
      return &attribute.value;
  return nullptr;
}

static void assignAttr(std::vector<NamedAttribute> &attributes, std::string_view name, Attribute value) {
  for (NamedAttribute &attribute : attributes)
    if (attribute.name == name) {
      attribute.value = std::move(value);
      return;
    }
  attributes.push_back({std::string(name), std::move(value)});
}

static void eraseAttr(std::vector<NamedAttribute> &attributes, std::string_view name) {
  std::erase_if(attributes, [&](const NamedAttribute &attribute) { return attribute.name == name; });
}

const Attribute *Operation::attr(std::string_view name) const { return findAttr(attributes, name); }
void Operation::setAttr(std::string_view name, Attribute value) { assignAttr(attributes, name, std::move(value)); }
void Operation::removeAttr(std::string_view name) { eraseAttr(attributes, name); }

int64_t Operation::intAttr(std::string_view name) const {
  const Attribute *a = attr(name);
  assert(a && a->asInt() && "intAttr of something else");
  return *a->asInt();
}

std::vector<int64_t> Operation::intsAttr(std::string_view name) const {
  const Attribute *a = attr(name);
  assert(a && a->asInts() && "intsAttr of something else");
  return *a->asInts();
}

std::vector<DimExpr> Operation::dimsAttr(std::string_view name) const {
  const Attribute *a = attr(name);
  assert(a && a->asDims() && "dimsAttr of something else");
  return *a->asDims();
}

std::string_view Operation::wordAttr(std::string_view name) const {
  const Attribute *a = attr(name);
  return a && a->asWord() ? std::string_view(a->asWord()->text) : std::string_view();
}

Block &Operation::addRegion() {
  regionList.push_back(owner->createBlock(parentBlock ? &parentBlock->function() : nullptr, this));
  return *regionList.back();
}

Operation *Operation::terminatorOfRegion(unsigned i) const { return regionList[i]->back(); }

void Operation::erase() {
#ifndef NDEBUG
  for (Value *value : resultList)
    assert(!value->hasUses() && "erasing an operation whose results are used");
#endif
  if (parentBlock) {
    (prevOp ? prevOp->nextOp : parentBlock->first) = nextOp;
    (nextOp ? nextOp->prevOp : parentBlock->last) = prevOp;
  }
  prevOp = nextOp = nullptr;
  auto drop = [](auto &self, Operation &op) -> void {
    for (unsigned i = 0; i < op.numOperands(); ++i)
      op.setOperand(i, nullptr);
    for (Block *region : op.regionList)
      for (Operation &inner : *region)
        self(self, inner);
    op.parentBlock = nullptr; // So worklists can tell what is gone.
  };
  drop(drop, *this);
}

void Operation::moveBefore(Operation *other) {
  (prevOp ? prevOp->nextOp : parentBlock->first) = nextOp;
  (nextOp ? nextOp->prevOp : parentBlock->last) = prevOp;
  parentBlock = nullptr;
  prevOp = nextOp = nullptr;
  other->parent()->insertBefore(this, other);
}

//===- Block -===//

Value *Block::addArgument(Type type, std::string_view name) {
  Value *value = module->createValue(type);
  value->block = this;
  value->position = unsigned(args.size());
  value->setName(name);
  args.push_back(value);
  return value;
}

void Block::eraseArgument(unsigned i) {
  assert(!args[i]->hasUses() && "erasing an argument that is used");
  args.erase(args.begin() + i);
  for (unsigned j = i; j < args.size(); ++j)
    args[j]->position = j;
}

void Block::insertBefore(Operation *op, Operation *where) {
  assert(!op->parentBlock && "inserting a linked operation");
  op->parentBlock = this;
  op->nextOp = where;
  op->prevOp = where ? where->prevOp : last;
  (op->prevOp ? op->prevOp->nextOp : first) = op;
  (where ? where->prevOp : last) = op;
  for (Block *region : op->regionList)
    if (region->func != func) {
      // A region made before its operation was linked does not know its function yet.
      std::vector<Block *> pending{region};
      while (!pending.empty()) {
        Block *block = pending.back();
        pending.pop_back();
        block->func = func;
        for (Operation &inner : *block)
          pending.insert(pending.end(), inner.regionList.begin(), inner.regionList.end());
      }
    }
}

//===- Function -===//

static constexpr std::array<std::string_view, 4> kindNames = {"graph", "kernel", "plan", "custom"};
static constexpr std::array<std::string_view, 6> levelNames = {"graph", "fused", "tile", "masked", "machine", "plan"};

std::string_view functionKindName(FunctionKind kind) { return kindNames[size_t(kind)]; }
std::string_view levelName(Level level) { return levelNames[size_t(level)]; }
std::optional<Level> parseLevel(std::string_view name) {
  for (size_t i = 0; i < levelNames.size(); ++i)
    if (levelNames[i] == name)
      return Level(i);
  return std::nullopt;
}

const Attribute *Function::attr(std::string_view name) const { return findAttr(attributes, name); }
void Function::setAttr(std::string_view name, Attribute value) { assignAttr(attributes, name, std::move(value)); }
void Function::removeAttr(std::string_view name) { eraseAttr(attributes, name); }

static void collectNames(const Attribute &attribute, std::vector<std::string> &names) {
  if (auto dim = attribute.asDim())
    dim->collectNames(names);
  if (const AttributeList *list = attribute.asList())
    for (const Attribute &element : *list)
      collectNames(element, names);
}

Function *Function::otherwise() const {
  const Attribute *attribute = attr("otherwise");
  return attribute && attribute->asSymbol() ? owner->find(attribute->asSymbol()->name) : nullptr;
}

std::vector<std::string> Function::dimNames() const {
  std::vector<std::string> names;
  auto addType = [&](Type type) {
    if (type)
      for (const DimExpr &dim : type.shape())
        dim.collectNames(names);
  };
  for (Value *param : params())
    addType(param->type());
  for (Type type : resultTypes)
    addType(type);
  walk(*block, [&](Operation &op) {
    for (Value *result : op.results())
      addType(result->type());
    for (const NamedAttribute &attribute : op.attrs())
      collectNames(attribute.value, names);
  });
  return names;
}

//===- Module -===//

Function *Module::find(std::string_view name) const {
  auto it = byName.find(name);
  return it == byName.end() ? nullptr : it->second;
}

Function *Module::after(const Function &function) const {
  auto next = std::next(std::find(order.begin(), order.end(), &function));
  return next == order.end() ? nullptr : *next;
}

Function *Module::addFunction(FunctionKind kind, Level level, std::string name, Function *before) {
  Function &function = functionStorage.emplace_back(kind, level, std::move(name));
  function.owner = this;
  function.block = createBlock(&function, nullptr);
  auto where = before ? std::find(order.begin(), order.end(), before) : order.end();
  order.insert(where, &function);
  byName.insert_or_assign(function.name, &function); // tile puts a plan in the place of a graph of the same name.
  return &function;
}

void Module::eraseFunction(Function *function) {
  std::erase(order, function);
  if (find(function->name) == function)
    byName.erase(function->name);
}

std::string Module::freshName(std::string_view base) {
  std::string name(base);
  while (find(name))
    name = std::string(base) + "_" + std::to_string(++suffixes[std::string(base)]);
  return name;
}

Operation *Module::create(OpKind kind, std::span<Value *const> operands, std::span<const Type> resultTypes,
                          std::vector<NamedAttribute> attrs, SourceLoc loc) {
  Operation &op = operations.emplace_back();
  op.opKind = kind;
  op.owner = this;
  op.attributes = std::move(attrs);
  op.location = loc;
  op.setOperands(operands);
  for (Type type : resultTypes) {
    Value *value = createValue(type);
    value->op = &op;
    value->position = unsigned(op.resultList.size());
    op.resultList.push_back(value);
  }
  return &op;
}

Block *Module::createBlock(Function *function, Operation *owner) {
  Block &block = blocks.emplace_back();
  block.owner = owner;
  block.func = function;
  block.module = this;
  return &block;
}

Value *Module::createValue(Type type) {
  Value &value = values.emplace_back();
  value.valueType = type;
  return &value;
}

int64_t clusterCtas(const Function &kernel) {
  const Attribute *cluster = kernel.attr("cluster");
  return cluster && cluster->asInt() ? *cluster->asInt() : 1;
}

} // namespace minic
