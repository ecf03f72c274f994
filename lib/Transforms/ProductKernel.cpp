#include "ProductKernel.h"

#include "ReduceSteps.h"

#include "minic/Transforms/Analysis/Bounds.h"

#include <algorithm>

namespace minic {

//===- What a product is -===//

Diagnostic cannotMultiply(const Function &kernel, SourceLoc loc, std::string why) {
  return {.code = ErrorCode::BadSchedule,
          .message = "kernel @" + kernel.name + " has a schedule with stages, and " + why,
          .loc = loc,
          .fix = "leave `unit` and `stages` out, and give warps, lanes and vec instead"};
}

static bool endsWith(const std::vector<int64_t> &axes, int64_t rows, int64_t columns) {
  return axes.size() >= 2 && axes[axes.size() - 2] == rows && axes.back() == columns;
}

/// Why an operand of the product cannot come by TMA, or copies of 16 bytes; empty if it can.
static std::string whyNoCopy(const Value &operand) {
  const Operation *load = operand.definition();
  if (!load || !load->is(OpKind::Load))
    return "an operand of its product is computed, not loaded";
  Type buffer = accessBuffer(*load)->type();
  if (buffer.isStrided() || load->attr("steps"))
    return "an operand of its product has strides";
  if (buffer.rank() < 2 || buffer.rank() > 5)
    return "an operand of its product is no matrix, or several";
  if (!buffer.shape().back().isMultipleOf(std::max<int64_t>(16 / dtypeBytes(buffer.dtype()), 1)))
    return "rows of an operand do not start at multiples of 16 bytes";
  return "";
}

static bool isConstant(const Value &value, double number) {
  const Operation *op = value.definition();
  return op && op->is(OpKind::Constant) && op->attr("value")->asNumber() && *op->attr("value")->asNumber() == number;
}

static bool isDot(const Value *value) { return value->definition() && value->definition()->is(OpKind::Dot); }

/// The dots of one block that end in `last`, each added to the one before, and nothing else made of those; none if there are
/// others.
static std::vector<Operation *> chainTo(const Value *last) {
  std::vector<Operation *> dots;
  for (; isDot(last); last = dots.back()->operand(2)) {
    if (!dots.empty() && last->uses().size() != 1)
      return {};
    dots.push_back(last->definition());
  }
  std::ranges::reverse(dots);
  return dots;
}

/// A sum that is carried from trip to trip as value `i` of a sweep.
struct CarriedSum {
  ProductKernel::Sum sum;
  bool promotes;

  static std::optional<CarriedSum> of(const Operation &loop, unsigned i) {
    const Value *acc = loop.region().argument(i + 1), *next = loop.region().back()->operand(i);
    const Operation *add = next->definition();
    bool promotes = add && add->is(OpKind::Add) && add->operand(0) == acc;
    CarriedSum carried{{chainTo(promotes ? add->operand(1) : next), loop.result(i)}, promotes};
    if (carried.sum.dots.empty() || !isConstant(*loop.operand(i + 3), 0))
      return std::nullopt;
    const Value &start = *carried.sum.dots[0]->operand(2);
    return (promotes ? isConstant(start, 0) : &start == acc) ? std::optional(carried) : std::nullopt;
  }
};

/// The dots, if they are what one sweep over k from 0 in steps of `bk` computes, and nothing else: what `tile` makes.
static std::optional<ProductKernel> sweepOf(const std::vector<Operation *> &dots, const Schedule &schedule) {
  ProductKernel product{{}, dots[0]->parentOp(), false, schedule, dots[0]->result()->type().rank() - 3, {}};
  const Operation *loop = product.loop;
  if (loop && (loop->parentOp() || !loop->is(OpKind::For) || !isConstant(*loop->operand(0), 0) ||
               !isConstant(*loop->operand(2), double(product.bk()))))
    return std::nullopt;
  for (unsigned i = 0; loop && i < loop->numResults(); ++i) {
    auto carried = CarriedSum::of(*loop, i);
    if (!carried || (i > 0 && carried->promotes != product.promotes))
      return std::nullopt;
    product.promotes = carried->promotes;
    product.sums.push_back(carried->sum);
  }
  for (Operation *dot : loop ? std::vector<Operation *>() : dots) {
    if (std::ranges::any_of(dots, [&](const Operation *other) { return other->operand(2) == dot->result(); }))
      continue;
    ProductKernel::Sum sum{chainTo(dot->result()), dot->result()};
    if (sum.dots.empty() || !isConstant(*sum.dots[0]->operand(2), 0))
      return std::nullopt;
    product.sums.push_back(sum);
  }
  size_t found = 0;
  for (const ProductKernel::Sum &sum : product.sums)
    found += sum.dots.size();
  bool areAll = found == dots.size() && std::ranges::all_of(dots, [&](const Operation *dot) { return dot->parentOp() == loop; });
  return areAll ? std::optional(product) : std::nullopt;
}

/// Whether what two ops load lies alike in memory, and comes as tiles of one type.
static bool lieAlike(const Operation &a, const Operation &b) {
  return a.result()->type() == b.result()->type() && accessDims(a) == accessDims(b);
}

/// True if the products are one with more columns: one has what it multiplies of another but for columns of its own.
static bool haveOneFirstOperand(const ProductKernel &product) {
  const std::vector<Operation *> &first = product.sums[0].dots;
  return std::ranges::all_of(product.sums, [&](const ProductKernel::Sum &sum) {
    bool same = sum.dots.size() == first.size();
    for (size_t step = 0; same && step < first.size(); ++step) {
      const Operation &dot = *sum.dots[step], &other = *first[step];
      same = dot.operand(0) == other.operand(0) && lieAlike(*dot.operand(1)->definition(), *other.operand(1)->definition()) &&
             dot.result()->type() == other.result()->type() && dot.wordAttr("precision") == other.wordAttr("precision");
    }
    return same;
  });
}

/// What is before the sweep's own counter in an index: where a piece starts that every program has one of. Null if there is none.
static Value *pieceOf(const Operation *loop, Value *index) {
  if (!loop)
    return isConstant(*index, 0) ? nullptr : index;
  const Value *counter = loop->region().argument(0);
  const Operation *add = index->definition();
  if (!add || !add->is(OpKind::Add))
    return nullptr;
  Value *other = add->operand(add->operand(0) == counter ? 1 : 0);
  return add->operand(0) == counter || add->operand(1) == counter ? other : nullptr;
}

/// True if the sweep goes along all of the contracted axis, or of the program's piece of it, in blocks of their own.
static bool isWholeSweep(const ProductKernel &product, const Operation &dot) {
  const Operation *loop = product.loop;
  int64_t bk = product.bk();
  for (unsigned i : {0u, 1u}) {
    auto [index, size] = indexAlong(*dot.operand(i)->definition(), dot.intsAttr("axes")[0]);
    auto length = size.constant();
    if (!index || !length || pieceOf(loop, index) != product.piece)
      return false;
    if (product.piece) {
      if (product.piece->definition() && !product.piece->definition()->parentOp() && knownMultiple(product.piece) % bk == 0)
        continue;
      return false;
    }
    if (loop ? index != loop->region().argument(0) : *length > bk)
      return false;
    // Rows of a copy are longer, but not by a block.
    const Operation *end = loop ? loop->operand(1)->definition() : nullptr;
    const int64_t *last = end && end->is(OpKind::Constant) ? end->attr("value")->asInt() : nullptr;
    if (loop && (!last || (*last + bk - 1) / bk != (*length + bk - 1) / bk))
      return false;
  }
  return true;
}

/// True if nothing but the product runs along the contracted axis, in its sweep or another one.
static bool hasOneSweep(Function &kernel, const ProductKernel &product) {
  bool hasOne = true;
  walk(kernel.body(), [&](Operation &op) {
    hasOne &= !op.is(OpKind::For) || &op == product.loop;
    for (const Value *result : op.results())
      hasOne &= !result->type().isTile() || product.hasOperand(op) || result->type().extents().back() == 1;
  });
  return hasOne;
}

/// Why one dot of the product is not what such a schedule is for; empty if it is.
static std::string whyNot(const ProductKernel &product, const Operation &dot) {
  for (unsigned i : {0u, 1u})
    if (std::string why = whyNoCopy(*dot.operand(i)); !why.empty())
      return why;
  if (!isWholeSweep(product, dot))
    return "its product is no single sweep along a contracted axis of known size, with sums from 0";
  int64_t m = product.axisM, n = m + 1, k = m + 2;
  for (unsigned i : {0u, 1u}) {
    std::vector<int64_t> dims = accessDims(*dot.operand(i)->definition());
    int64_t rows = i == 0 ? m : n;
    if (!endsWith(dims, rows, k) && !endsWith(dims, k, rows))
      return std::string(i == 0 ? "its first" : "its second") + " operand is not a matrix, or several, one after the other";
  }
  return "";
}

Expected<ProductKernel> ProductKernel::of(Function &kernel) {
  std::vector<Operation *> dots;
  walk(kernel.body(), [&](Operation &op) {
    if (op.is(OpKind::Dot))
      dots.push_back(&op);
  });
  if (dots.empty())
    return cannotMultiply(kernel, kernel.loc, "it has no product");
  auto schedule = stagedSchedule(kernel, dots[0]->result()->type().rank());
  if (!schedule)
    return schedule.takeErrors();
  auto product = sweepOf(dots, *schedule);
  if (!product)
    return cannotMultiply(kernel, dots.back()->loc(),
                          "its product is no single sweep along a contracted axis of known size, with sums from 0");
  if (const Operation *first = dots[0]->operand(0)->definition(); first && first->is(OpKind::Load))
    if (Value *index = indexAlong(*first, product->axisM + 2).first)
      product->piece = pieceOf(product->loop, index);
  for (const Operation *dot : dots)
    if (std::string why = whyNot(*product, *dot); !why.empty())
      return cannotMultiply(kernel, dot->loc(), why);
  if (!haveOneFirstOperand(*product))
    return cannotMultiply(kernel, dots.back()->loc(), "its products do not have one first operand, and second ones that lie alike");
  if (!hasOneSweep(kernel, *product))
    return cannotMultiply(kernel, dots.back()->loc(), "something beside it runs along the contracted axis");
  for (Operation &op : kernel.body()) {
    if (op.is(OpKind::Reduce) && schedule->unit != Schedule::Unit::Wgmma)
      return cannotMultiply(kernel, op.loc(),
                            "rows of its product are reduced, which are whole in a warp with `unit = wgmma` alone");
    if (op.numRegions() > 0 || op.is(OpKind::Store) || (op.numResults() > 0 && op.result()->type().isTile()))
      product->tiles.push_back(&op);
  }
  return std::move(*product);
}

std::vector<Operation *> ProductKernel::loads(size_t step, unsigned i) const {
  std::vector<Operation *> result;
  for (const Sum &sum : sums)
    if (result.empty() || i == 1)
      result.push_back(sum.dots[step]->operand(i)->definition());
  return result;
}

bool ProductKernel::hasOperand(const Operation &op) const {
  auto multiplies = [&](const Use &use) { return use.user->is(OpKind::Dot) && use.index < 2; };
  return op.numResults() == 1 && std::ranges::any_of(op.result()->uses(), multiplies);
}

Value *ProductKernel::end(Builder &builder) const {
  if (piece)
    return builder.scalarOp(OpKind::Add, {piece, loop ? loop->operand(1) : builder.constantIndex(bk())});
  return builder.dim(indexAlong(load(0), axisM + 2).second);
}

bool ProductKernel::isAcross(unsigned i) const { return accessDims(load(i)).back() == (i == 0 ? axisM : axisM + 2); }

std::vector<Value *> ProductKernel::indicesOf(const Operation &load, Value *at) const {
  std::vector<Value *> indices;
  std::vector<int64_t> dims = accessDims(load);
  for (size_t a = 0; a < dims.size(); ++a)
    indices.push_back(dims[a] == axisM + 2 ? at : load.operand(firstIndex(load) + unsigned(a)));
  return indices;
}

std::vector<Operation *> ProductKernel::epilogue() const {
  std::vector<Operation *> ops;
  for (Operation *op : tiles)
    if (op != loop && !op->is(OpKind::Dot) && !hasOperand(*op))
      ops.push_back(op);
  return ops;
}

void ProductKernel::eraseTiles() {
  for (size_t i = tiles.size(); i-- > 0;)
    tiles[i]->erase();
}

//===- Parts of the epilogue -===//

void EpiloguePart::emit(Builder &builder, Operation &op, ValueMap &map) const {
  builder.setLoc(op.loc());
  std::vector<Value *> values;
  for (Value *operand : op.operands())
    values.push_back(map(operand));
  if (op.is(OpKind::Reduce))
    return emitReduction(builder, op, std::move(values), map);
  std::vector<Type> types;
  for (Value *result : op.results())
    types.push_back(partOf(result->type()));
  std::vector<NamedAttribute> attrs;
  for (const NamedAttribute &attribute : op.attrs())
    attrs.push_back({attribute.name, inPart(attribute)});
  bool isAccess = op.is(OpKind::Load) || op.is(OpKind::Store);
  if (isAccess)
    shiftAccess(builder, op, values, attrs);
  else if (op.is(OpKind::Iota) || op.is(OpKind::InBounds))
    values[0] = shifted(builder, values[0], op.intAttr("axis"), 1);
  Operation *copy = builder.create(op.kind(), values, types, attrs);
  if (isAccess)
    copy->setAttr("vec", Attribute(vectorWidth(*copy)));
  for (unsigned i = 0; i < op.numResults(); ++i) {
    copy->result(i)->setName(op.result(i)->name());
    map.map(op.result(i), copy->result(i));
  }
}

/// Of rows that the part has whole, which lie in one warp each.
void EpiloguePart::emitReduction(Builder &builder, Operation &op, std::vector<Value *> values, ValueMap &map) const {
  for (int64_t axis : op.intsAttr("axes"))
    reduceInWarps(builder, op, values, axis - axisM);
  for (unsigned i = 0; i < op.numResults(); ++i) {
    Value *result = builder.convert(values[i], op.result(i)->type().dtype());
    result->setName(op.result(i)->name());
    map.map(op.result(i), result);
  }
}

Type EpiloguePart::partOf(Type tile) const {
  std::vector<int64_t> whole = tile.extents();
  std::vector<int64_t> part(extents.size(), 1);
  for (size_t axis : {0u, 1u})
    part[axis] = whole[size_t(axisM) + axis] > 1 ? extents[axis] : 1;
  return context.tile(tile.dtype(), part, context.layout(cutLayout(layout, part)));
}

Attribute EpiloguePart::inPart(const NamedAttribute &attribute) const {
  if (attribute.name == "axis")
    return Attribute(*attribute.value.asInt() - axisM);
  if (attribute.name != "dims" && attribute.name != "mask")
    return attribute.value;
  std::vector<int64_t> axes = *attribute.value.asInts();
  for (int64_t &axis : axes)
    axis = axis < axisM ? -1 : axis - axisM;
  std::erase_if(axes, [&](int64_t axis) { return attribute.name == "mask" && (axis < 0 || axis > 1); });
  return Attribute::ints(axes);
}

Value *EpiloguePart::shifted(Builder &builder, Value *position, int64_t axis, int64_t factor) const {
  Value *distance = axis == axisM ? upper : axis == axisM + 1 ? left : nullptr;
  if (!distance)
    return position;
  if (factor != 1)
    distance = builder.scalarOp(OpKind::Mul, {distance, builder.constantIndex(factor)});
  return builder.scalarOp(OpKind::Add, {position, distance});
}

void EpiloguePart::shiftAccess(Builder &builder, const Operation &op, std::vector<Value *> &values,
                               std::vector<NamedAttribute> &attrs) const {
  std::vector<int64_t> dims = accessDims(op), steps = op.optionalInts("steps"), inner;
  for (size_t a = 0; a < dims.size(); ++a) {
    Value *&value = values[firstIndex(op) + a];
    if (dims[a] >= 0)
      value = shifted(builder, value, dims[a], steps.empty() ? 1 : steps[a]);
    inner.push_back(dims[a] < axisM ? -1 : dims[a] - axisM);
  }
  std::erase_if(attrs, [](const NamedAttribute &attribute) { return attribute.name == "dims"; });
  if (extents.size() != 2 || inner != std::vector<int64_t>{0, 1})
    attrs.push_back({"dims", Attribute::ints(inner)});
}

} // namespace minic
