// Kernels that only move memory, made where a plan turns out to need one.
#pragma once

#include "KernelSignature.h"
#include "minic/IR/Builder.h"
#include "minic/Transforms/Passes.h"

#include <functional>
#include <map>

namespace minic {

struct CopyKernel {
  Function *kernel; ///< Of a source and destinations, row-major, at the tile level.
  Attribute grid;
};

/// Emits what destinations hold for a tensor, one value for each.
using MakeCopies = std::function<std::vector<Value *>(Builder &, Value *)>;

/// The kernel of a graph with one region, which `make` emits for a tensor of type `from`; the results are of types `to`. It stands
/// before `plan`, and is named after it.
Expected<CopyKernel> makeCopyKernel(Function &plan, Type from, std::span<const Type> to, PassContext &pass, const MakeCopies &make);

/// Copies, in another form, of memory that kernels of a plan load: each is made once, before the first launch that needs it.
class OperandCopies {
public:
  OperandCopies(Function &plan, PassContext &pass) : plan(plan), pass(pass) {}

  /// Gives the kernel parameters more, of types `to`: what `make` emits for the buffer that is its parameter. What is made follows
  /// from the types and the suffix alone: a square matrix has one type as it is and turned.
  Expected<std::vector<Value *>> add(Function &kernel, Value *buffer, std::span<const Type> to, std::string_view suffix,
                                     const MakeCopies &make);

private:
  struct Form {
    std::string suffix;      ///< Of the copies' names.
    std::vector<Type> types; ///< Of the source, then of the copies.
    auto operator<=>(const Form &) const = default;
  };
  std::vector<Value *> copiesFor(Operation &launch, Value *source, const Form &form);

  Function &plan;
  PassContext &pass;
  std::map<Form, CopyKernel> kernels;
  std::map<std::pair<Value *, Form>, std::vector<Value *>> made; // Looked up only.
};

} // namespace minic
