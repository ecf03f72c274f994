// split-reductions: cuts a reduction that a few programs would do, one after the other what each reads, into two. In default and
// fast numerics, as it adds in another order.
//
//   %s = reduce sum %x, axes = [0] : tensor<4096xf32>      ->  %p = reduce sum %x, axes = [0], chunks = [1024] :
//   tensor<64x4096xf32>
//                                                              %s = reduce sum %p, axes = [0] : tensor<4096xf32>
//
// What is computed on the way to %x runs in the first kernel, what follows %s in the second. A reduction that its operand meets
// again, as in a softmax, stays whole where the row fits the chip: it is read once that way.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Analysis/ScheduleChoice.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

namespace minic {
namespace {

/// Elements that a program reads are worth a second launch from here on.
constexpr int64_t longRead = 1 << 16, shortestPiece = 1 << 14;

std::optional<std::vector<int64_t>> constantsOf(const std::vector<DimExpr> &shape) {
  std::vector<int64_t> extents;
  for (const DimExpr &dim : shape) {
    if (!dim.isConstant())
      return std::nullopt;
    extents.push_back(*dim.constant());
  }
  return extents;
}

/// True if what comes of the reduction meets a tensor as large as its operand, in what could be one kernel.
bool comesBack(const Operation &reduce) {
  constexpr size_t limit = 64;
  const std::vector<DimExpr> &shape = reduce.operand(0)->type().shape();
  std::vector<const Operation *> stack = {&reduce};
  std::unordered_set<const Operation *> seen;
  while (!stack.empty() && seen.size() < limit) {
    const Operation *op = stack.back();
    stack.pop_back();
    for (const Value *result : op->results())
      for (const Use &use : result->uses()) {
        const Operation &user = *use.user;
        if (user.info().terminator || user.is(OpKind::Reshape) || user.is(OpKind::Custom) ||
            user.info().axes == AxisRule::Contract || !seen.insert(&user).second)
          continue;
        if (user.info().elementwise && user.result()->type().shape() == shape)
          return true;
        stack.push_back(&user);
      }
  }
  return false;
}

/// Elements of a piece along each axis, if cutting pays.
std::optional<std::vector<int64_t>> choosePieces(const Operation &reduce, const TargetInfo &target) {
  Type type = reduce.operand(0)->type();
  auto extents = constantsOf(type.shape());
  std::vector<int64_t> axes = reduce.intsAttr("axes");
  if (!extents || axes.empty() || reduce.attr("chunks"))
    return std::nullopt;
  for (unsigned i = 0; i < reduce.numResults(); ++i)
    if (DType dtype = reduce.result(i)->type().dtype(); !isFloat(dtype) && isNarrow(dtype))
      return std::nullopt; // Converting would saturate, where sums wrap.
  int64_t kept = 1, reduced = 1, total;
  for (int64_t axis = 0; axis < type.rank(); ++axis) {
    int64_t &product = std::ranges::find(axes, axis) == axes.end() ? kept : reduced;
    if (__builtin_mul_overflow(product, (*extents)[size_t(axis)], &product))
      return std::nullopt;
  }
  if (__builtin_mul_overflow(kept, reduced, &total) || total < longRead)
    return std::nullopt;

  // Columns that lie side by side are read together.
  bool columns = axes.back() != type.rank() - 1;
  int64_t side = columns ? std::min<int64_t>(extents->back(), 32 * 16 / dtypeBytes(type.dtype())) : 1;
  int64_t programs = (kept + side - 1) / side;
  if (programs >= 2 * target.multiprocessors || total / std::max<int64_t>(programs, 1) < longRead)
    return std::nullopt;
  bool isMetAgain = comesBack(reduce);
  if (fitsOnChip(type, axes, target) && (!columns || isMetAgain))
    return std::nullopt;
  if (isNarrow(type.dtype()) && isMetAgain)
    return std::nullopt; // What two kernels hand over in 16 bits one of them keeps in 32.

  int64_t length = std::max(shortestPiece, total / (8 * target.multiprocessors)) / side;
  std::vector<int64_t> chunks(axes.size());
  int64_t inner = 1, pieces = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    int64_t extent = (*extents)[size_t(axes[i])];
    chunks[i] = int64_t(std::min(std::bit_floor(uint64_t(std::max<int64_t>(length / inner, 1))), std::bit_ceil(uint64_t(extent))));
    pieces *= (extent + chunks[i] - 1) / chunks[i];
    inner *= extent;
  }
  return pieces > 1 ? std::optional(chunks) : std::nullopt;
}

Operation *reduceAs(Builder &builder, Operation &reduce, const std::vector<Value *> &operands, const std::vector<Type> &types,
                    const std::vector<int64_t> &axes, const std::vector<int64_t> &chunks) {
  ValueMap map;
  for (unsigned i = 0; i < reduce.numOperands(); ++i)
    map.map(reduce.operand(i), operands[i]);
  Operation *result = cloneOperation(builder, reduce, map);
  result->setAttr("axes", Attribute::ints(axes));
  if (!chunks.empty())
    result->setAttr("chunks", Attribute::ints(chunks));
  for (unsigned i = 0; i < result->numResults(); ++i)
    result->result(i)->setType(types[i]);
  return result;
}

void split(Operation &reduce, const std::vector<int64_t> &chunks) {
  Builder builder(&reduce);
  builder.setLoc(reduce.loc());
  Context &context = builder.context();
  std::vector<int64_t> axes = reduce.intsAttr("axes"), pieceAxes;
  std::vector<DimExpr> shape;
  const std::vector<DimExpr> &from = reduce.operand(0)->type().shape();
  for (size_t i = 0; i < axes.size(); ++i) {
    pieceAxes.push_back(int64_t(i));
    shape.push_back(DimExpr::ceilDiv(from[size_t(axes[i])], chunks[i]));
  }
  const std::vector<DimExpr> &to = reduce.result()->type().shape();
  shape.insert(shape.end(), to.begin(), to.end());
  std::vector<Type> partTypes, types;
  for (unsigned i = 0; i < reduce.numResults(); ++i) {
    DType accumulator = computeDType(reduce.operand(i)->type().dtype());
    partTypes.push_back(context.tensor(accumulator, shape));
    types.push_back(context.withDType(reduce.result(i)->type(), accumulator));
  }
  Operation *parts = reduceAs(builder, reduce, {reduce.operands().begin(), reduce.operands().end()}, partTypes, axes, chunks);
  Operation *whole = reduceAs(builder, reduce, {parts->results().begin(), parts->results().end()}, types, pieceAxes, {});
  for (unsigned i = 0; i < reduce.numResults(); ++i) {
    whole->result(i)->setName(reduce.result(i)->name());
    parts->result(i)->setName(reduce.result(i)->name().empty() ? "" : reduce.result(i)->name() + "_pieces");
    reduce.result(i)->replaceAllUsesWith(builder.convertSum(whole->result(i), reduce.result(i)->type().dtype()));
  }
  reduce.erase();
}

} // namespace

Expected<void> passes::splitReductions(Function &function, PassContext &context) {
  if (context.exact())
    return {};
  std::vector<std::pair<Operation *, std::vector<int64_t>>> found;
  for (Operation &op : function.body())
    if (op.is(OpKind::Reduce))
      if (auto chunks = choosePieces(op, context.target))
        found.emplace_back(&op, *chunks);
  for (auto &[reduce, chunks] : found)
    split(*reduce, chunks);
  return {};
}

} // namespace minic
