// The order in which the tiles of a product are gone through.
#pragma once

#include "minic/IR/Builder.h"

namespace minic {

/// How many tiles a grid has.
DimExpr countTiles(std::span<const DimExpr> grid);

/// Tiles in bands of `raster` rows, down the columns of a band; batch after batch. What is read at one time stays in L2.
class TileOrder {
public:
  /// Emits the sizes of the grid that `programId` states, at `top`.
  TileOrder(Builder &top, Operation &programId, int64_t raster);
  Value *tiles() const { return numTiles; } ///< How many there are.
  /// Emits where tile number `tile` is; the map has it for the results of the program_id.
  ValueMap placeOf(Builder &builder, Value *tile) const;

private:
  Operation &programId;
  Value *rows, *columns, *numTiles, *perBatch, *band, *bandTiles;
  std::vector<Value *> batches; ///< How many there are along each axis before rows and columns.
};

} // namespace minic
