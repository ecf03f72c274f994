// Questions about the uses of values.
#pragma once

#include "minic/IR/IR.h"

namespace minic {

/// The op that uses the value, if one does, once; else null.
inline Operation *onlyUser(const Value *value) { return value->uses().size() == 1 ? value->uses()[0].user : nullptr; }

} // namespace minic
