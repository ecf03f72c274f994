// rasterize: numbers the programs of a product so that neighbours in time share operands in L2, as `raster` of #matmul<unit = mma>
// says.
//
//   %p0, %p1 = program_id grid = [64, 8]          %t = program_id grid = [512]
//                                            ->   %p0, %p1 = the place of tile %t in bands of 8 rows, down the columns of a band
//   launch grid = [64, 8]                         launch grid = [512]
#include "../KernelSignature.h"
#include "../TileOrder.h"
#include "minic/IR/Schedule.h"
#include "minic/Transforms/Passes.h"

namespace minic {

static void renumber(Function &kernel, Operation &programId, int64_t raster) {
  Builder builder(&programId);
  builder.setLoc(programId.loc());
  std::vector<DimExpr> grid{countTiles(programId.dimsAttr("grid"))};
  Value *tile = builder.create(OpKind::ProgramId, {}, {builder.context().index()}, {{"grid", Attribute::dims(grid)}})->result();
  tile->setName("t");
  ValueMap place = TileOrder(builder, programId, raster).placeOf(builder, tile);
  for (Value *index : programId.results())
    index->replaceAllUsesWith(place(index));
  programId.erase();
  KernelSignature(kernel).setGrid(grid);
}

Expected<void> passes::rasterize(Function &kernel, PassContext &) {
  if (!runsOnUnit(kernel, "mma"))
    return {};
  auto schedule = stagedSchedule(kernel);
  if (!schedule)
    return schedule.takeErrors();
  for (Operation &op : kernel.body())
    if (op.is(OpKind::ProgramId) && op.numResults() >= 2 && schedule->raster > 1) {
      renumber(kernel, op, schedule->raster);
      break;
    }
  kernel.removeAttr("schedule");
  return {};
}

} // namespace minic
