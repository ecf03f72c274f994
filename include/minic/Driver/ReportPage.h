// A page of HTML that is written while the compiler works: it can be opened at any time, and shows what it got so far.
#pragma once

#include "minic/Support/Expected.h"

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace minic {

/// The file begins with all that the page needs to show itself; then come parts, each a block of data, which are on disk when `add`
/// returns. A page cut anywhere shows the parts that are whole. Nothing in a part is read as HTML.
class ReportPage {
public:
  /// Errors: UnreadableFile.
  static Expected<ReportPage> create(const std::string &path, std::string_view title);
  /// `json` is one value, any bytes in its strings.
  Expected<void> add(std::string_view part, std::string_view json);

private:
  Expected<void> write(std::string_view text);
  std::string path;
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file{nullptr, std::fclose};
};

} // namespace minic
