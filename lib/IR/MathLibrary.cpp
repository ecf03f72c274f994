#include "minic/IR/MathLibrary.h"

#include "minic/IR/Parser.h"

#include <cassert>

namespace minic {

std::string_view mathLibraryText() {
  static constexpr char text[] =
#include "Math.ir"
      ;
  return {text, sizeof text - 1};
}

namespace {

/// One thread's parsed copy: a context serves one thread at a time.
struct MathLibrary {
  Context context;
  std::unique_ptr<Module> module;

  MathLibrary() {
    auto parsed = parseModule(context, SourceBuffer("Math.ir", std::string(mathLibraryText())));
    assert(parsed && "Math.ir does not parse");
    module = std::move(*parsed);
    // The grammar gives kernels no result types; here the returned value has one.
    for (Function *function : module->functions())
      for (const Value *value : function->terminator()->operands())
        function->resultTypes.push_back(value->type());
  }
};

} // namespace

const Function &mathBody(OpKind kind, DType dtype) {
  thread_local MathLibrary library;
  const OpInfo &row = opInfo(kind);
  Function *body = library.module->find(std::string(row.name) + "_" + std::string(dtypeName(dtype)));
  assert(row.expands && body && "no such body in Math.ir");
  return *body;
}

} // namespace minic
