#include "BindDims.h"

#include "minic/IR/Builder.h"
#include "minic/IR/CustomOp.h"

#include <algorithm>

namespace minic {
namespace {

/// What is known once sizes are replaced: facts of numbers hold or do not.
Expected<void> bindFacts(Function &function, const DimSizes &sizes) {
  std::vector<DimFact> open;
  for (DimFact fact : function.facts) {
    std::string text = fact.str();
    fact.size = fact.size.substitute(sizes);
    auto value = fact.size.constant();
    if (value && !fact.holds(*value))
      return Diagnostic{.code = ErrorCode::BadDim,
                        .message = "@" + function.name + " is for sizes where " + text + ", and that is " + std::to_string(*value),
                        .loc = function.loc};
    bool known = value || (fact.multiple > 1 && fact.size.isMultipleOf(fact.multiple));
    if (!known && std::ranges::find(open, fact) == open.end())
      open.push_back(fact);
  }
  function.facts = std::move(open);
  return {};
}

Expected<void> bindSizes(Function &function, const DimSizes &sizes) {
  replaceSizes(function, sizes);
  return bindFacts(function, sizes);
}

/// The functions whose sizes have one set of names. Custom ops and their kernels have names of their own.
std::vector<Function *> sharingNames(const Module &module) {
  std::vector<Function *> functions(module.functions().begin(), module.functions().end());
  std::erase_if(functions, [&](const Function *function) { return function->kind == FunctionKind::Custom; });
  for (const Function *custom : module.functions())
    if (custom->kind == FunctionKind::Custom)
      std::erase(functions, kernelOf(*custom));
  return functions;
}

} // namespace

Expected<void> bindDimNames(Module &module, const DimBindings &dims) {
  if (dims.empty())
    return {};
  std::vector<Function *> functions = sharingNames(module);
  std::vector<std::string> known;
  for (Function *function : functions)
    for (const std::string &name : function->dimNames())
      if (std::find(known.begin(), known.end(), name) == known.end())
        known.push_back(name);
  for (const auto &[name, value] : dims) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      Diagnostic error{.code = ErrorCode::UnknownDim, .message = "no dim of the file is called " + name};
      std::string list;
      for (const std::string &other : known)
        list += (list.empty() ? "" : ", ") + other;
      error.fix = list.empty() ? "the file has no named dims" : "its names are " + list;
      return error;
    }
    if (value < 0)
      return Diagnostic{.code = ErrorCode::BadDim, .message = "dim " + name + " cannot be " + std::to_string(value)};
  }
  DimSizes sizes(dims.begin(), dims.end());
  for (Function *function : functions)
    if (auto done = bindSizes(*function, sizes); !done)
      return done.takeErrors();
  return {};
}

/// What a fact makes of a name: a number, or a multiple of another name.
static std::optional<std::pair<std::string, DimExpr>> sizeByFact(const Function &function, const DimFact &fact) {
  std::string name = fact.size.str();
  if (!isDimName(name) || (fact.least != fact.most && fact.multiple == 1))
    return std::nullopt;
  if (fact.least == fact.most)
    return std::pair(name, DimExpr(fact.least));
  std::vector<std::string> taken = function.dimNames();
  std::string part = name + "_" + std::to_string(fact.multiple);
  while (std::ranges::find(taken, part) != taken.end())
    part += "_";
  return std::pair(name, DimExpr(fact.multiple) * DimExpr::name(part));
}

Expected<void> applyFacts(Function &graph) {
  for (size_t i = 0; i < graph.facts.size();) {
    auto size = sizeByFact(graph, graph.facts[i]);
    if (!size) {
      ++i;
      continue;
    }
    if (auto done = bindSizes(graph, {*size}); !done)
      return done.takeErrors();
    i = 0;
  }
  return {};
}

Expected<void> specialize(Function &graph, const std::vector<std::string> &specializations) {
  std::vector<std::vector<DimFact>> lists;
  std::vector<std::string> known = graph.dimNames();
  for (const std::string &text : specializations) {
    auto facts = parseDimFacts(text);
    if (!facts)
      return facts.takeErrors();
    for (const DimFact &fact : *facts) {
      std::vector<std::string> names;
      fact.size.collectNames(names);
      for (const std::string &name : names)
        if (std::ranges::find(known, name) == known.end())
          return Diagnostic{.code = ErrorCode::UnknownDim, .message = "@" + graph.name + " has no size called " + name};
    }
    lists.push_back(std::move(*facts));
  }
  if (lists.empty())
    return {};
  Module &module = graph.module();
  Function *behind = cloneFunction(graph, module.freshName(graph.name + "_any"));
  for (size_t i = lists.size(); i-- > 0;) {
    Function *special = i == 0 ? &graph : cloneFunction(graph, module.freshName(graph.name + "_" + std::to_string(i + 1)));
    special->facts.insert(special->facts.end(), lists[i].begin(), lists[i].end());
    special->setAttr("otherwise", Attribute::symbol(behind->name));
    behind = special;
  }
  return {};
}

} // namespace minic
