// The one substrate of all levels: values, operations, blocks, functions, modules.
//
// A module owns every node it ever made (an arena that is freed at once); nodes are raw pointers into it, and an erased operation
// is only unlinked. Regions have one block, which ends with a terminator. There is no control-flow graph.
#pragma once

#include "minic/IR/Attribute.h"
#include "minic/IR/Context.h"
#include "minic/IR/OpKind.h"
#include "minic/IR/Type.h"
#include "minic/Support/Diagnostic.h"
#include "minic/Support/DimFact.h"

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace minic {

class Block;
class Function;
class Module;
class Operation;

/// One operand slot of an operation.
struct Use {
  Operation *user;
  unsigned index;
  friend bool operator==(const Use &, const Use &) = default;
};

/// A result of an operation or an argument of a block.
class Value {
public:
  Type type() const { return valueType; }
  void setType(Type type) { valueType = type; }
  /// The name without `%`; made unique by the printer, may be empty.
  const std::string &name() const { return valueName; }
  void setName(std::string_view name) { valueName = name; }
  /// Null for a block argument.
  Operation *definition() const { return op; }
  /// Null for a result.
  Block *argumentOf() const { return block; }
  unsigned index() const { return position; }
  /// In an order that says nothing, but is the same in every process.
  const std::vector<Use> &uses() const { return useList; }
  bool hasUses() const { return !useList.empty(); }
  void replaceAllUsesWith(Value *other);

private:
  friend class Operation;
  friend class Block;
  friend class Module;
  Type valueType;
  std::string valueName;
  Operation *op = nullptr;
  Block *block = nullptr;
  unsigned position = 0;
  std::vector<Use> useList;
};

struct NamedAttribute {
  std::string name;
  Attribute value;
  friend bool operator==(const NamedAttribute &, const NamedAttribute &) = default;
};

class Operation {
public:
  OpKind kind() const { return opKind; }
  const OpInfo &info() const { return opInfo(opKind); }
  bool is(OpKind kind) const { return opKind == kind; }
  Module &module() const { return *owner; }
  Block *parent() const { return parentBlock; }
  /// The operation whose region holds this one; null at a function's top level.
  Operation *parentOp() const;
  Function &function() const;
  Operation *next() const { return nextOp; }
  Operation *prev() const { return prevOp; }
  SourceLoc loc() const { return location; }
  void setLoc(SourceLoc loc) { location = loc; }

  unsigned numOperands() const { return unsigned(operandList.size()); }
  Value *operand(unsigned i) const { return operandList[i]; }
  std::span<Value *const> operands() const { return operandList; }
  void setOperand(unsigned i, Value *value);
  void setOperands(std::span<Value *const> values);
  unsigned numResults() const { return unsigned(resultList.size()); }
  Value *result(unsigned i = 0) const { return resultList[i]; }
  std::span<Value *const> results() const { return resultList; }

  /// The attribute called `name`, or null. The word after the kind is the attribute that the op's row names as its word.
  const Attribute *attr(std::string_view name) const;
  std::span<const NamedAttribute> attrs() const { return attributes; }
  void setAttr(std::string_view name, Attribute value);
  void removeAttr(std::string_view name);
  /// Shorthands for attributes that the verifier has checked.
  int64_t intAttr(std::string_view name) const;
  std::vector<int64_t> intsAttr(std::string_view name) const;
  /// The same; empty if the attribute is left out.
  std::vector<int64_t> optionalInts(std::string_view name) const { return attr(name) ? intsAttr(name) : std::vector<int64_t>(); }
  std::vector<DimExpr> optionalDims(std::string_view name) const { return attr(name) ? dimsAttr(name) : std::vector<DimExpr>(); }
  std::vector<DimExpr> dimsAttr(std::string_view name) const;
  std::string_view wordAttr(std::string_view name) const; ///< Empty if absent.

  unsigned numRegions() const { return unsigned(regionList.size()); }
  Block &region(unsigned i = 0) const { return *regionList[i]; }
  Block &addRegion();
  Operation *terminatorOfRegion(unsigned i = 0) const;

  /// Unlinks the operation and drops its operand uses, its regions' too. Its results must have no uses outside it.
  void erase();
  void moveBefore(Operation *other);

private:
  friend class Block;
  friend class Module;
  friend class Value;
  OpKind opKind{};
  Module *owner = nullptr;
  Block *parentBlock = nullptr;
  Operation *prevOp = nullptr, *nextOp = nullptr;
  std::vector<Value *> operandList, resultList;
  std::vector<unsigned> usePlaces; ///< Of each operand slot: its place in the use list of the value.
  std::vector<NamedAttribute> attributes;
  std::vector<Block *> regionList;
  SourceLoc location;
};

/// A list of operations with arguments; the body of a function or a region of an operation.
class Block {
public:
  Operation *front() const { return first; }
  Operation *back() const { return last; }
  bool empty() const { return first == nullptr; }
  Operation *parentOp() const { return owner; }
  Function &function() const { return *func; }
  std::span<Value *const> arguments() const { return args; }
  Value *argument(unsigned i) const { return args[i]; }
  Value *addArgument(Type type, std::string_view name = {});
  void eraseArgument(unsigned i); ///< It must have no uses.
  void append(Operation *op) { insertBefore(op, nullptr); }
  /// Links an unlinked `op` before `where` (at the end if null).
  void insertBefore(Operation *op, Operation *where);

  /// Iteration that allows erasing the current operation.
  class Iterator {
  public:
    explicit Iterator(Operation *op) : op(op), following(op ? op->next() : nullptr) {}
    Operation &operator*() const { return *op; }
    Iterator &operator++() {
      op = following;
      following = op ? op->next() : nullptr;
      return *this;
    }
    friend bool operator==(const Iterator &a, const Iterator &b) { return a.op == b.op; }

  private:
    Operation *op, *following;
  };
  Iterator begin() const { return Iterator(first); }
  Iterator end() const { return Iterator(nullptr); }

private:
  friend class Operation;
  friend class Module;
  Operation *first = nullptr, *last = nullptr;
  Operation *owner = nullptr;
  Function *func = nullptr;
  Module *module = nullptr;
  std::vector<Value *> args;
};

enum class FunctionKind : uint8_t { Graph, Kernel, Plan, Custom };
enum class Level : uint8_t { Graph, Fused, Tile, Masked, Machine, Plan };
std::string_view functionKindName(FunctionKind kind);
std::string_view levelName(Level level);
std::optional<Level> parseLevel(std::string_view name);

/// A graph, kernel or plan, or the declaration of a custom op, whose body is the graph that the op means. `resultNames` name the
/// outputs of graphs and plans, `resultTypes` their types; a kernel has none.
class Function {
public:
  Function(FunctionKind kind, Level level, std::string name) : kind(kind), level(level), name(std::move(name)) {}
  FunctionKind kind;
  Level level;
  const std::string name;
  SourceLoc loc;
  std::vector<std::string> resultNames;
  std::vector<Type> resultTypes;
  std::vector<DimFact> facts; ///< `where 1 <= N <= 4096`: it is run for such sizes alone.

  /// Takes and gives tensors.
  bool isGraphLike() const { return kind == FunctionKind::Graph || kind == FunctionKind::Custom; }
  Module &module() const { return *owner; }
  Block &body() const { return *block; }
  std::span<Value *const> params() const { return block->arguments(); }
  Operation *terminator() const { return block->back(); }

  /// Attributes after the level: `schedule = #rows<...>, threads = 128`.
  const Attribute *attr(std::string_view name) const;
  void setAttr(std::string_view name, Attribute value);
  void removeAttr(std::string_view name);
  std::span<const NamedAttribute> attrs() const { return attributes; }
  /// The function that stands behind this one, for arguments that do not fit here (`otherwise = @f_strided`); null if there is
  /// none.
  Function *otherwise() const;
  /// Names of dims that its types and attributes mention, in order of first appearance (parameters first).
  std::vector<std::string> dimNames() const;

private:
  friend class Module;
  Module *owner = nullptr;
  Block *block = nullptr;
  std::vector<NamedAttribute> attributes;
};

class Module {
public:
  explicit Module(Context &context) : ctx(context) {}
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  Context &context() const { return ctx; }
  std::string target = "sm_90a";
  std::string numerics = "default";                  ///< "exact", "default" or "fast".
  bool targetStated = false, numericsStated = false; ///< Whether the text said so.
  std::string passes;                                ///< The list of passes that it is on its way through; empty: the usual one.
  std::string lastPass;                              ///< The last of them that ran, as "mask" or "cse#2"; empty: none.

  std::span<Function *const> functions() const { return order; }
  Function *find(std::string_view name) const;
  /// The function that stands after this one; null after the last.
  Function *after(const Function &function) const;
  /// A function with an empty body, placed before `before` (at the end if null).
  Function *addFunction(FunctionKind kind, Level level, std::string name, Function *before = nullptr);
  void eraseFunction(Function *function);
  /// `base`, or `base_1`, `base_2` ... if a function has that name.
  std::string freshName(std::string_view base);

  /// An unlinked operation with its operands, result types and no regions.
  Operation *create(OpKind kind, std::span<Value *const> operands, std::span<const Type> resultTypes,
                    std::vector<NamedAttribute> attrs = {}, SourceLoc loc = {});
  Block *createBlock(Function *function, Operation *owner);

private:
  friend class Block;
  friend class Operation;
  Value *createValue(Type type);
  Context &ctx;
  std::deque<Operation> operations;
  std::deque<Value> values;
  std::deque<Block> blocks;
  std::deque<Function> functionStorage;
  std::vector<Function *> order;
  std::unordered_map<std::string_view, Function *> byName; ///< The first of a name: a second is an error of the verifier.
  std::unordered_map<std::string, unsigned> suffixes;      ///< The last one that `freshName` tried for a base.
};

inline constexpr int64_t maxClusterCtas = 16, maxResidentCtas = 32;
/// CTAs of a program of a kernel at the machine level: `cluster = 4`, or 1.
int64_t clusterCtas(const Function &kernel);

/// Calls `fn(Operation &)` for every operation in `block`, nested ones after the one that holds them. `fn` must not erase others.
template <typename Fn> void walk(Block &block, Fn &&fn) {
  for (Operation &op : block) {
    fn(op);
    for (unsigned i = 0; i < op.numRegions(); ++i)
      walk(op.region(i), fn);
  }
}

} // namespace minic
