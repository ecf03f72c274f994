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

struct PassStep;

struct PassContext {
  Module &module;
  const TargetInfo &target;
  bool eager = false;            ///< One region per op.
  ScheduleLookup schedules = {}; ///< Tuned ones, which choose-schedule prefers to the cost model's.
  MatmulProvider matmul = MatmulProvider::Auto;
  ScheduleReport *report = nullptr;     ///< What choose-schedule says of each region; may be null.
  FusionReport *fusionReport = nullptr; ///< What fuse says of each edge; may be null.
  const PassStep *step = nullptr;       ///< Which is running.
  bool exact() const { return module.numerics == "exact"; }
  bool fast() const { return module.numerics == "fast"; }
};

/// An option of a pass: one row of Passes.def.
struct PassOption {
  std::string_view name;
  std::string_view values;   ///< "number", or words: "fma|mma|wgmma".
  std::string_view standard; ///< What it is unless given; empty: nothing.
  std::string_view summary;
};

/// One row of Passes.def: works on one function; may add functions to the module.
struct Pass {
  std::string_view name; ///< The flag: `fuse`.
  std::string_view summary;
  LevelSet levels;         ///< Levels of the functions that it runs on.
  std::optional<Level> to; ///< The level afterwards, if it changes.
  bool keepsBits;          ///< Of results. If not: within what the numerics mode allows.
  Expected<void> (*run)(Function &, PassContext &);
  std::vector<PassOption> options;
};

/// A pass at its place in a pipeline.
struct PassStep {
  const Pass *pass;
  LevelSet levels; ///< It runs on the functions that stand there, highest level first.
  std::vector<std::pair<std::string_view, std::string>> given = {}; ///< Options and values that are not the standard ones.

  PassStep(const Pass *pass, LevelSet levels) : pass(pass), levels(levels) {}
  PassStep(const Pass *pass, Level level) : PassStep(pass, levelBit(unsigned(level))) {}

  /// The value of an option; empty if it has none.
  std::string_view option(std::string_view name) const;
  /// The same as a number; 0 if it has none.
  int64_t number(std::string_view name) const;
};

struct PassTiming {
  std::string name;
  double milliseconds;
};

struct PassManagerOptions {
  LevelHooks hooks;
  bool verifyEach = true;
  std::function<void(const Pass &, Module &)> beforePass, afterPass;
  std::function<void(const PassStep &)> skippedPass; ///< No function stands at a level of the step.
  std::vector<PassTiming> *timings = nullptr;
};

/// Runs `steps` in order, each over all functions of its level (in module order, those present when it starts). After each the
/// module is verified; a failure is PassFailed with the pass's name, the verifier's findings as notes, and the IR from before the
/// pass in `failedInput` (if given).
Expected<void> runPasses(Module &module, std::span<const PassStep> steps, PassContext &context, const PassManagerOptions &options,
                         std::string *failedInput = nullptr);

} // namespace minic
