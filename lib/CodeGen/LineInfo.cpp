#include "LineInfo.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/CommandLine.h>

#include <mutex>

namespace minic::codegen {

/// LLVM's machine code sinks what an op computes to where it is used, and a place there that is of two lines would be of none. With
/// this option, which is the whole process's, it is of the first of both: of the op that computes, which stands before its users.
static void keepMergedLines() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto &options = llvm::cl::getRegisteredOptions();
    if (auto it = options.find("pick-merged-source-locations"); it != options.end())
      *static_cast<llvm::cl::opt<bool> *>(it->second) = true;
  });
}

LineInfo::LineInfo(const LineSource *from, llvm::Module &to) : from(from), builder(to) {
  if (!from)
    return;
  keepMergedLines();
  to.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  to.addModuleFlag(llvm::Module::Warning, "Dwarf Version", 2); // What PTX knows (PTX ISA, "Debugging Directives").
  builder.createCompileUnit(llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_C), fileOf(from->file), "minic",
                            /*isOptimized=*/true, "", 0, "", llvm::DICompileUnit::DebugDirectivesOnly);
}

llvm::DIFile *LineInfo::fileOf(const std::string &name) {
  auto [it, isNew] = files.try_emplace(name);
  if (isNew)
    it->second = builder.createFile(name, "");
  return it->second;
}

void LineInfo::describe(const Function &kernel, llvm::Function &function) {
  if (!from)
    return;
  llvm::DIFile *file = fileOf(from->placeOf(kernel.loc).file);
  auto *type = builder.createSubroutineType(builder.getOrCreateTypeArray({}));
  constexpr unsigned noLine = 0; // A kernel is of several lines.
  function.setSubprogram(builder.createFunction(file, kernel.name, "", file, noLine, type, noLine, llvm::DINode::FlagZero,
                                                llvm::DISubprogram::SPFlagDefinition | llvm::DISubprogram::SPFlagOptimized));
}

llvm::DebugLoc LineInfo::at(SourceLoc loc, const llvm::Function &function) {
  llvm::DISubprogram *kernel = function.getSubprogram();
  if (!kernel)
    return {};
  FileLoc place = loc.isValid() ? from->placeOf(loc) : FileLoc();
  llvm::DILocalScope *scope = kernel;
  if (llvm::DIFile *file = loc.isValid() ? fileOf(place.file) : kernel->getFile(); file != kernel->getFile())
    scope = builder.createLexicalBlockFile(kernel, file);
  return llvm::DILocation::get(kernel->getContext(), place.loc.line, place.loc.column, scope);
}

void LineInfo::finish() {
  if (from)
    builder.finalize();
}

} // namespace minic::codegen
