#include "minic/Interp/Oracle.h"

#include "OracleComposite.h"
#include "OracleIndexed.h"
#include "OracleMath.h"
#include "Prepare.h"
#include "minic/IR/Combiner.h"
#include "minic/IR/CustomOp.h"
#include "minic/IR/Printer.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace minic {

using namespace interp;

namespace {

/// One value of a graph may take this much; more is refused.
constexpr int64_t maxValueBytes = int64_t(8) << 30;

class Evaluator {
public:
  Evaluator(const Function &graph, const DimBindings &dims) : graph(graph), dims(dims) {}
  Expected<std::vector<HostTensor>> run(std::span<const HostTensor> inputs);

private:
  // All give false after an error.
  bool fail(const Operation *op, ErrorCode code, std::string message);
  bool shapeOf(Type type, const Operation *op, std::vector<int64_t> &shape, int64_t &count);
  bool make(const Operation *op, DType dtype, int64_t size, LaneArray &array);
  bool bindInputs(std::span<const HostTensor> inputs);
  bool runBlock(const Block &block, std::vector<LaneArray> &yields);
  bool runOp(const Operation &op);
  bool constant(const Operation &op);
  bool elementwise(const Operation &op, std::span<const LaneArray> operands, int64_t count, LaneArray &result);
  bool broadcast(const Operation &op);
  bool transpose(const Operation &op);
  bool gather(const Operation &op, std::span<const int64_t> shape, std::span<const int64_t> strides);
  bool indexed(const Operation &op);
  bool size(const Operation &op);
  bool reduce(const Operation &op);
  bool reducePieces(const Operation &op, std::span<const Attribute> inits, std::vector<LaneArray> &values, int64_t outer,
                    int64_t extent, int64_t inner, int64_t chunk);
  bool reduceAxis(const Operation &op, std::span<const Attribute> inits, std::vector<LaneArray> &values, int64_t outer,
                  int64_t extent, int64_t inner);
  bool combine(const Operation &op, std::vector<LaneArray> &lower, std::span<const LaneArray> upper, int64_t count);
  bool convertTo(DType dtype, const Operation &op, LaneArray &array);
  bool matmul(const Operation &op);
  bool cumsum(const Operation &op);
  bool composite(const Operation &op);
  bool fusion(const Operation &op);
  bool custom(const Operation &op);
  void set(const Value *value, LaneArray lanes) { values[value] = {std::move(lanes), value->uses().size()}; }

  struct Entry {
    LaneArray lanes;
    size_t usesLeft = 0; ///< Dead at zero.
  };
  const Function &graph;
  const DimBindings &dims;
  std::unordered_map<const Value *, Entry> values;
  std::optional<Diagnostic> error;
};

bool Evaluator::fail(const Operation *op, ErrorCode code, std::string message) {
  if (!error) {
    error =
        Diagnostic{.code = code, .message = "graph '" + graph.name + "': " + std::move(message), .loc = op ? op->loc() : graph.loc};
    if (op)
      error->note("in: " + printOperation(*op));
  }
  return false;
}

bool Evaluator::shapeOf(Type type, const Operation *op, std::vector<int64_t> &shape, int64_t &count) {
  shape.clear();
  for (const DimExpr &dim : type.shape()) {
    auto size = dim.evaluate(dims);
    if (!size) {
      std::vector<std::string> names;
      dim.collectNames(names);
      for (const std::string &name : names)
        if (!dims.count(name))
          return fail(op, ErrorCode::UnboundDim, "the dimension " + name + " has no value");
      return fail(op, ErrorCode::BadDim, "the size " + dim.str() + " does not fit 64 bits");
    }
    shape.push_back(*size);
  }
  auto product = checkedProduct(shape);
  if (!product || *product > maxValueBytes / 8)
    return fail(op, ErrorCode::TooLarge,
                "a value of " + shapeString(type.dtype(), shape) + " is too large for the reference evaluation");
  count = *product;
  return true;
}

bool Evaluator::make(const Operation *op, DType dtype, int64_t size, LaneArray &array) {
  array = LaneArray::make(dtype, size);
  return array.data || fail(op, ErrorCode::OutOfMemory, "no memory for a value of " + std::to_string(size) + " elements");
}

bool Evaluator::bindInputs(std::span<const HostTensor> inputs) {
  if (inputs.size() != graph.params().size())
    return fail(nullptr, ErrorCode::BadInput,
                std::to_string(inputs.size()) + " inputs are given, and there are " + std::to_string(graph.params().size()) +
                    " parameters");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value *param = graph.params()[i];
    std::vector<int64_t> shape;
    int64_t count;
    if (!shapeOf(param->type(), nullptr, shape, count))
      return false;
    DType dtype = param->type().dtype();
    if (inputs[i].dtype() != dtype || inputs[i].shape() != shape)
      return fail(nullptr, ErrorCode::BadInput,
                  "the input '" + param->name() + "' is " + shapeString(inputs[i].dtype(), inputs[i].shape()) +
                      ", and the parameter is " + shapeString(dtype, shape));
    LaneArray lanes;
    if (!make(nullptr, oracleDType(dtype), count, lanes))
      return false;
    if (isFloat(dtype))
      for (int64_t j = 0; j < count; ++j)
        reinterpret_cast<double *>(lanes.data.get())[j] = inputs[i].get(j);
    else if (count)
      std::memcpy(lanes.data.get(), inputs[i].bytes().data(), size_t(count * dtypeBytes(dtype)));
    set(param, std::move(lanes));
  }
  return true;
}

bool Evaluator::constant(const Operation &op) {
  DType dtype = op.result()->type().dtype(), stored = oracleDType(dtype);
  std::vector<Scalar> elements = constantElements(*op.attr("value"), stored);
  LaneArray lanes;
  if (!make(&op, stored, int64_t(elements.size()), lanes))
    return false;
  for (size_t i = 0; i < elements.size(); ++i) {
    if (isFloat(dtype))
      elements[i] = Scalar::of(roundToDType(elements[i].toDouble(stored), dtype), stored);
    writeScalar(lanes.data.get() + i * size_t(dtypeBytes(stored)), elements[i], stored);
  }
  set(op.result(), std::move(lanes));
  return true;
}

bool Evaluator::elementwise(const Operation &op, std::span<const LaneArray> operands, int64_t count, LaneArray &result) {
  if (std::all_of(operands.begin(), operands.end(), [](const LaneArray &operand) { return operand.isSplat(); }))
    count = 1;
  std::vector<Lanes> lanes;
  for (const LaneArray &operand : operands)
    lanes.push_back(operand.lanes(count));
  DType to = op.result()->type().dtype();
  if (!make(&op, oracleDType(to), count, result))
    return false;
  evalInF64(op.kind(), op.wordAttr("predicate"), op.operand(0)->type().dtype(), to, lanes, result.data.get(), count);
  return true;
}

/// The result of `shape` whose elements stand at the operand's `strides`.
bool Evaluator::gather(const Operation &op, std::span<const int64_t> shape, std::span<const int64_t> strides) {
  const LaneArray &operand = values.at(op.operand(0)).lanes;
  int64_t bytes = dtypeBytes(operand.dtype), done = 0;
  LaneArray result;
  if (!make(&op, operand.dtype, *checkedProduct(shape), result))
    return false;
  forEachOffset(shape, strides, [&](int64_t offset) {
    std::memcpy(result.data.get() + done, operand.data.get() + offset * bytes, size_t(bytes));
    done += bytes;
  });
  set(op.result(), std::move(result));
  return true;
}

bool Evaluator::broadcast(const Operation &op) {
  std::vector<int64_t> from, to;
  int64_t count;
  if (!shapeOf(op.operand(0)->type(), &op, from, count) || !shapeOf(op.result()->type(), &op, to, count))
    return false;
  if (values.at(op.operand(0)).lanes.isSplat()) {
    set(op.result(), LaneArray(values.at(op.operand(0)).lanes));
    return true;
  }
  std::vector<int64_t> fromStrides = rowMajorStrides(from), strides(to.size(), 0), axes = op.intsAttr("dims");
  for (size_t axis = 0; axis < from.size(); ++axis) {
    size_t target = size_t(axes[axis]);
    if (from[axis] != to[target] && from[axis] != 1)
      return fail(&op, ErrorCode::ShapeMismatch,
                  "an axis of size " + std::to_string(from[axis]) + " becomes one of size " + std::to_string(to[target]));
    strides[target] = from[axis] == 1 ? 0 : fromStrides[axis];
  }
  return gather(op, to, strides);
}

bool Evaluator::transpose(const Operation &op) {
  std::vector<int64_t> from, to, perm = op.intsAttr("perm");
  int64_t count;
  if (!shapeOf(op.operand(0)->type(), &op, from, count) || !shapeOf(op.result()->type(), &op, to, count))
    return false;
  if (values.at(op.operand(0)).lanes.isSplat()) {
    set(op.result(), LaneArray(values.at(op.operand(0)).lanes));
    return true;
  }
  std::vector<int64_t> fromStrides = rowMajorStrides(from), strides;
  for (int64_t axis : perm)
    strides.push_back(fromStrides[size_t(axis)]);
  return gather(op, to, strides);
}

bool Evaluator::indexed(const Operation &op) {
  std::vector<IndexedOperand> operands(op.numOperands());
  std::vector<int64_t> shape;
  int64_t count;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (!shapeOf(op.operand(i)->type(), &op, operands[i].shape, count))
      return false;
    operands[i].lanes = values.at(op.operand(i)).lanes;
  }
  LaneArray result;
  if (!shapeOf(op.result()->type(), &op, shape, count) || !make(&op, oracleDType(op.result()->type().dtype()), count, result))
    return false;
  evalIndexed(op, dims, operands, shape, result);
  set(op.result(), std::move(result));
  return true;
}

bool Evaluator::size(const Operation &op) {
  auto value = op.attr("expr")->asDim()->evaluate(dims);
  if (!value)
    return fail(&op, ErrorCode::UnboundDim, "the size " + op.attr("expr")->str() + " has no value");
  LaneArray result;
  if (!make(&op, DType::I64, 1, result))
    return false;
  writeScalar(result.data.get(), Scalar{uint64_t(*value)}, DType::I64);
  set(op.result(), std::move(result));
  return true;
}

bool Evaluator::combine(const Operation &op, std::vector<LaneArray> &lower, std::span<const LaneArray> upper, int64_t count) {
  if (!op.numRegions()) {
    DType dtype = computeDType(op.operand(0)->type().dtype());
    LaneArray result;
    if (!make(&op, lower[0].dtype, count, result))
      return false;
    Lanes operands[] = {lower[0].lanes(count), upper[0].lanes(count)};
    evalInF64(combinerKind(op.wordAttr("combiner")), {}, dtype, dtype, operands, result.data.get(), count);
    lower[0] = std::move(result);
    return true;
  }
  // The region's scalars are arrays here: one lane per pair that is combined.
  Block &region = op.region();
  for (size_t i = 0; i < lower.size(); ++i) {
    set(region.argument(unsigned(i)), lower[i]);
    set(region.argument(unsigned(i + lower.size())), upper[i]);
  }
  for (const Operation &inner : region) {
    if (inner.info().terminator) {
      for (size_t i = 0; i < lower.size(); ++i)
        lower[i] = values.at(inner.operand(unsigned(i))).lanes.expanded(count);
      break;
    }
    if (inner.is(OpKind::Constant)) {
      if (!constant(inner))
        return false;
      continue;
    }
    if (!inner.info().elementwise)
      return fail(&inner, ErrorCode::BadRegion, "a combiner holds an op that is not element-wise");
    std::vector<LaneArray> operands;
    for (const Value *operand : inner.operands())
      operands.push_back(values.at(operand).lanes);
    LaneArray result;
    if (!elementwise(inner, operands, count, result))
      return false;
    set(inner.result(), std::move(result));
  }
  return true;
}

/// [outer][extent][inner] to [outer][inner], by a pairwise tree.
bool Evaluator::reduceAxis(const Operation &op, std::span<const Attribute> inits, std::vector<LaneArray> &arrays, int64_t outer,
                           int64_t extent, int64_t inner) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (extent == 0) {
      LaneArray init;
      if (!make(&op, arrays[i].dtype, 1, init))
        return false;
      writeScalar(init.data.get(), Scalar::of(inits[i], init.dtype), init.dtype);
      arrays[i] = init.expanded(outer * inner);
    } else {
      arrays[i] = arrays[i].expanded(outer * extent * inner);
    }
    if (!arrays[i].data)
      return fail(&op, ErrorCode::OutOfMemory, "no memory for a reduction");
  }
  if (outer * inner == 0)
    return true;
  while (extent > 1) {
    int64_t half = int64_t(std::bit_ceil(uint64_t(extent))) / 2, pairs = extent - half;
    auto part = [&](const LaneArray &from, int64_t first, int64_t length, LaneArray &to) {
      int64_t bytes = dtypeBytes(from.dtype);
      if (!make(&op, from.dtype, outer * length * inner, to))
        return false;
      for (int64_t o = 0; o < outer; ++o)
        std::memcpy(to.data.get() + o * length * inner * bytes, from.data.get() + (o * extent + first) * inner * bytes,
                    size_t(length * inner * bytes));
      return true;
    };
    std::vector<LaneArray> combined(arrays.size()), upper(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i)
      if (!part(arrays[i], 0, pairs, combined[i]) || !part(arrays[i], half, pairs, upper[i]))
        return false;
    if (!combine(op, combined, upper, outer * pairs * inner))
      return false;
    for (size_t i = 0; i < arrays.size(); ++i) {
      LaneArray next;
      if (!part(arrays[i], 0, half, next))
        return false;
      int64_t bytes = dtypeBytes(next.dtype);
      for (int64_t o = 0; o < outer; ++o)
        std::memcpy(next.data.get() + o * half * inner * bytes, combined[i].data.get() + o * pairs * inner * bytes,
                    size_t(pairs * inner * bytes));
      arrays[i] = std::move(next);
    }
    extent = half;
  }
  return true;
}

static int64_t numPieces(int64_t extent, int64_t chunk) { return extent / chunk + (extent % chunk != 0); }

/// [outer][extent][inner] to [pieces][outer][inner].
bool Evaluator::reducePieces(const Operation &op, std::span<const Attribute> inits, std::vector<LaneArray> &arrays, int64_t outer,
                             int64_t extent, int64_t inner, int64_t chunk) {
  int64_t pieces = numPieces(extent, chunk);
  std::vector<LaneArray> results(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    arrays[i] = arrays[i].expanded(outer * extent * inner);
    if (!arrays[i].data || !make(&op, arrays[i].dtype, pieces * outer * inner, results[i]))
      return fail(&op, ErrorCode::OutOfMemory, "no memory for a reduction");
  }
  for (int64_t piece = 0; piece < pieces; ++piece) {
    int64_t length = std::min(chunk, extent - piece * chunk);
    std::vector<LaneArray> parts(arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      int64_t bytes = inner * dtypeBytes(arrays[i].dtype);
      if (!make(&op, arrays[i].dtype, outer * length * inner, parts[i]))
        return false;
      for (int64_t o = 0; o < outer; ++o)
        std::memcpy(parts[i].data.get() + o * length * bytes, arrays[i].data.get() + (o * extent + piece * chunk) * bytes,
                    size_t(length * bytes));
    }
    if (!reduceAxis(op, inits, parts, outer, length, inner))
      return false;
    for (size_t i = 0; i < arrays.size(); ++i) {
      LaneArray part = parts[i].expanded(outer * inner);
      int64_t bytes = outer * inner * dtypeBytes(part.dtype);
      std::memcpy(results[i].data.get() + piece * bytes, part.data.get(), size_t(bytes));
    }
  }
  arrays = std::move(results);
  return true;
}

bool Evaluator::reduce(const Operation &op) {
  std::vector<int64_t> shape;
  int64_t count;
  if (!shapeOf(op.operand(0)->type(), &op, shape, count))
    return false;
  std::vector<LaneArray> arrays;
  std::vector<Attribute> inits;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    arrays.push_back(values.at(op.operand(i)).lanes);
    if (!convertTo(computeDType(op.operand(i)->type().dtype()), op, arrays.back()))
      return false;
    inits.push_back(op.attr("init") ? (*op.attr("init")->asList())[i]
                                    : reductionIdentity(op.wordAttr("combiner"), op.operand(i)->type().dtype()));
  }
  std::vector<int64_t> axes = op.intsAttr("axes"), chunks = op.optionalInts("chunks");
  for (size_t i = axes.size(); i-- > 0;) {
    // Numbers of pieces stand in front already.
    auto middle = shape.begin() + axes[i] + (chunks.empty() ? 0 : int64_t(axes.size() - 1 - i));
    int64_t outer = *checkedProduct(std::span(shape.begin(), middle)), inner = *checkedProduct(std::span(middle + 1, shape.end()));
    int64_t extent = *middle;
    shape.erase(middle);
    if (!chunks.empty())
      shape.insert(shape.begin(), numPieces(extent, chunks[i]));
    if (chunks.empty() ? !reduceAxis(op, inits, arrays, outer, extent, inner)
                       : !reducePieces(op, inits, arrays, outer, extent, inner, chunks[i]))
      return false;
  }
  for (unsigned i = 0; i < op.numResults(); ++i) {
    if (!convertTo(op.result(i)->type().dtype(), op, arrays[i]))
      return false;
    set(op.result(i), std::move(arrays[i]));
  }
  if (op.numRegions()) {
    for (const Value *argument : op.region().arguments())
      values.erase(argument);
    for (const Operation &inner : op.region())
      for (const Value *result : inner.results())
        values.erase(result);
  }
  return true;
}

/// Narrow integers count in wide ones; floats are f64 all along.
bool Evaluator::convertTo(DType dtype, const Operation &op, LaneArray &array) {
  if (isFloat(dtype) || array.dtype == dtype)
    return true;
  LaneArray result;
  if (!make(&op, dtype, array.size, result))
    return false;
  Lanes lanes[] = {array.lanes(array.size)};
  evalElementwise(OpKind::Convert, {}, lanes, dtype, result.data.get(), array.size);
  array = std::move(result);
  return true;
}

bool Evaluator::matmul(const Operation &op) {
  std::vector<int64_t> lhsShape, rhsShape;
  int64_t lhsCount, rhsCount, count;
  std::vector<int64_t> shape;
  if (!shapeOf(op.operand(0)->type(), &op, lhsShape, lhsCount) || !shapeOf(op.operand(1)->type(), &op, rhsShape, rhsCount) ||
      !shapeOf(op.result()->type(), &op, shape, count))
    return false;
  LaneArray lhs = values.at(op.operand(0)).lanes, rhs = values.at(op.operand(1)).lanes, out;
  DType wide = computeDType(op.operand(0)->type().dtype());
  if (!convertTo(wide, op, lhs) || !convertTo(wide, op, rhs))
    return false;
  lhs = lhs.expanded(lhsCount), rhs = rhs.expanded(rhsCount);
  if (!lhs.data || !rhs.data)
    return fail(&op, ErrorCode::OutOfMemory, "no memory for a matmul");
  int64_t m = lhsShape[lhsShape.size() - 2], k = lhsShape.back(), n = rhsShape.back(), rows = rhsShape[rhsShape.size() - 2];
  if (rows != k)
    return fail(&op, ErrorCode::ContractedMismatch,
                "the contracted sizes are " + std::to_string(k) + " and " + std::to_string(rows));
  if (!make(&op, lhs.dtype, count, out))
    return false;
  std::memset(out.data.get(), 0, size_t(count * dtypeBytes(out.dtype)));
  std::vector<int64_t> chunks = op.optionalInts("chunks");
  int64_t chunk = chunks.empty() ? k : chunks[0], pieces = chunks.empty() ? 1 : shape[0];
  // Where the matrix of each operand for a batch lies: axes of size 1 and missing ones repeat.
  int64_t batches = count ? count / (pieces * m * n) : 0;
  std::vector<int64_t> lhsStarts, rhsStarts, batch(shape.begin() + int64_t(chunks.size()), shape.end() - 2);
  auto starts = [&](const std::vector<int64_t> &from, std::vector<int64_t> &to) {
    std::vector<int64_t> all = rowMajorStrides(from), strides(batch.size(), 0);
    for (size_t a = 0, missing = batch.size() + 2 - from.size(); a + 2 < from.size(); ++a)
      strides[missing + a] = from[a] == 1 ? 0 : all[a];
    forEachOffset(batch, strides, [&](int64_t offset) { to.push_back(offset); });
  };
  starts(lhsShape, lhsStarts);
  starts(rhsShape, rhsStarts);
  auto multiplyAs = [&]<typename T>(T) {
    T *to = reinterpret_cast<T *>(out.data.get());
    const T *left = reinterpret_cast<const T *>(lhs.data.get()), *right = reinterpret_cast<const T *>(rhs.data.get());
    for (int64_t b = 0; b < pieces * batches; ++b) {
      int64_t first = b / batches * chunk;
      size_t matrix = size_t(b % batches);
      multiply(to + b * m * n, left + lhsStarts[matrix] + first, k, right + rhsStarts[matrix] + first * n, m,
               std::min(chunk, k - first), n);
    }
  };
  if (lhs.dtype == DType::F64)
    multiplyAs(double());
  else if (lhs.dtype == DType::I64)
    multiplyAs(uint64_t());
  else
    multiplyAs(uint32_t());
  if (!convertTo(op.result()->type().dtype(), op, out))
    return false;
  set(op.result(), std::move(out));
  return true;
}

bool Evaluator::cumsum(const Operation &op) {
  std::vector<int64_t> shape;
  int64_t count;
  if (!shapeOf(op.operand(0)->type(), &op, shape, count))
    return false;
  LaneArray sums = values.at(op.operand(0)).lanes;
  DType dtype = op.operand(0)->type().dtype();
  if (!convertTo(computeDType(dtype), op, sums))
    return false;
  sums = sums.expanded(count);
  LaneArray out;
  if (!sums.data || !make(&op, sums.dtype, count, out))
    return fail(&op, ErrorCode::OutOfMemory, "no memory for running sums");
  size_t axis = size_t(op.intAttr("axis"));
  int64_t inner = *checkedProduct(std::span(shape).subspan(axis + 1)), extent = shape[axis];
  auto run = [&]<typename T>(const T *from, T *to) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = i / inner % extent ? T(to[i - inner] + from[i]) : T(T(0) + from[i]);
  };
  if (sums.dtype == DType::F64)
    run(reinterpret_cast<const double *>(sums.data.get()), reinterpret_cast<double *>(out.data.get()));
  else if (sums.dtype == DType::I64)
    run(reinterpret_cast<const uint64_t *>(sums.data.get()), reinterpret_cast<uint64_t *>(out.data.get()));
  else
    run(reinterpret_cast<const uint32_t *>(sums.data.get()), reinterpret_cast<uint32_t *>(out.data.get()));
  if (!convertTo(dtype, op, out))
    return false;
  set(op.result(), std::move(out));
  return true;
}

bool Evaluator::composite(const Operation &op) {
  std::vector<int64_t> shape, resultShape;
  int64_t count, resultCount;
  std::vector<LaneArray> operands;
  for (unsigned i = op.numOperands(); i-- > 0;) { // The shape of operand 0 stays.
    if (!shapeOf(op.operand(i)->type(), &op, shape, count))
      return false;
    operands.insert(operands.begin(), values.at(op.operand(i)).lanes.expanded(count));
    if (!operands.front().data)
      return fail(&op, ErrorCode::OutOfMemory, "no memory for the operands of a composite");
  }
  LaneArray result;
  if (!shapeOf(op.result()->type(), &op, resultShape, resultCount) ||
      !make(&op, oracleDType(op.result()->type().dtype()), resultCount, result))
    return false;
  evalComposite(op, shape, operands, result.data.get());
  set(op.result(), std::move(result));
  return true;
}

bool Evaluator::fusion(const Operation &op) {
  Block &region = op.region();
  for (unsigned i = 0; i < op.numOperands(); ++i)
    set(region.argument(i), LaneArray(values.at(op.operand(i)).lanes));
  std::vector<LaneArray> yields;
  if (!runBlock(region, yields))
    return false;
  for (unsigned i = 0; i < op.numResults(); ++i)
    set(op.result(i), std::move(yields[i]));
  return true;
}

/// What the declaration's body gives. It is rounded no more than if it stood here.
bool Evaluator::custom(const Operation &op) {
  const Function &declared = *customOf(op);
  std::vector<Type> types;
  for (const Value *operand : op.operands())
    types.push_back(operand->type());
  auto sizes = unifySizes(declared, types);
  if (!sizes) {
    error = sizes.errors().front();
    return false;
  }
  DimBindings bound;
  for (const auto &[name, size] : *sizes) {
    auto value = size.evaluate(dims);
    if (!value)
      return fail(&op, ErrorCode::UnboundDim, "the size " + size.str() + " has no value");
    bound[name] = *value;
  }
  Evaluator inner(declared, bound);
  for (unsigned i = 0; i < op.numOperands(); ++i)
    inner.set(declared.params()[i], LaneArray(values.at(op.operand(i)).lanes));
  std::vector<LaneArray> results;
  if (!inner.runBlock(declared.body(), results)) {
    error = std::move(inner.error);
    return false;
  }
  for (unsigned i = 0; i < op.numResults(); ++i)
    set(op.result(i), std::move(results[i]));
  return true;
}

bool Evaluator::runOp(const Operation &op) {
  switch (op.kind()) {
  case OpKind::Constant:
    return constant(op);
  case OpKind::Broadcast:
    return broadcast(op);
  case OpKind::Reshape:
    set(op.result(), LaneArray(values.at(op.operand(0)).lanes));
    return true;
  case OpKind::Transpose:
    return transpose(op);
  case OpKind::Reduce:
    return reduce(op);
  case OpKind::Matmul:
    return matmul(op);
  case OpKind::Size:
    return size(op);
  case OpKind::Slice:
  case OpKind::Pad:
  case OpKind::Concat:
  case OpKind::Gather:
  case OpKind::Iota:
    return indexed(op);
  case OpKind::Softmax:
  case OpKind::LayerNorm:
  case OpKind::RmsNorm:
  case OpKind::Mean:
  case OpKind::Argmax:
    return composite(op);
  case OpKind::Cumsum:
    return cumsum(op);
  case OpKind::Fusion:
    return fusion(op);
  case OpKind::Custom:
    return custom(op);
  default:
    break;
  }
  if (!op.info().elementwise)
    return fail(&op, ErrorCode::CannotInterpret,
                "the reference evaluation does not know the op '" + std::string(op.info().name) + "'");
  std::vector<int64_t> shape;
  int64_t count;
  if (!shapeOf(op.result()->type(), &op, shape, count))
    return false;
  std::vector<LaneArray> operands;
  for (const Value *operand : op.operands())
    operands.push_back(values.at(operand).lanes);
  LaneArray result;
  if (!elementwise(op, operands, count, result))
    return false;
  set(op.result(), std::move(result));
  return true;
}

bool Evaluator::runBlock(const Block &block, std::vector<LaneArray> &yields) {
  for (const Operation &op : block) {
    if (op.info().terminator) {
      for (const Value *operand : op.operands())
        yields.push_back(values.at(operand).lanes);
      return true;
    }
    if (!runOp(op))
      return false;
    for (const Value *operand : op.operands())
      if (auto it = values.find(operand); it != values.end() && --it->second.usesLeft == 0)
        values.erase(it);
    for (const Value *result : op.results())
      if (!result->hasUses())
        values.erase(result);
  }
  return fail(nullptr, ErrorCode::MissingTerminator, "a block does not end with its terminator");
}

Expected<std::vector<HostTensor>> Evaluator::run(std::span<const HostTensor> inputs) {
  std::vector<LaneArray> returned;
  if (!bindInputs(inputs) || !runBlock(graph.body(), returned))
    return std::move(*error);
  std::vector<HostTensor> results;
  for (size_t i = 0; i < returned.size(); ++i) {
    Type type = graph.terminator()->operand(unsigned(i))->type();
    std::vector<int64_t> shape;
    int64_t count;
    if (!shapeOf(type, graph.terminator(), shape, count))
      return std::move(*error);
    LaneArray lanes = returned[i].expanded(count);
    if (!lanes.data)
      return Diagnostic{.code = ErrorCode::OutOfMemory, .message = "no memory for the results of graph '" + graph.name + "'"};
    HostTensor &tensor = results.emplace_back(type.dtype(), shape);
    if (isFloat(type.dtype()))
      for (int64_t j = 0; j < count; ++j)
        tensor.set(j, reinterpret_cast<const double *>(lanes.data.get())[j]);
    else if (count)
      std::memcpy(tensor.bytes().data(), lanes.data.get(), tensor.bytes().size());
  }
  return results;
}

} // namespace

Expected<std::vector<HostTensor>> evaluateGraph(const Function &graph, std::span<const HostTensor> inputs,
                                                const DimBindings &dims) {
  if (!graph.isGraphLike())
    return Diagnostic{.code = ErrorCode::CannotInterpret, .message = "'" + graph.name + "' is no graph", .loc = graph.loc};
  return Evaluator(graph, dims).run(inputs);
}

} // namespace minic
