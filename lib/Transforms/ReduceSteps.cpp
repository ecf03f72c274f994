#include "ReduceSteps.h"

#include <algorithm>

namespace minic {

bool holdsAxis(const std::vector<Mode> &modes, int64_t axis) {
  return std::ranges::any_of(modes, [&](const Mode &mode) { return mode.extent > 1 && mode.axis == axis; });
}

static void reduceStep(Builder &builder, const Operation &reduce, std::vector<Value *> &values, int64_t axis, ModeKind over) {
  Context &context = builder.context();
  const Layout &from = *values[0]->type().layout();
  std::vector<int64_t> extents = values[0]->type().extents();
  extents[size_t(axis)] = reducedExtent(from, axis, over);
  const Layout *to = context.layout(reducedLayout(from, std::vector<int64_t>{axis}, over));
  std::vector<Type> types;
  for (unsigned i = 0; i < values.size(); ++i)
    types.push_back(context.tile(reduce.result(i)->type().dtype(), extents, to));
  std::vector<NamedAttribute> attrs;
  for (const NamedAttribute &attribute : reduce.attrs())
    if (attribute.name == "axes")
      attrs.push_back({"axes", Attribute::ints({axis})});
    else if (attribute.name != "padding")
      attrs.push_back(attribute);
  attrs.push_back({"over", Attribute::word(over == ModeKind::Reg ? "reg" : "lane")});
  Operation *step = builder.create(OpKind::Reduce, values, types, attrs);
  if (reduce.numRegions()) {
    Block &body = step->addRegion();
    std::vector<Value *> arguments;
    for (Value *argument : reduce.region().arguments())
      arguments.push_back(body.addArgument(argument->type(), argument->name()));
    ValueMap map;
    Builder inner(body);
    inner.create(OpKind::Yield, inlineBlock(inner, reduce.region(), arguments, map), {});
  }
  values.assign(step->results().begin(), step->results().end());
}

void reduceInWarps(Builder &builder, const Operation &reduce, std::vector<Value *> &values, int64_t axis) {
  if (holdsAxis(values[0]->type().layout()->reg, axis))
    reduceStep(builder, reduce, values, axis, ModeKind::Reg);
  if (holdsAxis(values[0]->type().layout()->lane, axis))
    reduceStep(builder, reduce, values, axis, ModeKind::Lane);
}

} // namespace minic
