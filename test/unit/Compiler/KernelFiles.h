// The kernels that are written by hand, as text: examples/kernels.
#pragma once

#include "CompilerTest.h"

#include <fstream>
#include <sstream>

namespace minic::test {

inline constexpr const char *softmaxFile = "row_softmax_warp.ir", *clusterFile = "row_softmax_cluster.ir",
                            *gemmFile = "gemm_bias_relu_sm90.ir", *attentionFile = "attention_sm90.ir";
inline constexpr const char *kernelFiles[] = {softmaxFile, clusterFile, gemmFile, attentionFile};

inline std::string kernelText(const std::string &name) {
  std::ifstream file(std::string(MINIC_EXAMPLES "/kernels/") + name);
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Runs the plan of a text on random inputs, whose seeds count up from 1.
inline RunResult runText(const std::string &text, const DimBindings &dims) { return run(text, Stage::Graph, {}, dims); }

} // namespace minic::test
