// Whose lines the locations of a text's operations are.
#pragma once

#include "minic/Support/Diagnostic.h"

#include <string>
#include <vector>

namespace minic {

/// A place in a file.
struct FileLoc {
  std::string file;
  SourceLoc loc;
};

/// A text, by its file's name. If a program wrote it, as a graph's text that calls built, its lines are from places of that
/// program.
struct LineSource {
  std::string file = "graph";
  std::vector<FileLoc> origins; ///< By line; no file where there is none.

  /// Of a dump the graph's lines are known, and not where that is.
  FileLoc placeOf(SourceLoc loc) const {
    if (loc.isInDump())
      return {file + " (its graph)", loc};
    bool hasOrigin = loc.isValid() && loc.line <= origins.size() && !origins[loc.line - 1].file.empty();
    return hasOrigin ? origins[loc.line - 1] : FileLoc{file, loc};
  }
};

} // namespace minic
