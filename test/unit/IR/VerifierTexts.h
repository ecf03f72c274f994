// Graphs and kernels around the ops that tests of the verifier look at.
#pragma once

#include "VerifierTest.h"

namespace minic::test {

/// A graph with f32 parameters %x: 2x3, %y: 2x3, %v: 3, %s: NxN, and whatever `body` adds.
inline std::string graph(const std::string &body, const std::string &result = "tensor<2x3xf32>", const std::string &value = "%x") {
  return "graph @g(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %v: tensor<3xf32>, %n: tensor<NxMxf32>, %i: tensor<2x3xi32>,\n"
         "         %h: tensor<2x3xf16>, %b: tensor<2x3xi1>) -> (out: " +
         result + ") {\n" + body + "\n  return " + value + "\n}\n";
}

inline std::string kernel(const std::string &body, const std::string &level = "tile") {
  return "kernel @k(%x: buffer<NxMxf32>, %h: buffer<NxMxf16>, %v: buffer<Mxf32>) at " + level + " {\n" + body + "\n  return\n}\n";
}

/// A layout of 4x128 elements for 4 warps: a row per warp, four elements in a row per thread.
inline const std::string rowLayout = "#layout<reg = [1:4@1], lane = [1:32@4], warp = [0:4@1]>";
inline const std::string machine = "machine, threads = 128";

inline std::string machineKernel(const std::string &body) {
  return "#l = layout<" + rowLayout.substr(8) + "\n" + kernel(body, machine);
}

} // namespace minic::test
