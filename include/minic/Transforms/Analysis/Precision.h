// How precise a value has to be.
#pragma once

#include "minic/IR/IR.h"

namespace minic {

/// True if all that is made of an f32 value is rounded to 16 bits or fewer, by steps that keep its relative error: products,
/// quotients, maxima, sums of what is not negative. Such a value may be off by 2^-14 of itself, and below 2^-126 be 0. By walks of
/// bounded depth; false where they end.
bool roundsToHalf(const Value &value);

} // namespace minic
