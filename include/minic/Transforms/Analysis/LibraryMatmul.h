// Which regions a library computes: cuBLASLt's products with what it does to their elements.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/MatmulCall.h"

#include <optional>
#include <span>
#include <string>

namespace minic {

/// A region that is one call, and the values in memory that it reads: what none of the region's ops make.
struct LibraryMatmul {
  MatmulCall call;
  std::vector<Value *> operands; ///< lhs, rhs, and the bias if there is one.
};

/// Whether there is a product among the ops.
bool hasMatmul(std::span<Operation *const> ops);
/// The call that computes what a region with these ops (without its yield) gives; nullopt, with the reason, where there is none.
/// What precedes a product must be transposes of its last two axes and repetition over its batches; what follows it at most a bias
/// along its columns.
std::optional<LibraryMatmul> libraryMatmul(std::span<Operation *const> ops, std::span<Value *const> outputs,
                                           std::string *why = nullptr);

} // namespace minic
