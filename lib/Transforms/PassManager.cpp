#include "minic/Transforms/PassManager.h"

#include "minic/IR/Printer.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <chrono>
#include <unordered_set>

namespace minic {

static constexpr std::array<std::string_view, 3> matmulProviders = {"auto", "generated", "cublaslt"};

std::optional<MatmulProvider> parseMatmulProvider(std::string_view name) {
  for (size_t i = 0; i < matmulProviders.size(); ++i)
    if (matmulProviders[i] == name)
      return MatmulProvider(i);
  return std::nullopt;
}

std::string_view matmulProviderName(MatmulProvider provider) { return matmulProviders[size_t(provider)]; }

std::string_view PassStep::option(std::string_view name) const {
  for (const auto &[option, value] : given)
    if (option == name)
      return value;
  for (const PassOption &option : pass->options)
    if (option.name == name)
      return option.standard;
  assert(false && "the pass has no such option");
  return {};
}

int64_t PassStep::number(std::string_view name) const {
  std::string_view text = option(name);
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The findings of the verifier after a pass, told as that pass's fault.
static Diagnostic passFailure(const Pass &pass, const Diagnostics &findings) {
  Diagnostic error{.code = ErrorCode::PassFailed,
                   .message = "pass '" + std::string(pass.name) + "' produced IR that does not verify"};
  for (const Diagnostic &finding : findings)
    if (finding.severity == Severity::Error)
      error.note("[" + std::string(errorCodeName(finding.code)) + "] " + finding.message, finding.loc);
  error.fix =
      "this is a bug of minic; the IR from before the pass reproduces it with `minic opt FILE --passes=" + std::string(pass.name) +
      "`";
  return error;
}

/// What a pass neither ran on nor made is as it was.
static Diagnostics verifyChanged(Module &module, const std::unordered_set<const Function *> &untouched, const LevelHooks &hooks) {
  Diagnostics findings;
  for (Function *function : module.functions())
    if (!untouched.count(function)) {
      Diagnostics found = verify(*function, hooks);
      findings.insert(findings.end(), found.begin(), found.end());
    }
  return findings;
}

Expected<void> runPasses(Module &module, std::span<const PassStep> steps, PassContext &context, const PassManagerOptions &options,
                         std::string *failedInput) {
  using Clock = std::chrono::steady_clock;
  auto since = [](Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); };
  double verifying = 0;
  for (const PassStep &step : steps) {
    const Pass &pass = *step.pass;
    std::vector<Function *> functions;
    for (Function *function : module.functions()) // What a custom op means stays as it was written.
      if (function->kind != FunctionKind::Custom && (step.levels & pass.levels & levelBit(unsigned(function->level))))
        functions.push_back(function);
    if (functions.empty()) {
      if (options.skippedPass)
        options.skippedPass(step);
      continue;
    }
    std::ranges::stable_sort(functions, {}, [](const Function *function) { return function->level; });
    context.step = &step;

    std::unordered_set<const Function *> untouched(module.functions().begin(), module.functions().end());
    for (Function *function : functions)
      untouched.erase(function);
    if (options.beforePass)
      options.beforePass(pass, module);
    std::string before;
    if (failedInput && options.verifyEach)
      before = printModule(module);
    auto start = Clock::now();
    for (Function *function : functions) {
      auto done = pass.run(*function, context);
      if (!done)
        return done.takeErrors();
      // tile replaces its function; the others keep theirs.
      if (pass.to && *pass.to != Level::Plan)
        function->level = *pass.to;
    }
    if (options.timings)
      options.timings->push_back({std::string(pass.name), since(start)});
    if (options.afterPass)
      options.afterPass(pass, module);
    if (options.verifyEach) {
      start = Clock::now();
      Diagnostics findings = verifyChanged(module, untouched, options.hooks);
      verifying += since(start);
      if (hasErrors(findings)) {
        if (failedInput)
          *failedInput = std::move(before);
        return passFailure(pass, findings);
      }
    }
  }
  if (options.timings && options.verifyEach)
    options.timings->push_back({"(verify after each pass)", verifying});
  return {};
}

} // namespace minic
