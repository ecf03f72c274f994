// Delta debugging: a smaller module of which something still holds.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

#include <functional>
#include <string>

namespace minic {

/// Whether what is looked for holds of a module, given as text. It is asked of modules that verify.
using IsInteresting = std::function<bool(const std::string &text)>;

struct ReduceOptions {
  /// Told of each change that is kept, and of the module after it.
  std::function<void(const std::string &change, const Module &module)> onProgress = [](const std::string &, const Module &) {};
  std::function<bool()> isStopped = [] { return false; }; ///< Asked before each candidate: what was reached by then is the result.
};

/// Makes a module smaller as long as it stays interesting: leaves out functions, results, ops (an operand or a new input of the
/// graph stands for what they gave), inputs and attributes, makes sizes smaller and constants simple. Graphs shrink most; at other
/// levels ops are replaced by operands of their type. Nothing that one such change leads to is interesting in the end, unless it
/// was stopped. The same module and answers give the same result. Errors: those of reading the text, or BadArgument if it is not
/// interesting itself.
Expected<std::string> reduceModule(const SourceBuffer &source, const IsInteresting &isInteresting,
                                   const ReduceOptions &options = {});

/// Ops of a module's functions, without terminators.
size_t countOps(const Module &module);

} // namespace minic
