// What differs between two texts, line by line.
#pragma once

#include <string>
#include <string_view>

namespace minic {

/// A unified diff without a head: hunks `@@ -1,4 +1,5 @@` of lines that begin with ` `, `-` or `+`, with up to `context` common
/// ones around each change; empty for equal texts. Past 1000 changed lines it need not be the shortest.
std::string textDiff(std::string_view before, std::string_view after, size_t context = 3);

} // namespace minic
