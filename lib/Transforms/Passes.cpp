#include "minic/Transforms/Passes.h"

namespace minic {

static const std::vector<Pass> &table() {
  static constexpr std::nullopt_t keep = std::nullopt;
  static constexpr bool sameBits = true, otherBits = false;
  static const std::vector<Pass> rows = [] {
    std::vector<Pass> rows;
#define MINIC_PASS(function, name, levels, to, results, summary)                                                                   \
  rows.push_back({name, summary, LevelSet(levels), to, results, passes::function, {}});
#define MINIC_PASS_OPTION(function, name, values, standard, summary)                                                               \
  rows.back().options.push_back({name, values, standard, summary});
#include "minic/Transforms/Passes.def"
#undef MINIC_PASS
    return rows;
  }();
  return rows;
}

std::span<const Pass> allPasses() { return table(); }

const Pass *findPass(std::string_view name) {
  for (const Pass &pass : table())
    if (pass.name == name)
      return &pass;
  return nullptr;
}

} // namespace minic
