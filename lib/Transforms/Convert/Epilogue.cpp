#include "Epilogue.h"

#include "minic/Transforms/Analysis/Bounds.h"

#include <algorithm>

namespace minic {

Epilogue::Epilogue(const ProductKernel &product, int64_t columns, Value *zero, PartOf partOf)
    : product(product), columns(columns), zero(zero), partOf(std::move(partOf)), ops(product.epilogue()) {
  for (size_t i = ops.size(); i-- > 0;)
    if (ops[i]->is(OpKind::Reduce) || feedsReduction(*ops[i]))
      for (const Value *operand : ops[i]->operands())
        reduced.insert(operand);
}

bool Epilogue::feedsReduction(const Operation &op) const {
  return std::ranges::any_of(op.results(), [&](const Value *result) { return reduced.contains(result); });
}

bool Epilogue::runsAlong(Axis axis, Type tile) const { return partOf(columns, nullptr).partOf(tile).extents()[size_t(axis)] > 1; }

/// What rows are reduced to is computed for all parts, and so is what follows from that alone.
bool Epilogue::isInParts(const Operation &op) const {
  if (reduced.empty())
    return true;
  Type tile = op.is(OpKind::Store) ? accessTile(op) : op.result()->type();
  return !op.is(OpKind::Reduce) && !feedsReduction(op) && runsAlong(Column, tile);
}

/// Each part on its own would wait for memory once more, at 4096^3 a thirtieth of the time for a bias. So what all rows or all
/// columns share is loaded whole while the last products run, and other loads are a part ahead.
void Epilogue::loadEarly(Builder &builder) {
  EpiloguePart tile = partOf(product.bn(), nullptr), part = partOf(columns, nullptr);
  int64_t left = 96; // Registers beside the sums' 128.
  auto take = [&](int64_t registers) {
    bool fits = registers <= left;
    left -= fits ? registers : 0;
    return fits;
  };
  auto registersOf = [](const EpiloguePart &emitter, const Operation &load) {
    return emitter.partOf(load.result()->type()).layout()->numRegs();
  };
  std::vector<Operation *> loads;
  std::ranges::copy_if(ops, std::back_inserter(loads), [](const Operation *op) { return op->is(OpKind::Load); });
  auto isTakenWhole = [&](const Operation *load) {
    Type tile = load->result()->type();
    return !runsAlong(Row, tile) || !runsAlong(Column, tile) || !isInParts(*load) || columns == product.bn();
  };
  std::ranges::stable_partition(loads, [&](const Operation *load) { return !isTakenWhole(load); }); // There is more to wait for.
  for (Operation *load : loads)
    if (isTakenWhole(load) && take(registersOf(tile, *load))) {
      tile.emit(builder, *load, whole);
    } else if (isInParts(*load) && take(2 * registersOf(part, *load))) { // A part and the next one.
      part.emit(builder, *load, firstParts);
      ahead.push_back(load);
    }
}

void Epilogue::emit(Builder &builder, Value *sums) {
  EpiloguePart tile = partOf(product.bn(), nullptr);
  for (size_t i = 0; i < product.sums.size(); ++i) { // Those of all products lie side by side.
    Value *sum = product.sums[i].value, *column = i ? builder.constantIndex(int64_t(i) * product.bn()) : zero;
    Value *own = extract(builder, sums, tile.partOf(sum->type()), column);
    own->setName(sum->name());
    whole.map(sum, own);
  }
  std::vector<Operation *> inParts;
  for (Operation *op : ops)
    if (op->numResults() > 0 && whole.contains(op->result()))
      continue; // Loaded early.
    else if (isInParts(*op))
      inParts.push_back(op);
    else
      tile.emit(builder, *op, whole);
  if (!inParts.empty())
    emitParts(builder, inParts);
}

/// The part of a tile from a column on; the tile itself if that is all of it.
Value *Epilogue::extract(Builder &builder, Value *tile, Type part, Value *column) const {
  if (part == tile->type())
    return tile;
  std::vector<Value *> operands(size_t(part.rank()) + 1, zero);
  operands[0] = tile;
  if (part.extents()[1] > 1)
    operands[2] = column;
  return builder.create(OpKind::ExtractTile, operands, std::vector{part})->result();
}

void Epilogue::emitParts(Builder &builder, const std::vector<Operation *> &inParts) {
  std::vector<Value *> carried{zero, builder.constantIndex(product.bn()), builder.constantIndex(columns)}, next;
  std::vector<Type> types;
  for (const Operation *load : ahead) {
    carried.push_back(firstParts(load->result()));
    types.push_back(carried.back()->type());
  }
  Operation *parts = builder.create(OpKind::For, carried, types, {{"unroll", Attribute::word("full")}});
  Block &body = parts->addRegion();
  Value *left = body.addArgument(builder.context().index(), "j");
  Builder inner(body);
  inner.setLoc(builder.loc());
  ValueMap map, following;
  for (size_t i = 0; i < ahead.size(); ++i)
    map.map(ahead[i]->result(), body.addArgument(types[i], ahead[i]->result()->name()));
  if (!ahead.empty()) { // Behind the last part the last one once more, which nothing uses.
    Value *behind = inner.scalarOp(OpKind::Add, {left, carried[2]});
    behind = inner.scalarOp(OpKind::Min, {behind, inner.constantIndex(product.bn() - columns)});
    EpiloguePart emitter = partOf(columns, behind);
    for (Operation *load : ahead) {
      emitter.emit(inner, *load, following);
      next.push_back(following(load->result()));
    }
  }
  EpiloguePart emitter = partOf(columns, left);
  for (Operation *op : inParts) {
    inner.setLoc(op->loc());
    for (Value *operand : op->operands())
      if (whole.contains(operand) && !map.contains(operand))
        map.map(operand, extract(inner, whole(operand), emitter.partOf(operand->type()), left));
    if (op->numResults() == 0 || !map.contains(op->result()))
      emitter.emit(inner, *op, map);
  }
  inner.create(OpKind::Yield, next, {});
}

} // namespace minic
