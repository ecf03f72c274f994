// Helpers to take text through the pipeline and run it on the interpreter.
#pragma once

#include "minic/Artifact/RunPlan.h"
#include "minic/Compiler/Compiler.h"
#include "minic/IR/Printer.h"
#include "minic/Interp/CpuDevice.h"
#include "minic/Interp/Oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace minic::test {

struct Loaded {
  std::unique_ptr<Context> context = std::make_unique<Context>();
  std::unique_ptr<Module> module;
};

inline std::string errorText(const Diagnostics &list) { return renderDiagnostics(list, nullptr); }

/// Parses and verifies; fails the test with the diagnostics if that does not work.
inline Loaded load(const std::string &text, const CompileOptions &options = {}) {
  Loaded loaded;
  SourceBuffer source("test.ir", text);
  auto module = loadModule(*loaded.context, source, options);
  if (!module) {
    ADD_FAILURE() << renderDiagnostics(module.errors(), &source) << text;
    return loaded;
  }
  loaded.module = std::move(*module);
  return loaded;
}

/// The diagnostics of a text that must not load.
inline Diagnostics refused(const std::string &text) {
  Context context;
  auto module = loadModule(context, SourceBuffer("test.ir", text), {});
  if (module)
    return {};
  return module.takeErrors();
}

/// The text of a stage.
inline std::string lowerText(const std::string &text, Stage stage, const CompileOptions &options = {}) {
  Loaded loaded = load(text, options);
  if (!loaded.module)
    return "";
  auto emitted = emitStage(*loaded.module, stage, options);
  if (!emitted) {
    ADD_FAILURE() << errorText(emitted.errors()) << text;
    return "";
  }
  return *emitted;
}

struct RunResult {
  Artifact artifact;
  std::vector<HostTensor> inputs;
  Expected<std::vector<HostTensor>> results = Diagnostic{.code = ErrorCode::CannotInterpret, .message = "not run"};
  DimBindings dims;
  std::vector<LaunchTraffic> traffic;
};

/// Lowers to `stage` (at most Plan), runs with random inputs over poisoned memory, programs shuffled.
inline RunResult run(const std::string &text, Stage stage, CompileOptions options, const DimBindings &dims, uint64_t seed = 1) {
  RunResult result;
  result.dims = dims;
  Loaded loaded = load(text, options);
  if (!loaded.module)
    return result;
  if (auto lowered = lowerTo(*loaded.module, stage, options); !lowered) {
    result.results = lowered.takeErrors();
    return result;
  }
  auto artifact = makeArtifact(*loaded.module, options, false);
  if (!artifact) {
    result.results = artifact.takeErrors();
    return result;
  }
  result.artifact = std::move(*artifact);
  for (const TensorSpec &spec : result.artifact.plans[0].inputs) {
    std::vector<int64_t> shape;
    for (const DimExpr &dim : spec.shape)
      shape.push_back(dim.evaluate(dims).value_or(0));
    fillRandom(result.inputs.emplace_back(spec.dtype, shape), seed++);
  }
  CpuDevice device(*loaded.module, {.shuffleSeed = 7, .countTraffic = true});
  result.results = runPlan(result.artifact, device, result.inputs, dims, {.poison = true});
  result.traffic = device.takeTraffic();
  return result;
}

/// Largest error against the f64 oracle, relative to 1 + |expected|; infinite where one is NaN and the other is not.
inline double errorOf(const std::string &text, RunResult &result) {
  Loaded loaded = load(text);
  auto expected = evaluateGraph(*loaded.module->functions().front(), result.inputs, result.dims);
  if (!expected) {
    ADD_FAILURE() << errorText(expected.errors());
    return INFINITY;
  }
  double worst = 0;
  for (size_t i = 0; i < expected->size(); ++i) {
    HostTensor &got = (*result.results)[i], &want = (*expected)[i];
    EXPECT_EQ(got.shape(), want.shape());
    for (int64_t k = 0; k < want.numElements(); ++k) {
      double x = got.get(k), y = want.get(k);
      if (std::isnan(x) && std::isnan(y))
        continue;
      double error = x == y ? 0 : std::fabs(x - y) / (1 + std::fabs(y));
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  }
  return worst;
}

inline bool sameBits(const HostTensor &a, const HostTensor &b) {
  return a.shape() == b.shape() && a.bytes().size() == b.bytes().size() &&
         (a.bytes().empty() || std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0);
}

/// Replaces the first (or `which`th) occurrence; the test fails if there is none.
inline std::string replaced(std::string text, const std::string &from, const std::string &to, int which = 0) {
  size_t at = text.find(from);
  while (which-- > 0 && at != std::string::npos)
    at = text.find(from, at + 1);
  EXPECT_NE(at, std::string::npos) << "no '" << from << "' in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// Whether one of the findings has the code.
inline bool says(const Diagnostics &list, ErrorCode code) {
  for (const Diagnostic &diagnostic : list)
    if (diagnostic.code == code)
      return true;
  return false;
}

} // namespace minic::test
