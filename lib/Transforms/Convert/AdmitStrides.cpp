// admit-strides: puts a plan for tensors of any strides behind one for row-major tensors.
//
//   plan @f(%x: buffer<MxNxf32>) -> (y: buffer<MxNxf32>) { %y = alloc; launch @k(%x, %y); return %y }
// ->
//   plan @f(...) -> (...), otherwise = @f_strided { the same }
//   plan @f_strided(%x: buffer<MxNxf32, strided>) -> (y: buffer<MxNxf32, strided>) { %y = alloc; launch @k_strided(%x, %y); ... }
//
// Kernels read an input where it lies unless a row-major copy of it, made first, moves fewer bytes (StridedReads.h). They write a
// result where it lies unless something else reads it as well.
#include "../CopyKernel.h"
#include "minic/IR/Builder.h"
#include "minic/Transforms/Analysis/StridedReads.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

namespace minic {
namespace {

class StridedPlan {
public:
  StridedPlan(Function &plan, PassContext &pass)
      : plan(plan), pass(pass), module(plan.module()), context(module.context()), name(module.freshName(plan.name + "_strided")) {}

  Expected<void> run() {
    for (Value *param : plan.params())
      if (countStridedReads(*param).copyFirst())
        copiedFirst.push_back(param);
    for (Type type : typesToCopy()) {
      auto made = makeCopyKernel(plan, type, {&type, 1}, pass, [](Builder &builder, Value *x) {
        std::vector<int64_t> axes(size_t(x->type().rank()));
        std::iota(axes.begin(), axes.end(), 0);
        return std::vector{builder.create(OpKind::Broadcast, {x}, {x->type()}, {{"dims", Attribute::ints(axes)}})->result()};
      });
      if (!made)
        return made.takeErrors();
      copyKernels.insert({type, *made});
    }
    Function *strided = module.addFunction(FunctionKind::Plan, Level::Plan, name, module.after(plan));
    strided->loc = plan.loc;
    strided->resultNames = plan.resultNames;
    strided->facts = plan.facts;
    builder.emplace(strided->body());
    builder->setLoc(plan.loc);
    for (Value *param : plan.params())
      buffers.map(param, strided->body().addArgument(context.withStrided(param->type(), true), param->name()));
    for (Value *param : copiedFirst) {
      Value *dense = allocate(param->type(), param->name());
      launchCopy(buffers(param), dense);
      copied.map(param, dense);
    }
    for (Operation &op : plan.body())
      emit(op, *strided);
    for (auto &[type, copy] : copyKernels) // Each copy takes or gives strides, and has a kernel of its own.
      module.eraseFunction(copy.kernel);
    plan.setAttr("otherwise", Attribute::symbol(name));
    return {};
  }

private:
  Value *allocate(Type type, const std::string &name) {
    Value *buffer = builder->create(OpKind::Alloc, {}, {type})->result();
    buffer->setName(name);
    return buffer;
  }

  /// Written by one launch, and read by none.
  static bool isOnlyWritten(const Value &result) {
    if (!result.definition()->is(OpKind::Alloc))
      return false;
    int launches = 0;
    for (const Use &use : result.uses()) {
      if (use.user->is(OpKind::Return))
        continue;
      if (!use.user->is(OpKind::Launch) || ++launches > 1)
        return false;
      const Function &kernel = *use.user->module().find(use.user->attr("kernel")->asSymbol()->name);
      if (kernel.level > Level::Tile)
        return false;
      for (const Use &access : kernel.params()[use.index]->uses())
        if (!access.user->is(OpKind::Store))
          return false;
    }
    return launches == 1;
  }
  bool isReturned(const Value &value) const {
    return std::ranges::any_of(value.uses(), [](const Use &use) { return use.user->is(OpKind::Return); });
  }

  void emit(Operation &op, Function &strided) {
    builder->setLoc(op.loc());
    if (op.is(OpKind::Return)) {
      std::vector<Value *> results;
      for (Value *value : op.operands()) {
        Value *result = buffers(value);
        if (!result->type().isStrided()) {
          result = allocate(context.withStrided(value->type(), true), value->name());
          launchCopy(dense(value), result);
        }
        results.push_back(result);
        strided.resultTypes.push_back(result->type());
      }
      builder->create(OpKind::Return, results, {});
    } else if (op.is(OpKind::Copy) && isReturned(*op.result())) {
      Value *result = allocate(context.withStrided(op.result()->type(), true), op.result()->name());
      launchCopy(dense(op.operand(0)), result);
      buffers.map(op.result(), result);
    } else if (op.is(OpKind::Launch)) {
      emitLaunch(op);
    } else {
      std::vector<Value *> operands;
      for (Value *operand : op.operands())
        operands.push_back(dense(operand));
      if (!op.numResults()) { // A library's call: what it reads was copied, what it writes is copied behind it.
        builder->create(op.kind(), operands, {}, {op.attrs().begin(), op.attrs().end()});
        return;
      }
      Type type = op.result()->type();
      if (op.is(OpKind::Alloc) && isReturned(*op.result()) && isOnlyWritten(*op.result()))
        type = context.withStrided(type, true);
      Operation *same = builder->create(op.kind(), operands, std::vector{type}, {op.attrs().begin(), op.attrs().end()});
      same->result()->setName(op.result()->name());
      buffers.map(op.result(), same->result());
    }
  }

  /// The row-major copy, where there is one.
  Value *dense(Value *value) { return copied.contains(value) ? copied(value) : buffers(value); }

  void emitLaunch(Operation &op) {
    std::vector<Value *> operands;
    std::vector<bool> strided;
    for (Value *operand : op.operands()) {
      operands.push_back(dense(operand));
      strided.push_back(operands.back()->type().isStrided());
    }
    Function *kernel = module.find(op.attr("kernel")->asSymbol()->name);
    if (std::ranges::find(strided, true) != strided.end())
      kernel = withStrides(*kernel, strided);
    Operation *launch = builder->create(OpKind::Launch, operands, {}, {op.attrs().begin(), op.attrs().end()});
    launch->setAttr("kernel", Attribute::symbol(kernel->name));
  }

  /// The kernel for strided buffers at these parameters.
  Function *withStrides(Function &kernel, const std::vector<bool> &strided) {
    Function *&variant = variants[{kernel.name, strided}];
    if (variant)
      return variant;
    variant = cloneFunction(kernel, module.freshName(kernel.name + "_strided"));
    for (size_t i = 0; i < strided.size(); ++i) {
      Value *param = variant->params()[i];
      param->setType(context.withStrided(param->type(), strided[i]));
    }
    return variant;
  }

  //===- Copies -===//

  /// The row-major types of inputs that are copied first and of results that are copied last.
  std::vector<Type> typesToCopy() const {
    std::vector<Type> types; // In order of appearance, which the kernels have too.
    auto add = [&](Type type) {
      if (std::ranges::find(types, type) == types.end())
        types.push_back(type);
    };
    for (Value *param : copiedFirst)
      add(param->type());
    for (Value *result : plan.terminator()->operands())
      if (!isOnlyWritten(*result))
        add(result->type());
    return types;
  }

  /// Between the two, one of them strided.
  void launchCopy(Value *from, Value *to) {
    auto &[kernel, grid] = copyKernels.at(context.withStrided(to->type(), false));
    Function *variant = withStrides(*kernel, {from->type().isStrided(), to->type().isStrided()});
    builder->create(OpKind::Launch, {from, to}, {}, {{"kernel", Attribute::symbol(variant->name)}, {"grid", grid}});
  }

  Function &plan;
  PassContext &pass;
  Module &module;
  Context &context;
  std::string name; ///< Of the new plan.
  std::optional<Builder> builder;
  ValueMap buffers;                 ///< From the plan's to the new one's.
  std::vector<Value *> copiedFirst; ///< Inputs.
  ValueMap copied;                  ///< Those to their row-major copies.
  std::map<std::pair<std::string, std::vector<bool>>, Function *> variants;
  std::map<Type, CopyKernel> copyKernels; ///< By the type copied, row-major.
};

} // namespace

Expected<void> passes::admitStrides(Function &plan, PassContext &pass) {
  auto isStrided = [](const Value *param) { return param->type().isStrided(); };
  auto resultIsStrided = [](Type type) { return type.isStrided(); };
  bool has = std::ranges::any_of(plan.params(), isStrided) || std::ranges::any_of(plan.resultTypes, resultIsStrided);
  // Of a chain of plans the last one stands for all.
  if (has || plan.attr("otherwise"))
    return {};
  return StridedPlan(plan, pass).run();
}

} // namespace minic
