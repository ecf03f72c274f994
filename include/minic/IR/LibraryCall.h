// The plan's op `library_call` as data.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/MatmulCall.h"

namespace minic {

/// What a `library_call` says, whose columns hold.
MatmulCall matmulCallOf(const Operation &op);
/// Attributes that say the same.
std::vector<NamedAttribute> libraryCallAttrs(const MatmulCall &call);

} // namespace minic
