// Functions written once in IR, over primitive scalar ops (lib/IR/Math/*.ir): expand-math inlines them, the interpreter runs them.
#pragma once

#include "minic/IR/IR.h"

namespace minic {

/// The body of an op of the table with `expands` for one element type (f32 or f64): a kernel-kind function at the machine level
/// with scalar parameters whose `return` gives one scalar. Parsed when a thread first asks for it, from text that is part of the
/// program.
const Function &mathBody(OpKind kind, DType dtype);
/// The text of all of them.
std::string_view mathLibraryText();

} // namespace minic
