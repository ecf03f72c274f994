// How much results may differ, on the command line and in JSON: for `bench`, `bisect` and `compare`.
#pragma once

#include "Common.h"

#include "minic/Driver/Difference.h"

#include <nlohmann/json.hpp>

namespace minic::cli {

using ToleranceFlags = Tolerance;
void addToleranceFlags(CLI::App &command, ToleranceFlags &flags);

/// Four digits.
std::string number(double value);
/// A number, or "inf", which JSON's numbers lack.
nlohmann::json errorJson(double value);

} // namespace minic::cli
