// specialize-warps: products become the work of two kinds of warps, as #matmul<stages = ...> says.
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
// that. Several products with one first operand are one whose second operand has the columns of all: their blocks lie side by side
// on chip, their sums in the consumers' registers, and the epilogue takes its columns of each. Without `unit = wgmma` there is one
// product and one consumer, of warps whose threads add up products by fma. TMA gives 0 where an operand
// ends and drops nothing else, so the masks of the operands are not needed any more.
#include "../Analysis/MatmulChoice.h"
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
  WgmmaSpecializer(Function &kernel, ProductKernel &product) : WarpSpecializer(kernel, product) {
    crew = {warpsOfGroup, warpsOfGroup, bm / warpgroupRows, {}, {}};
    shareRegisters();
    part = {.rows = warpgroupRows, .columns = 64, .rank = 2};
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
    Type sums = partType(product.dot().result()->type().dtype(), product.columns());
    Type inflight = context.withKind(sums, TypeKind::Inflight), carried = product.promotes ? sums : inflight;
    Value *none = product.promotes ? builder.constant(sums, 0.0) : builder.create(OpKind::Undefined, {}, {inflight})->result();
    Operation *sweep = builder.create(OpKind::For, {first, end, step, zero, none}, {context.index(), carried});
    Block &body = sweep->addRegion();
    Value *at = body.addArgument(context.index(), "at"), *position = body.addArgument(context.index(), "i");
    Value *acc = body.addArgument(carried, "acc");
    Builder inner(body);
    inner.setLoc(product.dot().loc());
    inner.create(OpKind::MbarrierWait, {full, position}, {});
    Value *sum = emitProducts(inner, position, product.promotes ? nullptr : acc, at, inflight);
    Type landed = product.promotes ? sums : inflight;
    Value *held = inner.create(OpKind::WgmmaWait, {sum}, {landed}, {{"pending", Attribute(0)}})->result();
    inner.create(OpKind::MbarrierArrive, {empty, position}, {});
    if (product.promotes)
      held = inner.scalarOp(OpKind::Add, {acc, held});
    Value *next = inner.scalarOp(OpKind::Add, {position, one});
    inner.create(OpKind::Yield, {next, held}, {});
    return sweep->result(1);
  }

  /// The products of one block, added to `acc`, from the second block on, or where that is null to each other alone.
  Value *emitProducts(Builder &builder, Value *position, Value *acc, Value *at, Type inflight) {
    const std::vector<Operation *> &dots = product.sums[0].dots;
    std::vector<Value *> blocks;
    for (const Operand &operand : operands)
      blocks.push_back(stageOf(builder, operand, position));
    if (crew.consumers > 1)
      for (size_t step = 0; step < dots.size(); ++step) {
        Value *&block = blocks[indexOf(step, 0)];
        if (block->definition()->is(OpKind::Stage))
          block = rowsOfGroup(builder, block);
      }
    Value *later = acc ? builder.compare("gt", at, first) : nullptr;
    for (size_t step = 0; step < dots.size(); ++step) {
      bool isRowMajor = accessDims(*dots[step]->operand(1)->definition()).back() == axisM + 1;
      std::vector<Value *> values{blocks[indexOf(step, 0)], blocks[indexOf(step, 1)]};
      if (acc)
        values.push_back(acc);
      if (later)
        values.push_back(later);
      acc = builder
                .create(OpKind::Wgmma, values, std::vector{inflight},
                        {{"form", Attribute::word(std::string(product.isAcross(0) ? "t" : "n") + (isRowMajor ? "n" : "t"))}})
                ->result();
      later = nullptr;
    }
    return acc;
  }

  /// A warpgroup's rows of a block of the first operand.
  Value *rowsOfGroup(Builder &builder, Value *block) {
    TypeStorage part = block->type().get();
    part.shape = product.isAcross(0) ? std::vector<DimExpr>{bk, warpgroupRows} : std::vector<DimExpr>{warpgroupRows, bk};
    std::vector<Value *> place = product.isAcross(0) ? std::vector{block, zero, upper} : std::vector{block, upper, zero};
    return builder.create(OpKind::SharedView, place, std::vector{context.type(part)})->result();
  }
};

/// Fused multiply-adds: the consumer's warps hold the tile as the schedule says and read operands from shared memory.
class FmaSpecializer : public WarpSpecializer {
public:
  FmaSpecializer(Function &kernel, ProductKernel &product) : WarpSpecializer(kernel, product) {
    const Schedule &schedule = product.schedule;
    for (auto [to, from] : {std::pair(&own.block, &schedule.block), std::pair(&own.warps, &schedule.warps),
                            std::pair(&own.lanes, &schedule.lanes), std::pair(&own.vec, &schedule.vec)})
      to->assign(from->begin() + axisM, from->end());
    own.family = Schedule::Family::Matmul;
    crew = {warpsOfGroup, schedule.numWarps(), 1, {}, {}};
    shareRegisters();
    part = {.rows = bm, .columns = std::min(own.vec[1] * own.lanes[1] * own.warps[1], bn), .rank = 3};
  }

private:
  Type memoryOf(DType dtype, const std::vector<int64_t> &extents) const override { return context.smem(dtype, extents, {}); }
  Layout layoutOf(std::span<const int64_t> extents) const override { return own.layoutOf(extents); }

  Value *emitSweep(Builder &builder) override {
    Type sums = partType(product.dot().result()->type().dtype(), bn);
    Value *none = builder.constant(sums, 0.0);
    Operation *sweep = builder.create(OpKind::For, {first, end, step, zero, none}, {context.index(), sums});
    Block &body = sweep->addRegion();
    body.addArgument(context.index(), "at");
    Value *position = body.addArgument(context.index(), "i"), *acc = body.addArgument(sums, "acc");
    Builder inner(body);
    inner.setLoc(product.dot().loc());
    inner.create(OpKind::MbarrierWait, {full, position}, {});
    Value *lhs = alongLoops(inner, position, operands[indexOf(0, 0)]), *rhs = alongLoops(inner, position, operands[indexOf(0, 1)]);
    Value *sum = inner.create(OpKind::Dot, {lhs, rhs, acc}, {sums}, {{"axes", Attribute::ints({2})}})->result();
    inner.create(OpKind::MbarrierArrive, {empty, position}, {});
    Value *next = inner.scalarOp(OpKind::Add, {position, one});
    inner.create(OpKind::Yield, {next, sum}, {});
    return sweep->result(1);
  }

  /// An operand's block with the axes of the loops.
  Value *alongLoops(Builder &builder, Value *position, const Operand &operand) const {
    const Operation &load = *operand.pieces[0].load;
    Value *block = stageOf(builder, operand, position);
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

/// Why one dot of the product cannot be wgmma's work; empty if it can.
std::string whyNoWgmma(const ProductKernel &product, const Operation &dot) {
  DType dtype = dot.operand(0)->type().dtype();
  int64_t bytes = dtypeBytes(dtype);
  if (!opInfo(OpKind::Wgmma).dtypes.contains(dtype) || (dtype == DType::F32 && dot.wordAttr("precision") != "tf32"))
    return "its product is not of f16, bf16, 8-bit numbers, or of f32 with `precision = tf32`";
  if (product.bk() * bytes != swizzle)
    return "its bk is not " + std::to_string(swizzle / bytes) + ", of " + std::to_string(swizzle) + " bytes";
  if (product.columns() > mostWgmmaColumns)
    return "its products have " + std::to_string(product.columns()) + " columns side by side, more than " +
           std::to_string(mostWgmmaColumns);
  for (unsigned i : {0u, 1u}) {
    const Operation &load = *dot.operand(i)->definition();
    std::string which = i == 0 ? "its first operand" : "its second operand";
    if (bytes != 2 && accessDims(load).back() != product.axisM + 2)
      return which + " does not lie in rows of k, as wgmma has operands of other than 16 bits";
  }
  return "";
}

/// The same of fused multiply-adds.
std::string whyNoFma(const ProductKernel &product, const Operation &dot) {
  DType dtype = dot.operand(0)->type().dtype();
  return product.sums.size() > 1 || product.sums[0].dots.size() > 1 || product.promotes || computeDType(dtype) != dtype
             ? "its product is not one dot of a type that is multiplied as it is"
             : "";
}

} // namespace

Expected<void> passes::specializeWarps(Function &kernel, PassContext &pass) {
  if (!isWarpSpecialized(kernel))
    return {};
  auto product = ProductKernel::of(kernel);
  if (!product)
    return product.takeErrors();
  if (pass.target.name != opInfo(OpKind::TmaLoad).needs)
    return cannotMultiply(kernel, product->dot().loc(), std::string(pass.target.name) + " has no TMA");
  bool isWgmma = product->schedule.unit == Schedule::Unit::Wgmma;
  for (const Operation *dot : product->sums[0].dots)
    if (std::string why = isWgmma ? whyNoWgmma(*product, *dot) : whyNoFma(*product, *dot); !why.empty())
      return cannotMultiply(kernel, dot->loc(), why);
  if (isWgmma)
    WgmmaSpecializer(kernel, *product).run();
  else
    FmaSpecializer(kernel, *product).run();
  return {};
}

} // namespace minic
