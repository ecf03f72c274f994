// The bodies of functions, in lib/IR/Math/*.ir by theme. For all of them holds:
//
// Branch-free, every number and NaN is a valid operand, and each operation rounds as its row says, so the CPU and the GPU agree
// bit for bit, but for the `_half` forms, which use what the special function unit gives. Coefficients are minimax (Remez exchange
// in 200-bit arithmetic) for the relative error of the function, then rounded to the type; those of exp_f32 and gelu_f32 were then
// moved by random steps of a few units in the last place to where the largest error of the whole body was least. Pairs `a`, `a_lo`
// are the sum of both, and `a` is that sum rounded.
//
// "Within" is the largest distance found to the true value, in units in the last place of the result. exp and log: over all 2^32
// operands of f32 and 10^8 random ones of f64. Others: over every 17th operand of f32 and 10^7 random ones of f64, against the
// host's functions in the next wider type; gelu in f64 over 20000 against mpmath; pow over 3 * 10^7 and 3 * 10^6 pairs.
// test/unit/IR/MathTest.cpp repeats a part of that, tools/accuracy.py all of it.
#include "minic/IR/MathLibrary.h"

#include "minic/IR/Parser.h"

#include <cassert>
#include <map>

namespace minic {

std::string_view mathLibraryText() {
  static constexpr char text[] =
#include "Math/Cosine.ir"
#include "Math/Erf.ir"
#include "Math/Exp.ir"
#include "Math/Gelu.ir"
#include "Math/Log.ir"
#include "Math/Power.ir"
#include "Math/Sigmoid.ir"
#include "Math/Sine.ir"
      ;
  return {text, sizeof text - 1};
}

namespace {

/// One thread's parsed copies: a context serves one thread at a time.
struct MathLibrary {
  Context context;
  std::map<std::string, std::unique_ptr<Module>> modules;

  /// Parses a function alone, when it is first asked for: most programs use few of them.
  const Function &body(const std::string &name) {
    std::unique_ptr<Module> &module = modules[name];
    if (!module) {
      std::string_view text = mathLibraryText();
      size_t begin = text.find("kernel @" + name + "("), end = text.find("\n}\n", begin);
      assert(begin != text.npos && end != text.npos && "no such body in lib/IR/Math");
      auto parsed = parseModule(context, SourceBuffer(name, std::string(text.substr(begin, end + 3 - begin))));
      assert(parsed && "a body in lib/IR/Math does not parse");
      module = std::move(*parsed);
      // The grammar gives kernels no result types; here the returned value has one.
      Function *function = module->find(name);
      for (const Value *value : function->terminator()->operands())
        function->resultTypes.push_back(value->type());
    }
    return *module->find(name);
  }
};

} // namespace

const Function &mathBody(OpKind kind, DType dtype) {
  thread_local MathLibrary library;
  assert(opInfo(kind).expands && "not a function with a body");
  return library.body(std::string(opInfo(kind).name) + "_" + std::string(dtypeName(dtype)));
}

} // namespace minic
