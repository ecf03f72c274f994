// What `minic explain E0312` and `minic doc errors` say about a code.
#pragma once

#include "minic/Support/Diagnostic.h"

#include <optional>
#include <string>

namespace minic::cli {

/// Prints what a code means and gives the exit code; nothing if `word` is no `E` and four digits.
std::optional<int> explainError(const std::string &word, bool json);

/// As Markdown, which reads well as it is.
std::string errorSection(ErrorCode code);

} // namespace minic::cli
