// What the interpreter's tests share: text to a module, kernels on a CPU device, tensors from numbers.
#pragma once

#include "minic/Artifact/RunPlan.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Verifier.h"
#include "minic/Interp/CpuDevice.h"
#include "minic/Interp/Oracle.h"

#include <gtest/gtest.h>

#include <string>

namespace minic::test {

/// A verified module, or a failed test.
class Parsed {
public:
  explicit Parsed(const std::string &text) {
    SourceBuffer source("test.ir", text);
    auto parsed = parseModule(context, source);
    EXPECT_TRUE(parsed) << (parsed ? "" : renderDiagnostics(parsed.errors(), &source));
    if (!parsed)
      return;
    module = std::move(*parsed);
    Diagnostics findings = verify(*module);
    EXPECT_FALSE(hasErrors(findings)) << renderDiagnostics(findings, &source);
    if (hasErrors(findings))
      module.reset();
  }
  Module &operator*() const { return *module; }
  explicit operator bool() const { return module != nullptr; }

private:
  Context context;
  std::unique_ptr<Module> module;
};

inline HostTensor tensor(std::vector<int64_t> shape, std::vector<double> values, DType dtype = DType::F32) {
  HostTensor result(dtype, std::move(shape));
  EXPECT_EQ(result.numElements(), int64_t(values.size()));
  for (size_t i = 0; i < values.size(); ++i)
    result.set(int64_t(i), values[i]);
  return result;
}

inline HostTensor iota(int64_t n, double first = 0) {
  HostTensor result(DType::F32, {n});
  for (int64_t i = 0; i < n; ++i)
    result.set(i, first + double(i));
  return result;
}

inline std::vector<double> numbers(const HostTensor &tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.numElements(); ++i)
    result.push_back(tensor.get(i));
  return result;
}

/// The rendered errors of one launch and the read-back of its outputs; empty if all went well.
struct Outcome {
  std::string error;
  ErrorCode code{};
  std::vector<HostTensor> outputs;
  LaunchTraffic traffic;
};

/// Runs the module's only kernel: its first buffers hold `inputs`, the others are fresh and of the given shapes.
inline Outcome runKernel(const std::string &text, std::vector<int64_t> grid, std::vector<HostTensor> inputs,
                         std::vector<HostTensor> outputs, const DimBindings &dims = {}, CpuOptions options = {}) {
  Outcome outcome;
  Parsed module(text);
  if (!module) {
    outcome.error = "the text is wrong";
    return outcome;
  }
  auto failed = [&](Diagnostics errors) {
    outcome.error = renderDiagnostics(errors, nullptr);
    outcome.code = errors[0].code;
    return std::move(outcome);
  };
  options.countTraffic = true;
  CpuDevice device(*module, options);
  std::vector<DeviceMemory> memory;
  for (const auto *list : {&inputs, &outputs})
    for (const HostTensor &tensor : *list) {
      auto allocated = device.allocate(int64_t(tensor.bytes().size()), nullptr);
      if (!allocated)
        return failed(allocated.takeErrors());
      memory.push_back(*allocated);
      if (list == &inputs)
        if (auto copied = device.copyFromHost(*allocated, tensor.bytes(), nullptr); !copied)
          return failed(copied.takeErrors());
    }
  Artifact artifact;
  artifact.kernels.push_back({.name = (*module).functions()[0]->name});
  auto launch = device.prepare(artifact, 0, grid, dims);
  if (!launch)
    return failed(launch.takeErrors());
  if (auto launched = (*launch)->enqueue(nullptr, memory); !launched)
    return failed(launched.takeErrors());
  for (size_t i = 0; i < outputs.size(); ++i)
    if (auto copied = device.copyToHost(outputs[i].bytes(), memory[inputs.size() + i], nullptr); !copied)
      return failed(copied.takeErrors());
  outcome.outputs = std::move(outputs);
  auto traffic = device.takeTraffic();
  if (!traffic.empty())
    outcome.traffic = traffic[0];
  return outcome;
}

/// `text` with its only `from` replaced.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at == std::string::npos)
    return text;
  EXPECT_EQ(text.find(from, at + 1), std::string::npos) << from << " stands twice";
  return text.replace(at, from.size(), to);
}

inline HostTensor random(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  HostTensor result(dtype, std::move(shape));
  fillRandom(result, seed);
  return result;
}

inline bool has(const std::string &text, std::string_view word) { return text.find(word) != std::string::npos; }

} // namespace minic::test
