// How results differ from what they should be.
#pragma once

#include "minic/Support/HostTensor.h"

#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// `|value - reference| <= rtol * |reference| + atol * largest |reference|`; negative: the default of the element type.
struct Tolerance {
  double rtol = -1, atol = -1;
};

/// How two lists of results differ. Equal infinities and two NaNs agree.
struct Difference {
  double largest = 0;   ///< Absolute; infinite where a NaN or infinity has no equal.
  int64_t beyond = 0;   ///< Elements beyond the tolerance.
  std::string firstBad; ///< The first of these, as a sentence; else empty.
  bool sameBits = true;
};
Difference differ(const std::vector<HostTensor> &values, const std::vector<HostTensor> &references,
                  const std::vector<std::string> &names, const Tolerance &tolerance, std::string_view what,
                  std::string_view yardstick);

} // namespace minic
