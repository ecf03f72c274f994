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
#include "../ProductKernel.h"
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
  WarpSpecializer(Function &kernel, ProductKernel &product)
      : kernel(kernel), product(product), dot(*product.dot), context(kernel.module().context()), signature(kernel),
        top(kernel.body(), kernel.terminator()), axisM(product.axisM), bn(product.bn()), bk(product.bk()),
        groups(product.bm() / warpgroupRows) {}

  void run() {
    top.setLoc(dot.loc());
    makeMaps();
    makeRing();
    emitProducer();
    emitConsumer();
    product.eraseTiles();
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

  //===- Operands -===//

  void makeMaps() {
    for (unsigned i : {0u, 1u}) {
      Operation *load = &product.load(i);
      std::vector<int64_t> box = boxOf(*load), block = {box.end() - 2, box.end()};
      Type buffer = load->operand(0)->type();
      // Rows that no operand has take TMA as long as others: 16 rows of x in a block of 64 would be read at two thirds of the
      // speed.
      size_t r = box.size() - 2;
      if (auto rows = buffer.shape()[r].constant(); i == 0 && rows && *rows < box[r] && !product.isAcross(0))
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
    length = top.dim(product.length());
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
    for (unsigned i : {0u, 1u}) {
      const Operand &operand = operands[i];
      Value *block = stageOf(inner, operand, position);
      if (operand.box != operand.block)
        block = inner.create(OpKind::SharedView, {block, zero, zero}, {operand.box})->result();
      std::vector<Value *> arguments{operand.map, block, full, position};
      for (Value *index : product.indicesOf(i, at))
        arguments.push_back(index);
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
    Type sums = context.tile(DType::F32, extents, context.layout(wgmmaLayout(bn)));
    Type inflight = context.withKind(sums, TypeKind::Inflight);
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
      part.shape = product.isAcross(0) ? std::vector<DimExpr>{bk, warpgroupRows} : std::vector<DimExpr>{warpgroupRows, bk};
      std::vector<Value *> place = product.isAcross(0) ? std::vector{lhs, zero, upper} : std::vector{lhs, upper, zero};
      lhs = inner.create(OpKind::SharedView, place, std::vector{context.type(part)})->result();
    }
    Value *later = inner.compare("gt", at, zero);
    Value *sum =
        inner
            .create(OpKind::Wgmma, {lhs, rhs, acc, later}, {inflight},
                    {{"form", Attribute::word(std::string(product.isAcross(0) ? "t" : "n") + (product.isAcross(1) ? "t" : "n"))}})
            ->result();
    Value *held = inner.create(OpKind::WgmmaWait, {sum}, {inflight}, {{"pending", Attribute(0)}})->result();
    inner.create(OpKind::MbarrierArrive, {empty, position}, {});
    Value *next = inner.scalarOp(OpKind::Add, {position, one});
    inner.create(OpKind::Yield, {next, held}, {});

    Value *done = builder.create(OpKind::WgmmaWait, {sweep->result(1)}, {sums}, {{"pending", Attribute(0)}})->result();
    done->setName(product.product()->name());
    emitEpilogue(builder, done);
    builder.create(OpKind::Yield, {}, {});
  }

  //===- Epilogue -===//

  /// The ops behind the product, on 64 columns at a time: so few values live beside the accumulators.
  void emitEpilogue(Builder &builder, Value *sums) {
    Operation *parts = builder.create(OpKind::For, {zero, builder.constantIndex(bn), builder.constantIndex(partColumns)}, {},
                                      {{"unroll", Attribute::word("full")}});
    Block &body = parts->addRegion();
    Value *left = body.addArgument(context.index(), "j");
    Builder inner(body);
    inner.setLoc(dot.loc());
    std::array<int64_t, 2> extents{warpgroupRows, partColumns};
    Layout layout = wgmmaLayout(partColumns);
    Type part = context.tile(DType::F32, extents, context.layout(layout));
    ValueMap map;
    map.map(product.product(), inner.create(OpKind::ExtractTile, {sums, zero, left}, {part})->result());
    EpiloguePart emitter(context, axisM, extents, layout, upper, left);
    for (Operation *op : product.epilogue())
      emitter.emit(inner, *op, map);
    inner.create(OpKind::Yield, {}, {});
  }

  Function &kernel;
  ProductKernel &product;
  Operation &dot;
  Context &context;
  KernelSignature signature;
  Builder top; ///< At the end of the kernel.
  int64_t axisM, bn, bk, groups;
  std::array<Operand, 2> operands;
  Value *full = nullptr, *empty = nullptr, *zero = nullptr, *one = nullptr, *step = nullptr, *length = nullptr;
  Value *upper = nullptr; ///< The first row of a consumer in the tile.
};

/// Where a block is wider than a swizzled row, TMA takes rows of whole ones.
bool hasWholeSlabs(const Operation &load) {
  return load.result()->type().extents()[size_t(accessDims(load).back())] <= partColumns ||
         accessBuffer(load)->type().shape().back().isMultipleOf(partColumns);
}

} // namespace

Expected<void> passes::specializeWarps(Function &kernel, PassContext &pass) {
  if (!runsOnUnit(kernel, "wgmma"))
    return {};
  auto product = ProductKernel::of(kernel);
  if (!product)
    return product.takeErrors();
  SourceLoc loc = product->dot->loc();
  if (pass.target.name != opInfo(OpKind::Wgmma).needs)
    return cannotUseTensorCores(kernel, loc, "those of " + std::string(pass.target.name) + " are others");
  if (!hasWholeSlabs(product->load(0)))
    return cannotUseTensorCores(kernel, loc, "rows of its first operand are no multiples of 64 elements");
  if (!hasWholeSlabs(product->load(1)))
    return cannotUseTensorCores(kernel, loc, "rows of its second operand are no multiples of 64 elements");
  WarpSpecializer(kernel, *product).run();
  return {};
}

} // namespace minic
