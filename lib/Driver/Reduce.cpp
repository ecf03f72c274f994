#include "minic/Driver/Reduce.h"

#include "minic/Compiler/Compiler.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <set>

namespace minic {
namespace {

bool isGraph(const Function &function) { return function.kind == FunctionKind::Graph; }

/// All ops but terminators, those of regions too, in program order.
std::vector<Operation *> opsOf(Function &function) {
  std::vector<Operation *> ops;
  walk(function.body(), [&](Operation &op) {
    if (!op.info().terminator)
      ops.push_back(&op);
  });
  return ops;
}

std::string nameOf(const Operation &op) {
  std::string name = op.numResults() ? op.result()->name() : "";
  return name.empty() ? std::string(op.info().name) : "%" + name;
}

//===- Sizes -===//

DimExpr resized(const DimExpr &dim, int64_t from, int64_t to) { return dim.isConstant(from) ? DimExpr(to) : dim; }

Attribute resized(const Attribute &attribute, int64_t from, int64_t to) {
  if (const AttributeList *list = attribute.asList()) {
    AttributeList changed;
    for (const Attribute &element : *list)
      changed.push_back(resized(element, from, to));
    return changed;
  }
  auto dim = attribute.asDim();
  return dim ? Attribute(resized(*dim, from, to)) : attribute;
}

Type resized(Type type, Context &context, int64_t from, int64_t to) {
  if (!type.isTensor())
    return type;
  std::vector<DimExpr> shape;
  for (const DimExpr &dim : type.shape())
    shape.push_back(resized(dim, from, to));
  return context.withShape(type, std::move(shape));
}

bool holdsSizes(AttrKind kind) { return kind == AttrKind::Dim || kind == AttrKind::Dims; }

/// Puts a size in the place of another wherever a graph says it.
void resize(Function &graph, int64_t from, int64_t to) {
  Context &context = graph.module().context();
  auto change = [&](Value *value) { value->setType(resized(value->type(), context, from, to)); };
  std::ranges::for_each(graph.params(), change);
  for (Type &type : graph.resultTypes)
    type = resized(type, context, from, to);
  walk(graph.body(), [&](Operation &op) {
    std::ranges::for_each(op.results(), change);
    for (unsigned region = 0; region < op.numRegions(); ++region)
      std::ranges::for_each(op.region(region).arguments(), change);
    for (const AttrSpec &spec : op.info().attrs)
      if (const Attribute *attribute = op.attr(spec.name); attribute && holdsSizes(spec.kind))
        op.setAttr(spec.name, resized(*attribute, from, to));
  });
}

std::set<int64_t> sizesOf(Module &module) {
  std::set<int64_t> sizes;
  auto add = [&](Type type) {
    if (type.isTensor())
      for (const DimExpr &dim : type.shape())
        if (auto size = dim.constant(); size && *size > 1)
          sizes.insert(*size);
  };
  for (Function *function : module.functions())
    if (isGraph(*function)) {
      for (const Value *param : function->params())
        add(param->type());
      for (const Operation *op : opsOf(*function))
        for (const Value *result : op->results())
          add(result->type());
    }
  return sizes;
}

/// Sizes to try for one, smallest first: those where tiles and vectors end, and their neighbours.
std::vector<int64_t> smallerSizes(int64_t size) {
  std::vector<int64_t> smaller;
  for (int64_t power = 1; power / 2 < size; power *= 2)
    for (int64_t each : {power - 1, power, power + 1})
      if (each > 0 && each < size && (smaller.empty() || each > smaller.back()))
        smaller.push_back(each);
  return smaller;
}

//===- Reducing -===//

class Reducer {
public:
  Reducer(std::string text, const IsInteresting &isInteresting, const ReduceOptions &options)
      : best(std::move(text)), isInteresting(isInteresting), options(options) {}

  std::string run() {
    bool changed = true;
    while (changed && !options.isStopped()) {
      changed = dropFunctions();
      changed |= dropResults();
      changed |= cutOps();
      changed |= bypassOps();
      changed |= returnEarlier();
      changed |= dropInputs();
      changed |= shrinkSizes();
      changed |= dropAttributes();
      changed |= simplifyConstants();
    }
    return best;
  }

private:
  /// Tries what `change` makes of the best module so far; it gives the change in words, or nothing if there is none to make.
  bool attempt(const std::function<std::string(Module &)> &change) {
    if (options.isStopped())
      return false;
    Context context;
    auto module = parseModule(context, SourceBuffer("candidate", best));
    if (!module)
      return false;
    std::string words = change(**module);
    if (words.empty() || !sweep(**module) || hasErrors(verify(**module, levelHooks())))
      return false;
    std::string text = printModule(**module);
    if (text == best || !parseModule(context, SourceBuffer("candidate", text)) || !isInteresting(text))
      return false;
    best = std::move(text);
    options.onProgress(words, **module);
    return true;
  }

  /// Removes what is dead now.
  static bool sweep(Module &module) {
    auto target = findTarget(module.target);
    if (!target)
      return false;
    PassContext context{module, **target};
    for (Function *function : module.functions())
      if (function->kind != FunctionKind::Custom && !passes::dce(*function, context))
        return false;
    return true;
  }

  /// Tries a change for each of the numbers that `count` gives of a module, last first: changes before it keep their numbers.
  bool forEach(const std::function<size_t(Module &)> &count, const std::function<std::string(Module &, size_t)> &change) {
    bool changed = false;
    for (size_t i = inBest(count); i-- > 0;)
      if (i < inBest(count))
        changed |= attempt([&](Module &module) { return change(module, i); });
    return changed;
  }
  size_t inBest(const std::function<size_t(Module &)> &count) {
    Context context;
    auto module = parseModule(context, SourceBuffer("candidate", best));
    return module ? count(**module) : 0;
  }

  bool dropFunctions() {
    return forEach([](Module &module) { return module.functions().size() > 1 ? module.functions().size() : 0; },
                   [](Module &module, size_t i) {
                     Function *function = module.functions()[i];
                     std::string words = "without @" + function->name;
                     module.eraseFunction(function);
                     return words;
                   });
  }

  /// The results of all graphs that have several.
  static std::vector<std::pair<Function *, unsigned>> resultsOf(Module &module) {
    std::vector<std::pair<Function *, unsigned>> results;
    for (Function *function : module.functions())
      if (isGraph(*function) && function->resultTypes.size() > 1)
        for (unsigned i = 0; i < function->resultTypes.size(); ++i)
          results.emplace_back(function, i);
    return results;
  }
  bool dropResults() {
    return forEach([](Module &module) { return resultsOf(module).size(); },
                   [](Module &module, size_t i) {
                     auto [graph, result] = resultsOf(module)[i];
                     std::string words = "without result " + graph->resultNames[result];
                     std::vector<Value *> values(graph->terminator()->operands().begin(), graph->terminator()->operands().end());
                     values.erase(values.begin() + result);
                     graph->resultNames.erase(graph->resultNames.begin() + result);
                     graph->resultTypes.erase(graph->resultTypes.begin() + result);
                     graph->terminator()->setOperands(values);
                     return words;
                   });
  }

  /// Ops at the top level of graphs.
  static std::vector<Operation *> graphOps(Module &module) {
    std::vector<Operation *> ops;
    for (Function *function : module.functions())
      if (isGraph(*function))
        for (Operation &op : function->body())
          if (!op.info().terminator)
            ops.push_back(&op);
    return ops;
  }

  /// An input is not called as a result is.
  static std::string inputName(const Value &value) {
    const std::vector<std::string> &results = value.definition()->function().resultNames;
    return std::ranges::find(results, value.name()) == results.end() ? value.name() : value.name() + "_in";
  }

  /// New inputs of the graph stand for what ops gave: for half of all ops at once, then for fewer.
  bool cutOps() {
    bool changed = false;
    size_t count = inBest([](Module &module) { return graphOps(module).size(); });
    for (size_t chunk = std::max<size_t>(count / 2, 1); count > 0; chunk /= 2) {
      for (size_t end = count; end > 0; end -= std::min(chunk, end))
        changed |= attempt([&](Module &module) {
          std::vector<Operation *> ops = graphOps(module);
          if (ops.size() < end)
            return std::string();
          std::string names;
          for (size_t i = end - std::min(chunk, end); i < end; ++i) {
            for (Value *result : ops[i]->results())
              if (result->hasUses())
                result->replaceAllUsesWith(ops[i]->parent()->addArgument(result->type(), inputName(*result)));
            names += (names.empty() ? "" : ", ") + nameOf(*ops[i]);
          }
          return "inputs in the place of " + names;
        });
      if (chunk == 1)
        break;
    }
    return changed;
  }

  /// An operand of its type stands for what an op gave.
  bool bypassOps() {
    bool changed = false;
    auto allOps = [](Module &module) {
      std::vector<Operation *> ops;
      for (Function *function : module.functions())
        if (function->kind != FunctionKind::Custom)
          std::ranges::copy(opsOf(*function), std::back_inserter(ops));
      return ops;
    };
    auto count = [&](Module &module) { return allOps(module).size(); };
    for (unsigned operand = 0; operand < 3; ++operand)
      changed |= forEach(count, [&](Module &module, size_t i) {
        Operation *op = allOps(module)[i];
        if (op->numResults() != 1 || operand >= op->numOperands() || op->operand(operand)->type() != op->result()->type())
          return std::string();
        op->result()->replaceAllUsesWith(op->operand(operand));
        return "%" + op->operand(operand)->name() + " in the place of " + nameOf(*op);
      });
    return changed;
  }

  /// A graph returns what the returned op reads.
  bool returnEarlier() {
    bool changed = false;
    auto graphs = [](Module &module) {
      std::vector<Function *> graphs;
      std::ranges::copy_if(module.functions(), std::back_inserter(graphs), [](const Function *each) { return isGraph(*each); });
      return graphs;
    };
    auto count = [&](Module &module) { return graphs(module).size(); };
    for (unsigned operand = 0; operand < 3; ++operand)
      changed |= forEach(count, [&](Module &module, size_t i) {
        Function *graph = graphs(module)[i];
        Operation *end = graph->terminator(), *last = end->numOperands() == 1 ? end->operand(0)->definition() : nullptr;
        if (!last || operand >= last->numOperands() || !last->operand(operand)->type().isTensor() ||
            !last->operand(operand)->definition())
          return std::string();
        end->setOperand(0, last->operand(operand));
        graph->resultTypes = {last->operand(operand)->type()};
        return "%" + last->operand(operand)->name() + " returned";
      });
    return changed;
  }

  bool dropInputs() {
    auto unused = [](Module &module) {
      std::vector<std::pair<Function *, unsigned>> inputs;
      for (Function *function : module.functions())
        if (isGraph(*function))
          for (unsigned i = 0; i < function->params().size(); ++i)
            if (!function->params()[i]->hasUses())
              inputs.emplace_back(function, i);
      return inputs;
    };
    return forEach([&](Module &module) { return unused(module).size(); },
                   [&](Module &module, size_t i) {
                     auto [graph, input] = unused(module)[i];
                     std::string words = "without input %" + graph->params()[input]->name();
                     graph->body().eraseArgument(input);
                     return words;
                   });
  }

  bool shrinkSizes() {
    bool changed = false;
    Context context;
    auto module = parseModule(context, SourceBuffer("candidate", best));
    if (!module)
      return false;
    std::set<int64_t> sizes = sizesOf(**module);
    for (auto size = sizes.rbegin(); size != sizes.rend(); ++size)
      for (int64_t smaller : smallerSizes(*size))
        if (attempt([&](Module &module) {
              for (Function *function : module.functions())
                if (isGraph(*function))
                  resize(*function, *size, smaller);
              return std::to_string(smaller) + " in the place of " + std::to_string(*size);
            })) {
          changed = true;
          break;
        }
    return changed;
  }

  /// Attributes that ops need not have, and what graphs say of their sizes.
  bool dropAttributes() {
    auto optional = [](Module &module) {
      std::vector<std::pair<Operation *, std::string_view>> attributes;
      for (Function *function : module.functions())
        for (Operation *op : opsOf(*function))
          for (const AttrSpec &spec : op->info().attrs)
            if (!spec.required && op->attr(spec.name))
              attributes.emplace_back(op, spec.name);
      return attributes;
    };
    bool changed = forEach([&](Module &module) { return optional(module).size(); },
                           [&](Module &module, size_t i) {
                             auto [op, name] = optional(module)[i];
                             op->removeAttr(name);
                             return nameOf(*op) + " without `" + std::string(name) + "`";
                           });
    return forEach(
               [](Module &module) {
                 size_t count = 0;
                 for (Function *function : module.functions())
                   count = std::max(count, function->facts.size());
                 return count;
               },
               [](Module &module, size_t i) {
                 for (Function *function : module.functions())
                   if (i < function->facts.size())
                     function->facts.erase(function->facts.begin() + long(i));
                 return std::string("a fact less");
               }) ||
           changed;
  }

  /// Constants become 0, else 1.
  bool simplifyConstants() {
    bool changed = false;
    auto constants = [](Module &module) {
      std::vector<Operation *> ops;
      for (Function *function : module.functions())
        if (isGraph(*function))
          for (Operation *op : opsOf(*function)) {
            auto value = op->is(OpKind::Constant) ? op->attr("value")->asNumber() : std::nullopt;
            if (op->is(OpKind::Constant) && !(value == 0.0 || value == 1.0))
              ops.push_back(op);
          }
      return ops;
    };
    for (int64_t simple : {0, 1})
      changed |= forEach([&](Module &module) { return constants(module).size(); },
                         [&](Module &module, size_t i) {
                           Operation *op = constants(module)[i];
                           DType dtype = op->result()->type().dtype();
                           op->setAttr("value", isFloat(dtype) ? Attribute(double(simple)) : Attribute(simple));
                           return nameOf(*op) + " = " + std::to_string(simple);
                         });
    return changed;
  }

  std::string best;
  const IsInteresting &isInteresting;
  const ReduceOptions &options;
};

} // namespace

size_t countOps(const Module &module) {
  size_t count = 0;
  for (Function *function : module.functions())
    count += opsOf(*function).size();
  return count;
}

Expected<std::string> reduceModule(const SourceBuffer &source, const IsInteresting &isInteresting, const ReduceOptions &options) {
  Context context;
  auto module = parseModule(context, source);
  if (!module)
    return module.takeErrors();
  if (Diagnostics findings = verify(**module, levelHooks()); hasErrors(findings))
    return findings;
  std::string text = printModule(**module); // Candidates are in this form.
  if (!isInteresting(text))
    return Diagnostic{.code = ErrorCode::BadArgument,
                      .message = "what is looked for does not hold of '" + source.name() + "' itself"};
  return Reducer(std::move(text), isInteresting, options).run();
}

} // namespace minic
