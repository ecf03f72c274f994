// Each op of each level says which line of the graph it is from.
#include "CompilerTest.h"

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

/// What has no place, or one that is none of the graph's, on the way to a plan.
void expectPlaces(const std::string &name, const std::string &text, CompileOptions options) {
  Loaded loaded = load(text, options);
  ASSERT_TRUE(loaded.module);
  std::set<Place> known = placesOf(*loaded.module);
  std::map<std::string, int> lost;
  options.passes.afterPass = [&](const Pass &pass, Module &module) {
    for (Function *function : module.functions())
      walk(function->body(), [&](Operation &op) {
        if (!op.info().terminator && !known.count({op.loc().line, op.loc().column}))
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
