#include "minic/Driver/LineMap.h"

#include "minic/Support/PtxLines.h"
#include "minic/Support/Text.h"

#include <charconv>
#include <map>

namespace minic {

/// The number behind `mark`; 0 if the line has no such mark.
static uint32_t numberBehind(std::string_view line, std::string_view mark) {
  uint32_t number = 0;
  if (size_t at = line.find(mark); at != std::string_view::npos)
    std::from_chars(line.data() + at + mark.size(), line.data() + line.size(), number);
  return number;
}

/// An op's `loc(L:C)` ends its last line; the lines that open its regions are from there too.
static std::vector<SourceLoc> irPlaces(const std::vector<std::string_view> &lines) {
  std::vector<SourceLoc> places(lines.size());
  std::map<size_t, std::vector<size_t>> open; // By indentation: the lines so far of the op that has not ended.
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view line = lines[i];
    size_t indent = line.find_first_not_of(' ');
    if (indent == 0 || indent == std::string_view::npos) // Functions and layouts.
      continue;
    std::vector<size_t> &parts = open[indent];
    parts.push_back(i);
    if (line.ends_with('{') || (line.ends_with(':') && line.find("{ ^(") != std::string_view::npos))
      continue;
    if (size_t at = line.rfind(" loc("); at != std::string_view::npos)
      for (size_t part : parts)
        places[part] = {numberBehind(line.substr(at), " loc("), numberBehind(line.substr(at), ":")};
    parts.clear();
  }
  return places;
}

/// `... !dbg !17`, and at the end `!17 = !DILocation(line: 4, column: 8, scope: !5)`.
static std::vector<SourceLoc> llvmPlaces(const std::vector<std::string_view> &lines) {
  std::map<uint32_t, SourceLoc> locations;
  for (std::string_view line : lines)
    if (line.starts_with('!') && line.find(" = !DILocation(") != std::string_view::npos)
      locations[numberBehind(line, "!")] = {numberBehind(line, "(line: "), numberBehind(line, "column: ")};
  std::vector<SourceLoc> places(lines.size());
  for (size_t i = 0; i < lines.size(); ++i)
    if (lines[i].starts_with("  "))
      if (auto it = locations.find(numberBehind(lines[i], "!dbg !")); it != locations.end() && it->second.isValid())
        places[i] = it->second;
  return places;
}

std::vector<SourceLoc> linePlaces(Stage stage, std::string_view text) {
  if (stage < Stage::Llvm)
    return irPlaces(linesOf(text));
  if (stage == Stage::Llvm)
    return llvmPlaces(linesOf(text));
  std::vector<SourceLoc> places;
  for (const FileLoc &place : ptxLines(text))
    places.push_back(place.loc);
  return places;
}

/// A source stands for its graphs: each line that an op begins on is from there.
static std::vector<SourceLoc> graphPlaces(const Module &module, std::string_view text) {
  std::vector<SourceLoc> places(linesOf(text).size());
  for (const Function *function : module.functions())
    if (function->kind == FunctionKind::Graph && function->level == Level::Graph)
      walk(function->body(), [&](const Operation &op) {
        if (size_t line = op.loc().line; line && line <= places.size() && !places[line - 1].isValid())
          places[line - 1] = op.loc();
      });
  return places;
}

/// The text of one level; where the source stands for it, the source.
static Expected<LevelText> levelText(const SourceBuffer &source, Stage stage, const CompileOptions &options) {
  Context context;
  auto module = loadModule(context, source, options);
  if (!module)
    return module.takeErrors();
  if (auto kept = options.graph.empty() ? Expected<void>() : keepOnly(**module, options.graph); !kept)
    return kept.takeErrors();
  std::vector<SourceLoc> ofSource = graphPlaces(**module, source.text());
  auto text = emitStage(**module, stage, options);
  if (!text)
    return text.takeErrors();
  if (stage == Stage::Graph)
    return LevelText{stage, std::string(source.text()), std::move(ofSource)};
  std::vector<SourceLoc> places = linePlaces(stage, *text);
  return LevelText{stage, std::move(*text), std::move(places)};
}

std::vector<SourceLoc> placesWithout(const LevelText &lined, size_t count) {
  std::vector<std::string_view> lines = linesOf(lined.text);
  std::vector<SourceLoc> places; // The lines are the same but those that are line info.
  for (size_t i = 0; i < lines.size(); ++i)
    if (lined.stage != Stage::Ptx || !isLineInfo(lines[i]))
      places.push_back(lined.places[i]);
  places.resize(count); // LLVM's metadata stands at the end.
  return places;
}

Expected<std::vector<LevelText>> levelTexts(const SourceBuffer &source, const CompileOptions &options) {
  CompileOptions plain = options;
  plain.passes = {};
  plain.cache = {};
  plain.scheduleReport = nullptr;
  plain.fusionReport = nullptr;
  plain.lines.file = source.name();
  CompileOptions lined = plain;
  lined.lineInfo = true;
  std::vector<LevelText> texts;
  for (int i = 0; i <= int(Stage::Ptx); ++i) {
    auto level = levelText(source, Stage(i), lined);
    if (!level) {
      if (level.errors().front().code == ErrorCode::NothingToCompile && i < int(Stage::Ptx)) // The file may stand below.
        continue;
      return level.takeErrors();
    }
    if (Stage(i) >= Stage::Llvm && !options.lineInfo) {
      auto without = levelText(source, Stage(i), plain);
      if (!without)
        return without.takeErrors();
      without->places = placesWithout(*level, without->places.size());
      *level = std::move(*without);
    }
    texts.push_back(std::move(*level));
  }
  return texts;
}

} // namespace minic
