// Compiles a graph in a program of one's own and runs it on the CPU. Prints `y = [[0, 6], [1.5, 0]]`.
#include "minic/Artifact/RunPlan.h"
#include "minic/Compiler/Compiler.h"
#include "minic/IR/Parser.h"
#include "minic/Interp/CpuDevice.h"

#include <iostream>

using namespace minic;

namespace {

const SourceBuffer source("linear_relu", R"(
graph @linear_relu(%x: tensor<NxKxf32>, %w: tensor<KxMxf32>, %b: tensor<Mxf32>) -> (y: tensor<NxMxf32>) {
  %a    = matmul %x, %w            : tensor<NxMxf32>
  %bias = broadcast %b, dims = [1] : tensor<NxMxf32>
  %z    = add %a, %bias            : tensor<NxMxf32>
  %y    = relu %z                  : tensor<NxMxf32>
  return %y
})");

Expected<HostTensor> run() {
  Context context;
  auto module = loadModule(context, source, {});
  if (!module)
    return module.takeErrors();
  if (auto lowered = lowerTo(**module, Stage::Plan, {}); !lowered)
    return lowered.takeErrors();
  auto artifact = makeArtifact(**module, {}, /*withCode=*/false);
  if (!artifact)
    return artifact.takeErrors();

  std::vector<HostTensor> inputs;
  for (const char *text : {"[[1, -2, 3], [0, 1, -1]]", "[[1, 2], [0, -1], [-1, 1]]", "[0.5, -1]"}) {
    auto tensor = parseTensorText(text, DType::F32);
    if (!tensor)
      return tensor.takeErrors();
    inputs.push_back(std::move(*tensor));
  }
  auto dims = bindDims(artifact->plan, inputs);
  if (!dims)
    return dims.takeErrors();
  CpuDevice device(**module);
  auto results = runPlan(*artifact, device, inputs, *dims);
  if (!results)
    return results.takeErrors();
  return std::move(results->front());
}

} // namespace

int main() {
  auto y = run();
  if (!y) {
    std::cerr << renderDiagnostics(y.errors(), &source);
    return 1;
  }
  std::cout << "y = " << tensorText(*y) << "\n";
}
