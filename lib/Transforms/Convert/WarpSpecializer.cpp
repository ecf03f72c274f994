#include "WarpSpecializer.h"

#include "Epilogue.h"

#include "minic/IR/Roles.h"
#include "minic/IR/SharedLayout.h"
#include "minic/Transforms/Analysis/Bounds.h"

#include <array>

namespace minic {

constexpr int64_t rowsOfPattern = 8; // Of a swizzle.

WarpSpecializer::WarpSpecializer(Function &kernel, ProductKernel &product)
    : kernel(kernel), product(product), context(kernel.module().context()), axisM(product.axisM), bm(product.bm()),
      bn(product.bn()), bk(product.bk()), signature(kernel), top(kernel.body(), kernel.terminator()) {}

void WarpSpecializer::run() {
  top.setLoc(product.dot().loc());
  makeOperands();
  makeRing();
  emitProducer();
  emitConsumer();
  product.eraseTiles();
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

//===-- Operands -----------------------------------------------------------------------------------------------------------===//

size_t WarpSpecializer::indexOf(size_t step, unsigned i) const {
  std::vector<Operation *> loads = product.loads(step, i);
  auto isIt = [&](const Operand &operand) { return std::ranges::equal(operand.pieces, loads, {}, &Piece::load); };
  return size_t(std::ranges::find_if(operands, isIt) - operands.begin());
}

void WarpSpecializer::makeOperands() {
  for (size_t step = 0; step < product.sums[0].dots.size(); ++step)
    for (unsigned i : {0u, 1u}) {
      if (indexOf(step, i) < operands.size())
        continue;
      Operand operand{};
      for (Operation *load : product.loads(step, i))
        operand.pieces.push_back(makePiece(load, i, int64_t(operand.pieces.size())));
      const Piece &last = operand.pieces.back();
      std::vector<int64_t> extents = last.whole.extents();
      operand.block = memoryOf(last.whole.dtype(), {last.row + extents[0], last.column + extents[1]});
      operand.memory = top.create(OpKind::AllocShared, {}, {operand.block})->result();
      operand.memory->setName(operand.pieces[0].load->operand(0)->name() + "_s");
      operands.push_back(std::move(operand));
    }
}

/// A second operand stands beside `before` others, where its columns follow theirs.
WarpSpecializer::Piece WarpSpecializer::makePiece(Operation *load, unsigned i, int64_t before) {
  std::vector<int64_t> box = boxOf(*load), block = {box.end() - 2, box.end()};
  Type buffer = load->operand(0)->type();
  // Rows that no operand has take TMA as long as others: 16 rows of x in a block of 64 would be read at two thirds of the speed.
  size_t r = box.size() - 2;
  auto rows = buffer.shape()[r].constant();
  if (bringsRowsThereAre && i == 0 && rows && *rows < box[r] && !product.isAcross(0))
    box[r] = (*rows + rowsOfPattern - 1) / rowsOfPattern * rowsOfPattern;
  Type whole = memoryOf(buffer.dtype(), block), brought = memoryOf(buffer.dtype(), {box.end() - 2, box.end()});
  TypeStorage map{.kind = TypeKind::TensorMap,
                  .dtype = buffer.dtype(),
                  .shape = buffer.shape(),
                  .swizzle = whole.swizzle(),
                  .box = box,
                  .tf32 = product.dot().wordAttr("precision") == "tf32"};
  bool inRowsOfN = accessDims(*load).back() == axisM + 1;
  return {.load = load,
          .map = signature.addTensorMap(load->operand(0), context.type(map)),
          .row = inRowsOfN ? 0 : before * bn,
          .column = inRowsOfN ? before * bn : 0,
          .whole = whole,
          .box = brought};
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
  for (const Operand &operand : operands)
    for (const Piece &piece : operand.pieces)
      top.create(OpKind::TmaPrefetch, {piece.map}, {});
  zero = top.constantIndex(0);
  one = top.constantIndex(1);
  step = top.constantIndex(bk);
  first = product.piece ? product.piece : zero;
  end = product.end(top);
  for (const Operand &operand : operands)
    if (std::ranges::any_of(operand.pieces, [](const Piece &piece) { return piece.box != piece.whole; }))
      clear(operand);
  top.create(OpKind::BarrierOp, {}, {});
}

/// Rows that TMA does not bring are 0 from the start.
void WarpSpecializer::clear(const Operand &operand) {
  Operation *stages = top.create(OpKind::For, {zero, one, one}, {});
  Block &body = stages->addRegion();
  Value *number = body.addArgument(context.index(), "s");
  Builder inner(body);
  inner.setLoc(product.dot().loc());
  std::vector<int64_t> extents = operand.block.extents();
  const std::array<int, 2> fastest{1, 0};
  Layout layout = Schedule::coalesced(extents, fastest, 2, crew.consumerWarps);
  layout.warp.push_back({-1, crew.allWarps() / crew.consumerWarps, 0}); // All roles' warps are there.
  Value *zeros = inner.constant(context.tile(operand.block.dtype(), extents, context.layout(layout)), Attribute(0.0));
  inner.create(OpKind::SharedStore, {zeros, stageOf(inner, operand, number)}, {});
  inner.create(OpKind::FenceAsync, {}, {});
  inner.create(OpKind::Yield, {}, {});
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
  builder.setLoc(product.dot().loc());
  Operation *sweep = builder.create(OpKind::For, {first, end, step, zero}, {context.index()});
  Block &body = sweep->addRegion();
  Value *at = body.addArgument(context.index(), "at"), *position = body.addArgument(context.index(), "i");
  Builder inner(body);
  inner.setLoc(product.dot().loc());
  inner.create(OpKind::MbarrierWait, {empty, position}, {}, {{"lap", Attribute::word("previous")}});
  int64_t bytes = 0;
  for (const Operand &operand : operands)
    for (const Piece &piece : operand.pieces)
      bytes += stageBytes(piece.box);
  inner.create(OpKind::MbarrierExpect, {full, position}, {}, {{"bytes", Attribute(bytes)}});
  for (const Operand &operand : operands) {
    Value *block = stageOf(inner, operand, position);
    for (const Piece &piece : operand.pieces) {
      std::vector<Value *> arguments{piece.map, pieceOf(inner, operand, piece, block), full, position};
      for (Value *index : product.indicesOf(*piece.load, at))
        arguments.push_back(index);
      inner.create(OpKind::TmaLoad, arguments, std::vector<Type>());
    }
  }
  Value *next = inner.scalarOp(OpKind::Add, {position, one});
  inner.create(OpKind::Yield, {next}, {});
  builder.create(OpKind::Yield, {}, {});
}

Value *WarpSpecializer::stageOf(Builder &builder, const Operand &operand, Value *position) const {
  Value *stage = builder.create(OpKind::Stage, {operand.memory, position}, {operand.block})->result();
  stage->setName(operand.pieces[0].load->operand(0)->name() + "_b");
  return stage;
}

/// What TMA brings of a piece, in an operand's block.
Value *WarpSpecializer::pieceOf(Builder &builder, const Operand &operand, const Piece &piece, Value *block) const {
  if (piece.box == operand.block)
    return block;
  auto place = [&](int64_t at) { return at == 0 ? zero : builder.constantIndex(at); };
  return builder.create(OpKind::SharedView, {block, place(piece.row), place(piece.column)}, {piece.box})->result();
}

void WarpSpecializer::emitConsumer() {
  Block &role = addRole("consumer", crew.consumerWarps, crew.consumers, crew.consumerAttrs);
  Value *who = role.addArgument(context.index(), "who");
  Builder builder(role);
  builder.setLoc(product.dot().loc());
  upper = builder.scalarOp(OpKind::Mul, {who, builder.constantIndex(part.rows)});
  Value *sums = emitSweep(builder);
  Epilogue epilogue(product, part.columns, zero, [&](int64_t columns, Value *left) { return epiloguePart(columns, left); });
  epilogue.loadEarly(builder);
  builder.setLoc(product.dot().loc());
  if (sums->type().isInflight())
    sums = builder.create(OpKind::WgmmaWait, {sums}, {context.withKind(sums->type(), TypeKind::Tile)}, {{"pending", Attribute(0)}})
               ->result();
  sums->setName(product.sums[0].value->name());
  epilogue.emit(builder, sums);
  builder.create(OpKind::Yield, {}, {});
}

//===-- The result's parts --------------------------------------------------------------------------------------------------===//

Type WarpSpecializer::partType(DType dtype, int64_t columns) const {
  std::vector<int64_t> extents(size_t(part.rank), 1);
  extents[0] = part.rows;
  extents[1] = columns;
  return context.tile(dtype, extents, context.layout(layoutOf(extents)));
}

EpiloguePart WarpSpecializer::epiloguePart(int64_t columns, Value *left) const {
  Type type = partType(DType::F32, columns);
  return EpiloguePart(context, axisM, type.extents(), *type.layout(), upper, left);
}

} // namespace minic
