// Each op of each level says which line of the graph it is from.
#include "CompilerTest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

using namespace minic;
using namespace minic::test;

namespace {

std::string fileText(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The graphs of the examples, by file name.
std::map<std::string, std::string> graphs() {
  std::map<std::string, std::string> texts;
  for (const auto &entry : std::filesystem::directory_iterator(MINIC_EXAMPLES))
    if (entry.path().extension() == ".ir" && entry.path().filename() != "wrong_padding.ir")
      texts[entry.path().filename()] = fileText(entry.path());
  texts["a sum within a product"] = R"(
graph @sum_into_matmul(%x: tensor<1x16xi64>, %w: tensor<16x4xi64>) -> (y: tensor<1x4xi64>) {
  %s = reduce sum %x, axes = [1] : tensor<1xi64>
  %b = broadcast %s, dims = [0] : tensor<1x16xi64>
  %y = matmul %b, %w : tensor<1x4xi64>
  return %y
})";
  texts["functions of tables"] = R"(
graph @gathered(%t: tensor<VxDxf16>, %i: tensor<Nxi32>, %u: tensor<NxDxf16>) -> (y: tensor<NxDxf16>) {
  %g = gather %t, %i, axis = 0 : tensor<NxDxf16>
  %c = cumsum %u, axis = 1 : tensor<NxDxf16>
  %s = add %g, %c : tensor<NxDxf16>
  %e = tanh %s : tensor<NxDxf16>
  %y = softmax %e, axis = 1 : tensor<NxDxf16>
  return %y
})";
  return texts;
}

using Place = std::pair<uint32_t, uint32_t>;

std::set<Place> placesOf(Module &module) {
  std::set<Place> places;
  for (Function *function : module.functions()) {
    places.emplace(function->loc.line, function->loc.column);
    walk(function->body(), [&](Operation &op) { places.emplace(op.loc().line, op.loc().column); });
  }
  return places;
}

/// What no line of a graph asks for: where a program's block begins, and when it may begin.
bool isOfNoLine(const Operation &op) {
  bool isIndex =
      op.numResults() > 0 && std::ranges::all_of(op.results(), [](const Value *result) { return result->type().isIndex(); });
  return op.info().terminator || op.is(OpKind::LaunchWait) || isIndex;
}

/// What has no place, or one that is none of the graph's, on the way to a plan.
void expectPlaces(const std::string &name, const std::string &text, CompileOptions options) {
  Loaded loaded = load(text, options);
  ASSERT_TRUE(loaded.module);
  std::set<Place> known = placesOf(*loaded.module);
  std::map<std::string, int> lost;
  options.passes.afterPass = [&](const Pass &pass, Module &module) {
    for (Function *function : module.functions())
      walk(function->body(), [&](Operation &op) {
        bool isKnown = op.loc().isValid() ? known.count({op.loc().line, op.loc().column}) : isOfNoLine(op);
        if (!isKnown)
          ++lost[std::string(op.info().name) + " after " + std::string(pass.name)];
      });
  };
  auto done = lowerTo(*loaded.module, Stage::Plan, options);
  ASSERT_TRUE(done) << name << errorText(done.errors());
  for (const auto &[what, count] : lost)
    ADD_FAILURE() << name << " for " << loaded.module->target << (options.eager ? ", eager" : "") << ": " << count << " " << what
                  << " have no place in the graph";
}

TEST(Locations, NoPassLosesAPlace) {
  for (const auto &[name, text] : graphs())
    for (const char *target : {"sm_80", "sm_90a"})
      for (bool eager : {false, true})
        for (bool anyStrides : {false, true})
          for (bool sized : {false, true}) {
            CompileOptions options;
            options.target = target;
            options.eager = eager;
            options.anyStrides = anyStrides;
            Loaded loaded = load(text, options);
            ASSERT_TRUE(loaded.module);
            if (sized)
              for (const std::string &dim : loaded.module->functions().back()->dimNames())
                options.dims[dim] = 256;
            expectPlaces(name, text, options);
          }
}

} // namespace
