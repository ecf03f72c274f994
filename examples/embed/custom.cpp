// Declares a custom op and uses it between built-in ones. Prints `y = [[0, 3], [5, 0]]`.
#include "check.h"

int main() {
  Graph g("gate");
  g.declare(R"(
custom @scaled_relu(%x: tensor<MxNxf32>, %s: tensor<Nxf32>) -> (y: tensor<MxNxf32>) {
  %r  = relu %x                  : tensor<MxNxf32>
  %sb = broadcast %s, dims = [1] : tensor<MxNxf32>
  %y  = mul %r, %sb              : tensor<MxNxf32>
  return %y
})");
  Tensor x = g.input("x", DType::F32, {"N", "K"});
  Tensor w = g.input("w", DType::F32, {"K", 2});
  Tensor s = g.input("s", DType::F32, {2});
  g.output("y", g.custom("scaled_relu", {matmul(x, w), s})[0]);

  std::shared_ptr<Device> device = check(openDevice("auto"));
  auto artifact = check(compile(g, {}, device.get()));
  auto executable = check(Executable::load(artifact, device));
  std::vector<HostTensor> inputs = {check(parseTensorText("[[1, -2], [2, 1]]", DType::F32)),
                                    check(parseTensorText("[[1, 0], [0.5, -1.5]]", DType::F32)),
                                    check(parseTensorText("[2, 1]", DType::F32))};
  std::vector<HostTensor> results = check(executable->run(inputs));
  std::cout << "y = " << tensorText(results[0]) << "\n";
}
