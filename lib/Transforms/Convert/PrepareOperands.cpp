// prepare-operands: copies operands of products with stages into the form that these take.
//
//   launch @k(%x, %w, %y)                              ->  %w_rows = alloc : buffer<777x1152xbf16>
//                                                          launch @f_copy(%w, %w_rows)           pad %w with 0
//                                                          launch @k(%x, %w_rows, %y)
//
// TMA wants rows that start at multiples of 16 bytes (PTX ISA, cp.async.bulk.tensor; cuTensorMapEncodeTiled). What is behind a row
// is 0, which adds nothing to a sum. Tensor cores want rows of k where elements do not have 16 bits (mma: or 64); fused
// multiply-adds want rows of the result, of which a thread reads several elements at a time. With `precision = bf16x6` an operand
// of f32 becomes three of bf16, x0 + x1 + x2, each what the ones before leave of x, and a product six; those that would add less
// than 2^-24 of it are left out (Henry, Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype For
// Higher-Precision Computations", 2019):
//
//   %d = dot %x, %w, %acc    ->    %p = dot %x2, %w0, 0; dot %x1, %w1; dot %x0, %w2; dot %x1, %w0; dot %x0, %w1; dot %x0, %w0
//                                  %d = add %acc, %p
//
// A block's products are summed on their own: tensor cores cut sums where the registers' adds round.
#include "../Analysis/MatmulChoice.h"
#include "../CopyKernel.h"
#include "minic/IR/Schedule.h"
#include "minic/IR/SharedLayout.h"
#include "minic/Transforms/Analysis/Bounds.h"

#include <array>
#include <map>
#include <numeric>

namespace minic {
namespace {

constexpr int64_t rowUnit = 16; ///< Bytes.
constexpr int64_t line = 128;   ///< Bytes of memory that TMA reads at a time; copies have whole ones.

DimExpr roundedUp(const DimExpr &size, int64_t multiple) {
  return size.isMultipleOf(multiple) ? size : DimExpr::ceilDiv(size, multiple) * DimExpr(multiple);
}

bool isLittleMore(const DimExpr &size, const DimExpr &padded) {
  auto from = size.constant(), to = padded.constant();
  return from && to && *to <= *from + *from / 8;
}

/// The form of an operand of a product.
struct OperandForm {
  bool turned = false; ///< The last two axes have changed places.
  std::vector<Type> types;

  std::string_view suffix() const { return types.size() > 1 ? "_part" : turned ? "_turned" : "_rows"; }
};

/// What makes copies in `form` of a tensor.
class CopyBody {
public:
  CopyBody(Builder &builder, const OperandForm &form) : builder(builder), context(builder.context()), form(form) {}

  std::vector<Value *> run(Value *x) {
    x = turned(padded(x));
    return form.types.size() == 1 ? std::vector{x} : parts(x);
  }

private:
  /// As long as rows of the copies are to be.
  Value *padded(Value *x) {
    std::vector<DimExpr> shape = x->type().shape(), low(shape.size(), 0), high = low;
    size_t axis = shape.size() - (form.turned ? 2 : 1);
    const DimExpr &to = form.types[0].shape().back();
    if (shape[axis] == to)
      return form.turned ? x : broadcast(x);
    high[axis] = to - shape[axis];
    shape[axis] = to;
    return builder
        .create(OpKind::Pad, {x}, {context.tensor(x->type().dtype(), shape)},
                {{"low", Attribute::dims(low)},
                 {"high", Attribute::dims(high)},
                 {"value", isFloat(x->type().dtype()) ? Attribute(0.0) : Attribute(0)}})
        ->result();
  }

  /// The same; a region has an op.
  Value *broadcast(Value *x) {
    std::vector<int64_t> axes(size_t(x->type().rank()));
    std::iota(axes.begin(), axes.end(), 0);
    return builder.create(OpKind::Broadcast, {x}, {x->type()}, {{"dims", Attribute::ints(axes)}})->result();
  }

  Value *turned(Value *x) {
    if (!form.turned)
      return x;
    std::vector<DimExpr> shape = x->type().shape();
    std::vector<int64_t> perm(shape.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::swap(perm.end()[-1], perm.end()[-2]);
    std::swap(shape.end()[-1], shape.end()[-2]);
    return builder.create(OpKind::Transpose, {x}, {context.tensor(x->type().dtype(), shape)}, {{"perm", Attribute::ints(perm)}})
        ->result();
  }

  /// Each difference is exact: what is left of a number has the bits that bf16 cut off.
  std::vector<Value *> parts(Value *x) {
    std::vector<Value *> result{builder.convert(x, DType::BF16)};
    while (result.size() < form.types.size()) {
      x = builder.scalarOp(OpKind::Sub, {x, builder.convert(result.back(), DType::F32)});
      result.push_back(builder.convert(x, DType::BF16));
    }
    return result;
  }

  Builder &builder;
  Context &context;
  const OperandForm &form;
};

class OperandPreparer {
public:
  OperandPreparer(Function &plan, PassContext &pass) : plan(plan), context(plan.module().context()), copies(plan, pass) {}

  Expected<void> run() {
    std::vector<Function *> kernels;
    walk(plan.body(), [&](Operation &op) {
      Function *kernel = op.is(OpKind::Launch) ? plan.module().find(op.attr("kernel")->asSymbol()->name) : nullptr;
      if (kernel && kernel->level == Level::Tile && isStaged(*kernel))
        kernels.push_back(kernel);
    });
    for (Function *kernel : kernels) {
      std::vector<Operation *> dots;
      walk(kernel->body(), [&](Operation &op) {
        if (op.is(OpKind::Dot))
          dots.push_back(&op);
      });
      blocks.clear();
      for (Operation *dot : dots) {
        auto schedule = stagedSchedule(*kernel, dot->result()->type().rank());
        if (!schedule)
          return schedule.takeErrors();
        if (auto done = prepare(*kernel, *schedule, *dot); !done)
          return done;
      }
      dropUnusedLoads(*kernel);
      KernelSignature(*kernel).dropUnused();
    }
    return {};
  }

private:
  /// So that the kernel does not need what was copied.
  static void dropUnusedLoads(Function &kernel) {
    std::vector<Operation *> loads;
    walk(kernel.body(), [&](Operation &op) {
      if (op.is(OpKind::Load) && op.result()->uses().empty())
        loads.push_back(&op);
    });
    for (Operation *load : loads)
      load->erase();
  }

  Expected<void> prepare(Function &kernel, const Schedule &schedule, Operation &dot) {
    std::array<std::vector<Value *>, 2> operands;
    for (unsigned i : {0u, 1u}) {
      Operation *load = dot.operand(i)->definition();
      if (!load || !load->is(OpKind::Load) || load->attr("steps") || accessBuffer(*load)->type().rank() < 2)
        return {}; // specialize-warps says what is wrong with it.
      auto core = tensorCoreForm(dot);
      if (schedule.usesTensorCores() && !core)
        return {};
      OperandForm form =
          schedule.usesTensorCores() ? formForTensorCores(dot, *load, *core, schedule.block.back()) : formForThreads(dot, *load);
      if (!form.turned && form.types == std::vector{accessBuffer(*load)->type()}) {
        operands[i] = {dot.operand(i)};
        continue;
      }
      std::vector<Value *> &copied = blocks[{load, form.suffix()}];
      if (copied.empty()) {
        auto buffers = copies.add(kernel, load->operand(0), form.types, form.suffix(),
                                  [&](Builder &builder, Value *x) { return CopyBody(builder, form).run(x); });
        if (!buffers)
          return buffers.takeErrors();
        for (Value *buffer : *buffers)
          copied.push_back(loadFrom(*load, buffer, form.turned));
      }
      operands[i] = copied;
    }
    if (operands[0].size() > 1)
      multiplyParts(dot, operands[0], operands[1]);
    else
      dot.setOperands(std::vector{operands[0][0], operands[1][0], dot.operand(2)});
    return {};
  }

  /// In rows of the result, which start at multiples of 16 bytes.
  OperandForm formForThreads(const Operation &dot, const Operation &load) {
    Type from = accessBuffer(load)->type();
    OperandForm form{.turned = accessDims(load).back() == dot.intsAttr("axes")[0]};
    std::vector<DimExpr> shape = from.shape();
    if (form.turned)
      std::swap(shape.end()[-1], shape.end()[-2]);
    shape.back() = roundedUp(shape.back(), std::max<int64_t>(rowUnit / dtypeBytes(from.dtype()), 1));
    form.types = {context.withShape(from, shape)};
    return form;
  }

  OperandForm formForTensorCores(const Operation &dot, const Operation &load, const TensorCoreForm &core, int64_t blockOfK) {
    Type from = accessBuffer(load)->type();
    DType dtype = core.parts > 1 ? DType::BF16 : from.dtype();
    int64_t bytes = dtypeBytes(dtype), contracted = dot.intsAttr("axes")[0], last = accessDims(load).back();
    OperandForm form{.turned = !canTurnFragments(dtype) && last != contracted};
    std::vector<DimExpr> shape = from.shape();
    if (form.turned)
      std::swap(shape.end()[-1], shape.end()[-2]);
    DimExpr lines = roundedUp(shape.back(), line / bytes);
    bool isCopied = form.turned || core.parts > 1 || !shape.back().isMultipleOf(rowUnit / bytes);
    bool hasWholeBlocks = last != contracted || blockOfK * bytes % line == 0;
    shape.back() =
        isCopied && hasWholeBlocks && isLittleMore(shape.back(), lines) ? lines : roundedUp(shape.back(), rowUnit / bytes);
    form.types.assign(size_t(core.parts), context.withDType(context.withShape(from, shape), dtype));
    return form;
  }

  /// The same block of a copy.
  Value *loadFrom(const Operation &load, Value *buffer, bool turned) {
    Builder builder(const_cast<Operation *>(&load));
    builder.setLoc(load.loc());
    std::vector<Value *> operands(load.operands().begin(), load.operands().end());
    operands[0] = buffer;
    std::vector<int64_t> dims = accessDims(load);
    std::vector<NamedAttribute> attrs(load.attrs().begin(), load.attrs().end());
    if (turned) {
      std::swap(operands.end()[-1], operands.end()[-2]);
      std::swap(dims.end()[-1], dims.end()[-2]);
      std::erase_if(attrs, [](const NamedAttribute &attribute) { return attribute.name == "dims"; });
      attrs.push_back({"dims", Attribute::ints(dims)});
    }
    Type tile = context.withDType(load.result()->type(), buffer->type().dtype());
    Operation *copy = builder.create(OpKind::Load, operands, std::vector{tile}, attrs);
    copy->result()->setName(buffer->name() + "_t");
    return copy->result();
  }

  /// The smallest products first.
  void multiplyParts(Operation &dot, const std::vector<Value *> &lhs, const std::vector<Value *> &rhs) {
    Builder builder(&dot);
    builder.setLoc(dot.loc());
    Value *sum = builder.constant(dot.result()->type(), 0.0);
    for (size_t order = lhs.size(); order-- > 0;)
      for (size_t i = order + 1; i-- > 0;)
        sum = builder.create(OpKind::Dot, {lhs[i], rhs[order - i], sum}, {sum->type()}, {{"axes", *dot.attr("axes")}})->result();
    dot.result()->replaceAllUsesWith(builder.scalarOp(OpKind::Add, {dot.operand(2), sum}));
    dot.erase();
  }

  Function &plan;
  Context &context;
  OperandCopies copies;
  /// Of copies in a form, by what loaded a kernel's operand: several products may have one.
  std::map<std::pair<Operation *, std::string_view>, std::vector<Value *>> blocks; // Looked up only.
};

} // namespace

Expected<void> passes::prepareOperands(Function &plan, PassContext &pass) { return OperandPreparer(plan, pass).run(); }

} // namespace minic
