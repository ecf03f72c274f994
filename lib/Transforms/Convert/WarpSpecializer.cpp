#include "WarpSpecializer.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"
#include "minic/Transforms/Analysis/Bounds.h"

#include <array>

namespace minic {

constexpr int64_t rowsOfPattern = 8; // Of a swizzle.

WarpSpecializer::WarpSpecializer(Function &kernel, const Schedule &schedule, const Product &product)
    : kernel(kernel), schedule(schedule), product(product), dot(product.last()), context(kernel.module().context()),
      axisM(dot.result()->type().rank() - 3), bm(schedule.block[size_t(axisM)]), bn(schedule.block[size_t(axisM) + 1]),
      bk(schedule.block[size_t(axisM) + 2]), signature(kernel), top(kernel.body(), kernel.terminator()) {}

void WarpSpecializer::run() {
  top.setLoc(dot.loc());
  collectTiles();
  makeMaps();
  makeRing();
  emitProducer();
  emitConsumer();
  for (size_t i = tiles.size(); i-- > 0;)
    tiles[i]->erase();
  signature.dropUnused(); // Buffers that only TMA reads now.
  kernel.setAttr("threads", Attribute(crew.allWarps() * 32));
  kernel.level = Level::Machine;
}

void WarpSpecializer::shareRegisters() {
  constexpr int64_t least = 24, most = 240; // setmaxnreg, PTX ISA; a consumer needs no more beside 128 accumulators.
  int64_t threads = crew.allWarps() * 32, workers = crew.consumers * crew.consumerWarps;
  if (workers < 8 || workers % 4 != 0 || crew.producerWarps % 4 != 0)
    return;
  int64_t left = registersAtStart(threads) * threads - least * crew.producerWarps * 32;
  crew.producerAttrs = {{"regs", Attribute(least)}};
  crew.consumerAttrs = {{"regs", Attribute(std::min(left / (workers * 32) / 8 * 8, most))}};
}

bool WarpSpecializer::isAcross(const Operation &load) const { return accessDims(load).back() == axisM; }

/// What becomes the work of roles; index arithmetic stays where every role sees it.
void WarpSpecializer::collectTiles() {
  for (Operation &op : kernel.body())
    if (op.numRegions() > 0 || op.is(OpKind::Store) || (op.numResults() > 0 && op.result()->type().isTile()))
      tiles.push_back(&op);
}

//===-- Operands -----------------------------------------------------------------------------------------------------------===//

void WarpSpecializer::makeMaps() {
  for (const Operation *each : product.dots)
    for (unsigned i : {0u, 1u}) {
      Operation *load = each->operand(i)->definition();
      if (operands.count(load))
        continue;
      order.push_back(load);
      operands.emplace(load, makeOperand(load, i, each->wordAttr("precision") == "tf32"));
    }
}

WarpSpecializer::Operand WarpSpecializer::makeOperand(Operation *load, unsigned i, bool tf32) {
  std::vector<int64_t> box = boxOf(*load), block = {box.end() - 2, box.end()};
  Type buffer = load->operand(0)->type();
  // Rows that no operand has take TMA as long as others: 16 rows of x in a block of 64 would be read at two thirds of the speed.
  size_t r = box.size() - 2;
  auto rows = buffer.shape()[r].constant();
  if (bringsRowsThereAre && i == 0 && rows && *rows < box[r] && !isAcross(*load))
    box[r] = (*rows + rowsOfPattern - 1) / rowsOfPattern * rowsOfPattern;
  Type whole = memoryOf(buffer.dtype(), block), brought = memoryOf(buffer.dtype(), {box.end() - 2, box.end()});
  TypeStorage map{.kind = TypeKind::TensorMap,
                  .dtype = buffer.dtype(),
                  .shape = buffer.shape(),
                  .swizzle = whole.swizzle(),
                  .box = box,
                  .tf32 = tf32};
  Operand operand{load, signature.addTensorMap(load->operand(0), context.type(map)), nullptr, whole, brought};
  operand.memory = top.create(OpKind::AllocShared, {}, {operand.block})->result();
  operand.memory->setName(load->operand(0)->name() + "_s");
  return operand;
}

std::vector<int64_t> WarpSpecializer::boxOf(const Operation &load) const {
  std::vector<int64_t> extents = load.result()->type().extents(), result;
  for (int64_t axis : accessDims(load))
    result.push_back(extents[size_t(axis)]);
  return result;
}

//===-- Roles --------------------------------------------------------------------------------------------------------------===//

void WarpSpecializer::makeRing() {
  Type single = context.mbarrier(1);
  full = top.create(OpKind::MbarrierInit, {}, {single}, {{"count", Attribute(1)}})->result();
  empty = top.create(OpKind::MbarrierInit, {}, {single}, {{"count", Attribute(crew.consumers * crew.consumerWarps)}})->result();
  full->setName("full");
  empty->setName("empty");
  for (const Operation *load : order)
    top.create(OpKind::TmaPrefetch, {operands.at(load).map}, {});
  zero = top.constantIndex(0);
  one = top.constantIndex(1);
  step = top.constantIndex(bk);
  length = top.dim(lengthOf());
  for (const Operation *load : order)
    if (const Operand &operand = operands.at(load); operand.box != operand.block)
      clear(operand);
  top.create(OpKind::BarrierOp, {}, {});
}

/// Rows that TMA does not bring are 0 from the start.
void WarpSpecializer::clear(const Operand &operand) {
  Operation *stages = top.create(OpKind::For, {zero, one, one}, {});
  Block &body = stages->addRegion();
  Value *number = body.addArgument(context.index(), "s");
  Builder inner(body);
  inner.setLoc(dot.loc());
  std::vector<int64_t> extents = operand.block.extents();
  const std::array<int, 2> fastest{1, 0};
  Layout layout = Schedule::coalesced(extents, fastest, 2, crew.consumerWarps);
  layout.warp.push_back({-1, crew.allWarps() / crew.consumerWarps, 0}); // All roles' warps are there.
  Value *zeros = inner.constant(context.tile(operand.block.dtype(), extents, context.layout(layout)), Attribute(0.0));
  inner.create(OpKind::SharedStore, {zeros, stageOf(inner, operand, number)}, {});
  inner.create(OpKind::FenceAsync, {}, {});
  inner.create(OpKind::Yield, {}, {});
}

DimExpr WarpSpecializer::lengthOf() const {
  const Operation &load = *order[0];
  std::vector<int64_t> dims = accessDims(load);
  size_t along = size_t(std::ranges::find(dims, axisM + 2) - dims.begin());
  return load.operand(0)->type().shape()[along];
}

Block &WarpSpecializer::addRole(std::string_view name, int64_t warps, int64_t instances, const std::vector<NamedAttribute> &more) {
  std::vector<NamedAttribute> attrs{{"role", Attribute::word(std::string(name))}, {"warps", Attribute(warps)}};
  if (instances > 1)
    attrs.push_back({"instances", Attribute(instances)});
  attrs.insert(attrs.end(), more.begin(), more.end());
  return top.create(OpKind::Role, {}, {}, attrs)->addRegion();
}

void WarpSpecializer::emitProducer() {
  std::vector<NamedAttribute> attrs = crew.producerAttrs;
  attrs.push_back({"active", Attribute::word("thread")});
  Block &role = addRole("producer", crew.producerWarps, 1, attrs);
  role.addArgument(context.index(), "who");
  Builder builder(role);
  builder.setLoc(dot.loc());
  Operation *sweep = builder.create(OpKind::For, {zero, length, step, zero}, {context.index()});
  Block &body = sweep->addRegion();
  Value *at = body.addArgument(context.index(), "at"), *position = body.addArgument(context.index(), "i");
  Builder inner(body);
  inner.setLoc(dot.loc());
  inner.create(OpKind::MbarrierWait, {empty, position}, {}, {{"lap", Attribute::word("previous")}});
  int64_t bytes = 0;
  for (const Operation *load : order)
    bytes += stageBytes(operands.at(load).box);
  inner.create(OpKind::MbarrierExpect, {full, position}, {}, {{"bytes", Attribute(bytes)}});
  for (const Operation *load : order) {
    const Operand &operand = operands.at(load);
    Value *block = stageOf(inner, operand, position);
    if (operand.box != operand.block)
      block = inner.create(OpKind::SharedView, {block, zero, zero}, {operand.box})->result();
    std::vector<Value *> arguments{operand.map, block, full, position};
    std::vector<int64_t> dims = accessDims(*operand.load);
    for (size_t a = 0; a < dims.size(); ++a)
      arguments.push_back(dims[a] == axisM + 2 ? at : operand.load->operand(firstIndex(*operand.load) + unsigned(a)));
    inner.create(OpKind::TmaLoad, arguments, std::vector<Type>());
  }
  Value *next = inner.scalarOp(OpKind::Add, {position, one});
  inner.create(OpKind::Yield, {next}, {});
  builder.create(OpKind::Yield, {}, {});
}

Value *WarpSpecializer::stageOf(Builder &builder, const Operand &operand, Value *position) const {
  Value *stage = builder.create(OpKind::Stage, {operand.memory, position}, {operand.block})->result();
  stage->setName(operand.load->operand(0)->name() + "_b");
  return stage;
}

void WarpSpecializer::emitConsumer() {
  Block &role = addRole("consumer", crew.consumerWarps, crew.consumers, crew.consumerAttrs);
  Value *who = role.addArgument(context.index(), "who");
  Builder builder(role);
  builder.setLoc(dot.loc());
  upper = builder.scalarOp(OpKind::Mul, {who, builder.constantIndex(part.rows)});
  Value *sums = emitSweep(builder);
  sums->setName(product.result()->name());
  emitEpilogue(builder, sums);
  builder.create(OpKind::Yield, {}, {});
}

//===-- Epilogue -----------------------------------------------------------------------------------------------------------===//

Type WarpSpecializer::partType(DType dtype, int64_t columns) const {
  std::vector<int64_t> extents(size_t(part.rank), 1);
  extents[0] = part.rows;
  extents[1] = columns;
  return context.tile(dtype, extents, context.layout(layoutOf(extents)));
}

static bool hasIndexTiles(const Operation &access) {
  auto indices = access.operands().subspan(firstIndex(access));
  return std::ranges::any_of(indices, [](const Value *index) { return index->type().isTile(); });
}

/// The ops behind the product, on some columns at a time: so few values live beside the accumulators.
void WarpSpecializer::emitEpilogue(Builder &builder, Value *sums) {
  Operation *parts = builder.create(OpKind::For, {zero, builder.constantIndex(bn), builder.constantIndex(part.columns)}, {},
                                    {{"unroll", Attribute::word("full")}});
  Block &body = parts->addRegion();
  left = body.addArgument(context.index(), "j");
  Builder inner(body);
  inner.setLoc(dot.loc());
  std::vector<Value *> place{sums, zero, left};
  place.resize(size_t(part.rank) + 1, zero);
  ValueMap map;
  map.map(product.result(),
          inner.create(OpKind::ExtractTile, place, std::vector{partType(sums->type().dtype(), part.columns)})->result());
  for (Operation *op : tiles)
    if (op != product.loop && !op->is(OpKind::Dot) && !product.hasOperand(*op))
      emitPart(inner, *op, map);
  inner.create(OpKind::Yield, {}, {});
}

void WarpSpecializer::emitPart(Builder &builder, Operation &op, ValueMap &map) {
  builder.setLoc(op.loc());
  std::vector<Value *> values;
  for (Value *operand : op.operands())
    values.push_back(map(operand));
  std::vector<Type> types;
  for (Value *result : op.results())
    types.push_back(partOf(result->type()));
  std::vector<NamedAttribute> attrs;
  for (const NamedAttribute &attribute : op.attrs())
    attrs.push_back({attribute.name, inPart(attribute)});
  if (op.is(OpKind::Load) || op.is(OpKind::Store))
    shiftAccess(builder, op, values, attrs);
  else if (op.is(OpKind::Iota) || op.is(OpKind::InBounds))
    values[0] = shifted(builder, values[0], op.intAttr("axis"), 1);
  Operation *copy = builder.create(op.kind(), values, types, attrs);
  for (unsigned i = 0; i < op.numResults(); ++i) {
    copy->result(i)->setName(op.result(i)->name());
    map.map(op.result(i), copy->result(i));
  }
}

/// Tiles have no axes of batches.
Type WarpSpecializer::partOf(Type tile) const {
  std::vector<int64_t> whole = tile.extents(), extents(size_t(part.rank), 1);
  extents[0] = whole[size_t(axisM)] > 1 ? part.rows : 1;
  extents[1] = whole[size_t(axisM) + 1] > 1 ? part.columns : 1;
  return context.tile(tile.dtype(), extents, context.layout(layoutOf(extents)));
}

Attribute WarpSpecializer::inPart(const NamedAttribute &attribute) const {
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

Value *WarpSpecializer::shifted(Builder &builder, Value *position, int64_t axis, int64_t factor) {
  if (axis < axisM || axis > axisM + 1)
    return position;
  Value *distance = axis == axisM ? upper : left;
  if (factor != 1)
    distance = builder.scalarOp(OpKind::Mul, {distance, builder.constantIndex(factor)});
  return builder.scalarOp(OpKind::Add, {position, distance});
}

void WarpSpecializer::shiftAccess(Builder &builder, const Operation &op, std::vector<Value *> &values,
                                  std::vector<NamedAttribute> &attrs) {
  std::vector<int64_t> dims = accessDims(op), steps = op.optionalInts("steps"), inner;
  for (size_t a = 0; a < dims.size(); ++a) {
    Value *&value = values[firstIndex(op) + a];
    if (dims[a] >= 0)
      value = shifted(builder, value, dims[a], steps.empty() ? 1 : steps[a]);
    inner.push_back(dims[a] < axisM ? -1 : dims[a] - axisM);
  }
  std::erase_if(attrs, [](const NamedAttribute &attribute) { return attribute.name == "dims"; });
  if (part.rank != 2 || inner != std::vector<int64_t>{0, 1})
    attrs.push_back({"dims", Attribute::ints(inner)});
  // A thread has neighbours along a row, at multiples of their number.
  Type buffer = accessBuffer(op)->type();
  bool isRow =
      inner.size() > 0 && inner.back() == 1 && !buffer.isStrided() && !hasIndexTiles(op) && (steps.empty() || steps.back() == 1);
  int64_t vec = isRow ? part.vec : 1;
  while (vec > 1 && (!buffer.shape().back().isMultipleOf(vec) || vec * dtypeBytes(buffer.dtype()) > 16 ||
                     knownMultiple(op.operand(firstIndex(op) + unsigned(dims.size()) - 1)) % vec != 0))
    vec /= 2;
  attrs.push_back({"vec", Attribute(vec)});
}

} // namespace minic
