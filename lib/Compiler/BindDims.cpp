#include "BindDims.h"

#include <algorithm>

namespace minic {
namespace {

class Binder {
public:
  Binder(Module &module, const DimBindings &dims) : context(module.context()), dims(dims) {}

  Type bind(Type type) {
    std::vector<DimExpr> shape;
    for (const DimExpr &dim : type.shape())
      shape.push_back(dim.bind(dims));
    return shape == type.shape() ? type : context.withShape(type, std::move(shape));
  }

  Attribute bind(const Attribute &attribute) {
    if (attribute.asInt())
      return attribute;
    if (auto dim = attribute.asDim())
      return Attribute(dim->bind(dims));
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
  const DimBindings &dims;
};

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
  Binder binder(module, dims);
  for (Function *function : module.functions())
    binder.bind(*function);
  return {};
}

} // namespace minic
