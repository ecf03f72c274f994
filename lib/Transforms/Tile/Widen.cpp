// widen: computes 16-bit floats in f32 and 8-bit integers in i32. Loads, stores and dot operands stay narrow, and 8-bit floats too.
//
//   %c = add %a, %b : tile<..xbf16>   ->   %a32 = convert %a; %b32 = convert %b; %c32 = add %a32, %b32; %c = convert %c32
//
// In exact numerics every result is rounded to its type before it is used. Otherwise a value that was never rounded by an explicit
// `convert` is used as the f32 it is, also through broadcasts; only stores and dots see it rounded. sqrt, div, add, sub, mul
// through f32 round as if computed directly (Figueroa, "When is double rounding innocuous?", 1995: 24 >= 2 * 11 + 2). Integers
// always wrap at once.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

#include <unordered_map>

namespace minic {
namespace {

class Widener {
public:
  explicit Widener(bool exact) : exact(exact) {}

  void run(Block &block) {
    for (Operation &op : block) {
      for (unsigned r = 0; r < op.numRegions(); ++r)
        if (!op.is(OpKind::Reduce))
          run(op.region(r));
      if (op.is(OpKind::Convert) && op.attr("rounding")) {
        unrounded[op.result()] = op.operand(0);
        op.removeAttr("rounding");
      } else if (touchesNarrow(op)) {
        rewrite(op);
      }
    }
  }

private:
  static bool isNarrow(const Value *value) {
    DType dtype = value->type().dtype();
    return minic::isNarrow(dtype) && !isStorageOnly(dtype);
  }

  static bool touchesNarrow(const Operation &op) {
    if (op.is(OpKind::Reduce))
      return isNarrow(op.operand(0));
    if (!op.info().elementwise || op.is(OpKind::Convert) || op.is(OpKind::Bitcast))
      return false;
    for (Value *operand : op.operands())
      if (isNarrow(operand))
        return true;
    return false;
  }

  /// The wide form of a narrow value, made right after it.
  Value *wide(Value *value, Operation &user) {
    if (!isNarrow(value))
      return value;
    DType dtype = value->type().dtype();
    if (!exact && isFloat(dtype))
      if (Value *form = unroundedForm(value))
        return form;
    Builder builder(&user);
    builder.setLoc(user.loc());
    return builder.convert(value, computeDType(dtype));
  }

  /// What the value was before it was rounded; null if nobody knows.
  Value *unroundedForm(Value *value) {
    if (auto it = unrounded.find(value); it != unrounded.end())
      return it->second;
    Operation *op = value->definition();
    Value *operand = op && op->is(OpKind::Broadcast) ? unroundedForm(op->operand(0)) : nullptr;
    if (!operand)
      return nullptr;
    Builder builder(*op->parent(), op->next());
    builder.setLoc(op->loc());
    Type type = builder.context().withDType(value->type(), operand->type().dtype());
    return unrounded[value] = builder.create(OpKind::Broadcast, {operand}, {type})->result();
  }

  void rewrite(Operation &op) {
    for (unsigned i = 0; i < op.numOperands(); ++i)
      op.setOperand(i, wide(op.operand(i), op));
    for (Value *result : op.results()) {
      if (!isNarrow(result))
        continue;
      DType narrow = result->type().dtype();
      Context &context = op.module().context();
      result->setType(context.withDType(result->type(), computeDType(narrow)));
      Builder builder(*op.parent(), op.next());
      builder.setLoc(op.loc());
      // Users get the rounded value; wide() looks through to this one.
      Value *rounded = builder.convert(result, narrow);
      rounded->setName(result->name());
      std::vector<Use> uses(result->uses().begin(), result->uses().end());
      for (const Use &use : uses)
        if (use.user != rounded->definition())
          use.user->setOperand(use.index, rounded);
      unrounded[rounded] = result;
    }
  }

  bool exact;
  std::unordered_map<Value *, Value *> unrounded;
};

} // namespace

Expected<void> passes::widen(Function &function, PassContext &context) {
  Widener(context.exact()).run(function.body());
  return {};
}

} // namespace minic
