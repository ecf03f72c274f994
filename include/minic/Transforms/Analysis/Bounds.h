// What is known of index values in kernels, and proofs that a block of a buffer lies inside it.
#pragma once

#include "minic/IR/IR.h"

namespace minic {

/// True if index + lane < size is proved for every program, every trip and every lane in [0, lanes). Understands constants, program
/// ids, their products with constants, and loop counters that start at 0.
bool provedInBounds(const Value *index, int64_t lanes, const DimExpr &size);

/// A power of two (at most 2^20) that divides every value of the index.
int64_t knownMultiple(const Value *index);

/// The power of two that divides the first element's place in memory, as far as the last index was made to: x - x rem that power.
int64_t rowAlignment(const Operation &access);
/// The tile axis of each buffer axis of a load or store; -1 where lanes have indices of their own.
std::vector<int64_t> accessDims(const Operation &access);
/// The index of an access along a tile's axis, and the size of the buffer there; null if it does not run along it.
std::pair<Value *, DimExpr> indexAlong(const Operation &access, int64_t axis);
/// The buffer operand, and where the indices start.
Value *accessBuffer(const Operation &access);
unsigned firstIndex(const Operation &access);
/// The type of the tile that moves.
Type accessTile(const Operation &access);

/// The widest access, in elements, that the tile's layout holds contiguously and that is proved aligned; row-major buffers start at
/// 16 bytes or more.
int64_t vectorWidth(const Operation &access);

/// Tile axes of a load or store along which it is not proved in bounds, ascending.
std::vector<int64_t> unprovedAxes(const Operation &access);

} // namespace minic
