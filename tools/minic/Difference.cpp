#include "Difference.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>

namespace minic::cli {

void addToleranceFlags(CLI::App &command, ToleranceFlags &flags) {
  command.add_option(
      "--rtol", flags.rtol,
      "tolerance relative to each element (default by type: f64 1e-10, f32 1e-5, f16 1e-2, bf16 5e-2, f8e4m3 0.13, f8e5m2 0.26)");
  command.add_option(
      "--atol", flags.atol,
      "absolute tolerance (default: f64 1e-12, f32 2e-6, f16 1e-3, bf16 1e-2, 8-bit floats 1e-2, times the largest element)");
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

nlohmann::json errorJson(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json("inf"); }

} // namespace minic::cli
