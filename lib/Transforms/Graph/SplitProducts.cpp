// split-products: cuts a product whose tiles are too few to fill the card, and whose sums are long, along k.
//
//   %y = matmul %x, %w : tensor<512x512xbf16>  ->  %p = matmul %x, %w, chunks = [1024] : tensor<16x512x512xf32>
//                                                  %s = reduce sum %p, axes = [0] : tensor<512x512xf32>
//                                                  %y = convert %s : tensor<512x512xbf16>
//
// Programs of the first kernel multiply a piece each, as they would a batch; the second adds the pieces, in ascending order, and
// what follows the product runs there. Whether that is quicker is the cost model's to say (chooseChunk). In `exact` numerics
// products are chains in ascending order of k, a promise that pieces would break, so these stay whole; so does what a library
// computes.
#include "../Analysis/MatmulChoice.h"
#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>

namespace minic {
namespace {

/// Batches of both operands are those of the result, which expand-composites sees to.
bool hasOwnBatches(const Operation &matmul) {
  const std::vector<DimExpr> &shape = matmul.result()->type().shape();
  return std::ranges::all_of(matmul.operands(), [&](const Value *operand) {
    const std::vector<DimExpr> &from = operand->type().shape();
    return from.size() == shape.size() && std::equal(from.begin(), from.end() - 2, shape.begin());
  });
}

/// Sums of narrow integers wrap, where converting them would saturate.
bool takesConvertedSums(const Operation &matmul) {
  DType dtype = matmul.result()->type().dtype();
  return isFloat(dtype) || !isNarrow(dtype);
}

void split(Operation &matmul, int64_t chunk) {
  Builder builder(&matmul);
  builder.setLoc(matmul.loc());
  Context &context = builder.context();
  Type sums = context.withDType(matmul.result()->type(), computeDType(matmul.operand(0)->type().dtype()));
  std::vector<DimExpr> shape = sums.shape();
  shape.insert(shape.begin(), DimExpr::ceilDiv(matmul.operand(0)->type().shape().back(), chunk));
  ValueMap map;
  Operation *pieces = cloneOperation(builder, matmul, map);
  pieces->setAttr("chunks", Attribute::ints({chunk}));
  pieces->result()->setType(context.withShape(sums, shape));
  pieces->result()->setName(matmul.result()->name().empty() ? "" : matmul.result()->name() + "_pieces");
  Value *whole = builder
                     .create(OpKind::Reduce, {pieces->result()}, {sums},
                             {{"combiner", Attribute::word("sum")}, {"axes", Attribute::ints({0})}})
                     ->result();
  whole->setName(matmul.result()->name());
  matmul.result()->replaceAllUsesWith(builder.convertSum(whole, matmul.result()->type().dtype()));
  matmul.erase();
}

} // namespace

Expected<void> passes::splitProducts(Function &function, PassContext &context) {
  if (context.exact() || context.matmul == MatmulProvider::CublasLt)
    return {};
  std::vector<std::pair<Operation *, int64_t>> found;
  for (Operation &op : function.body())
    if (op.is(OpKind::Matmul) && hasOwnBatches(op) && takesConvertedSums(op))
      if (auto chunk = chooseChunk(op, context.target))
        found.emplace_back(&op, *chunk);
  for (auto [matmul, chunk] : found)
    split(*matmul, chunk);
  return {};
}

} // namespace minic
