// Debug locations: which graph line an LLVM instruction is from. Private to lib/CodeGen.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/LineSource.h"

#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/DebugLoc.h>

#include <map>
#include <string>

namespace minic::codegen {

/// The line info of an LLVM module, as directives in PTX (`.file` and `.loc`), without DWARF sections. Nothing without a source.
class LineInfo {
public:
  /// `from` may be null.
  LineInfo(const LineSource *from, llvm::Module &to);
  /// Makes the kernel a subprogram. Before any of its locations.
  void describe(const Function &kernel, llvm::Function &function);
  /// Where `loc` lies, for instructions of `function`. Line 0, as in DWARF, for what no line asked for: `loc` has no place.
  llvm::DebugLoc at(SourceLoc loc, const llvm::Function &function);
  /// After the last location.
  void finish();

private:
  llvm::DIFile *fileOf(const std::string &name);
  const LineSource *from;
  llvm::DIBuilder builder;
  std::map<std::string, llvm::DIFile *> files;
};

} // namespace minic::codegen
