// Which op of the graph each line of each level's text is from.
#pragma once

#include "minic/Compiler/Compiler.h"

#include <string>
#include <string_view>
#include <vector>

namespace minic {

/// The text of a module at one level.
struct LevelText {
  Stage stage;
  std::string text;
  /// For each line the place of the graph's op that it is from. No place (line 0) where no op asked for the line: headers, braces,
  /// directives, and what a kernel computes once of its thread and of sizes.
  std::vector<SourceLoc> places;
};

/// The texts at all levels that a module reaches, from `graph` (its source as it is) to `ptx`, as `emitStage` gives them: line info
/// is in LLVM IR and PTX only if `options` ask for it. The cache is not asked.
Expected<std::vector<LevelText>> levelTexts(const SourceBuffer &source, const CompileOptions &options);
/// The places of the lines of a text below the graph level, as `emitStage` gives it with line info.
std::vector<SourceLoc> linePlaces(Stage stage, std::string_view text);
/// The places of the lines of the same text as `emitStage` gives it without line info: so many lines.
std::vector<SourceLoc> placesWithout(const LevelText &lined, size_t count);

} // namespace minic
