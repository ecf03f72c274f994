#include "minic/Target/TargetInfo.h"

#include <array>
#include <string>

namespace minic {

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; PTX ISA, "Target ISA Notes".
static constexpr std::array targets = {
    TargetInfo{"sm_80", 8, 0, 70, 32, 108, 49152, 166912, 1024, 65536, 255, 1024, 64, 4096},
    TargetInfo{"sm_86", 8, 6, 71, 32, 84, 49152, 101376, 1024, 65536, 255, 512, 0, 4096},
    TargetInfo{"sm_89", 8, 9, 78, 32, 142, 49152, 101376, 1024, 65536, 255, 512, 0, 4096},
    TargetInfo{"sm_90a", 9, 0, 81, 32, 132, 49152, 232448, 1024, 65536, 255, 1024, 128, 32764},
    TargetInfo{"sm_100", 10, 0, 86, 32, 148, 49152, 232448, 1024, 65536, 255, 1024, 0, 32764},
    TargetInfo{"sm_120", 12, 0, 87, 32, 188, 49152, 101376, 1024, 65536, 255, 512, 0, 32764},
};

std::span<const TargetInfo> allTargets() { return targets; }

Expected<const TargetInfo *> findTarget(std::string_view name) {
  std::string known;
  for (const TargetInfo &target : targets) {
    if (target.name == name)
      return &target;
    known += (known.empty() ? "" : ", ") + std::string(target.name);
  }
  return Diagnostic{.code = ErrorCode::UnknownTarget,
                    .message = "unknown target '" + std::string(name.substr(0, 64)) + "'",
                    .fix = "use one of " + known};
}

const TargetInfo *targetForDevice(int major, int minor) {
  const TargetInfo *best = nullptr;
  for (const TargetInfo &target : targets) {
    // Architecture-specific targets (the `a` suffix) run on their own compute capability only.
    bool exactOnly = target.name.back() == 'a';
    bool same = target.computeMajor == major && target.computeMinor == minor;
    bool older = target.computeMajor * 10 + target.computeMinor <= major * 10 + minor;
    if (same || (older && !exactOnly))
      best = &target;
  }
  return best;
}

} // namespace minic
