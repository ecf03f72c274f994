// persist: a program for each multiprocessor goes through the tiles of a product, as `raster` of #matmul<unit = wgmma> says.
//
//   %p0, %p1 = program_id grid = [64, 8]          %first = program_id grid = [132]
//   role producer {                               role producer {
//     for %k ... { ... }                   ->       for %t = %first, 512, 132 { %p0, %p1 of %t; for %k ... { ... } }
//   }                                             }
//   role consumer { ... }                         role consumer { the same, with the epilogue }
//   launch grid = [64, 8]                         launch grid = [132]
//
// The producer loads for the next tile while consumers are at the epilogue of one. Tiles are gone through in bands of `raster`
// rows, down the columns of a band: what programs read at one time stays in L2. Ring positions count on from tile to tile.
#include "../KernelSignature.h"
#include "../TileOrder.h"
#include "minic/IR/Schedule.h"
#include "minic/Transforms/Passes.h"

#include <algorithm>
#include <set>

namespace minic {
namespace {

/// The loop of a role that carries the ring position, as its first value; null if there is none.
Operation *ringSweep(Operation &role) {
  for (Operation &op : role.region())
    if (op.is(OpKind::For) && op.numResults() > 0 && op.result()->type().isIndex())
      return &op;
  return nullptr;
}

class Persistence {
public:
  Persistence(Function &kernel, Operation &programId, int64_t raster, int64_t multiprocessors)
      : kernel(kernel), programId(programId), raster(raster), multiprocessors(multiprocessors) {}

  void run() {
    collectDependents();
    Builder top(&programId);
    top.setLoc(programId.loc());
    std::vector<DimExpr> grid = programId.dimsAttr("grid");
    int64_t programs = multiprocessors;
    if (auto known = countTiles(grid).constant())
      programs = std::clamp<int64_t>(*known, 1, multiprocessors);
    // No program where there is no tile: a launch of none takes no tensor maps, which have no size of 0. Sizes are less than 2^31.
    DimExpr anyTile = 1;
    for (const DimExpr &extent : grid)
      if (!extent.isConstant())
        anyTile = anyTile * DimExpr::ceilDiv(extent, int64_t(1) << 31);
    std::vector<DimExpr> persistent{DimExpr(programs) * anyTile};
    first = top.create(OpKind::ProgramId, {}, {top.context().index()}, {{"grid", Attribute::dims(persistent)}})->result();
    first->setName("first");
    stride = top.constantIndex(programs);
    TileOrder order(top, programId, raster);
    zero = top.constantIndex(0);
    for (Operation &op : kernel.body())
      if (op.is(OpKind::Role))
        wrap(op, order);
    for (size_t i = dependents.size(); i-- > 0;)
      dependents[i]->erase();
    programId.erase();
    KernelSignature(kernel).setGrid(persistent);
  }

private:
  /// Index arithmetic of the kernel that follows from where its tile is.
  void collectDependents() {
    std::set<const Operation *> found{&programId};
    for (Operation &op : kernel.body())
      if (op.numRegions() == 0 &&
          std::ranges::any_of(op.operands(), [&](const Value *value) { return found.count(value->definition()); })) {
        found.insert(&op);
        dependents.push_back(&op);
      }
  }

  void wrap(Operation &role, const TileOrder &order) {
    Block &region = role.region();
    std::vector<Operation *> work;
    for (Operation &op : region)
      if (!op.info().terminator && !op.is(OpKind::TmaStoreWait)) // Before it ends, not before each tile.
        work.push_back(&op);
    Builder outer(region, work.back()->next());
    outer.setLoc(role.loc());
    Operation *sweep = ringSweep(role);
    Operation *loop = outer.create(OpKind::For, {first, order.tiles(), stride, zero}, {outer.context().index()});
    Block &body = loop->addRegion();
    Value *tile = body.addArgument(outer.context().index(), "t"), *position = body.addArgument(outer.context().index(), "i");
    Builder inner(body);
    inner.setLoc(programId.loc());
    ValueMap map = order.placeOf(inner, tile);
    for (Operation *op : dependents)
      cloneOperation(inner, *op, map);
    Operation *yield = inner.create(OpKind::Yield, {sweep->result(0)}, {});
    for (Operation *op : work) {
      op->moveBefore(yield);
      remap(*op, map);
    }
    sweep->setOperand(3, position);
  }

  static void remap(Operation &op, const ValueMap &map) {
    for (unsigned i = 0; i < op.numOperands(); ++i)
      if (map.contains(op.operand(i)))
        op.setOperand(i, map(op.operand(i)));
    for (unsigned r = 0; r < op.numRegions(); ++r)
      for (Operation &inner : op.region(r))
        remap(inner, map);
  }

  Function &kernel;
  Operation &programId;
  int64_t raster, multiprocessors;
  std::vector<Operation *> dependents;
  Value *first = nullptr, *stride = nullptr, *zero = nullptr;
};

} // namespace

Expected<void> passes::persist(Function &kernel, PassContext &pass) {
  if (!isWarpSpecialized(kernel))
    return {};
  auto schedule = stagedSchedule(kernel);
  if (!schedule)
    return schedule.takeErrors();
  for (Operation &op : kernel.body())
    if (op.is(OpKind::Role) && !ringSweep(op))
      return Diagnostic{.code = ErrorCode::BadSchedule,
                        .message = "kernel @" + kernel.name +
                                   " has a schedule with stages, and a role without a loop that carries a ring position",
                        .loc = op.loc()};
  for (Operation &op : kernel.body())
    if (op.is(OpKind::ProgramId) && op.numResults() >= 2) {
      Persistence(kernel, op, schedule->raster, pass.target.multiprocessors).run();
      break;
    }
  kernel.removeAttr("schedule");
  return {};
}

} // namespace minic
