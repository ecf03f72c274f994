// Runs a list of passes and knows none of them: verify, time, dump, and a reproducer on failure.
#pragma once

#include "minic/IR/IR.h"
#include "minic/IR/Verifier.h"
#include "minic/Support/Expected.h"
#include "minic/Target/TargetInfo.h"
#include "minic/Transforms/Analysis/ScheduleLookup.h"

#include <functional>
#include <string>
#include <vector>

namespace minic {

struct FusionReport;

/// What computes matrix products: kernels that minic generates, cuBLASLt, or whichever tuning found to be quicker.
enum class MatmulProvider : uint8_t { Auto, Generated, CublasLt };
std::optional<MatmulProvider> parseMatmulProvider(std::string_view name);
/// "auto", "generated" or "cublaslt".
std::string_view matmulProviderName(MatmulProvider provider);

struct PassContext {
  Module &module;
  const TargetInfo &target;
  bool eager = false;            ///< One region per op.
  ScheduleLookup schedules = {}; ///< Tuned ones, which choose-schedule prefers to the cost model's.
  MatmulProvider matmul = MatmulProvider::Auto;
  ScheduleReport *report = nullptr;     ///< What choose-schedule says of each region; may be null.
  FusionReport *fusionReport = nullptr; ///< What fuse says of each edge; may be null.
  bool exact() const { return module.numerics == "exact"; }
  bool fast() const { return module.numerics == "fast"; }
};

/// One row of Passes.def: works on one function; may add functions to the module.
struct Pass {
  std::string_view name; ///< The flag: `fuse`.
  std::string_view summary;
  LevelSet levels;         ///< Levels of the functions that it runs on.
  std::optional<Level> to; ///< The level afterwards, if it changes.
  Expected<void> (*run)(Function &, PassContext &);
};

/// A pass at its place in a pipeline: it runs on the functions that stand at `level`.
struct PassStep {
  const Pass *pass;
  Level level;
};

struct PassTiming {
  std::string name;
  double milliseconds;
};

struct PassManagerOptions {
  LevelHooks hooks;
  bool verifyEach = true;
  std::function<void(const Pass &, Module &)> beforePass, afterPass;
  std::vector<PassTiming> *timings = nullptr;
};

/// Runs `steps` in order, each over all functions of its level (in module order, those present when it starts). After each the
/// module is verified; a failure is PassFailed with the pass's name, the verifier's findings as notes, and the IR from before the
/// pass in `failedInput` (if given).
Expected<void> runPasses(Module &module, std::span<const PassStep> steps, PassContext &context, const PassManagerOptions &options,
                         std::string *failedInput = nullptr);

} // namespace minic
