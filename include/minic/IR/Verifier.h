// Checks that IR means something: types by the op table, structure, what a level accepts.
#pragma once

#include "minic/IR/IR.h"

#include <functional>

namespace minic {

/// Collects findings about one operation after the other.
class VerifyReporter {
public:
  /// An error at `op`; returns it for notes and a fix.
  Diagnostic &error(const Operation &op, ErrorCode code, std::string message);
  Diagnostic &warning(const Operation &op, ErrorCode code, std::string message);
  Diagnostic &error(SourceLoc loc, ErrorCode code, std::string message);
  Diagnostics take() { return std::move(list); }
  const Diagnostics &findings() const { return list; }

private:
  Diagnostics list;
};

/// A further check of a function of one level, e.g. the padding proof of the masked level.
using LevelHook = std::function<void(Function &, VerifyReporter &)>;
struct LevelHooks {
  LevelHook masked;
};

/// All findings in the module, errors and warnings, in text order.
Diagnostics verify(Module &module, const LevelHooks &hooks = {});
Diagnostics verify(Function &function, const LevelHooks &hooks = {});
/// The findings about one operation with its regions, or about one parameter, by itself: builders check what they make. All that
/// the operation uses is taken as defined before it.
Diagnostics verify(Operation &op);
Diagnostics verify(Value &param);

/// The types that the op's rule gives for its operands and attributes, where the rule fixes them (element-wise ops, compare,
/// transpose, matmul up to the element type ...); null types where the text decides. Used by builders and messages.
std::vector<Type> inferResultTypes(const Operation &op);

} // namespace minic
