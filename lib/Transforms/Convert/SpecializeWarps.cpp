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
#include "WarpSpecializer.h"
#include "minic/IR/SharedLayout.h"
#include "minic/Transforms/Analysis/Bounds.h"
#include "minic/Transforms/Passes.h"

#include <array>

namespace minic {
namespace {

constexpr int64_t warpgroupRows = 64, warpsOfGroup = 4, swizzle = 128;

/// Tensor cores: each consumer is a warpgroup with 64 rows of the tile.
class WgmmaSpecializer : public WarpSpecializer {
public:
  WgmmaSpecializer(Function &kernel, const Schedule &schedule, const Product &product)
      : WarpSpecializer(kernel, schedule, product) {
    crew = {warpsOfGroup, warpsOfGroup, bm / warpgroupRows, {}, {}};
    shareRegisters();
    part = {.rows = warpgroupRows, .columns = 64, .rank = 2, .vec = 2};
    bringsRowsThereAre = true;
  }

private:
  Type memoryOf(DType dtype, const std::vector<int64_t> &extents) const override {
    return context.type({.kind = TypeKind::Smem, .dtype = dtype, .shape = {extents.begin(), extents.end()}, .swizzle = swizzle});
  }

  Layout layoutOf(std::span<const int64_t> extents) const override {
    return cutLayout(wgmmaLayout(std::max(extents[1], part.columns)), extents);
  }

  Value *emitSweep(Builder &builder) override {
    Type sums = partType(dot.result()->type().dtype(), bn);
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
    return done;
  }

  /// The products of one block, added to `acc`, from the second block on, or where that is null to each other alone.
  Value *emitProducts(Builder &builder, Value *position, Value *acc, Value *at, Type inflight) {
    std::map<const Operation *, Value *> blocks;
    for (const Operation *load : order)
      blocks[load] = stageOf(builder, operands.at(load), position);
    if (crew.consumers > 1)
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
};

/// Fused multiply-adds: the consumer's warps hold the tile as the schedule says and read operands from shared memory.
class FmaSpecializer : public WarpSpecializer {
public:
  FmaSpecializer(Function &kernel, const Schedule &schedule, const Product &product) : WarpSpecializer(kernel, schedule, product) {
    size_t m = size_t(axisM);
    for (auto [to, from] : {std::pair(&own.block, &schedule.block), std::pair(&own.warps, &schedule.warps),
                            std::pair(&own.lanes, &schedule.lanes), std::pair(&own.vec, &schedule.vec)})
      to->assign(from->begin() + axisM, from->end());
    own.family = Schedule::Family::Matmul;
    crew = {warpsOfGroup, schedule.numWarps(), 1, {}, {}};
    shareRegisters();
    part = {.rows = bm, .columns = own.vec[1] * own.lanes[1] * own.warps[1], .rank = 3, .vec = schedule.vec[m + 1]};
    part.columns = std::min(part.columns, bn);
  }

private:
  Type memoryOf(DType dtype, const std::vector<int64_t> &extents) const override { return context.smem(dtype, extents, {}); }
  Layout layoutOf(std::span<const int64_t> extents) const override { return own.layoutOf(extents); }

  Value *emitSweep(Builder &builder) override {
    Type sums = partType(dot.result()->type().dtype(), bn);
    Value *none = builder.constant(sums, 0.0);
    Operation *sweep = builder.create(OpKind::For, {zero, length, step, zero, none}, {context.index(), sums});
    Block &body = sweep->addRegion();
    body.addArgument(context.index(), "at");
    Value *position = body.addArgument(context.index(), "i"), *acc = body.addArgument(sums, "acc");
    Builder inner(body);
    inner.setLoc(dot.loc());
    inner.create(OpKind::MbarrierWait, {full, position}, {});
    Value *lhs = alongLoops(inner, position, *dot.operand(0)->definition());
    Value *rhs = alongLoops(inner, position, *dot.operand(1)->definition());
    Value *sum = inner.create(OpKind::Dot, {lhs, rhs, acc}, {sums}, {{"axes", Attribute::ints({2})}})->result();
    inner.create(OpKind::MbarrierArrive, {empty, position}, {});
    Value *next = inner.scalarOp(OpKind::Add, {position, one});
    inner.create(OpKind::Yield, {next, sum}, {});
    return sweep->result(1);
  }

  /// An operand's block with the axes of the loops.
  Value *alongLoops(Builder &builder, Value *position, const Operation &load) const {
    Value *block = stageOf(builder, operands.at(&load), position);
    std::vector<int64_t> dims = accessDims(load), extents(3, 1), strides(3, 1);
    for (size_t i : {size_t(1), size_t(2)}) {
      size_t axis = size_t(dims[dims.size() - i] - axisM);
      extents[axis] = block->type().extents()[2 - i];
      strides[axis] = i == 1 ? 1 : block->type().extents()[1];
    }
    return builder.create(OpKind::SharedView, {block, zero, zero}, {context.smem(load.result()->type().dtype(), extents, strides)})
        ->result();
  }

  Schedule own; ///< Of the tile's axes without those of batches.
};

Diagnostic cannotSpecialize(const Function &kernel, SourceLoc loc, std::string why) {
  return {.code = ErrorCode::BadSchedule,
          .message = "kernel @" + kernel.name + " has a schedule that divides it among warps, and " + why,
          .loc = loc,
          .fix = "leave `unit` and `stages` out, and give warps, lanes and vec instead"};
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
  DType dtype = buffer.dtype();
  if (buffer.isStrided() || load->attr("steps"))
    return "an operand of its product has strides";
  if (buffer.rank() < 2 || buffer.rank() > 5)
    return "an operand of its product is no matrix, or several";
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

/// Why one dot of the product cannot be the work of these warps; empty if it can.
std::string whyNot(const Product &product, const Operation &dot, const Schedule &schedule) {
  int64_t bk = schedule.block.back();
  for (unsigned i : {0u, 1u})
    if (std::string why = whyNoCopy(*dot.operand(i)); !why.empty())
      return why;
  if (!isWholeSweep(product, dot, bk))
    return "its product is no single sweep along a contracted axis of known size, with sums from 0";
  std::array<std::string, 2> which{"its first operand", "its second operand"};
  int64_t m = dot.result()->type().rank() - 3, n = m + 1, k = m + 2;
  for (unsigned i : {0u, 1u}) {
    std::vector<int64_t> dims = accessDims(*dot.operand(i)->definition());
    int64_t rows = i == 0 ? m : n;
    if (!endsWith(dims, rows, k) && !endsWith(dims, k, rows))
      return which[i] + " is not a matrix, or several, one after the other";
  }
  DType dtype = dot.operand(0)->type().dtype();
  if (schedule.unit == Schedule::Unit::Fma)
    return product.dots.size() > 1 || product.promotes || computeDType(dtype) != dtype
               ? "its product is not one dot of a type that is multiplied as it is"
               : "";
  int64_t bytes = dtypeBytes(dtype);
  if (!opInfo(OpKind::Wgmma).dtypes.contains(dtype) || (dtype == DType::F32 && dot.wordAttr("precision") != "tf32"))
    return "its product is not of f16, bf16, 8-bit numbers, or of f32 with `precision = tf32`";
  if (bk * bytes != swizzle)
    return "its bk is not " + std::to_string(swizzle / bytes) + ", of " + std::to_string(swizzle) + " bytes";
  for (unsigned i : {0u, 1u}) {
    const Operation &load = *dot.operand(i)->definition();
    if (bytes != 2 && accessDims(load).back() != k)
      return which[i] + " does not lie in rows of k, as wgmma has operands of other than 16 bits";
    if (!hasWholeSlabs(load))
      return "rows of " + which[i] + " are no multiples of 64 elements";
  }
  return "";
}

} // namespace

Expected<void> passes::specializeWarps(Function &kernel, PassContext &pass) {
  if (!isWarpSpecialized(kernel))
    return {};
  std::vector<Operation *> dots;
  walk(kernel.body(), [&](Operation &op) {
    if (op.is(OpKind::Dot))
      dots.push_back(&op);
  });
  if (dots.empty())
    return cannotSpecialize(kernel, kernel.loc, "it has no product");
  auto schedule = warpSpecializedSchedule(kernel, dots[0]->result()->type().rank());
  if (!schedule)
    return schedule.takeErrors();
  auto product = productOf(dots, schedule->block.back());
  if (!product)
    return cannotSpecialize(kernel, dots.back()->loc(),
                            "its product is no single sweep along a contracted axis of known size, with sums from 0");
  if (pass.target.name != opInfo(OpKind::TmaLoad).needs)
    return cannotSpecialize(kernel, product->last().loc(), std::string(pass.target.name) + " has no TMA");
  for (const Operation *dot : product->dots)
    if (std::string why = whyNot(*product, *dot, *schedule); !why.empty())
      return cannotSpecialize(kernel, dot->loc(), why);
  if (!hasOneSweep(kernel, *product))
    return cannotSpecialize(kernel, product->last().loc(), "something beside it runs along the contracted axis");
  if (schedule->unit == Schedule::Unit::Wgmma)
    WgmmaSpecializer(kernel, *schedule, *product).run();
  else
    FmaSpecializer(kernel, *schedule, *product).run();
  return {};
}

} // namespace minic
