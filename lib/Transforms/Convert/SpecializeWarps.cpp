// specialize-warps: a product on tensor cores becomes the work of two kinds of warps, as #matmul<unit = wgmma> says.
//
//   %c = for %k ... {                           role producer {                 role consumer, instances = 2 {
//     %x_t = load %x, %row, %k                    for %k ... {                    for %k ... {
//     %w_t = load %w, %k, %col                      mbarrier_wait %empty            mbarrier_wait %full
//     dot %x_t, %w_t, %acc                 ->       tma_load %x_map, ...            wgmma, wgmma_wait
//   }                                               tma_load %w_map, ...            mbarrier_arrive %empty
//   epilogue of %c; store                         }                               }
//                                               }                                 for %j ... { epilogue of 64 columns; store }
//                                                                               }
//
// One thread of the producer starts copies of the operands' blocks into shared memory; each consumer, a warpgroup, multiplies its
// 64 rows of the tile. Here there is one block on chip at a time, and one tile for each program: `pipeline` and `persist` change
// that. TMA gives 0 where an operand ends and drops nothing else, so the masks of the operands are not needed any more.
#include "../KernelSignature.h"
#include "minic/IR/Builder.h"
#include "minic/IR/Schedule.h"
#include "minic/IR/SharedLayout.h"
#include "minic/Transforms/Analysis/Bounds.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <array>

namespace minic {
namespace {

constexpr int64_t warpgroupRows = 64, partColumns = 64, warpsOfGroup = 4, swizzle = 128, rowsOfPattern = 8;

class WarpSpecializer {
public:
  WarpSpecializer(Function &kernel, const Schedule &schedule, Operation &dot)
      : kernel(kernel), schedule(schedule), dot(dot), loop(dot.parentOp()), module(kernel.module()), context(module.context()),
        signature(kernel), top(kernel.body(), kernel.terminator()) {
    axisM = dot.result()->type().rank() - 3;
    bm = schedule.block[size_t(axisM)];
    bn = schedule.block[size_t(axisM) + 1];
    bk = schedule.block[size_t(axisM) + 2];
    groups = bm / warpgroupRows;
  }

  void run() {
    top.setLoc(dot.loc());
    collectTiles();
    makeMaps();
    makeRing();
    emitProducer();
    emitConsumer();
    for (size_t i = tiles.size(); i-- > 0;)
      tiles[i]->erase();
    signature.dropUnused(); // Buffers that only TMA reads now.
    kernel.setAttr("threads", Attribute((groups + 1) * warpsOfGroup * 32));
    kernel.level = Level::Machine;
  }

private:
  struct Operand {
    Operation *load;
    Value *map, *memory;
    Type block, box; ///< Of shared memory: what is multiplied, and as much of it as TMA brings.
  };

  /// What becomes the work of roles; index arithmetic stays where every role sees it.
  void collectTiles() {
    for (Operation &op : kernel.body())
      if (op.numRegions() > 0 || op.is(OpKind::Store) || (op.numResults() > 0 && op.result()->type().isTile()))
        tiles.push_back(&op);
  }

  //===- Operands -===//

  void makeMaps() {
    for (unsigned i : {0u, 1u}) {
      Operation *load = dot.operand(i)->definition();
      std::vector<int64_t> box = boxOf(*load), block = {box.end() - 2, box.end()};
      Type buffer = load->operand(0)->type();
      // Rows that no operand has take TMA as long as others: 16 rows of x in a block of 64 would be read at two thirds of the
      // speed.
      size_t r = box.size() - 2;
      if (auto rows = buffer.shape()[r].constant(); i == 0 && rows && *rows < box[r] && !isAcross(*load))
        box[r] = (*rows + rowsOfPattern - 1) / rowsOfPattern * rowsOfPattern;
      auto memoryOf = [&](const std::vector<int64_t> &extents) {
        return context.type(
            {.kind = TypeKind::Smem, .dtype = buffer.dtype(), .shape = {extents.begin(), extents.end()}, .swizzle = swizzle});
      };
      TypeStorage map{
          .kind = TypeKind::TensorMap, .dtype = buffer.dtype(), .shape = buffer.shape(), .swizzle = swizzle, .box = box};
      operands[i] = {load, signature.addTensorMap(load->operand(0), context.type(map)), nullptr, memoryOf(block),
                     memoryOf({box.end() - 2, box.end()})};
      operands[i].memory = top.create(OpKind::AllocShared, {}, {operands[i].block})->result();
      operands[i].memory->setName(load->operand(0)->name() + "_s");
    }
  }

  /// The block's extents in the order of memory; 1 along batches.
  std::vector<int64_t> boxOf(const Operation &load) const {
    std::vector<int64_t> extents = load.result()->type().extents(), result;
    for (int64_t axis : accessDims(load))
      result.push_back(extents[size_t(axis)]);
    return result;
  }

  //===- Roles -===//

  void makeRing() {
    Type single = context.mbarrier(1);
    full = top.create(OpKind::MbarrierInit, {}, {single}, {{"count", Attribute(1)}})->result();
    empty = top.create(OpKind::MbarrierInit, {}, {single}, {{"count", Attribute(groups * warpsOfGroup)}})->result();
    full->setName("full");
    empty->setName("empty");
    for (const Operand &operand : operands)
      top.create(OpKind::TmaPrefetch, {operand.map}, {});
    zero = top.constantIndex(0);
    one = top.constantIndex(1);
    step = top.constantIndex(bk);
    length = top.dim(lengthOf());
    for (const Operand &operand : operands)
      if (operand.box != operand.block)
        clear(operand);
    top.create(OpKind::BarrierOp, {}, {});
  }

  /// Rows that TMA does not bring are 0 from the start.
  void clear(const Operand &operand) {
    Operation *stages = top.create(OpKind::For, {zero, one, one}, {});
    Block &body = stages->addRegion();
    Value *number = body.addArgument(context.index(), "s");
    Builder inner(body);
    inner.setLoc(dot.loc());
    std::vector<int64_t> extents = operand.block.extents();
    const std::array<int, 2> order{1, 0};
    Layout layout = Schedule::coalesced(extents, order, 2, warpsOfGroup);
    layout.warp.push_back({-1, groups + 1, 0}); // All roles' warps are there, three times four with two consumers.
    Value *zeros = inner.constant(context.tile(operand.block.dtype(), extents, context.layout(layout)), Attribute(0.0));
    inner.create(OpKind::SharedStore, {zeros, stageOf(inner, operand, number)}, {});
    inner.create(OpKind::FenceAsync, {}, {});
    inner.create(OpKind::Yield, {}, {});
  }

  DimExpr lengthOf() const {
    const Operation &load = *operands[0].load;
    std::vector<int64_t> dims = accessDims(load);
    size_t along = size_t(std::ranges::find(dims, axisM + 2) - dims.begin());
    return load.operand(0)->type().shape()[along];
  }

  Block &addRole(std::string_view name, int64_t instances, std::vector<NamedAttribute> more) {
    std::vector<NamedAttribute> attrs{{"role", Attribute::word(std::string(name))}, {"warps", Attribute(warpsOfGroup)}};
    if (instances > 1)
      attrs.push_back({"instances", Attribute(instances)});
    attrs.insert(attrs.end(), more.begin(), more.end());
    return top.create(OpKind::Role, {}, {}, attrs)->addRegion();
  }

  /// With two consumers a thread has 168 registers at the start: the producer gives up what consumers take.
  std::vector<NamedAttribute> registers(int64_t count) const {
    return groups > 1 ? std::vector<NamedAttribute>{{"regs", Attribute(count)}} : std::vector<NamedAttribute>();
  }

  void emitProducer() {
    std::vector<NamedAttribute> attrs = registers(24);
    attrs.push_back({"active", Attribute::word("thread")});
    Block &role = addRole("producer", 1, attrs);
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
    for (const Operand &operand : operands)
      bytes += stageBytes(operand.box);
    inner.create(OpKind::MbarrierExpect, {full, position}, {}, {{"bytes", Attribute(bytes)}});
    for (const Operand &operand : operands) {
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

  Value *stageOf(Builder &builder, const Operand &operand, Value *position) {
    Value *stage = builder.create(OpKind::Stage, {operand.memory, position}, {operand.block})->result();
    stage->setName(operand.load->operand(0)->name() + "_b");
    return stage;
  }

  void emitConsumer() {
    Block &role = addRole("consumer", groups, registers(240));
    Value *who = role.addArgument(context.index(), "who");
    Builder builder(role);
    builder.setLoc(dot.loc());
    upper = builder.scalarOp(OpKind::Mul, {who, builder.constantIndex(warpgroupRows)});

    std::array<int64_t, 2> extents{warpgroupRows, bn};
    Type product = context.tile(DType::F32, extents, context.layout(wgmmaLayout(bn)));
    Type inflight = context.withKind(product, TypeKind::Inflight);
    Value *none = builder.create(OpKind::Undefined, {}, {inflight})->result();
    Operation *sweep = builder.create(OpKind::For, {zero, length, step, zero, none}, {context.index(), inflight});
    Block &body = sweep->addRegion();
    Value *at = body.addArgument(context.index(), "at"), *position = body.addArgument(context.index(), "i");
    Value *acc = body.addArgument(inflight, "acc");
    Builder inner(body);
    inner.setLoc(dot.loc());
    inner.create(OpKind::MbarrierWait, {full, position}, {});
    Value *lhs = stageOf(inner, operands[0], position), *rhs = stageOf(inner, operands[1], position);
    if (groups > 1) {
      TypeStorage part = operands[0].block.get();
      part.shape = isAcross() ? std::vector<DimExpr>{bk, warpgroupRows} : std::vector<DimExpr>{warpgroupRows, bk};
      std::vector<Value *> place = isAcross() ? std::vector{lhs, zero, upper} : std::vector{lhs, upper, zero};
      lhs = inner.create(OpKind::SharedView, place, std::vector{context.type(part)})->result();
    }
    Value *later = inner.compare("gt", at, zero);
    bool isRowMajor = accessDims(*operands[1].load).back() == axisM + 1;
    Value *sum = inner
                     .create(OpKind::Wgmma, {lhs, rhs, acc, later}, {inflight},
                             {{"form", Attribute::word(std::string(isAcross() ? "t" : "n") + (isRowMajor ? "n" : "t"))}})
                     ->result();
    Value *held = inner.create(OpKind::WgmmaWait, {sum}, {inflight}, {{"pending", Attribute(0)}})->result();
    inner.create(OpKind::MbarrierArrive, {empty, position}, {});
    Value *next = inner.scalarOp(OpKind::Add, {position, one});
    inner.create(OpKind::Yield, {next, held}, {});

    Value *done = builder.create(OpKind::WgmmaWait, {sweep->result(1)}, {product}, {{"pending", Attribute(0)}})->result();
    done->setName((loop ? loop->result() : dot.result())->name());
    emitEpilogue(builder, done);
    builder.create(OpKind::Yield, {}, {});
  }

  /// The first operand lies with rows of the product's rows, not of the contracted axis.
  bool isAcross() const { return isAcross(*operands[0].load); }
  bool isAcross(const Operation &load) const { return accessDims(load).back() == axisM; }

  //===- Epilogue -===//

  /// The ops behind the product, on 64 columns at a time: so few values live beside the accumulators.
  void emitEpilogue(Builder &builder, Value *product) {
    Operation *parts = builder.create(OpKind::For, {zero, builder.constantIndex(bn), builder.constantIndex(partColumns)}, {},
                                      {{"unroll", Attribute::word("full")}});
    Block &body = parts->addRegion();
    left = body.addArgument(context.index(), "j");
    Builder inner(body);
    inner.setLoc(dot.loc());
    std::array<int64_t, 2> extents{warpgroupRows, partColumns};
    Type part = context.tile(DType::F32, extents, context.layout(wgmmaLayout(partColumns)));
    ValueMap map;
    map.map(loop ? loop->result() : dot.result(), inner.create(OpKind::ExtractTile, {product, zero, left}, {part})->result());
    for (Operation *op : tiles)
      if (op != loop && op != &dot && !isOperand(*op))
        emitPart(inner, *op, map);
    inner.create(OpKind::Yield, {}, {});
  }

  bool isOperand(const Operation &op) const { return &op == operands[0].load || &op == operands[1].load; }

  void emitPart(Builder &builder, Operation &op, ValueMap &map) {
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

  /// Tiles have the axes of rows and columns alone.
  Type partOf(Type tile) const {
    std::vector<int64_t> extents = tile.extents();
    std::array<int64_t, 2> part{extents[size_t(axisM)] > 1 ? warpgroupRows : 1, extents[size_t(axisM) + 1] > 1 ? partColumns : 1};
    return context.tile(tile.dtype(), part, context.layout(cutLayout(wgmmaLayout(partColumns), part)));
  }

  Attribute inPart(const NamedAttribute &attribute) const {
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

  Value *shifted(Builder &builder, Value *position, int64_t axis, int64_t factor) {
    if (axis < axisM || axis > axisM + 1)
      return position;
    Value *distance = axis == axisM ? upper : left;
    if (factor != 1)
      distance = builder.scalarOp(OpKind::Mul, {distance, builder.constantIndex(factor)});
    return builder.scalarOp(OpKind::Add, {position, distance});
  }

  void shiftAccess(Builder &builder, const Operation &op, std::vector<Value *> &values, std::vector<NamedAttribute> &attrs) {
    std::vector<int64_t> dims = accessDims(op), steps = op.optionalInts("steps"), inner;
    for (size_t a = 0; a < dims.size(); ++a) {
      Value *&value = values[firstIndex(op) + a];
      if (dims[a] >= 0)
        value = shifted(builder, value, dims[a], steps.empty() ? 1 : steps[a]);
      inner.push_back(dims[a] < axisM ? -1 : dims[a] - axisM);
    }
    std::erase_if(attrs, [](const NamedAttribute &attribute) { return attribute.name == "dims"; });
    if (inner != std::vector<int64_t>{0, 1})
      attrs.push_back({"dims", Attribute::ints(inner)});
    // A thread has pairs of columns, at even places.
    Type buffer = accessBuffer(op)->type();
    bool isPair = inner.size() > 0 && inner.back() == 1 && !buffer.isStrided() && buffer.shape().back().isMultipleOf(2) &&
                  !hasIndexTiles(op) && (steps.empty() || steps.back() == 1) &&
                  knownMultiple(op.operand(firstIndex(op) + unsigned(dims.size()) - 1)) % 2 == 0;
    attrs.push_back({"vec", Attribute(isPair ? 2 : 1)});
  }

  static bool hasIndexTiles(const Operation &access) {
    auto indices = access.operands().subspan(firstIndex(access));
    return std::ranges::any_of(indices, [](const Value *index) { return index->type().isTile(); });
  }

  Function &kernel;
  const Schedule &schedule;
  Operation &dot, *loop; ///< The sweep along k; null where it has one trip.
  Module &module;
  Context &context;
  KernelSignature signature;
  Builder top; ///< At the end of the kernel.
  int64_t axisM, bm, bn, bk, groups;
  std::vector<Operation *> tiles;
  std::array<Operand, 2> operands;
  Value *full = nullptr, *empty = nullptr, *zero = nullptr, *one = nullptr, *step = nullptr, *length = nullptr;
  Value *upper = nullptr, *left = nullptr; ///< Of a consumer's part: its first row and column in the tile.
};

Diagnostic cannotSpecialize(const Function &kernel, SourceLoc loc, std::string why) {
  return {.code = ErrorCode::BadSchedule,
          .message = "kernel @" + kernel.name + " has a schedule for tensor cores, and " + why,
          .loc = loc,
          .fix = "leave `unit` out, and give warps, lanes and vec instead"};
}

bool endsWith(const std::vector<int64_t> &axes, int64_t rows, int64_t columns) {
  return axes.size() >= 2 && axes[axes.size() - 2] == rows && axes.back() == columns;
}

/// Why an operand of the product cannot come through TMA; empty if it can.
std::string whyNoCopy(const Value &operand) {
  const Operation *load = operand.definition();
  if (!load || !load->is(OpKind::Load))
    return "an operand of its product is computed, not loaded";
  Type buffer = accessBuffer(*load)->type();
  if (buffer.isStrided() || load->attr("steps"))
    return "an operand of its product has strides";
  if (buffer.rank() < 2 || buffer.rank() > 5 || (buffer.dtype() != DType::F16 && buffer.dtype() != DType::BF16))
    return "an operand of its product is no matrix of f16 or bf16";
  if (!buffer.shape().back().isMultipleOf(8))
    return "rows of an operand do not start at multiples of 16 bytes";
  return "";
}

/// Where a block is wider than a swizzled row, TMA takes rows of whole ones.
bool hasWholeSlabs(const Operation &load) {
  return load.result()->type().extents()[size_t(accessDims(load).back())] <= partColumns ||
         accessBuffer(load)->type().shape().back().isMultipleOf(partColumns);
}

bool isConstant(const Value &value, double number) {
  const Operation *op = value.definition();
  return op && op->is(OpKind::Constant) && op->attr("value")->asNumber() && *op->attr("value")->asNumber() == number;
}

/// True if the product is one sweep in blocks of `bk` along all of the contracted axis, and its sums start from 0: what `tile`
/// makes.
bool isWholeSweep(const Operation &dot, int64_t bk) {
  const Operation *loop = dot.parentOp();
  if (loop && (loop->parentOp() || !loop->is(OpKind::For) || loop->numResults() != 1 || !isConstant(*loop->operand(0), 0) ||
               !isConstant(*loop->operand(2), double(bk))))
    return false;
  if (!isConstant(loop ? *loop->operand(3) : *dot.operand(2), 0))
    return false;
  for (unsigned i : {0u, 1u}) {
    const Operation &load = *dot.operand(i)->definition();
    std::vector<int64_t> dims = accessDims(load);
    size_t along = size_t(std::ranges::find(dims, dot.intsAttr("axes")[0]) - dims.begin());
    auto length = along < dims.size() ? accessBuffer(load)->type().shape()[along].constant() : std::nullopt;
    const Value *index = along < dims.size() ? load.operand(firstIndex(load) + unsigned(along)) : nullptr;
    if (!length || (loop ? index != loop->region().argument(0) : !isConstant(*index, 0) || *length > bk))
      return false;
    // Rows of a copy are longer, but not by a block.
    const Operation *end = loop ? loop->operand(1)->definition() : nullptr;
    const int64_t *last = end && end->is(OpKind::Constant) ? end->attr("value")->asInt() : nullptr;
    if (loop && (!last || (*last + bk - 1) / bk != (*length + bk - 1) / bk))
      return false;
  }
  return true;
}

/// True if nothing but the operands runs along the contracted axis, in the product's sweep or another one.
bool hasOneSweep(Function &kernel, const Operation &dot) {
  bool hasOne = true;
  walk(kernel.body(), [&](Operation &op) {
    hasOne &= op.numRegions() == 0 || &op == dot.parentOp();
    for (const Value *result : op.results())
      hasOne &=
          !result->type().isTile() || result == dot.operand(0) || result == dot.operand(1) || result->type().extents().back() == 1;
  });
  return hasOne;
}

} // namespace

Expected<void> passes::specializeWarps(Function &kernel, PassContext &pass) {
  if (!runsOnTensorCores(kernel))
    return {};
  std::vector<Operation *> dots;
  walk(kernel.body(), [&](Operation &op) {
    if (op.is(OpKind::Dot))
      dots.push_back(&op);
  });
  if (dots.size() != 1)
    return cannotSpecialize(kernel, kernel.loc, "it has " + std::to_string(dots.size()) + " products");
  Operation &dot = *dots[0];
  auto schedule = tensorCoreSchedule(kernel, dot.result()->type().rank());
  if (!schedule)
    return schedule.takeErrors();
  if (pass.target.name != opInfo(OpKind::Wgmma).needs)
    return cannotSpecialize(kernel, dot.loc(), "those of " + std::string(pass.target.name) + " are others");
  for (unsigned i : {0u, 1u})
    if (std::string why = whyNoCopy(*dot.operand(i)); !why.empty())
      return cannotSpecialize(kernel, dot.loc(), why);
  if (!isWholeSweep(dot, schedule->block.back()))
    return cannotSpecialize(kernel, dot.loc(),
                            "its product is no single sweep along a contracted axis of known size, with sums from 0");
  std::vector<int64_t> lhs = accessDims(*dot.operand(0)->definition()), rhs = accessDims(*dot.operand(1)->definition());
  int64_t m = dot.result()->type().rank() - 3, n = m + 1, k = m + 2;
  if (!endsWith(lhs, m, k) && !endsWith(lhs, k, m))
    return cannotSpecialize(kernel, dot.loc(), "its first operand is not a matrix, or several, one after the other");
  if (!hasWholeSlabs(*dot.operand(0)->definition()))
    return cannotSpecialize(kernel, dot.loc(), "rows of its first operand are no multiples of 64 elements");
  if (!endsWith(rhs, k, n) && !endsWith(rhs, n, k))
    return cannotSpecialize(kernel, dot.loc(), "its second operand is not a matrix, or several, one after the other");
  if (!hasWholeSlabs(*dot.operand(1)->definition()))
    return cannotSpecialize(kernel, dot.loc(), "rows of its second operand are no multiples of 64 elements");
  if (!hasOneSweep(kernel, dot))
    return cannotSpecialize(kernel, dot.loc(), "something beside it runs along the contracted axis");
  WarpSpecializer(kernel, *schedule, dot).run();
  return {};
}

} // namespace minic
