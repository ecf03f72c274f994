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
#include <map>

namespace minic {
namespace {

constexpr int64_t warpgroupRows = 64, partColumns = 64, warpsOfGroup = 4, swizzle = 128, rowsOfPattern = 8;

/// What the tensor cores are to compute: in each block of k one dot, or several of parts of the operands, each added to the one
/// before.
struct Product {
  std::vector<Operation *> dots;
  Operation *loop = nullptr; ///< The sweep along k; null where it has one trip.
  bool promotes = false;     ///< Each block's sums are added to others, in registers.

  Operation &last() const { return *dots.back(); }
  Value *result() const { return loop ? loop->result() : last().result(); }
  bool hasOperand(const Operation &op) const {
    return op.numResults() == 1 && std::ranges::any_of(dots, [&](const Operation *dot) {
             return dot->operand(0) == op.result() || dot->operand(1) == op.result();
           });
  }
};

class WarpSpecializer {
public:
  WarpSpecializer(Function &kernel, const Schedule &schedule, const Product &product)
      : kernel(kernel), schedule(schedule), product(product), dot(product.last()), module(kernel.module()),
        context(module.context()), signature(kernel), top(kernel.body(), kernel.terminator()) {
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
    const Operation *load;
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
    for (const Operation *each : product.dots)
      for (unsigned i : {0u, 1u}) {
        Operation *load = each->operand(i)->definition();
        if (operands.count(load))
          continue;
        order.push_back(load);
        operands.emplace(load, makeOperand(load, i, each->wordAttr("precision") == "tf32"));
      }
  }

  Operand makeOperand(Operation *load, unsigned i, bool tf32) {
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
    TypeStorage map{.kind = TypeKind::TensorMap,
                    .dtype = buffer.dtype(),
                    .shape = buffer.shape(),
                    .swizzle = swizzle,
                    .box = box,
                    .tf32 = tf32};
    Operand operand{load, signature.addTensorMap(load->operand(0), context.type(map)), nullptr, memoryOf(block),
                    memoryOf({box.end() - 2, box.end()})};
    operand.memory = top.create(OpKind::AllocShared, {}, {operand.block})->result();
    operand.memory->setName(load->operand(0)->name() + "_s");
    return operand;
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
    const Operation &load = *order[0];
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
    Type sums = context.tile(dot.result()->type().dtype(), extents, context.layout(wgmmaLayout(bn)));
    Type inflight = context.withKind(sums, TypeKind::Inflight), carried = product.promotes ? sums : inflight;
    Value *none = product.promotes ? builder.constant(sums, 0.0) : builder.create(OpKind::Undefined, {}, {inflight})->result();
    Operation *sweep = builder.create(OpKind::For, {zero, length, step, zero, none}, {context.index(), carried});
    Block &body = sweep->addRegion();
    Value *at = body.addArgument(context.index(), "at"), *position = body.addArgument(context.index(), "i");
    Value *acc = body.addArgument(carried, "acc");
    Builder inner(body);
    inner.setLoc(dot.loc());
    inner.create(OpKind::MbarrierWait, {full, position}, {});
    Value *sum = emitProducts(inner, position, product.promotes ? nullptr : acc, at, inflight);
    Type landed = product.promotes ? sums : inflight;
    Value *held = inner.create(OpKind::WgmmaWait, {sum}, {landed}, {{"pending", Attribute(0)}})->result();
    inner.create(OpKind::MbarrierArrive, {empty, position}, {});
    if (product.promotes)
      held = inner.scalarOp(OpKind::Add, {acc, held});
    Value *next = inner.scalarOp(OpKind::Add, {position, one});
    inner.create(OpKind::Yield, {next, held}, {});

    Value *done = sweep->result(1);
    if (!product.promotes)
      done = builder.create(OpKind::WgmmaWait, {done}, {sums}, {{"pending", Attribute(0)}})->result();
    done->setName(product.result()->name());
    emitEpilogue(builder, done);
    builder.create(OpKind::Yield, {}, {});
  }

  /// The products of one block, added to `acc`, from the second block on, or where that is null to each other alone.
  Value *emitProducts(Builder &builder, Value *position, Value *acc, Value *at, Type inflight) {
    std::map<const Operation *, Value *> blocks;
    for (const Operation *load : order)
      blocks[load] = stageOf(builder, operands.at(load), position);
    if (groups > 1)
      for (const Operation *each : product.dots) {
        Value *&block = blocks[each->operand(0)->definition()];
        if (block->definition()->is(OpKind::Stage))
          block = rowsOfGroup(builder, block);
      }
    Value *later = acc ? builder.compare("gt", at, zero) : nullptr;
    for (const Operation *each : product.dots) {
      Operation *lhs = each->operand(0)->definition(), *rhs = each->operand(1)->definition();
      bool isRowMajor = accessDims(*rhs).back() == axisM + 1;
      std::vector<Value *> values{blocks[lhs], blocks[rhs]};
      if (acc)
        values.push_back(acc);
      if (later)
        values.push_back(later);
      acc = builder
                .create(OpKind::Wgmma, values, std::vector{inflight},
                        {{"form", Attribute::word(std::string(isAcross() ? "t" : "n") + (isRowMajor ? "n" : "t"))}})
                ->result();
      later = nullptr;
    }
    return acc;
  }

  /// A warpgroup's rows of a block of the first operand.
  Value *rowsOfGroup(Builder &builder, Value *block) {
    TypeStorage part = block->type().get();
    part.shape = isAcross() ? std::vector<DimExpr>{bk, warpgroupRows} : std::vector<DimExpr>{warpgroupRows, bk};
    std::vector<Value *> place = isAcross() ? std::vector{block, zero, upper} : std::vector{block, upper, zero};
    return builder.create(OpKind::SharedView, place, std::vector{context.type(part)})->result();
  }

  /// The first operand lies with rows of the product's rows, not of the contracted axis.
  bool isAcross() const { return isAcross(*order[0]); }
  bool isAcross(const Operation &load) const { return accessDims(load).back() == axisM; }

  //===- Epilogue -===//

  /// The ops behind the product, on 64 columns at a time: so few values live beside the accumulators.
  void emitEpilogue(Builder &builder, Value *sums) {
    Operation *parts = builder.create(OpKind::For, {zero, builder.constantIndex(bn), builder.constantIndex(partColumns)}, {},
                                      {{"unroll", Attribute::word("full")}});
    Block &body = parts->addRegion();
    left = body.addArgument(context.index(), "j");
    Builder inner(body);
    inner.setLoc(dot.loc());
    std::array<int64_t, 2> extents{warpgroupRows, partColumns};
    Type part = context.tile(sums->type().dtype(), extents, context.layout(wgmmaLayout(partColumns)));
    ValueMap map;
    map.map(product.result(), inner.create(OpKind::ExtractTile, {sums, zero, left}, {part})->result());
    for (Operation *op : tiles)
      if (op != product.loop && !op->is(OpKind::Dot) && !product.hasOperand(*op))
        emitPart(inner, *op, map);
    inner.create(OpKind::Yield, {}, {});
  }

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
  const Product &product;
  Operation &dot; ///< The last one.
  Module &module;
  Context &context;
  KernelSignature signature;
  Builder top; ///< At the end of the kernel.
  int64_t axisM, bm, bn, bk, groups;
  std::vector<Operation *> tiles;
  std::map<const Operation *, Operand> operands; ///< By what loads them. Looked up only.
  std::vector<const Operation *> order;          ///< Of the operands, the first dot's first.
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
std::string whyNoCopy(const Value &operand, const Operation &dot) {
  const Operation *load = operand.definition();
  if (!load || !load->is(OpKind::Load))
    return "an operand of its product is computed, not loaded";
  Type buffer = accessBuffer(*load)->type();
  DType dtype = buffer.dtype();
  if (buffer.isStrided() || load->attr("steps"))
    return "an operand of its product has strides";
  if (buffer.rank() < 2 || buffer.rank() > 5 || !opInfo(OpKind::Wgmma).dtypes.contains(dtype))
    return "an operand of its product is no matrix of f16, bf16, 8-bit numbers or f32 as tf32";
  if (dtype == DType::F32 && dot.wordAttr("precision") != "tf32")
    return "its product is one of f32, without `precision = tf32`";
  if (!buffer.shape().back().isMultipleOf(16 / dtypeBytes(dtype)))
    return "rows of an operand do not start at multiples of 16 bytes";
  return "";
}

/// Where a block is wider than a swizzled row, TMA takes rows of whole ones.
bool hasWholeSlabs(const Operation &load) {
  Type buffer = accessBuffer(load)->type();
  int64_t slab = swizzle / dtypeBytes(buffer.dtype());
  return load.result()->type().extents()[size_t(accessDims(load).back())] <= slab || buffer.shape().back().isMultipleOf(slab);
}

bool isConstant(const Value &value, double number) {
  const Operation *op = value.definition();
  return op && op->is(OpKind::Constant) && op->attr("value")->asNumber() && *op->attr("value")->asNumber() == number;
}

/// The dots, if they are what one sweep over k from 0 in steps of `bk` computes, and nothing else: what `tile` makes.
std::optional<Product> productOf(std::vector<Operation *> dots, int64_t bk) {
  Product product{std::move(dots)};
  Operation *loop = product.loop = product.dots[0]->parentOp();
  for (size_t i = 1; i < product.dots.size(); ++i)
    if (product.dots[i]->parentOp() != loop || product.dots[i]->operand(2) != product.dots[i - 1]->result() ||
        product.dots[i - 1]->result()->uses().size() != 1)
      return std::nullopt;
  const Value &start = *product.dots[0]->operand(2);
  if (!loop)
    return isConstant(start, 0) ? std::optional(product) : std::nullopt;
  if (loop->parentOp() || !loop->is(OpKind::For) || loop->numResults() != 1 || !isConstant(*loop->operand(0), 0) ||
      !isConstant(*loop->operand(2), double(bk)) || !isConstant(*loop->operand(3), 0))
    return std::nullopt;
  const Value *acc = loop->region().argument(1), *sum = product.last().result(), *next = loop->region().back()->operand(0);
  if (&start == acc)
    return next == sum ? std::optional(product) : std::nullopt;
  const Operation *add = next->definition();
  product.promotes = add && add->is(OpKind::Add) && add->operand(0) == acc && add->operand(1) == sum;
  return product.promotes && isConstant(start, 0) ? std::optional(product) : std::nullopt;
}

/// True if the sweep goes along all of the contracted axis.
bool isWholeSweep(const Product &product, const Operation &dot, int64_t bk) {
  const Operation *loop = product.loop;
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

/// True if nothing but the product runs along the contracted axis, in its sweep or another one.
bool hasOneSweep(Function &kernel, const Product &product) {
  bool hasOne = true;
  walk(kernel.body(), [&](Operation &op) {
    hasOne &= op.numRegions() == 0 || &op == product.loop;
    for (const Value *result : op.results())
      hasOne &= !result->type().isTile() || product.hasOperand(op) || result->type().extents().back() == 1;
  });
  return hasOne;
}

/// Why one dot of the product cannot be wgmma's work; empty if it can.
std::string whyNoWgmma(const Product &product, const Operation &dot, int64_t bk) {
  for (unsigned i : {0u, 1u})
    if (std::string why = whyNoCopy(*dot.operand(i), dot); !why.empty())
      return why;
  if (!isWholeSweep(product, dot, bk))
    return "its product is no single sweep along a contracted axis of known size, with sums from 0";
  std::array<const char *, 2> names{"first", "second"};
  std::array<std::string, 2> which;
  for (unsigned i : {0u, 1u})
    which[i] = std::string("its ") + names[i] + " operand";
  int64_t m = dot.result()->type().rank() - 3, n = m + 1, k = m + 2, bytes = dtypeBytes(dot.operand(0)->type().dtype());
  if (bk * bytes != swizzle)
    return "its bk is not " + std::to_string(swizzle / bytes) + ", of " + std::to_string(swizzle) + " bytes";
  for (unsigned i : {0u, 1u}) {
    const Operation &load = *dot.operand(i)->definition();
    std::vector<int64_t> dims = accessDims(load);
    int64_t rows = i == 0 ? m : n;
    if (!endsWith(dims, rows, k) && !endsWith(dims, k, rows))
      return which[i] + " is not a matrix, or several, one after the other";
    if (bytes != 2 && dims.back() != k)
      return which[i] + " does not lie in rows of k, as wgmma has operands of other than 16 bits";
    if (!hasWholeSlabs(load))
      return "rows of " + which[i] + " are no multiples of 64 elements";
  }
  return "";
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
  if (dots.empty())
    return cannotSpecialize(kernel, kernel.loc, "it has no product");
  auto schedule = tensorCoreSchedule(kernel, dots[0]->result()->type().rank());
  if (!schedule)
    return schedule.takeErrors();
  int64_t bk = schedule->block.back();
  auto product = productOf(dots, bk);
  if (!product)
    return cannotSpecialize(kernel, dots.back()->loc(),
                            "its product is no single sweep along a contracted axis of known size, with sums from 0");
  if (pass.target.name != opInfo(OpKind::Wgmma).needs)
    return cannotSpecialize(kernel, product->last().loc(), "those of " + std::string(pass.target.name) + " are others");
  for (const Operation *dot : product->dots)
    if (std::string why = whyNoWgmma(*product, *dot, bk); !why.empty())
      return cannotSpecialize(kernel, dot->loc(), why);
  if (!hasOneSweep(kernel, *product))
    return cannotSpecialize(kernel, product->last().loc(), "something beside it runs along the contracted axis");
  WarpSpecializer(kernel, *schedule, *product).run();
  return {};
}

} // namespace minic
