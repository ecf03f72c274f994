#include "minic/Transforms/PassPipeline.h"

#include "minic/Support/Text.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace minic {

static std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

static std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

static Diagnostic badPipeline(std::string_view where, std::string message, std::string fix) {
  return {.code = ErrorCode::BadFlag, .message = std::string(where) + ": " + std::move(message), .fix = std::move(fix)};
}

static std::string levelNames(LevelSet levels, std::string_view separator) {
  std::string list;
  for (unsigned level = 0; level <= unsigned(Level::Plan); ++level)
    if (levels & levelBit(level))
      list += (list.empty() ? "" : std::string(separator)) + std::string(levelName(Level(level)));
  return list;
}

/// Those of its row, and `level`, which a pass of several levels has.
static std::vector<PassOption> optionsOf(const Pass &pass, const std::string &levels) {
  std::vector<PassOption> options = pass.options;
  if (std::popcount(pass.levels) > 1)
    options.push_back({"level", levels, "", ""});
  return options;
}

namespace {

class PipelineReader {
public:
  PipelineReader(std::string_view text, std::string_view where) : rest(text), where(where) {}

  Expected<std::vector<PassStep>> run() {
    std::vector<PassStep> steps;
    if (trimmed(rest).empty())
      return badPipeline(where, "the list is empty", "name at least one pass, such as canonicalize");
    do {
      size_t end = std::min(rest.find_first_of(",{"), rest.size());
      auto step = readName(trimmed(take(end)));
      if (!step)
        return step.takeErrors();
      if (rest.starts_with('{')) {
        end = rest.find('}');
        if (end == std::string_view::npos)
          return badPipeline(where, "the options of " + std::string(step->pass->name) + " have no end", "add }");
        if (auto error = readOptions(*step, take(end).substr(1)))
          return *error;
        take(1);
        if (std::string_view behind = trimmed(rest.substr(0, rest.find(','))); !behind.empty())
          return badPipeline(where,
                             "expected a comma behind the options of " + std::string(step->pass->name) + ", not " + quoted(behind),
                             "write " + std::string(step->pass->name) + "{...}," + std::string(behind));
        take(std::min(rest.find(','), rest.size()));
      }
      steps.push_back(std::move(*step));
    } while (!take(std::min<size_t>(1, rest.size())).empty());
    return steps;
  }

private:
  std::string_view take(size_t length) {
    std::string_view text = rest.substr(0, length);
    rest.remove_prefix(length);
    return text;
  }

  Expected<PassStep> readName(std::string_view name) {
    if (const Pass *pass = findPass(name))
      return PassStep(pass, pass->levels);
    if (name.empty())
      return badPipeline(where, "a comma with no pass before or behind it", "drop the comma, or name a pass");
    std::vector<std::string> known;
    for (const Pass &pass : allPasses())
      known.emplace_back(pass.name);
    std::string near = didYouMean(name, known);
    return Diagnostic{.code = ErrorCode::UnknownPass,
                      .message = "unknown pass " + quoted(name) + " in " + std::string(where),
                      .fix = near.empty() ? "see minic doc passes" : "did you mean " + near + "?"};
  }

  std::optional<Diagnostic> readOptions(PassStep &step, std::string_view text) {
    std::string levels = levelNames(step.pass->levels, "|"), pass(step.pass->name);
    std::vector<PassOption> options = optionsOf(*step.pass, levels);
    std::vector<std::string> seen;
    for (std::string_view part : split(text, ',')) {
      size_t equals = std::min(part.find('='), part.size());
      std::string_view name = trimmed(part.substr(0, equals));
      std::string_view value = equals == part.size() ? "" : trimmed(part.substr(equals + 1));
      auto option = std::ranges::find(options, name, &PassOption::name);
      if (option == options.end())
        return unknownOption(pass, name, options);
      if (std::ranges::find(seen, name) != seen.end())
        return badPipeline(where, "option " + quoted(name) + " of " + pass + " is given twice", "drop one of them");
      seen.emplace_back(name);
      if (auto error = checkValue(pass, *option, value))
        return error;
      if (name == "level")
        step.levels = levelBit(unsigned(*parseLevel(value)));
      else if (value != option->standard)
        step.given.emplace_back(std::ranges::find(step.pass->options, name, &PassOption::name)->name, value);
    }
    return std::nullopt;
  }

  Diagnostic unknownOption(const std::string &pass, std::string_view name, const std::vector<PassOption> &options) {
    std::vector<std::string> known;
    std::string list;
    for (const PassOption &option : options) {
      list += (list.empty() ? "" : ", ") + std::string(option.name);
      known.emplace_back(option.name);
    }
    if (options.empty())
      return badPipeline(where, "pass " + pass + " takes no options", "write " + pass);
    std::string near = didYouMean(name, known);
    return badPipeline(where, "pass " + pass + " has no option " + quoted(name),
                       (near.empty() ? "" : "did you mean " + near + "? ") + "It has " + list);
  }

  std::optional<Diagnostic> checkValue(const std::string &pass, const PassOption &option, std::string_view value) {
    std::string expected = "one of " + std::string(option.values);
    bool good;
    if (option.values == "number") {
      int32_t number = 0;
      auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      good = error == std::errc() && end == value.data() + value.size() && number > 0;
      expected = "a number from 1 to 2147483647";
    } else {
      std::vector<std::string_view> words = split(option.values, '|');
      good = std::ranges::find(words, value) != words.end();
    }
    if (good)
      return std::nullopt;
    return badPipeline(where, "option " + std::string(option.name) + " of " + pass + " is " + expected + ", not " + quoted(value),
                       "write " + pass + "{" + std::string(option.name) + "=...}");
  }

  std::string_view rest, where;
};

} // namespace

Expected<std::vector<PassStep>> parsePipeline(std::string_view text, std::string_view where) {
  return PipelineReader(text, where).run();
}

std::string pipelineText(std::span<const PassStep> steps) {
  std::string text;
  for (const PassStep &step : steps) {
    std::string options;
    if (step.levels != step.pass->levels)
      options = "level=" + levelNames(step.levels, "|");
    for (const auto &[name, value] : step.given)
      options += (options.empty() ? "" : ",") + std::string(name) + "=" + value;
    text += (text.empty() ? "" : ",") + std::string(step.pass->name) + (options.empty() ? "" : "{" + options + "}");
  }
  return text;
}

Expected<size_t> findStep(std::span<const PassStep> steps, std::string_view name, std::string_view where) {
  size_t hash = std::min(name.find('#'), name.size());
  std::string_view pass = name.substr(0, hash);
  std::vector<size_t> places;
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].pass->name == pass)
      places.push_back(i);
  if (places.empty()) {
    std::vector<std::string> known;
    for (const PassStep &step : steps)
      known.emplace_back(step.pass->name);
    std::string near = didYouMean(pass, known);
    return Diagnostic{.code = ErrorCode::UnknownPass,
                      .message = std::string(where) + ": no pass " + quoted(pass) + " is in the list of passes",
                      .fix = near.empty() ? "its passes are " + pipelineText(steps) : "did you mean " + near + "?"};
  }
  size_t number = places.size();
  if (hash < name.size()) {
    std::string_view digits = name.substr(hash + 1);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size() || number < 1 || number > places.size())
      return badPipeline(where,
                         quoted(name) + " is none of the " + std::to_string(places.size()) + " places of " + std::string(pass),
                         "write " + std::string(pass) + " for the last one, or " + std::string(pass) + "#1 for the first");
  }
  return places[number - 1];
}

std::string nameOfStep(std::span<const PassStep> steps, size_t index) {
  auto isSame = [&](const PassStep &step) { return step.pass == steps[index].pass; };
  std::string name(steps[index].pass->name);
  if (std::ranges::count_if(steps, isSame) > 1)
    name += "#" + std::to_string(std::ranges::count_if(steps.first(index + 1), isSame));
  return name;
}

} // namespace minic
