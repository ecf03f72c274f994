#include "TileOrder.h"

namespace minic {

DimExpr countTiles(std::span<const DimExpr> grid) {
  DimExpr all = 1;
  for (const DimExpr &extent : grid)
    all = all * extent;
  return all;
}

TileOrder::TileOrder(Builder &top, Operation &programId, int64_t raster) : programId(programId) {
  std::vector<DimExpr> grid = programId.dimsAttr("grid");
  rows = top.dim(grid[grid.size() - 2]);
  columns = top.dim(grid.back());
  perBatch = top.dim(grid[grid.size() - 2] * grid.back());
  numTiles = top.dim(countTiles(grid));
  for (size_t axis = 0; axis + 2 < grid.size(); ++axis)
    batches.push_back(top.dim(grid[axis]));
  band = top.constantIndex(raster);
  bandTiles = top.scalarOp(OpKind::Mul, {columns, band});
}

ValueMap TileOrder::placeOf(Builder &builder, Value *tile) const {
  ValueMap map;
  if (!batches.empty()) {
    Value *batch = builder.scalarOp(OpKind::DivU, {tile, perBatch});
    tile = builder.scalarOp(OpKind::RemU, {tile, perBatch});
    for (size_t axis = batches.size(); axis-- > 0;) {
      map.map(programId.result(unsigned(axis)), axis ? builder.scalarOp(OpKind::RemU, {batch, batches[axis]}) : batch);
      batch = axis ? builder.scalarOp(OpKind::DivU, {batch, batches[axis]}) : batch;
    }
  }
  Value *number = builder.scalarOp(OpKind::DivU, {tile, bandTiles}), *inside = builder.scalarOp(OpKind::RemU, {tile, bandTiles});
  Value *above = builder.scalarOp(OpKind::Mul, {number, band});
  Value *high = builder.scalarOp(OpKind::Min, {builder.scalarOp(OpKind::Sub, {rows, above}), band});
  Value *down = builder.scalarOp(OpKind::RemU, {inside, high});
  map.map(programId.result(unsigned(batches.size())), builder.scalarOp(OpKind::Add, {above, down}));
  map.map(programId.result(unsigned(batches.size()) + 1), builder.scalarOp(OpKind::DivU, {inside, high}));
  return map;
}

} // namespace minic
