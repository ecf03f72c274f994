#include "minic/Transforms/Analysis/LibraryMatmul.h"

#include "minic/Support/DimFact.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

namespace minic {
namespace {

class Matcher {
public:
  Matcher(std::span<Operation *const> ops, std::span<Value *const> outputs)
      : ops(ops), outputs(outputs), unmatched(ops.begin(), ops.end()) {}

  std::optional<LibraryMatmul> run() {
    const Operation *product = onlyProduct();
    if (!product || !checkTypes(*product) || !checkLength(*product))
      return std::nullopt;
    match.operands = {memoryOf(*product, 0, match.call.transposedLhs), memoryOf(*product, 1, match.call.transposedRhs)};
    const Value *end = product->result();
    // No relu: the library's made 0 of NaN for some shapes of f16 on an H200, and numerics.md says that relu propagates it.
    if (const Operation *next = nextAfter(end); next && next->is(OpKind::Add) && matchBias(*next, end))
      end = next->result();
    if (why.empty() && (outputs.size() != 1 || outputs[0] != end || !unmatched.empty()))
      refuse(whatIsLeft());
    return why.empty() ? std::optional(std::move(match)) : std::nullopt;
  }

  std::string why;

private:
  void refuse(std::string reason) {
    if (why.empty())
      why = std::move(reason);
  }

  const Operation *onlyProduct() {
    const Operation *product = nullptr;
    for (const Operation *op : ops)
      if (op->is(OpKind::Matmul)) {
        if (product)
          refuse("there are two products");
        product = op;
      }
    if (!product)
      refuse("there is no product");
    else if (product->attr("chunks"))
      refuse("its product is cut into pieces of the contracted axis");
    unmatched.erase(product);
    return why.empty() ? product : nullptr;
  }

  bool checkTypes(const Operation &product) {
    Type lhs = product.operand(0)->type(), to = product.result()->type();
    if (lhs.dtype() != product.operand(1)->type().dtype() || !hasLibraryMatmul(lhs.dtype(), to.dtype()))
      refuse("it does not multiply " + lhs.str() + " to " + to.str());
    return why.empty();
  }

  /// The library takes no empty sums.
  bool checkLength(const Operation &product) {
    const DimExpr &length = product.operand(0)->type().shape().back();
    if (leastOf(length, product.function().facts) < 1)
      refuse("the contracted size " + length.str() + " may be 0, unless the graph says `where " + length.str() + " >= 1`");
    return why.empty();
  }

  /// The value in memory that an operand is, behind transposes of the last two axes and a repetition over batches.
  Value *memoryOf(const Operation &product, unsigned i, bool &transposed) {
    Value *value = product.operand(i);
    while (Operation *op = inRegion(value)) {
      if (op->is(OpKind::Transpose) && swapsLastTwo(op->intsAttr("perm")))
        transposed = !transposed;
      else if (!op->is(OpKind::Broadcast) || !repeatsMatrix(*op))
        return refuse("an operand is made by `" + std::string(op->info().name) + "`, which is no transpose of the last two axes"),
               value;
      unmatched.erase(op);
      value = op->operand(0);
    }
    return value;
  }

  static bool swapsLastTwo(const std::vector<int64_t> &perm) {
    std::vector<int64_t> expected(perm.size());
    std::iota(expected.begin(), expected.end(), 0);
    if (perm.size() < 2)
      return false;
    std::swap(expected[perm.size() - 1], expected[perm.size() - 2]);
    return perm == expected;
  }

  /// A matrix, the same in each batch.
  static bool repeatsMatrix(const Operation &broadcast) {
    const std::vector<DimExpr> &from = broadcast.operand(0)->type().shape(), &to = broadcast.result()->type().shape();
    int64_t rank = int64_t(to.size());
    return from.size() == 2 && broadcast.intsAttr("dims") == std::vector<int64_t>{rank - 2, rank - 1} &&
           std::equal(from.begin(), from.end(), to.end() - 2);
  }

  Operation *inRegion(const Value *value) const {
    Operation *op = value->definition();
    return op && std::ranges::find(ops, op) != ops.end() ? op : nullptr;
  }

  /// The only op that reads a value, which is no result.
  const Operation *nextAfter(const Value *value) const {
    bool isOutput = std::ranges::find(outputs, value) != outputs.end();
    const Operation *reader = nullptr;
    int readers = 0;
    for (const Operation *op : ops)
      for (const Value *operand : op->operands())
        if (operand == value) {
          reader = op;
          ++readers;
        }
    return isOutput || readers != 1 ? nullptr : reader;
  }

  static Value *otherOperand(const Operation &op, const Value *one) { return op.operand(op.operand(0) == one ? 1 : 0); }

  /// Adds a vector in memory that runs along the columns.
  bool matchBias(const Operation &add, const Value *sum) {
    Operation *broadcast = inRegion(otherOperand(add, sum));
    if (!broadcast || !broadcast->is(OpKind::Broadcast) || inRegion(broadcast->operand(0)))
      return false;
    Value *bias = broadcast->operand(0);
    int64_t rank = int64_t(sum->type().shape().size());
    if (bias->type().shape() != std::vector{sum->type().shape().back()} ||
        broadcast->intsAttr("dims") != std::vector<int64_t>{rank - 1})
      return false;
    unmatched.erase(broadcast);
    unmatched.erase(&add);
    match.operands.push_back(bias);
    match.call.epilogue = MatmulEpilogue::Bias;
    return true;
  }

  std::string whatIsLeft() const {
    for (const Operation *op : ops)
      if (unmatched.contains(op))
        return "it has no `" + std::string(op->info().name) + "` in this place";
    return "the region has more than one result";
  }

  std::span<Operation *const> ops;
  std::span<Value *const> outputs;
  std::unordered_set<const Operation *> unmatched; ///< Looked up only.
  LibraryMatmul match;
};

} // namespace

bool hasMatmul(std::span<Operation *const> ops) {
  return std::ranges::any_of(ops, [](const Operation *op) { return op->is(OpKind::Matmul); });
}

std::optional<LibraryMatmul> libraryMatmul(std::span<Operation *const> ops, std::span<Value *const> outputs, std::string *why) {
  Matcher matcher(ops, outputs);
  auto match = matcher.run();
  if (why)
    *why = std::move(matcher.why);
  return match;
}

} // namespace minic
