// Kernels of products whose schedule has `stages`, as `tile` and `mask` leave them, and the ops behind the products on parts of
// their tiles.
#pragma once

#include "minic/IR/Builder.h"
#include "minic/IR/Schedule.h"

#include <vector>

namespace minic {

/// A masked kernel that is one sweep of products and what is computed from them.
struct ProductKernel {
  /// The sums of one product.
  struct Sum {
    std::vector<Operation *> dots; ///< In each block of k one, or several of parts of the operands, each added to the one before.
    Value *value;                  ///< As what follows the sweep sees it.
  };
  /// Dot by dot all have one first operand, and second ones that lie alike: together they are a product with more columns.
  std::vector<Sum> sums;
  Operation *loop; ///< The sweep along the contracted axis; null where it has one trip.
  bool promotes;   ///< Each block's sums are added to others, in registers.
  Schedule schedule;
  int64_t axisM;                  ///< The tile axis of rows; columns and the contracted axis follow.
  std::vector<Operation *> tiles; ///< All work on tiles; index arithmetic is not among it.
  Value *piece = nullptr;         ///< Where the program's piece of the contracted axis starts; null where it has all of it.

  int64_t bm() const { return schedule.block[size_t(axisM)]; }
  int64_t bn() const { return schedule.block[size_t(axisM) + 1]; }
  int64_t bk() const { return schedule.block[size_t(axisM) + 2]; }
  /// Of all sums, side by side.
  int64_t columns() const { return int64_t(sums.size()) * bn(); }
  Operation &dot() const { return *sums[0].dots.back(); }
  /// Of the first dot.
  Operation &load(unsigned i) const { return *sums[0].dots[0]->operand(i)->definition(); }
  /// What loads an operand of the dots number `step`: the one first operand, or the second ones in the order of the sums.
  std::vector<Operation *> loads(size_t step, unsigned i) const;
  bool hasOperand(const Operation &op) const;
  /// Where the sweep ends along the contracted axis: with it, or with the program's piece.
  Value *end(Builder &builder) const;
  /// Whether rows of an operand in memory are not those of the product's matrices: x lies as KxM, w as NxK.
  bool isAcross(unsigned i) const;
  /// The indices of a block of an operand, with `at` along the contracted axis.
  std::vector<Value *> indicesOf(const Operation &load, Value *at) const;
  /// The ops behind the products, in order.
  std::vector<Operation *> epilogue() const;
  void eraseTiles();

  /// Errors are at the kernel or one of its products: what keeps it from its schedule.
  static Expected<ProductKernel> of(Function &kernel);
};

Diagnostic cannotMultiply(const Function &kernel, SourceLoc loc, std::string why);

/// Emits ops behind a product for one part of its tile: tiles have the axes of rows and columns, and of what follows in the part's
/// extents (of 1), in a layout of the part.
class EpiloguePart {
public:
  /// The part starts `upper` rows and `left` columns from the tile's first; null: at the first.
  EpiloguePart(Context &context, int64_t axisM, std::vector<int64_t> extents, Layout layout, Value *upper, Value *left)
      : context(context), axisM(axisM), extents(std::move(extents)), layout(std::move(layout)), upper(upper), left(left) {}
  /// Operands go through `map`, and results are added to it.
  void emit(Builder &builder, Operation &op, ValueMap &map) const;
  /// Of a tile of the kernel.
  Type partOf(Type tile) const;

private:
  void emitReduction(Builder &builder, Operation &op, std::vector<Value *> values, ValueMap &map) const;
  Attribute inPart(const NamedAttribute &attribute) const;
  Value *shifted(Builder &builder, Value *position, int64_t axis, int64_t factor) const;
  void shiftAccess(Builder &builder, const Operation &op, std::vector<Value *> &values, std::vector<NamedAttribute> &attrs) const;

  Context &context;
  int64_t axisM;
  std::vector<int64_t> extents;
  Layout layout;
  Value *upper, *left;
};

} // namespace minic
