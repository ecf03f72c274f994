// Makes operations at an insertion point.
#pragma once

#include "minic/IR/IR.h"

namespace minic {

class Builder {
public:
  /// At the end of `block`, or before `before`.
  explicit Builder(Block &block, Operation *before = nullptr) : block(&block), before(before) {}
  explicit Builder(Operation *before) : block(before->parent()), before(before) {}

  Module &module() const { return block->function().module(); }
  Context &context() const { return module().context(); }
  Block &insertionBlock() const { return *block; }
  void setLoc(SourceLoc loc) { location = loc; }
  SourceLoc loc() const { return location; }

  /// Any operation; `op->result()` is its first result.
  Operation *create(OpKind kind, std::span<Value *const> operands, std::span<const Type> types,
                    std::vector<NamedAttribute> attrs = {});
  Operation *create(OpKind kind, std::initializer_list<Value *> operands, std::initializer_list<Type> types,
                    std::vector<NamedAttribute> attrs = {}) {
    return create(kind, std::span<Value *const>(operands.begin(), operands.size()),
                  std::span<const Type>(types.begin(), types.size()), std::move(attrs));
  }

  /// An element-wise operation whose result has the first operand's type.
  Value *scalarOp(OpKind kind, std::initializer_list<Value *> operands);
  Value *compare(std::string_view predicate, Value *lhs, Value *rhs);
  Value *select(Value *condition, Value *ifTrue, Value *ifFalse);
  Value *convert(Value *value, DType to);
  /// A sum as its result's type: what follows may go on with the sum itself (`rounding = optional`).
  Value *convertSum(Value *sum, DType to);
  /// A splat constant of any value type: a float rounds to it, an integer must fit.
  Value *constant(Type type, const Attribute &number);
  Value *constantIndex(int64_t value);
  Value *dim(const DimExpr &expr);

private:
  Block *block;
  Operation *before;
  SourceLoc location;
};

/// Maps values of a copied region to their copies; unmapped values stand for themselves.
class ValueMap {
public:
  void map(Value *from, Value *to) { entries[from] = to; }
  Value *operator()(Value *value) const {
    auto it = entries.find(value);
    return it == entries.end() ? value : it->second;
  }
  bool contains(Value *value) const { return entries.count(value) != 0; }

private:
  std::map<Value *, Value *> entries; // Looked up only; never iterated, so its order cannot reach any output.
};

/// Copies `op` with its regions; operands go through `map`, and results and region arguments are added to it.
Operation *cloneOperation(Builder &builder, const Operation &op, ValueMap &map);
/// A function of `to`, whose context is the same, like this one.
Function *copyFunction(const Function &function, Module &to, std::string name, Function *before = nullptr);
/// Another function like `function`, which stands right behind it.
Function *cloneFunction(const Function &function, std::string name);
/// Copies the operations of `block` without its terminator; returns the values that the terminator gave.
std::vector<Value *> inlineBlock(Builder &builder, Block &block, std::span<Value *const> arguments, ValueMap &map);
/// Puts sizes in the place of names, in the types and attributes of a function.
void replaceSizes(Function &function, const DimSizes &sizes);

} // namespace minic
