// align-operands: copies operands of products on tensor cores to memory that TMA and copies of 16 bytes reach.
//
//   launch @k(%x, %w, %y)                              ->  %w_rows = alloc : buffer<777x1152xbf16>
//                                                          launch @f_copy(%w, %w_rows)           pad %w with 0
//                                                          launch @k(%x, %w_rows, %y)
//
// Rows must start at multiples of 16 bytes (PTX ISA, cp.async), and where a block is wider than a swizzled row, TMA takes whole
// ones of 64 elements (cp.async.bulk.tensor; cuTensorMapEncodeTiled). What is behind a row is 0, which adds nothing to a sum.
#include "../CopyKernel.h"
#include "../KernelSignature.h"
#include "minic/IR/Schedule.h"
#include "minic/Transforms/Analysis/Bounds.h"

#include <map>

namespace minic {
namespace {

constexpr int64_t rowMultiple = 8, slab = 64;

DimExpr roundedUp(const DimExpr &size, int64_t multiple) {
  return size.isMultipleOf(multiple) ? size : DimExpr::ceilDiv(size, multiple) * DimExpr(multiple);
}

class OperandAligner {
public:
  OperandAligner(Function &plan, PassContext &pass) : plan(plan), pass(pass) {}

  Expected<void> run() {
    std::vector<Function *> kernels;
    walk(plan.body(), [&](Operation &op) {
      Function *kernel = op.is(OpKind::Launch) ? plan.module().find(op.attr("kernel")->asSymbol()->name) : nullptr;
      if (kernel && kernel->level == Level::Tile && runsOnTensorCores(*kernel))
        kernels.push_back(kernel);
    });
    for (Function *kernel : kernels) {
      std::vector<Operation *> dots;
      walk(kernel->body(), [&](Operation &op) {
        if (op.is(OpKind::Dot))
          dots.push_back(&op);
      });
      for (Operation *dot : dots)
        for (unsigned i : {0u, 1u})
          if (auto done = align(*kernel, *dot, i); !done)
            return done;
    }
    return {};
  }

private:
  Expected<void> align(Function &kernel, Operation &dot, unsigned i) {
    Operation *load = dot.operand(i)->definition();
    if (!load || !load->is(OpKind::Load) || load->attr("steps") || accessBuffer(*load)->type().rank() < 2)
      return {}; // specialize-warps says what is wrong with it.
    std::vector<int64_t> dims = accessDims(*load);
    int64_t contracted = dot.intsAttr("axes")[0];
    size_t column = dims.size() - 1;
    // Rows run along the result, and TMA moves a block in several slabs of them.
    bool hasSlabs =
        runsOnUnit(kernel, "wgmma") && dims[column] != contracted && load->result()->type().extents()[size_t(dims[column])] > slab;
    Type from = accessBuffer(*load)->type();
    std::vector<DimExpr> shape = from.shape();
    shape[column] = roundedUp(shape[column], hasSlabs ? slab : rowMultiple);
    Type to = plan.module().context().withShape(from, shape);
    if (to == from)
      return {};
    auto copy = copyKernel(from, to);
    if (!copy)
      return copy.takeErrors();
    KernelSignature signature(kernel);
    Value *buffer = load->operand(0);
    Value *rows = signature.add(to, buffer->name() + "_rows", [&](Operation &launch) {
      Value *source = launch.operand(signature.positionOf(buffer));
      Builder builder(&launch);
      builder.setLoc(launch.loc());
      Value *memory = builder.create(OpKind::Alloc, {}, {to})->result();
      memory->setName(source->name() + "_rows");
      builder.create(OpKind::Launch, {source, memory}, {},
                     {{"kernel", Attribute::symbol(copy->kernel->name)}, {"grid", copy->grid}});
      return memory;
    });
    std::vector<Value *> operands(load->operands().begin(), load->operands().end());
    operands[0] = rows;
    load->setOperands(operands);
    signature.dropUnused();
    return {};
  }

  Expected<CopyKernel> copyKernel(Type from, Type to) {
    auto it = copies.find({from, to});
    if (it != copies.end())
      return it->second;
    Type tensor = plan.module().context().withKind(to, TypeKind::Tensor);
    auto made = makeCopyKernel(plan, from, pass, [&](Builder &builder, Value *x) {
      std::vector<DimExpr> low(size_t(tensor.rank()), 0), high = low;
      high.back() = to.shape().back() - from.shape().back();
      return builder
          .create(OpKind::Pad, {x}, {tensor},
                  {{"low", Attribute::dims(low)}, {"high", Attribute::dims(high)}, {"value", Attribute(0.0)}})
          ->result();
    });
    if (made)
      copies.insert({{from, to}, *made});
    return made;
  }

  Function &plan;
  PassContext &pass;
  std::map<std::pair<Type, Type>, CopyKernel> copies;
};

} // namespace

Expected<void> passes::alignOperands(Function &plan, PassContext &pass) { return OperandAligner(plan, pass).run(); }

} // namespace minic
