// fragment-products: a product on tensor cores becomes copies into shared memory and products of fragments, as #matmul<unit = mma>
// says.
//
//   %c = for %k ... {                       for %k ... {
//     %x_t = load %x, %row, %k                cp_async %x, %x_s, %row, %k; cp_async %w, %w_s, %k, %col
//     %w_t = load %w, %k, %col                cp_async_commit; cp_async_wait pending = 0; barrier
//     dot %x_t, %w_t, %acc             ->     %a = ldmatrix %x_s; %b = ldmatrix %w_s; %acc1 = mma %a, %b, %acc; ... 16 of k at a
//     time
//   }                                         barrier
//   epilogue of %c; store                   }
//                                           for %i, %j ... { part of %c through shared memory; epilogue of the part; store }
//
// All warps load and multiply. Here there is one block on chip at a time; `multistage` changes that, and `rasterize` the order of
// tiles. What follows the product sees rows as they lie in memory, since a thread has pairs of columns of the accumulators: stored
// as they are, a warp would touch eight rows in pieces of 16 bytes.
#include "../Analysis/MatmulChoice.h"
#include "../ProductKernel.h"
#include "minic/IR/SharedLayout.h"
#include "minic/Transforms/Analysis/Bounds.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>

namespace minic {
namespace {

/// Whether the contracted axis runs along the operand's rows in memory.
bool liesInRowsOfK(const ProductKernel &product, unsigned i) { return (i == 0) != product.isAcross(i); }

class FragmentMaker {
public:
  FragmentMaker(Function &kernel, ProductKernel &product, const TargetInfo &target)
      : kernel(kernel), product(product), target(target), context(kernel.module().context()),
        top(kernel.body(), kernel.terminator()),
        tiling{product.load(0).result()->type().dtype(), product.bm(), product.bn(), product.schedule.warps[size_t(product.axisM)],
               product.schedule.warps[size_t(product.axisM) + 1]},
        threads(product.schedule.numThreads()) {}

  void run() {
    top.setLoc(product.dot().loc());
    zero = top.constantIndex(0);
    for (unsigned i : {0u, 1u})
      makeMemory(i);
    emitEpilogue(emitSweep());
    kernel.setAttr("threads", Attribute(threads));
    kernel.setAttr("resident", Attribute(residentCtas()));
    product.eraseTiles();
    kernel.level = Level::Machine;
  }

private:
  /// CTAs that a multiprocessor holds at once, which ptxas is to know: by itself it spills for more of them.
  int64_t residentCtas() const {
    constexpr int64_t others = 48; // Addresses, and what the epilogue needs.
    int64_t bytesOfFragments =
        (tiling.rows / tiling.warpsM + tiling.columns / tiling.warpsN) * tiling.depth() * dtypeBytes(tiling.dtype) / 32;
    int64_t bytesOfSums = tiling.rows * tiling.columns / threads * dtypeBytes(tiling.sums());
    int64_t registers = (bytesOfSums + 2 * bytesOfFragments) / 4 + others;
    return std::max<int64_t>(1, std::min(target.registersPerMultiprocessor / (registers * threads),
                                         target.maxSharedBytesPerCta / ringBytes(product.schedule, product.dot(), 1)));
  }

  //===- The sweep -===//

  void makeMemory(unsigned i) {
    const Operation &load = product.load(i);
    std::vector<int64_t> extents = load.result()->type().extents(), dims = accessDims(load);
    DType dtype = load.result()->type().dtype();
    int64_t rows = extents[size_t(dims.end()[-2])], columns = extents[size_t(dims.back())];
    // Of a swizzled row. A lane reads 16 bytes of f64 in rows of k: then two rows of 64 are what eight lanes find in all banks.
    int64_t widest = dtype == DType::F64 && liesInRowsOfK(product, i) ? 64 : 128;
    Type block = context.type({.kind = TypeKind::Smem,
                               .dtype = dtype,
                               .shape = {rows, columns},
                               .swizzle = std::min(columns * dtypeBytes(dtype), widest)});
    memories[i] = top.create(OpKind::AllocShared, {}, {block})->result();
    memories[i]->setName(load.operand(0)->name() + "_s");
  }

  Value *emitSweep() {
    Type sums = context.tile(tiling.sums(), std::array{tiling.rows, tiling.columns}, context.layout(tiling.accumulators()));
    Value *none = top.constant(sums, isFloat(tiling.sums()) ? Attribute(0.0) : Attribute(0));
    Value *first = product.piece ? product.piece : zero, *end = product.end(top);
    Operation *sweep = top.create(OpKind::For, {first, end, top.constantIndex(product.bk()), none}, {sums});
    sweep->result()->setName(product.sums[0].value->name());
    Block &body = sweep->addRegion();
    Value *at = body.addArgument(context.index(), "at"), *acc = body.addArgument(sums, "acc");
    Builder inner(body);
    inner.setLoc(product.dot().loc());
    for (unsigned i : {0u, 1u})
      emitCopy(inner, i, at);
    inner.create(OpKind::CpAsyncCommit, {}, {});
    inner.create(OpKind::CpAsyncWait, {}, {}, {{"pending", Attribute(0)}});
    inner.create(OpKind::BarrierOp, {}, {});
    for (int64_t step = 0; step < product.bk(); step += tiling.depth()) {
      Value *k = inner.constantIndex(step);
      Value *a = emitFragments(inner, 0, tiling.rows, k), *b = emitFragments(inner, 1, tiling.columns, k);
      acc = inner.create(OpKind::Mma, {a, b, acc}, {sums})->result();
    }
    inner.create(OpKind::BarrierOp, {}, {});
    inner.create(OpKind::Yield, {acc}, {});
    return sweep->result();
  }

  void emitCopy(Builder &builder, unsigned i, Value *at) {
    const Operation &load = product.load(i);
    std::vector<int64_t> dims = accessDims(load), masked = load.intsAttr("mask"), axes;
    for (int64_t axis : {0, 1})
      if (std::ranges::count(masked, dims[dims.size() - 2 + size_t(axis)]))
        axes.push_back(axis);
    std::vector<Value *> operands{load.operand(0), memories[i]};
    for (Value *index : product.indicesOf(load, at))
      operands.push_back(index);
    int64_t vec = 16 / dtypeBytes(load.result()->type().dtype());
    builder.create(OpKind::CpAsync, operands, std::span<const Type>(), {{"mask", Attribute::ints(axes)}, {"vec", Attribute(vec)}});
  }

  /// Operand `i` of the products at `k`: all its rows, or columns.
  Value *emitFragments(Builder &builder, unsigned i, int64_t extent, Value *k) {
    std::array<int64_t, 2> extents{extent, tiling.depth()};
    if (i == 1)
      std::swap(extents[0], extents[1]);
    Type tile = context.tile(memories[i]->type().dtype(), extents, context.layout(i == 0 ? tiling.a() : tiling.b()));
    bool inRowsOfK = liesInRowsOfK(product, i);
    Value *row = inRowsOfK ? zero : k, *column = inRowsOfK ? k : zero;
    return builder
        .create(OpKind::LdMatrix, {memories[i], row, column}, {tile}, {{"form", Attribute::word(product.isAcross(i) ? "t" : "n")}})
        ->result();
  }

  //===- The epilogue -===//

  /// 16 bytes of the narrowest result at once, or what a thread has.
  Layout rowsLayout(std::span<const int64_t> extents) const {
    int64_t bytes = dtypeBytes(tiling.sums());
    for (const Operation *op : product.epilogue())
      if (op->is(OpKind::Store))
        bytes = std::min<int64_t>(bytes, dtypeBytes(op->operand(0)->type().dtype()));
    const std::array<int, 2> order{1, 0};
    return Schedule::coalesced(extents, order, std::min(16 / bytes, extents[0] * extents[1] / threads), threads / 32);
  }

  void emitEpilogue(Value *sums) {
    std::array<int64_t, 2> extents = tiling.part();
    Layout layout = rowsLayout(extents);
    Type memory = context.smem(tiling.sums(), extents, std::vector<int64_t>{extents[1] + MmaTiling::partPadding, 1});
    Value *turned = top.create(OpKind::AllocShared, {}, {memory})->result();
    turned->setName("part");

    Builder builder = top;
    std::array<Value *, 2> start{zero, zero};
    std::array<int64_t, 2> whole{tiling.rows, tiling.columns};
    std::vector<Operation *> loops;
    for (size_t axis : {0u, 1u})
      if (whole[axis] > extents[axis]) {
        loops.push_back(builder.create(
            OpKind::For, {builder.constantIndex(0), builder.constantIndex(whole[axis]), builder.constantIndex(extents[axis])}, {},
            {{"unroll", Attribute::word("full")}}));
        start[axis] = loops.back()->addRegion().addArgument(context.index(), axis == 0 ? "i" : "j");
        builder = Builder(loops.back()->region());
        builder.setLoc(top.loc());
      }
    Type part = context.tile(tiling.sums(), extents, context.layout(tiling.accumulators(extents[0], extents[1])));
    Value *own = loops.empty() ? sums : builder.create(OpKind::ExtractTile, {sums, start[0], start[1]}, {part})->result();
    if (!loops.empty())
      builder.create(OpKind::BarrierOp, {}, {}); // Everyone has read the last part.
    builder.create(OpKind::SharedStore, {own, turned}, {});
    builder.create(OpKind::BarrierOp, {}, {});
    ValueMap map;
    Type rows = context.tile(tiling.sums(), extents, context.layout(layout));
    map.map(product.sums[0].value, builder.create(OpKind::SharedLoad, {turned}, {rows})->result());
    EpiloguePart emitter(context, product.axisM, {extents.begin(), extents.end()}, layout, start[0], start[1]);
    for (Operation *op : product.epilogue())
      emitter.emit(builder, *op, map);
    for (Operation *loop : loops)
      Builder(loop->region()).create(OpKind::Yield, {}, {});
  }

  Function &kernel;
  ProductKernel &product;
  const TargetInfo &target;
  Context &context;
  Builder top; ///< At the end of the kernel.
  MmaTiling tiling;
  int64_t threads;
  std::array<Value *, 2> memories{};
  Value *zero = nullptr;
};

/// Why the kernel's product is none for fragments; empty if it is.
std::string whyNot(const ProductKernel &product) {
  if (product.sums.size() > 1 || product.sums[0].dots.size() > 1 || product.promotes)
    return "it has several products, or one with parts or sums of blocks, which mma does not have here";
  for (unsigned i : {0u, 1u})
    if (!liesInRowsOfK(product, i) && !canTurnFragments(product.load(i).result()->type().dtype()))
      return "an operand of its product does not lie in rows of the contracted axis, and mma turns 16-bit elements and f64 alone";
  return whyNoMma(product.schedule, product.dot());
}

} // namespace

Expected<void> passes::fragmentProducts(Function &kernel, PassContext &pass) {
  if (!runsOnUnit(kernel, "mma"))
    return {};
  auto product = ProductKernel::of(kernel);
  if (!product)
    return product.takeErrors();
  if (std::string why = whyNot(*product); !why.empty())
    return cannotMultiply(kernel, product->dot().loc(), why);
  FragmentMaker(kernel, *product, pass.target).run();
  return {};
}

} // namespace minic
