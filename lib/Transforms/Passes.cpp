#include "minic/Transforms/Passes.h"

namespace minic {

static const std::vector<Pass> &table() {
  static constexpr std::nullopt_t keep = std::nullopt;
  static const std::vector<Pass> rows = {
#define MINIC_PASS(function, name, levels, to, summary) Pass{name, summary, LevelSet(levels), to, passes::function},
#include "minic/Transforms/Passes.def"
#undef MINIC_PASS
  };
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
