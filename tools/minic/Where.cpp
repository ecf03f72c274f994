#include "Where.h"

#include "minic/Driver/LineMap.h"
#include "minic/Support/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace minic::cli {
namespace {

struct Place {
  Stage stage;
  size_t line;
};

/// `ptx:57`
Expected<Place> parsePlace(const std::string &text) {
  size_t colon = text.find(':');
  std::string level = text.substr(0, colon);
  auto stage = parseStage(level);
  if (!stage || *stage == Stage::Cubin) {
    std::vector<std::string> names;
    std::string list;
    for (int i = 0; i < int(Stage::Cubin); ++i) {
      names.emplace_back(stageName(Stage(i)));
      list += (i ? ", " : "") + names.back();
    }
    std::string near = didYouMean(level, names);
    return badFlag("unknown level '" + level + "' in --where",
                   (near.empty() ? "" : "did you mean " + near + "? ") + ("It is one of " + list));
  }
  size_t line = 0;
  const char *begin = text.data() + std::min(colon, text.size() - 1) + 1, *end = text.data() + text.size();
  if (auto [last, error] = std::from_chars(begin, end, line); error != std::errc() || last != end || line == 0)
    return badFlag("--where takes a level and a line, such as ptx:57, not '" + text + "'");
  return Place{*stage, line};
}

/// What a line is that no op asked for.
std::string kindOf(Stage stage, std::string_view line) {
  std::string_view text = trimmed(line);
  auto starts = [&](auto... words) { return (text.starts_with(words) || ...); };
  if (text.empty())
    return "an empty line";
  if (starts("//", ";"))
    return "a comment";
  if (starts("{", "}", "(", ")"))
    return "a bracket";
  if (starts("graph @", "kernel @", "plan @", "custom @", "define ", ".visible .entry", ".entry"))
    return "a function's header";
  if (stage < Stage::Llvm)
    return starts("return", "yield") ? "the end of a block" : "a header, or an op that came from no op of the graph";
  if (text.ends_with(':'))
    return "a label";
  if (starts(".", "!", "source_filename", "target ", "declare ", "attributes ", "@", "ModuleID") || line == text)
    return "a directive or a declaration";
  return "code that no single op asked for: what a kernel computes once of its thread and of sizes, or what LLVM made of several "
         "ops";
}

/// `12-14, 17`: lines from 1 on. Of many ranges the first few.
std::string rangesText(const std::vector<size_t> &lines) {
  constexpr size_t shown = 5;
  std::string text;
  size_t ranges = 0;
  for (size_t i = 0, end; i < lines.size(); i = end) {
    for (end = i + 1; end < lines.size() && lines[end] == lines[end - 1] + 1;)
      ++end;
    if (++ranges > shown)
      return text + ", ... (" + plural(int64_t(lines.size()), "line") + ")";
    text += (text.empty() ? "" : ", ") + std::to_string(lines[i]);
    if (end > i + 1)
      text += "-" + std::to_string(lines[end - 1]);
  }
  return text;
}

/// The lines of a level that are from an op, from 1 on.
std::vector<size_t> linesFrom(const LevelText &level, SourceLoc loc) {
  std::vector<size_t> lines;
  for (size_t i = 0; i < level.places.size(); ++i)
    if (level.places[i] == loc)
      lines.push_back(i + 1);
  return lines;
}

} // namespace

int explainWhere(const std::string &text, const ModuleFlags &flags) {
  Messages messages(flags.json);
  auto place = parsePlace(text);
  if (!place)
    return messages.fail(place.errors());
  auto options = compileOptions(flags);
  if (!options)
    return messages.fail(options.errors());
  auto source = readSource(flags.file);
  if (!source)
    return messages.fail(source.errors());
  auto levels = levelTexts(*source, *options);
  if (!levels)
    return messages.fail(levels.errors(), &*source);
  auto level = std::ranges::find(*levels, place->stage, &LevelText::stage);
  std::string name(stageName(place->stage));
  if (level == levels->end())
    return messages.fail({badFlag("the file stands below the " + name + " level", "ask for a level below")});
  std::vector<std::string_view> lines = linesOf(level->text);
  if (place->line > lines.size())
    return messages.fail({badFlag("--where=" + text + ": the " + name + " text has " + plural(int64_t(lines.size()), "line"),
                                  "it is what --emit=" + name + " prints, with the same flags")});

  std::string_view line = lines[place->line - 1];
  SourceLoc loc = level->places[place->line - 1];
  bool isGraph = levels->front().stage == Stage::Graph;
  std::string at = std::to_string(loc.line) + ":" + std::to_string(loc.column);
  std::string op = isGraph && loc.isValid() ? std::string(trimmed(source->line(loc.line))) : "";
  std::string out = name + " " + std::to_string(place->line) + ": " + std::string(trimmed(line)) + "\n";
  nlohmann::json result = {{"level", name}, {"line", place->line}, {"text", line}, {"op", nullptr}};
  if (!loc.isValid()) {
    result["kind"] = kindOf(place->stage, line);
    out += "is of no op: " + kindOf(place->stage, line) + "\n";
  } else {
    result["op"] = {{"file", source->name()}, {"line", loc.line}, {"column", loc.column}, {"text", op}};
    out += isGraph ? "is from " + source->name() + ":" + at + ": " + op + "\n"
                   : "is from " + at + " of the graph that " + source->name() + " was made of\n";
    for (const LevelText &other : *levels) {
      std::vector<size_t> from = linesFrom(other, loc);
      std::string level(stageName(other.stage));
      result["levels"][level] = from;
      if (from.empty() || other.stage == Stage::Graph)
        continue;
      std::string_view first = trimmed(linesOf(other.text)[from.front() - 1]);
      constexpr size_t width = 90;
      out += "  " + level + std::string(8 - level.size(), ' ') + rangesText(from) + ": " + std::string(first.substr(0, width)) +
             (first.size() > width ? "..." : "") + "\n";
    }
  }
  if (auto written =
          writeOutput({}, flags.json ? result.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" : out);
      !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace minic::cli
