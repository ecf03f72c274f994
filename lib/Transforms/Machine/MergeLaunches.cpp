// merge-launches: runs two short launches, neither of which needs the other, as one (horizontal fusion).
//
//   launch @a(%x, %u), grid = [3]                      ->  launch @a_merged(%x, %u, %w, %v), grid = [8]
//   launch @b(%w, %v), grid = [5]
//
//   kernel @a_merged(...) { %p = program_id grid = [8]
//     for %i = %p, 3, 8 { what program %i of @a does }
//     for %j = (%p + 5) mod 8, 5, 8 { what program %j of @b does }
//   }
//
// Each loop has one trip or none. A launch takes more than a microsecond whatever it does, so this is for those that fill the GPU
// for no longer than that: copies of operands, say.
#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <map>
#include <set>

namespace minic {
namespace {

/// A launch of a kernel whose programs can be numbered from 0.
struct ShortLaunch {
  Operation *launch;
  Function *kernel;
  int64_t programs;

  int64_t threads() const { return *kernel->attr("threads")->asInt(); }
};

/// Threads that are on the GPU for about as long as a launch takes.
int64_t shortThreads(const TargetInfo &target) {
  constexpr int64_t waves = 4, threadsOfMultiprocessor = 2048;
  return waves * target.multiprocessors * threadsOfMultiprocessor;
}

std::optional<int64_t> programsOf(const Operation &launch) {
  int64_t programs = 1;
  for (const DimExpr &extent : launch.dimsAttr("grid")) {
    auto known = extent.constant();
    if (!known || *known < 1 || __builtin_mul_overflow(programs, *known, &programs))
      return std::nullopt;
  }
  return programs;
}

/// Kernels that are threads of one kind, and nothing else.
std::optional<ShortLaunch> shortLaunch(Operation &op, const TargetInfo &target) {
  Function *kernel = op.is(OpKind::Launch) ? op.function().module().find(op.attr("kernel")->asSymbol()->name) : nullptr;
  if (!kernel || kernel->level != Level::Machine || kernel->attrs().size() != 1 || !kernel->attr("threads"))
    return std::nullopt;
  bool isPlain = true;
  walk(kernel->body(), [&](Operation &inner) {
    isPlain &=
        !inner.is(OpKind::Role) && !inner.is(OpKind::MbarrierInit) && !inner.is(OpKind::LaunchWait) && !inner.is(OpKind::Ptx);
  });
  isPlain &= std::ranges::none_of(kernel->params(), [](const Value *param) { return param->type().isStrided(); });
  auto programs = programsOf(op);
  if (!isPlain || !programs || *programs > shortThreads(target) / *kernel->attr("threads")->asInt())
    return std::nullopt;
  return ShortLaunch{&op, kernel, *programs};
}

bool stores(const Function &kernel, const Value *param) {
  bool found = false;
  walk(const_cast<Function &>(kernel).body(), [&](Operation &op) { found |= op.is(OpKind::Store) && op.operand(1) == param; });
  return found;
}

/// True if what `writer` stores is memory of its own that `other` does not touch.
bool leavesAlone(const ShortLaunch &writer, const ShortLaunch &other) {
  for (unsigned i = 0; i < writer.launch->numOperands(); ++i) {
    const Value *buffer = writer.launch->operand(i);
    if (!stores(*writer.kernel, writer.kernel->params()[i]))
      continue;
    bool isOwn = buffer->definition() && buffer->definition()->is(OpKind::Alloc);
    if (!isOwn || std::ranges::count(other.launch->operands(), buffer))
      return false;
  }
  return true;
}

/// The kernel of two launches together.
class Merger {
public:
  Merger(const ShortLaunch &first, const ShortLaunch &second)
      : first(first), second(second), all(first.programs + second.programs),
        merged(*first.kernel->module().addFunction(
            FunctionKind::Kernel, Level::Machine, first.kernel->module().freshName(first.kernel->name + "_merged"), second.kernel)),
        top(merged.body()) {}

  Function *run() {
    merged.loc = first.kernel->loc;
    top.setLoc(second.launch->loc());
    merged.setAttr("threads", *first.kernel->attr("threads"));
    std::vector<DimExpr> grid{all};
    Value *program = top.create(OpKind::ProgramId, {}, {top.context().index()}, {{"grid", Attribute::dims(grid)}})->result();
    program->setName("p");
    Value *after = top.scalarOp(OpKind::RemU,
                                {top.scalarOp(OpKind::Add, {program, top.constantIndex(second.programs)}), top.constantIndex(all)});
    emit(first, program);
    emit(second, after);
    top.create(OpKind::Return, {}, {});
    return &merged;
  }

private:
  void emit(const ShortLaunch &part, Value *start) {
    ValueMap map;
    for (Value *param : part.kernel->params())
      map.map(param, merged.body().addArgument(param->type(), param->name()));
    for (Operation &op : part.kernel->body()) // Shared memory is allocated once.
      if (op.is(OpKind::AllocShared))
        cloneOperation(top, op, map);
    Operation *loop = top.create(OpKind::For, {start, top.constantIndex(part.programs), top.constantIndex(all)}, {});
    Block &body = loop->addRegion();
    Value *number = body.addArgument(top.context().index(), "i");
    Builder inner(body);
    inner.setLoc(part.launch->loc());
    for (Operation &op : part.kernel->body()) {
      if (op.is(OpKind::ProgramId))
        numberToCoordinates(inner, op, number, map);
      else if (!op.is(OpKind::AllocShared) && !op.info().terminator)
        cloneOperation(inner, op, map);
    }
    inner.create(OpKind::Yield, {}, {});
  }

  /// The last axis is the fastest.
  static void numberToCoordinates(Builder &builder, const Operation &programId, Value *number, ValueMap &map) {
    std::vector<DimExpr> grid = programId.dimsAttr("grid");
    for (size_t axis = grid.size(); axis-- > 0;) {
      Value *extent = builder.dim(grid[axis]);
      map.map(programId.result(unsigned(axis)), axis ? builder.scalarOp(OpKind::RemU, {number, extent}) : number);
      number = axis ? builder.scalarOp(OpKind::DivU, {number, extent}) : number;
    }
  }

  ShortLaunch first, second;
  int64_t all;
  Function &merged;
  Builder top;
};

/// One launch does the work of both, at the second one's place.
void replaceBoth(const ShortLaunch &first, const ShortLaunch &second, const Function &merged) {
  std::vector<Value *> operands(first.launch->operands().begin(), first.launch->operands().end());
  operands.insert(operands.end(), second.launch->operands().begin(), second.launch->operands().end());
  std::vector<DimExpr> grid{first.programs + second.programs};
  Builder plan(second.launch);
  plan.setLoc(second.launch->loc());
  plan.create(OpKind::Launch, operands, std::vector<Type>(),
              {{"kernel", Attribute::symbol(merged.name)}, {"grid", Attribute::dims(grid)}});
  for (const ShortLaunch *old : {&first, &second})
    old->launch->erase();
}

} // namespace

Expected<void> passes::mergeLaunches(Function &plan, PassContext &pass) {
  if (pass.eager) // One launch per op.
    return {};
  std::map<std::pair<Function *, Function *>, Function *> made; // Looked up only.
  std::vector<Function *> replaced;
  std::set<Function *> isReplaced; // Looked up only.
  std::optional<ShortLaunch> before;
  std::vector<Operation *> steps;
  for (Operation &op : plan.body())
    steps.push_back(&op);
  for (Operation *op : steps) {
    if (op->is(OpKind::Alloc) || op->is(OpKind::TensorMap))
      continue;
    auto launch = shortLaunch(*op, pass.target);
    if (before && launch && before->threads() == launch->threads() && leavesAlone(*before, *launch) &&
        leavesAlone(*launch, *before)) {
      for (Function *kernel : {before->kernel, launch->kernel})
        if (isReplaced.insert(kernel).second)
          replaced.push_back(kernel);
      // Equal pairs share a kernel. Its grid is theirs: a kernel states the grid that it is launched with.
      Function *&merged = made[{before->kernel, launch->kernel}];
      if (!merged)
        merged = Merger(*before, *launch).run();
      replaceBoth(*before, *launch, *merged);
      launch.reset(); // Two are enough: each more would be checked by all programs.
    }
    before = launch;
  }
  std::set<std::string> used; // Looked up only.
  for (Function *function : plan.module().functions())
    if (function->kind == FunctionKind::Plan)
      walk(function->body(), [&](Operation &op) {
        if (op.is(OpKind::Launch))
          used.insert(op.attr("kernel")->asSymbol()->name);
      });
  for (Function *kernel : replaced)
    if (!used.count(kernel->name))
      plan.module().eraseFunction(kernel);
  return {};
}

} // namespace minic
