// How results differ from what they should be, for `compare` and `bench`.
#pragma once

#include "Common.h"

#include "minic/Support/HostTensor.h"

#include <nlohmann/json.hpp>

namespace minic::cli {

/// `|value - reference| <= rtol * |reference| + atol * largest |reference|`; negative: the default of the element type.
struct ToleranceFlags {
  double rtol = -1, atol = -1;
};
void addToleranceFlags(CLI::App &command, ToleranceFlags &flags);

/// How two lists of results differ. Equal infinities and two NaNs agree.
struct Difference {
  double largest = 0;   ///< Absolute; infinite where a NaN or infinity has no equal.
  std::string firstBad; ///< The first element beyond the tolerance, as a sentence; else empty.
  bool sameBits = true;
};
Difference differ(const std::vector<HostTensor> &values, const std::vector<HostTensor> &references,
                  const std::vector<std::string> &names, const ToleranceFlags &flags, std::string_view what,
                  std::string_view yardstick);

/// Four digits.
std::string number(double value);
/// A number, or "inf", which JSON's numbers lack.
nlohmann::json errorJson(double value);

} // namespace minic::cli
