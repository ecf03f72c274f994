// tile: turns each fusion region into a kernel of tiles and loops, and the graph into a plan.
//
//   %y = fusion %x, schedule = #rows<block = [4, 1024], ...> { reduce max; sub; exp; reduce sum; div }
// ->
//   kernel @rows__max_sub_exp_sum_div_4x1024(%x: buffer<MxNxf32>, %y: buffer<MxNxf32>) at tile, schedule = ... {
//     %p = program_id grid = [ceildiv(M, 4)] : index        parallel loop axes: one program per block
//     for %j ... { load; reduce; max }                      reduced loop axes: one sweep per stage of reductions
//     for %j ... { load; sub; exp; reduce; add }
//     for %j ... { load; sub; exp; div; store }             and one for outputs that run along them
//   }
//   plan @rows(%x: buffer<MxNxf32>) -> (y: buffer<MxNxf32>) { alloc; launch; return }
//
// A tile has one axis per loop axis of the region, of extent 1 where the value does not run along it; so transposes vanish into the
// `dims` of loads, and element-wise ops always see equal shapes. Every sweep computes what it needs anew; a sweep of one trip loses
// its loop in canonicalize, and cse merges what sweeps have in common, so a row that fits one block is read once.
#include "KernelEmitter.h"
#include "minic/IR/Builder.h"
#include "minic/IR/CustomOp.h"
#include "minic/IR/LibraryCall.h"
#include "minic/Transforms/Analysis/LibraryMatmul.h"
#include "minic/Transforms/Analysis/ScheduleSpace.h"
#include "minic/Transforms/Analysis/StructuralKey.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace minic {
namespace {

/// `linear_relu__matmul_add_max_64x64x16`: the graph, what the kernel does, its block.
std::string kernelName(const Function &graph, Block &region, const Schedule &schedule) {
  std::string name = graph.name + "__";
  std::string words;
  for (Operation &op : region) {
    if (op.info().terminator || isFreeInRegion(op))
      continue;
    std::string_view combiner = op.wordAttr("combiner");
    std::string_view word = combiner.empty() ? op.info().name : combiner;
    if (words.size() + word.size() > 48) {
      words += "_etc";
      break;
    }
    words += (words.empty() ? "" : "_") + std::string(word);
  }
  name += words.empty() ? "copy" : words;
  std::string block;
  for (int64_t extent : schedule.block)
    if (extent > 1)
      block += (block.empty() ? "_" : "x") + std::to_string(extent);
  return name + block;
}

std::vector<std::string> namesOf(const DimFact &fact) {
  std::vector<std::string> names;
  fact.size.collectNames(names);
  return names;
}

class PlanBuilder {
public:
  PlanBuilder(Function &graph, PassContext &pass) : graph(graph), pass(pass), module(graph.module()), context(module.context()) {}

  Expected<void> run() {
    Function *plan = module.addFunction(FunctionKind::Plan, Level::Plan, graph.name, &graph);
    plan->loc = graph.loc;
    plan->resultNames = graph.resultNames;
    plan->facts = graph.facts;
    if (const Attribute *otherwise = graph.attr("otherwise"))
      plan->setAttr("otherwise", *otherwise);
    Builder builder(plan->body());
    for (Value *param : graph.params())
      buffers.map(param, plan->body().addArgument(context.withKind(param->type(), TypeKind::Buffer), param->name()));
    for (Operation &op : graph.body()) {
      builder.setLoc(op.loc());
      if (op.is(OpKind::Reshape)) {
        Type type = context.withKind(op.result()->type(), TypeKind::Buffer);
        Operation *view = builder.create(OpKind::View, {buffers(op.operand(0))}, {type});
        view->result()->setName(op.result()->name());
        buffers.map(op.result(), view->result());
      } else if (op.is(OpKind::Constant)) {
        Type type = context.withKind(op.result()->type(), TypeKind::Buffer);
        Operation *constant = builder.create(OpKind::Constant, {}, {type}, {op.attrs().begin(), op.attrs().end()});
        constant->result()->setName(op.result()->name());
        buffers.map(op.result(), constant->result());
      } else if (op.is(OpKind::Fusion)) {
        if (auto done = emitFusion(op, builder, *plan); !done)
          return done.takeErrors();
      } else if (op.is(OpKind::Custom) && kernelOf(*customOf(op))) {
        emitCustom(op, builder, *plan);
      } else if (op.is(OpKind::Return)) {
        emitReturn(op, builder, *plan);
      } else {
        return Diagnostic{.code = ErrorCode::BadStructure,
                          .message = std::string(op.info().name) + " stands outside a fusion region",
                          .loc = op.loc(),
                          .fix = "run fuse first, or put it into a fusion region"};
      }
    }
    module.eraseFunction(&graph);
    if (std::ranges::none_of(module.functions(), [](const Function *function) { return function->kind == FunctionKind::Graph; }))
      dropCustoms();
    return {};
  }

private:
  Expected<void> emitFusion(Operation &fusion, Builder &builder, Function &plan) {
    auto region = RegionLoops::of(fusion);
    if (!region)
      return region.takeErrors();
    const IterationSpace &space = region->space;
    const Attribute *attribute = fusion.attr("schedule");
    if (!attribute)
      return Diagnostic{.code = ErrorCode::NoSchedule,
                        .message = "the region has no schedule",
                        .loc = fusion.loc(),
                        .fix = "run choose-schedule first, or write one"};
    auto schedule = Schedule::parse(*attribute->asRecord(), space.rank());
    if (!schedule) {
      Diagnostic error = schedule.errors().front();
      error.loc = fusion.loc();
      return error;
    }

    if (schedule->isLibrary())
      return emitLibraryCall(fusion, *region, *schedule, builder);
    for (const LoopAxis &loop : space.axes())
      if (int64_t block = schedule->block[size_t(&loop - space.axes().data())];
          loop.chunk && (block > loop.chunk || schedule->block[size_t(loop.pieces)] != 1))
        return Diagnostic{.code = ErrorCode::NoSchedule,
                          .message = "a block of " + std::to_string(block) + " reaches beyond a piece of " +
                                     std::to_string(loop.chunk) + ", or a program takes several pieces",
                          .loc = fusion.loc(),
                          .fix = "along a cut axis a block is at most a chunk, along its pieces 1"};

    for (size_t axis = 0; axis < space.axes().size(); ++axis)
      if (const LoopAxis &loop = space.axes()[axis];
          loop.held && schedule->block[axis] < loop.extent.constant().value_or(INT64_MAX))
        return Diagnostic{.code = ErrorCode::NoSchedule,
                          .message = "a block of " + std::to_string(schedule->block[axis]) + " does not hold the rows of " +
                                     loop.extent.str() + " whose products are reduced",
                          .loc = fusion.loc(),
                          .fix = "take a bn of at least that, or put the reduction into a region of its own"};

    if (schedule->align > 1) {
      const LoopAxis &last = space.axes().back();
      auto length = last.extent.constant();
      if (!last.reduced || last.chunk || !length || *length + schedule->align - 1 > schedule->block.back())
        return Diagnostic{.code = ErrorCode::NoSchedule,
                          .message = "rows that start at multiples of " + std::to_string(schedule->align) +
                                     " elements need a reduced last axis of known length, and a block that holds it and " +
                                     std::to_string(schedule->align - 1) + " elements before it",
                          .loc = fusion.loc(),
                          .fix = "take a larger block, or leave `align` out"};
    }

    // Regions that do the same are launches of one kernel.
    std::string key = attribute->str() + structuralKey(fusion.region(), {.outside = [](const Value *) { return std::string(); }});
    Function *&kernel = kernels[key];
    if (!kernel)
      kernel = makeKernel(fusion, space, *schedule, plan);
    std::vector<Value *> arguments;
    for (Value *operand : fusion.operands())
      arguments.push_back(buffers(operand));
    for (Value *result : fusion.results())
      arguments.push_back(allocate(result, builder));

    std::vector<DimExpr> grid;
    for (int axis = 0; axis < space.rank(); ++axis)
      if (!space.axes()[size_t(axis)].reduced)
        grid.push_back(DimExpr::ceilDiv(space.axes()[size_t(axis)].extent, schedule->block[size_t(axis)]));
    builder.create(OpKind::Launch, arguments, {}, {{"kernel", Attribute::symbol(kernel->name)}, {"grid", Attribute::dims(grid)}});
    return {};
  }

  Value *allocate(Value *result, Builder &builder) {
    Value *memory = builder.create(OpKind::Alloc, {}, {context.withKind(result->type(), TypeKind::Buffer)})->result();
    memory->setName(result->name());
    buffers.map(result, memory);
    return memory;
  }

  /// The region is one call: %y = fusion %x, %w, schedule = #library<...> { matmul }  ->  alloc; library_call cublaslt %x, %w, %y
  Expected<void> emitLibraryCall(Operation &fusion, const RegionLoops &region, const Schedule &schedule, Builder &builder) {
    if (auto why = whyUnfit(schedule, region, pass.target, pass.exact()))
      return Diagnostic{.code = ErrorCode::NoSchedule, .message = *why, .loc = fusion.loc(), .fix = "leave the schedule out"};
    auto match = libraryMatmul(region.ops, region.outputs);
    std::vector<Value *> arguments;
    for (const Value *operand : match->operands) // Arguments of the region: all of its ops are part of the call.
      arguments.push_back(buffers(fusion.operand(operand->index())));
    arguments.push_back(allocate(fusion.result(), builder));
    builder.create(OpKind::LibraryCall, arguments, {}, libraryCallAttrs(match->call));
    return {};
  }

  /// %y = custom @f(%x)  ->  alloc; launch @graph__f(%x, %y), the declaration's kernel for the sizes of this use
  void emitCustom(Operation &op, Builder &builder, Function &plan) {
    std::vector<Type> types;
    std::vector<Value *> arguments;
    for (Value *operand : op.operands()) {
      types.push_back(operand->type());
      arguments.push_back(buffers(operand));
    }
    for (Value *result : op.results())
      arguments.push_back(allocate(result, builder));
    const Function &custom = *customOf(op);
    DimSizes sizes = *unifySizes(custom, types);
    std::string key = "@" + custom.name;
    for (const auto &[name, size] : sizes)
      key += ", " + name + " = " + size.str();
    Function *&kernel = kernels[key];
    if (!kernel) {
      const Function &declared = *kernelOf(custom);
      kernel = copyFunction(declared, module, module.freshName(graph.name + "__" + custom.name), &plan);
      kernel->loc = op.loc();
      if (Operation *ptx = ptxOf(*kernel))
        ptx->setAttr("reference", Attribute::symbol(custom.name));
      replaceSizes(*kernel, sizes);
    }
    builder.create(OpKind::Launch, arguments, {},
                   {{"kernel", Attribute::symbol(kernel->name)}, {"grid", Attribute::dims(gridOf(*kernel))}});
  }

  /// After the last graph: declarations that no kernel's interpretation needs, and the kernels that they name.
  void dropCustoms() {
    std::unordered_set<const Function *> needed, launched;
    std::vector<Function *> functions(module.functions().begin(), module.functions().end());
    for (size_t i = functions.size(); i-- > 0;) { // Declarations stand before their uses in others.
      bool isCustom = functions[i]->kind == FunctionKind::Custom;
      if (!isCustom || needed.contains(functions[i]))
        walk(functions[i]->body(), [&](Operation &op) {
          if (op.is(OpKind::Launch))
            launched.insert(module.find(op.attr("kernel")->asSymbol()->name));
          else if (op.is(OpKind::Custom) || op.is(OpKind::Ptx))
            needed.insert(customOf(op));
        });
    }
    for (Function *function : functions) {
      if (function->kind != FunctionKind::Custom)
        continue;
      if (Function *kernel = kernelOf(*function); kernel && !launched.contains(kernel))
        module.eraseFunction(kernel);
      function->removeAttr("kernel");
      if (!needed.contains(function))
        module.eraseFunction(function);
    }
  }

  Function *makeKernel(Operation &fusion, const IterationSpace &space, const Schedule &schedule, Function &plan) {
    Function *kernel = module.addFunction(FunctionKind::Kernel, Level::Tile,
                                          module.freshName(kernelName(graph, fusion.region(), schedule)), &plan);
    kernel->loc = fusion.loc();
    kernel->setAttr("schedule", *fusion.attr("schedule"));
    for (Value *argument : fusion.region().arguments())
      kernel->body().addArgument(context.withKind(argument->type(), TypeKind::Buffer), argument->name());
    for (Value *result : fusion.results())
      kernel->body().addArgument(context.withKind(result->type(), TypeKind::Buffer), result->name());
    emitKernel(fusion, space, schedule, pass.exact(), *kernel);
    std::vector<std::string> names = kernel->dimNames();
    for (const DimFact &fact : graph.facts)
      if (std::ranges::all_of(namesOf(fact),
                              [&](const std::string &name) { return std::ranges::find(names, name) != names.end(); }))
        kernel->facts.push_back(fact);
    return kernel;
  }

  /// Results are buffers of their own: an input, a view or a value returned before is copied.
  void emitReturn(Operation &op, Builder &builder, Function &plan) {
    std::vector<Value *> results;
    std::unordered_set<const Value *> returned;
    for (Value *value : op.operands()) {
      Value *buffer = buffers(value);
      bool own = buffer->definition() && buffer->definition()->is(OpKind::Alloc) && returned.insert(buffer).second;
      if (!own)
        buffer = builder.create(OpKind::Copy, {buffer}, {buffer->type()})->result();
      results.push_back(buffer);
      plan.resultTypes.push_back(buffer->type());
    }
    builder.create(OpKind::Return, results, {});
  }

  Function &graph;
  PassContext &pass;
  Module &module;
  Context &context;
  ValueMap buffers;
  std::unordered_map<std::string, Function *> kernels; ///< By schedule and structure of their regions, or by op and sizes.
};

} // namespace

Expected<void> passes::tile(Function &function, PassContext &context) { return PlanBuilder(function, context).run(); }

} // namespace minic
