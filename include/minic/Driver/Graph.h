// Graphs built in C++: handles to tensors, operators and functions of them. What they make is the IR of the graph level.
//
//     Graph g("linear_relu");
//     Tensor x = g.input("x", DType::F32, {"N", "K"}), w = g.input("w", DType::F32, {"K", "M"}), b = g.input("b", DType::F32,
//     {"M"}); g.output("y", relu(matmul(x, w) + b));
//
// What is wrong is collected and said when the graph is compiled, with the line of the program that asked for it. The tensor of
// such a call is invalid, and so silently is all that is made of it.
#pragma once

#include "minic/IR/Attribute.h"
#include "minic/IR/OpKind.h"
#include "minic/Support/Expected.h"
#include "minic/Support/HostTensor.h"
#include "minic/Support/LineSource.h"

#include <concepts>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace minic {

class GraphState;
class Value;

/// A tensor of a graph, which it keeps alive. A tensor that was made without one is invalid and of no graph.
class Tensor {
public:
  Tensor() = default;
  bool isValid() const { return value != nullptr; }
  /// Of an invalid tensor: f32, and no axes.
  DType dtype() const;
  std::vector<DimExpr> shape() const;

private:
  friend class GraphState;
  Tensor(std::shared_ptr<GraphState> graph, Value *value) : graph(std::move(graph)), value(value) {}
  std::shared_ptr<GraphState> graph;
  Value *value = nullptr;
};

/// What an op takes: a tensor, or a number that becomes a constant of the other operands' element type and shape; and the line that
/// passes it.
class Operand {
public:
  Operand(Tensor tensor, std::source_location at = std::source_location::current()) : tensor(std::move(tensor)), at(at) {}
  template <std::floating_point T>
  Operand(T number, std::source_location at = std::source_location::current()) : number(double(number)), at(at) {}
  template <std::integral T>
  Operand(T number, std::source_location at = std::source_location::current()) : number(int64_t(number)), at(at) {}

private:
  friend class GraphState;
  Tensor tensor;
  Attribute number; ///< Null for a tensor.
  std::source_location at;
};

/// A size: a number, or text such as `N` or `4*N`.
class Dim {
public:
  template <std::integral T> Dim(T size) : expr(int64_t(size)) {}
  Dim(DimExpr size) : expr(std::move(size)) {}
  Dim(std::string_view text);
  Dim(const char *text) : Dim(std::string_view(text)) {}
  Dim(const std::string &text) : Dim(std::string_view(text)) {}

private:
  friend class GraphState;
  std::optional<DimExpr> expr; ///< Null if the text is no size.
  std::string text;
};

/// Sizes of axes, e.g. `{"N", 1024}`.
class Shape {
public:
  Shape(std::initializer_list<Dim> sizes) : sizes(sizes) {}
  Shape(const std::vector<DimExpr> &sizes) : sizes(sizes.begin(), sizes.end()) {}

private:
  friend class GraphState;
  std::vector<Dim> sizes;
};

/// Axes of a tensor: one, or a list. Negative ones count from the end.
class Axes {
public:
  template <std::integral T> Axes(T axis) : list{int64_t(axis)} {}
  Axes(std::initializer_list<int64_t> axes) : list(axes) {}
  Axes(std::vector<int64_t> axes) : list(std::move(axes)) {}

private:
  friend class GraphState;
  std::vector<int64_t> list;
};

/// A graph in the making. A handle: copies are the same graph, which stays alive as long as one of them or of its tensors. One
/// thread may add to a graph at a time; any number may compile it once it is whole.
class Graph {
public:
  explicit Graph(std::string_view name = "main", std::source_location at = std::source_location::current());
  Graph(const Graph &) = default;
  Graph &operator=(const Graph &) = default;

  Tensor input(std::string_view name, DType dtype, const Shape &shape, std::source_location at = std::source_location::current());
  /// One number for every element.
  Tensor constant(Operand number, DType dtype, const Shape &shape = {});
  /// A table. It stands in the text of the graph: large ones are better inputs.
  Tensor constant(const HostTensor &values, std::source_location at = std::source_location::current());
  void output(std::string_view name, Operand tensor);

  /// Adds declarations of custom ops, and kernels that they name, as IR text (docs/custom-ops.md).
  void declare(std::string_view text, std::source_location at = std::source_location::current());
  /// A custom op that was declared, by its name without `@`: as many results as its declaration says.
  std::vector<Tensor> custom(std::string_view name, const std::vector<Operand> &operands,
                             std::source_location at = std::source_location::current());

  /// The graph as IR text.
  std::string text() const;
  /// All that was wrong so far, or else what is missing; empty for a graph that can be compiled. Each has a note
  /// `at file.cpp:12`.
  Diagnostics errors() const;
  /// Adds to findings about `text()` the lines of the program that the ops come from.
  void addOrigins(Diagnostics &findings) const;
  /// Those lines themselves: where each line of `text()` was written.
  std::vector<FileLoc> origins() const;

private:
  friend Tensor iota(const Graph &graph, DType dtype, const Shape &shape, int64_t axis, std::source_location at);
  std::shared_ptr<GraphState> state;
};

//===- Element-wise ops -===//
// Operands of other shapes are broadcast as NumPy does it: axes are aligned at the end, and missing ones and ones of size 1 repeat.

/// Any element-wise op that graphs have; `word` is compare's relation.
Tensor elementwise(OpKind kind, const std::vector<Operand> &operands, std::string_view word = {});

inline Tensor operator+(Operand a, Operand b) { return elementwise(OpKind::Add, {a, b}); }
inline Tensor operator-(Operand a, Operand b) { return elementwise(OpKind::Sub, {a, b}); }
inline Tensor operator*(Operand a, Operand b) { return elementwise(OpKind::Mul, {a, b}); }
inline Tensor operator/(Operand a, Operand b) { return elementwise(OpKind::Div, {a, b}); }
inline Tensor operator-(Operand x) { return elementwise(OpKind::Neg, {x}); }
inline Tensor operator&(Operand a, Operand b) { return elementwise(OpKind::And, {a, b}); }
inline Tensor operator|(Operand a, Operand b) { return elementwise(OpKind::Or, {a, b}); }
inline Tensor operator^(Operand a, Operand b) { return elementwise(OpKind::Xor, {a, b}); }
inline Tensor operator~(Operand x) { return elementwise(OpKind::Not, {x}); }
inline Tensor operator%(Operand a, Operand b) { return elementwise(OpKind::Rem, {a, b}); }
inline Tensor operator<<(Operand x, Operand amount) { return elementwise(OpKind::Shl, {x, amount}); }
/// Arithmetic; `elementwise(OpKind::ShrU, {x, amount})` is the logical one.
inline Tensor operator>>(Operand x, Operand amount) { return elementwise(OpKind::ShrS, {x, amount}); }
inline Tensor operator==(Operand a, Operand b) { return elementwise(OpKind::Compare, {a, b}, "eq"); }
inline Tensor operator!=(Operand a, Operand b) { return elementwise(OpKind::Compare, {a, b}, "ne"); }
inline Tensor operator<(Operand a, Operand b) { return elementwise(OpKind::Compare, {a, b}, "lt"); }
inline Tensor operator<=(Operand a, Operand b) { return elementwise(OpKind::Compare, {a, b}, "le"); }
inline Tensor operator>(Operand a, Operand b) { return elementwise(OpKind::Compare, {a, b}, "gt"); }
inline Tensor operator>=(Operand a, Operand b) { return elementwise(OpKind::Compare, {a, b}, "ge"); }
inline Tensor max(Operand a, Operand b) { return elementwise(OpKind::Max, {a, b}); }
inline Tensor min(Operand a, Operand b) { return elementwise(OpKind::Min, {a, b}); }
inline Tensor select(Operand condition, Operand a, Operand b) { return elementwise(OpKind::Select, {condition, a, b}); }
inline Tensor relu(Operand x) { return elementwise(OpKind::Relu, {x}); }
inline Tensor abs(Operand x) { return elementwise(OpKind::Abs, {x}); }
inline Tensor sign(Operand x) { return elementwise(OpKind::Sign, {x}); }
inline Tensor floor(Operand x) { return elementwise(OpKind::Floor, {x}); }
inline Tensor ceil(Operand x) { return elementwise(OpKind::Ceil, {x}); }
/// Ties to even.
inline Tensor round(Operand x) { return elementwise(OpKind::Round, {x}); }
inline Tensor clamp(Operand x, Operand low, Operand high) { return elementwise(OpKind::Clamp, {x, low, high}); }
inline Tensor sqrt(Operand x) { return elementwise(OpKind::Sqrt, {x}); }
inline Tensor rsqrt(Operand x) { return elementwise(OpKind::Rsqrt, {x}); }
inline Tensor exp(Operand x) { return elementwise(OpKind::Exp, {x}); }
inline Tensor log(Operand x) { return elementwise(OpKind::Log, {x}); }
inline Tensor exp2(Operand x) { return elementwise(OpKind::Exp2, {x}); }
inline Tensor log2(Operand x) { return elementwise(OpKind::Log2, {x}); }
inline Tensor expm1(Operand x) { return elementwise(OpKind::Expm1, {x}); }
inline Tensor log1p(Operand x) { return elementwise(OpKind::Log1p, {x}); }
inline Tensor pow(Operand x, Operand y) { return elementwise(OpKind::Pow, {x, y}); }
inline Tensor sin(Operand x) { return elementwise(OpKind::Sin, {x}); }
inline Tensor cos(Operand x) { return elementwise(OpKind::Cos, {x}); }
inline Tensor erf(Operand x) { return elementwise(OpKind::Erf, {x}); }
inline Tensor tanh(Operand x) { return elementwise(OpKind::Tanh, {x}); }
inline Tensor sigmoid(Operand x) { return elementwise(OpKind::Sigmoid, {x}); }
inline Tensor silu(Operand x) { return elementwise(OpKind::Silu, {x}); }
/// The form with erf, and the one with tanh.
inline Tensor gelu(Operand x) { return elementwise(OpKind::Gelu, {x}); }
inline Tensor geluTanh(Operand x) { return elementwise(OpKind::GeluTanh, {x}); }
/// x itself where it has the element type already.
Tensor convert(Operand x, DType to);

//===- Ops with structure -===//

/// Axis a of x becomes axis dims[a]; without dims, axes are aligned at the end.
Tensor broadcast(Operand x, const Shape &shape, std::optional<std::vector<int64_t>> dims = std::nullopt);
Tensor reshape(Operand x, const Shape &shape);
/// Axis a of the result is axis perm[a] of x; without perm, the order is turned round.
Tensor transpose(Operand x, std::optional<std::vector<int64_t>> perm = std::nullopt);
/// Product over the last two axes; leading ones are batch axes, which broadcast. 16-bit floats may give f32 (`as`).
Tensor matmul(Operand a, Operand b, std::optional<DType> as = std::nullopt);

/// The part of each axis from `starts` up to `limits`, every `steps`-th element; empty lists mean all of it.
Tensor slice(Operand x, const Shape &starts, const Shape &limits = {}, const std::vector<int64_t> &steps = {});
/// x with `low` elements before and `high` behind along each axis, all of them `value`.
Tensor pad(Operand x, const Shape &low, const Shape &high, Operand value);
/// The operands one after the other along an axis.
Tensor concat(const std::vector<Operand> &operands, int64_t axis);
/// Rows of a table: `axis` of it becomes the axes of `rows`, integers that are clamped to it.
Tensor gather(Operand table, Operand rows, int64_t axis = 0);
/// Each element is its index along `axis`, as i32 or i64.
Tensor iota(const Graph &graph, DType dtype, const Shape &shape, int64_t axis = 0,
            std::source_location at = std::source_location::current());
/// Running sums.
Tensor cumsum(Operand x, int64_t axis = -1);

/// The axes vanish, or stay with size 1. 16-bit floats may give f32 (`as`).
Tensor sum(Operand x, const Axes &axes, bool keepDims = false, std::optional<DType> as = std::nullopt);
Tensor amax(Operand x, const Axes &axes, bool keepDims = false);
Tensor amin(Operand x, const Axes &axes, bool keepDims = false);
/// A combiner gets what is accumulated, one scalar per operand, then as many that come in, and gives what is accumulated next.
using Combiner = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
/// Reduces operands of one shape together; `identities` are numbers, one per operand.
std::vector<Tensor> reduce(const std::vector<Operand> &operands, const Axes &axes, const std::vector<Operand> &identities,
                           const Combiner &combiner);

//===- Compositions -===//

/// The sum over the number of elements. 16-bit floats are summed in f32.
Tensor mean(Operand x, const Axes &axes, bool keepDims = false);
/// exp(x - max) over its sum.
Tensor softmax(Operand x, int64_t axis = -1);
/// (x - mean) * rsqrt(variance + eps), times a scale and plus a shift where they are given (of the sizes of the axes).
Tensor layerNorm(const std::vector<Operand> &xScaleShift, const Axes &axes, double eps = 1e-5);
/// x * rsqrt(mean of the squares + eps), times a scale where it is given.
Tensor rmsNorm(const std::vector<Operand> &xScale, const Axes &axes, double eps = 1e-5);
/// The index of the largest element along the axis, as i64 or i32.
Tensor argmax(Operand x, int64_t axis = -1, DType as = DType::I64);

} // namespace minic
