#include "BindDims.h"

#include "minic/IR/Builder.h"

#include <algorithm>

namespace minic {
namespace {

using DimSizes = std::map<std::string, DimExpr, std::less<>>;

class Binder {
public:
  Binder(Module &module, const DimSizes &sizes) : context(module.context()), sizes(sizes) {}

  Type bind(Type type) {
    std::vector<DimExpr> shape;
    for (const DimExpr &dim : type.shape())
      shape.push_back(dim.substitute(sizes));
    return shape == type.shape() ? type : context.withShape(type, std::move(shape));
  }

  Attribute bind(const Attribute &attribute) {
    if (attribute.asInt())
      return attribute;
    if (auto dim = attribute.asDim())
      return Attribute(dim->substitute(sizes));
    if (const AttributeList *list = attribute.asList()) {
      AttributeList bound;
      for (const Attribute &element : *list)
        bound.push_back(bind(element));
      return bound;
    }
    return attribute;
  }

  void bind(Function &function) {
    for (Value *param : function.params())
      param->setType(bind(param->type()));
    for (Type &type : function.resultTypes)
      type = bind(type);
    walk(function.body(), [&](Operation &op) {
      for (Value *result : op.results())
        result->setType(bind(result->type()));
      for (unsigned r = 0; r < op.numRegions(); ++r)
        for (Value *argument : op.region(r).arguments())
          argument->setType(bind(argument->type()));
      std::vector<NamedAttribute> attrs(op.attrs().begin(), op.attrs().end());
      for (const NamedAttribute &attribute : attrs)
        op.setAttr(attribute.name, bind(attribute.value));
    });
  }

private:
  Context &context;
  const DimSizes &sizes;
};

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

Expected<void> replaceSizes(Function &function, const DimSizes &sizes) {
  Binder(function.module(), sizes).bind(function);
  return bindFacts(function, sizes);
}

} // namespace

Expected<void> bindDimNames(Module &module, const DimBindings &dims) {
  if (dims.empty())
    return {};
  std::vector<std::string> known;
  for (Function *function : module.functions())
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
  for (Function *function : module.functions())
    if (auto done = replaceSizes(*function, sizes); !done)
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
    if (auto done = replaceSizes(graph, {*size}); !done)
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
