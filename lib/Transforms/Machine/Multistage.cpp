// multistage: lets copies of several blocks be under way while one is multiplied, as `stages` of #matmul<unit = mma> says, and
// reads fragments ahead.
//
//   for %at ... {                                  ->  cp_async block 0; commit; ... block stages - 2; commit
//     cp_async %x, %x_s, %row, %at; commit             cp_async_wait pending = stages - 2; barrier
//     cp_async_wait pending = 0; barrier               %a0 = ldmatrix of block 0, step 0
//     %a = ldmatrix step 0; mma                        for %at, %i = 0, %a = %a0 ... {
//     %a = ldmatrix step 1; mma                          cp_async block %i + stages - 1; commit
//     barrier                                            %a1 = ldmatrix of block %i, step 1
//   }                                                    mma %a
//                                                        cp_async_wait pending = stages - 2; barrier
//                                                        %next = ldmatrix of block %i + 1, step 0
//                                                        mma %a1
//                                                        yield %next
//                                                      }
//                                                      cp_async_wait pending = 0
//
// While the tensor cores are at one step, the fragments of the next one are on their way. The one barrier of a trip says both that
// block %i + 1 is there for all warps and that nobody reads block %i any more, so the next trip may fill its place. Blocks behind
// the last one are zeros, or of another program's piece, which are read, but not multiplied.
#include "minic/IR/Builder.h"
#include "minic/IR/Schedule.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>

namespace minic {
namespace {

/// The sweep that `fragment-products` made.
struct Sweep {
  Operation *loop = nullptr;
  std::vector<Operation *> copies, products;

  static std::optional<Sweep> of(Function &kernel) {
    for (Operation &loop : kernel.body()) {
      Sweep sweep{&loop, {}, {}};
      for (Operation *op = loop.is(OpKind::For) ? loop.region().front() : nullptr; op; op = op->next()) {
        if (op->is(OpKind::CpAsync))
          sweep.copies.push_back(op);
        if (op->is(OpKind::Mma))
          sweep.products.push_back(op);
      }
      if (sweep.isWhole())
        return sweep;
    }
    return std::nullopt;
  }
  Value *at() const { return loop->region().argument(0); }

private:
  /// Two operands, whole blocks on chip, that are multiplied at constant places.
  bool isWhole() const {
    return copies.size() == 2 && !products.empty() && loop->numResults() == 1 &&
           std::ranges::all_of(copies, [](const Operation *copy) { return isA(copy->operand(1), OpKind::AllocShared); }) &&
           std::ranges::all_of(products, [](const Operation *product) {
             return isFragment(product->operand(0)) && isFragment(product->operand(1));
           });
  }
  static bool isA(const Value *value, OpKind kind) { return value->definition() && value->definition()->is(kind); }
  static bool isFragment(const Value *value) {
    return isA(value, OpKind::LdMatrix) && isA(value->definition()->operand(1), OpKind::Constant) &&
           isA(value->definition()->operand(2), OpKind::Constant);
  }
};

class Stages {
public:
  Stages(const Sweep &old, int64_t stages)
      : old(old), stages(stages), context(old.loop->module().context()), top(old.loop), step(old.loop->operand(2)) {}

  void run() {
    top.setLoc(old.loop->loc());
    for (Operation *copy : old.copies)
      deepen(*copy->operand(1));
    ahead = top.constantIndex(stages - 1);
    for (int64_t block = 0; block + 1 < stages; ++block) {
      Value *number = top.constantIndex(block);
      Value *at = top.scalarOp(OpKind::Add, {old.loop->operand(0), top.scalarOp(OpKind::Mul, {number, step})});
      emitCopies(top, at, number);
    }
    emitMeeting(top);
    Value *zero = top.constantIndex(0);
    Fragments first = emitFragments(top, *old.products[0], zero);
    Type sums = old.loop->result()->type();
    Operation *sweep =
        top.create(OpKind::For, {old.loop->operand(0), old.loop->operand(1), step, zero, old.loop->operand(3), first.a, first.b},
                   {context.index(), sums, first.a->type(), first.b->type()});
    emitTrip(sweep->addRegion(), sums, first);
    top.create(OpKind::CpAsyncWait, {}, {}, {{"pending", Attribute(0)}});
    sweep->result(1)->setName(old.loop->result()->name());
    old.loop->result()->replaceAllUsesWith(sweep->result(1));
    old.loop->erase();
  }

private:
  struct Fragments {
    Value *a, *b;
  };

  void deepen(Value &memory) {
    TypeStorage ring = memory.type().get();
    ring.stages = stages;
    memory.setType(context.type(ring));
  }

  Value *stageOf(Builder &builder, Value *memory, Value *position) {
    TypeStorage one = memory->type().get();
    one.stages = 1;
    return builder.create(OpKind::Stage, {memory, position}, {context.type(one)})->result();
  }

  /// Copies of the block at `at` to ring position `position`, a group. It may lie behind the last one.
  void emitCopies(Builder &builder, Value *at, Value *position) {
    for (Operation *copy : old.copies) {
      std::vector<Value *> operands(copy->operands().begin(), copy->operands().end());
      std::vector<int64_t> mask = copy->intsAttr("mask");
      operands[1] = stageOf(builder, operands[1], position);
      for (size_t i = 2; i < operands.size(); ++i)
        if (operands[i] == old.at()) {
          operands[i] = at;
          mask.push_back(int64_t(i) - int64_t(operands.size() - 2)); // The last two indices are the memory's axes.
        }
      std::ranges::sort(mask);
      mask.erase(std::unique(mask.begin(), mask.end()), mask.end());
      builder.create(OpKind::CpAsync, operands, std::span<const Type>(),
                     {{"mask", Attribute::ints(mask)}, {"vec", *copy->attr("vec")}});
    }
    builder.create(OpKind::CpAsyncCommit, {}, {});
  }

  void emitMeeting(Builder &builder) {
    builder.create(OpKind::CpAsyncWait, {}, {}, {{"pending", Attribute(stages - 2)}});
    builder.create(OpKind::BarrierOp, {}, {});
  }

  /// What `product` multiplies, of the block at a ring position.
  Fragments emitFragments(Builder &builder, const Operation &product, Value *position) {
    auto emit = [&](unsigned i) {
      const Operation &load = *product.operand(i)->definition();
      std::vector<Value *> operands{stageOf(builder, load.operand(0), position)};
      for (unsigned axis : {1u, 2u})
        operands.push_back(builder.constantIndex(*load.operand(axis)->definition()->attr("value")->asInt()));
      return builder.create(OpKind::LdMatrix, operands, std::array{load.result()->type()}, {{"form", *load.attr("form")}})
          ->result();
    };
    Value *a = emit(0);
    return {a, emit(1)};
  }

  void emitTrip(Block &body, Type sums, const Fragments &first) {
    Value *at = body.addArgument(context.index(), "at"), *position = body.addArgument(context.index(), "i");
    Value *acc = body.addArgument(sums, "acc");
    Fragments now{body.addArgument(first.a->type(), "a"), body.addArgument(first.b->type(), "b")};
    Builder builder(body);
    builder.setLoc(old.loop->loc());
    Value *next = builder.scalarOp(OpKind::Add, {position, builder.constantIndex(1)});
    Value *later = builder.scalarOp(OpKind::Add, {at, builder.scalarOp(OpKind::Mul, {ahead, step})});
    emitCopies(builder, later, builder.scalarOp(OpKind::Add, {position, ahead}));
    for (size_t i = 0; i < old.products.size(); ++i) {
      bool isLast = i + 1 == old.products.size();
      if (isLast)
        emitMeeting(builder);
      Fragments ready = emitFragments(builder, *old.products[isLast ? 0 : i + 1], isLast ? next : position);
      acc = builder.create(OpKind::Mma, {now.a, now.b, acc}, {sums})->result();
      now = ready;
    }
    builder.create(OpKind::Yield, {next, acc, now.a, now.b}, {});
  }

  const Sweep &old;
  int64_t stages;
  Context &context;
  Builder top; ///< Before the sweep.
  Value *step, *ahead = nullptr;
};

} // namespace

Expected<void> passes::multistage(Function &kernel, PassContext &) {
  if (!runsOnUnit(kernel, "mma"))
    return {};
  auto schedule = stagedSchedule(kernel);
  if (!schedule)
    return schedule.takeErrors();
  if (schedule->stages == 1)
    return {};
  auto sweep = Sweep::of(kernel);
  if (!sweep)
    return Diagnostic{.code = ErrorCode::BadSchedule,
                      .message = "kernel @" + kernel.name +
                                 " has a schedule of several stages, and no sweep that copies a block of two "
                                 "operands and multiplies its fragments",
                      .loc = kernel.loc,
                      .fix = "write `stages = 1`, or run fragment-products before"};
  Stages(*sweep, schedule->stages).run();
  return {};
}

} // namespace minic
