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

/// Whether a tile has rows, and columns.
std::pair<bool, bool> Epilogue::spans(Type tile) const {
  std::vector<int64_t> extents = partOf(columns, nullptr).partOf(tile).extents();
  return {extents[0] > 1, extents[1] > 1};
}

/// What rows are reduced to is computed for all parts, and so is what follows from that alone.
bool Epilogue::isInParts(const Operation &op) const {
  if (reduced.empty())
    return true;
  Type tile = op.is(OpKind::Store) ? accessTile(op) : op.result()->type();
  return !op.is(OpKind::Reduce) && !feedsReduction(op) && spans(tile).second;
}

/// Each part on its own would wait for memory once more, at 4096^3 a thirtieth of the time for a bias. So what all rows or all
/// columns share is loaded whole while the last products run, and other loads are a part ahead.
void Epilogue::loadEarly(Builder &builder) {
  EpiloguePart tile = partOf(product.bn(), nullptr), part = partOf(columns, nullptr);
  int64_t left = 96; // Registers beside the sums' 128.
  auto take = [&](int64_t registers) { return registers <= left && (left -= registers, true); };
  auto registersOf = [](const EpiloguePart &emitter, const Operation &load) {
    return emitter.partOf(load.result()->type()).layout()->numRegs();
  };
  std::vector<Operation *> loads;
  std::ranges::copy_if(ops, std::back_inserter(loads), [](const Operation *op) { return op->is(OpKind::Load); });
  auto isTakenWhole = [&](const Operation *load) {
    auto [rows, columnsToo] = spans(load->result()->type());
    return !rows || !columnsToo || !isInParts(*load) || columns == product.bn();
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
  for (size_t i = 0; i < product.sums.size(); ++i)
    whole.map(product.sums[i].value, columnsOf(builder, sums, i));
  EpiloguePart tile = partOf(product.bn(), nullptr);
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

/// The sums of one product, of those of all side by side.
Value *Epilogue::columnsOf(Builder &builder, Value *sums, size_t i) const {
  if (product.sums.size() == 1)
    return sums;
  std::vector<Value *> operands(size_t(sums->type().rank()) + 1, zero);
  operands[0] = sums;
  operands[2] = i ? builder.constantIndex(int64_t(i) * product.bn()) : zero;
  Value *own =
      builder
          .create(OpKind::ExtractTile, operands, std::vector{partOf(product.bn(), nullptr).partOf(product.sums[i].value->type())})
          ->result();
  own->setName(product.sums[i].value->name());
  return own;
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
  auto takePart = [&](Value *value) {
    Value *tile = whole(value);
    Type part = emitter.partOf(value->type());
    std::vector<Value *> operands(size_t(part.rank()) + 1, zero);
    operands[0] = tile;
    if (part.extents()[1] > 1)
      operands[2] = left;
    map.map(value, part == tile->type() ? tile : inner.create(OpKind::ExtractTile, operands, std::vector{part})->result());
  };
  for (Operation *op : inParts) {
    inner.setLoc(op->loc());
    for (Value *operand : op->operands())
      if (whole.contains(operand) && !map.contains(operand))
        takePart(operand);
    if (op->numResults() == 0 || !map.contains(op->result()))
      emitter.emit(inner, *op, map);
  }
  inner.create(OpKind::Yield, next, {});
}

} // namespace minic
