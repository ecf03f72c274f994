// Which function of a module is meant.
#include "minic/Compiler/Compiler.h"

#include <algorithm>
#include <functional>

namespace minic {

/// The function called `name`, or, if that is empty, the only one that `wanted` accepts; null if there is none of that kind.
static Expected<Function *> pick(Module &module, const std::string &name, std::string_view what,
                                 const std::function<bool(const Function &)> &wanted) {
  std::vector<Function *> found;
  std::vector<std::string> names;
  for (Function *function : module.functions())
    if (wanted(*function)) {
      found.push_back(function);
      names.push_back(function->name);
    }
  std::string list;
  for (const std::string &other : names)
    list += (list.empty() ? "" : ", ") + other;
  if (!name.empty()) {
    for (Function *function : found)
      if (function->name == name)
        return function;
    std::string near = didYouMean(name, names);
    return Diagnostic{.code = ErrorCode::BadFlag,
                      .message = "--graph=" + name + ": the file has no " + std::string(what) + " of this name",
                      .fix = !near.empty()  ? "did you mean " + near + "?"
                             : list.empty() ? ""
                                            : "its names are " + list};
  }
  if (found.size() > 1)
    return Diagnostic{.code = ErrorCode::UnknownFunction,
                      .message = "the file has several functions that could be meant: " + list,
                      .fix = "pick one with --graph=NAME"};
  return found.empty() ? nullptr : found[0];
}

static Diagnostic nothing(std::string_view what) {
  return {
      .code = ErrorCode::NothingToCompile, .message = "the file has no " + std::string(what), .fix = "write a `graph @name(...)`"};
}

Expected<Function *> chooseFunction(Module &module, const std::string &name) {
  if (!name.empty())
    return pick(module, name, "graph or plan", [](const Function &function) { return function.kind != FunctionKind::Kernel; });
  auto plan = pick(module, name, "plan", [](const Function &function) { return function.kind == FunctionKind::Plan; });
  if (!plan || *plan)
    return plan;
  auto graph = pick(module, name, "graph", [](const Function &function) { return function.kind == FunctionKind::Graph; });
  if (graph && !*graph)
    return nothing("graph and no plan");
  return graph;
}

Expected<Function *> chooseGraph(Module &module, const std::string &name) {
  auto graph = pick(module, name, "graph", [](const Function &function) { return function.kind == FunctionKind::Graph; });
  if (graph && !*graph)
    return nothing("graph");
  return graph;
}

Expected<void> keepOnly(Module &module, const std::string &name) {
  auto chosen = chooseFunction(module, name);
  if (!chosen)
    return chosen.takeErrors();
  std::vector<std::string> launched;
  walk((*chosen)->body(), [&](Operation &op) {
    if (op.is(OpKind::Launch))
      launched.push_back(op.attr("kernel")->asSymbol()->name);
  });
  std::vector<Function *> functions(module.functions().begin(), module.functions().end());
  for (Function *function : functions)
    if (function != *chosen &&
        (function->kind != FunctionKind::Kernel || std::find(launched.begin(), launched.end(), function->name) == launched.end()))
      module.eraseFunction(function);
  return {};
}

} // namespace minic
