// A graph in the making, behind the handles of Graph.h.
#pragma once

#include "minic/Driver/Graph.h"
#include "minic/IR/Builder.h"

namespace minic {

class GraphState : public std::enable_shared_from_this<GraphState> {
public:
  GraphState(std::string_view name, std::source_location at);

  /// Operands of a call by the table's word for the op; null if there is nothing to make, as one of them is invalid or wrong. A
  /// number's value is null.
  struct Call {
    std::shared_ptr<GraphState> graph; ///< Null if no operand is of a graph.
    std::string op;
    std::source_location at;
    std::vector<Value *> values;
    bool sound = true;
    /// What a call gives that makes nothing.
    Tensor invalid() const { return tensor(nullptr); }
    Tensor tensor(Value *value) const { return Tensor(graph, value); }
  };
  static Call call(std::string_view op, std::span<const Operand> operands, bool takesNumbers);
  static const Attribute &numberOf(const Operand &operand) { return operand.number; }
  static std::source_location placeOf(const Operand &operand) { return operand.at; }
  static std::vector<int64_t> normalized(const Axes &axes, Type type);

  /// Null for an invalid one.
  Tensor tensor(Value *value) { return Tensor(shared_from_this(), value); }
  Tensor input(std::string_view name, DType dtype, const Shape &shape, std::source_location at);
  void output(std::string_view name, const Operand &tensor);

  /// One operation with one result, of the type that its row gives unless `as` says another element type or `type` all of it. Null
  /// if it is wrong, which is reported.
  Value *make(OpKind kind, std::span<Value *const> operands, std::vector<NamedAttribute> attrs, std::source_location at,
              std::optional<DType> as = std::nullopt, Type type = {});
  Value *constant(Type type, Attribute number, std::source_location at);
  /// `value` under the shape, its axis a as axis dims[a], or aligned at the end.
  Value *broadcast(Value *value, std::vector<DimExpr> shape, std::optional<std::vector<int64_t>> dims, std::source_location at);
  void declare(std::string_view text, std::source_location at);
  /// The results; one null value if something is wrong, or as many as the declaration says.
  std::vector<Value *> custom(std::string_view name, const std::vector<Operand> &operands, std::source_location at);
  std::vector<Tensor> reduce(const Call &call, const Axes &axes, const std::vector<Operand> &identities, const Combiner &combiner);

  /// The sizes, or nullopt if one is none, which is reported.
  std::optional<std::vector<DimExpr>> dims(const Shape &shape, std::string_view op, std::source_location at);
  /// False if there is no such element type, which is reported.
  bool checkDType(DType dtype, std::string_view op, std::source_location at);
  void report(Diagnostic error, std::source_location at);

  std::string text() const;
  Diagnostics errors() const;
  void addOrigins(Diagnostics &findings) const;
  std::vector<FileLoc> origins() const;

  Context context;

private:
  /// The operations by lines of `text()`; null where none is.
  std::vector<const Operation *> lines() const;
  Operation *link(OpKind kind, std::span<Value *const> operands, std::span<const Type> types, std::vector<NamedAttribute> attrs,
                  std::source_location at);
  /// Reports what is wrong with the operation and takes it out again.
  bool check(Operation *op, std::source_location at);
  bool checkName(std::string_view what, std::string_view name, std::source_location at);
  /// Gives a reduction its region, or takes it out.
  bool fillCombiner(const Call &call, Operation *op, const Combiner &combiner);

  Module module{context};
  std::string declared; ///< The texts of declarations; the functions are in the module as well.
  Function *function;
  Operation *result; ///< The function's `return`.
  Block *block;      ///< Where operations go: the function's body, or a combiner.
  std::map<std::string, std::source_location, std::less<>> inputs, outputs;
  std::vector<std::source_location> places; ///< Of operations, whose location is an index here plus one.
  Diagnostics findings;
};

} // namespace minic
