// Where a graph uses custom ops that have kernels, each as a program of its own: to run the kernel alone against what the op means.
#pragma once

#include "minic/Compiler/Compiler.h"
#include "minic/Support/Diagnostic.h"

#include <string>
#include <vector>

namespace minic {

struct CustomUse {
  std::string op, kernel; ///< Names.
  std::string ptxTarget;  ///< Of a kernel that is PTX, which the interpreter does not run: it evaluates the op's body. Else empty.
  SourceLoc loc;          ///< Of the use.
  /// A module with one graph, which is this op alone on its inputs.
  std::string text;
};

/// The uses in a graph at the fused level; of one op with operands of the same types the first.
std::vector<CustomUse> customUses(const Function &fused);
/// The uses in a graph of a text. `options` say which one, and bind its sizes.
Expected<std::vector<CustomUse>> customUses(const SourceBuffer &source, const CompileOptions &options);

/// Copies declarations of custom ops and their kernels to a module of the same context.
void copyCustoms(const Module &from, Module &to);

} // namespace minic
