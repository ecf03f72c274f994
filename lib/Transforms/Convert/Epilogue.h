// What follows a product in a consumer's role. Private to specialize-warps.
//
//   %b_t = load %b : tile<1x256>           what it reads, as far as registers go
//   %c = wgmma_wait ...                    the sums
//   %m = reduce max %c ...                 where rows are reduced, on whole rows what that follows from
//   for %j ... {                           all else on some columns at a time: few values live beside the accumulators
//     extract_tile %c, %j; ...; store
//   }
#pragma once

#include "../ProductKernel.h"

#include <functional>
#include <set>

namespace minic {

class Epilogue {
public:
  /// `partOf` gives what emits ops for so many columns from `left` on; null: from the tile's first.
  using PartOf = std::function<EpiloguePart(int64_t columns, Value *left)>;
  Epilogue(const ProductKernel &product, int64_t columns, Value *zero, PartOf partOf);
  /// Before the last wait for the sums.
  void loadEarly(Builder &builder);
  void emit(Builder &builder, Value *sums);

private:
  bool feedsReduction(const Operation &op) const;
  enum Axis { Row, Column };
  bool runsAlong(Axis axis, Type tile) const;
  bool isInParts(const Operation &op) const;
  Value *extract(Builder &builder, Value *tile, Type part, Value *column) const;
  void emitParts(Builder &builder, const std::vector<Operation *> &inParts);

  const ProductKernel &product;
  int64_t columns; ///< Of a part.
  Value *zero;
  PartOf partOf;
  std::vector<Operation *> ops;
  std::set<const Value *> reduced; ///< What reductions of rows follow from. Looked up only.
  ValueMap whole;                  ///< Values of the whole tile.
  std::vector<Operation *> ahead;  ///< Loads whose parts are loaded one ahead,
  ValueMap firstParts;             ///< and the first of them.
};

} // namespace minic
