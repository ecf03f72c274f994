// Builds a graph, compiles it and runs it on the GPU, or on the CPU where there is none. Prints `y = [[0, 6], [1.5, 0]]`.
#include "check.h"

int main() {
  Graph g("linear_relu");
  Tensor x = g.input("x", DType::F32, {"N", "K"});
  Tensor w = g.input("w", DType::F32, {"K", "M"});
  Tensor b = g.input("b", DType::F32, {"M"});
  g.output("y", relu(matmul(x, w) + b));

  std::shared_ptr<Device> device = check(openDevice("auto"));
  auto artifact = check(compile(g, {}, device.get()));
  auto executable = check(Executable::load(artifact, device));
  std::vector<HostTensor> inputs = {check(parseTensorText("[[1, -2, 3], [0, 1, -1]]", DType::F32)),
                                    check(parseTensorText("[[1, 2], [0, -1], [-1, 1]]", DType::F32)),
                                    check(parseTensorText("[0.5, -1]", DType::F32))};
  std::vector<HostTensor> results = check(executable->run(inputs));
  std::cout << "y = " << tensorText(results[0]) << "\n";
}
