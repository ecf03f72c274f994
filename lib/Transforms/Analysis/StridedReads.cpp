#include "minic/Transforms/Analysis/StridedReads.h"

#include "minic/IR/Schedule.h"
#include "minic/Transforms/Analysis/Bounds.h"

namespace minic {
namespace {

constexpr double sectorBytes = 32; // CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".
/// What a launch more is worth: about 2 us at 4 TB/s.
constexpr double launchBytes = 8e6;

class ReadCounter {
public:
  explicit ReadCounter(const DimBindings &dims) : dims(dims) {}

  double value(const DimExpr &size) const {
    std::vector<std::string> names;
    size.collectNames(names);
    DimBindings all = dims;
    for (const std::string &name : names)
      all.try_emplace(name, 1024);
    return double(size.evaluate(all).value_or(0));
  }
  double product(const std::vector<DimExpr> &sizes) const {
    double result = 1;
    for (const DimExpr &size : sizes)
      result *= value(size);
    return result;
  }

  /// Elements that all programs of the kernel load from `param`.
  double loads(const Function &kernel, const Value &param) const {
    double programs = 1, total = 0;
    walk(kernel.body(), [&](Operation &op) {
      if (op.is(OpKind::ProgramId))
        programs = product(op.dimsAttr("grid"));
    });
    for (const Use &use : param.uses())
      if (use.user->is(OpKind::Load))
        total += product(accessTile(*use.user).shape()) * trips(*use.user) * programs;
    return total;
  }

private:
  double index(const Value &value) const {
    const Operation *op = value.definition();
    if (op && op->is(OpKind::Constant))
      return double(*op->attr("value")->asInt());
    return op && op->is(OpKind::Dim) ? this->value(*op->attr("expr")->asDim()) : 1024;
  }
  /// How often the loops around an operation run it.
  double trips(const Operation &op) const {
    double result = 1;
    for (const Operation *loop = op.parentOp(); loop; loop = loop->parentOp())
      if (loop->is(OpKind::For))
        result *= std::max(1.0, (index(*loop->operand(1)) - index(*loop->operand(0))) / std::max(1.0, index(*loop->operand(2))));
    return result;
  }

  const DimBindings &dims;
};

} // namespace

/// TMA and cp_async see row-major memory alone.
static bool feedsTensorCores(const Function &kernel, const Value &param) {
  if (!isStaged(kernel))
    return false;
  for (const Use &use : param.uses())
    for (const Use &user : use.user->is(OpKind::Load) ? use.user->result()->uses() : std::span<const Use>())
      if (user.user->is(OpKind::Dot))
        return true;
  return false;
}

StridedReads countStridedReads(const Value &input, const DimBindings &dims) {
  ReadCounter counter(dims);
  double bytes = double(dtypeBytes(input.type().dtype())), elements = counter.product(input.type().shape()), loaded = 0;
  StridedReads reads;
  for (const Use &use : input.uses()) {
    const Operation &user = *use.user;
    Function *kernel = user.is(OpKind::Launch) ? user.module().find(user.attr("kernel")->asSymbol()->name) : nullptr;
    if (user.is(OpKind::Copy))
      continue; // A result, which a kernel copies.
    if (!kernel || kernel->level > Level::Tile || feedsTensorCores(*kernel, *kernel->params()[use.index]))
      reads.needsCopy = true;
    else
      loaded += counter.loads(*kernel, *kernel->params()[use.index]);
  }
  reads.inPlace = loaded * sectorBytes;
  reads.copied = elements * (sectorBytes + bytes) + loaded * bytes + launchBytes;
  return reads;
}

} // namespace minic
