// minic doc: reference pages and files for shells and editors, written from the tables that the program itself works from.
#include "CommandLine.h"
#include "Common.h"
#include "ExplainError.h"

#include "minic/IR/OpKind.h"
#include "minic/Transforms/PassPipeline.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace minic::cli {
namespace {

std::string levelNames(LevelSet levels) {
  if (levels == anyLevel)
    return "all";
  std::string list;
  for (unsigned level = 0; level <= unsigned(Level::Plan); ++level)
    if (levels & levelBit(level))
      list += (list.empty() ? "" : ", ") + std::string(levelName(Level(level)));
  return list;
}

std::string code(std::string_view text) { return "`" + std::string(text) + "`"; }

/// What an attribute's value looks like.
std::string_view attrKindText(AttrKind kind) {
  switch (kind) {
  case AttrKind::Value:
    return "numbers";
  case AttrKind::Number:
    return "a number";
  case AttrKind::Real:
    return "a number, in f64";
  case AttrKind::Int:
    return "an integer";
  case AttrKind::Ints:
    return "a list of integers";
  case AttrKind::Dim:
    return "a size";
  case AttrKind::Dims:
    return "a list of sizes";
  case AttrKind::Word:
    return "a word";
  case AttrKind::Symbol:
    return "`@function`";
  case AttrKind::Schedule:
    return "a schedule";
  case AttrKind::Numbers:
    return "a list of numbers";
  case AttrKind::String:
    return "a string";
  }
  return "";
}

std::string attrText(const AttrSpec &attr) {
  std::string text = code(attr.name) + " (" + std::string(attrKindText(attr.kind));
  for (size_t i = 0; i < attr.words.size(); ++i)
    text += (i ? ", " : ": ") + code(attr.words[i]);
  text += attr.required ? ")" : "; optional)";
  if (!attr.prose.empty())
    text += ": " + std::string(attr.prose);
  return text;
}

/// `%r = compare word %lhs, %rhs, axis = ... { ... } : type`.
std::string syntax(const OpInfo &op) {
  std::string text = op.numResults == 0 ? "" : op.numResults == 1 ? "%r = " : "%r, ... = ";
  text += op.name;
  if (op.word)
    text += op.word->required ? " " + std::string(op.word->name) : " [" + std::string(op.word->name) + "]";
  std::string separator = " ";
  std::string_view operands = op.operands;
  while (!operands.empty()) {
    size_t end = std::min(operands.find(','), operands.size());
    std::string_view operand = operands.substr(0, end);
    operand.remove_prefix(std::min(operand.find_first_not_of(' '), operand.size()));
    text += separator + "%" + std::string(operand);
    separator = ", ";
    operands.remove_prefix(std::min(end + 1, operands.size()));
  }
  for (const AttrSpec &attr : op.attrs)
    text += (attr.required ? separator : " [" + separator) + std::string(attr.name) + " = ..." + (attr.required ? "" : "]");
  if (op.maxRegions)
    text += op.minRegions ? " { ... }" : " [{ ... }]";
  if (op.numResults != 0)
    text += " : type";
  return text;
}

std::string opPage() {
  std::string out =
      "# Operations\n\nWritten by `minic doc ops` from the op tables; do not edit.\n\n"
      "An element-wise op works on scalars, tensors and tiles alike, lane by lane. Levels: graph, fused, tile, masked, "
      "machine; plan for the launches between kernels.\n";
  for (const OpInfo &op : allOps()) {
    out += "\n## " + std::string(op.name) + "\n\n" + std::string(op.prose) + "\n\n    " + syntax(op) + "\n\n";
    if (op.word)
      out += "- Word: " + attrText(*op.word) + "\n";
    for (const AttrSpec &attr : op.attrs)
      out += "- Attribute: " + attrText(attr) + "\n";
    out += "- Levels: " + levelNames(op.levels) + "\n";
    if (!op.dtypes.empty())
      out += "- Element types: " + op.dtypes.str() + "\n";
    if (op.elementwise)
      out += "- Element-wise" + std::string(op.commutative ? ", commutative" : "") + "\n";
    if (op.expands)
      out += "- Written in `lib/IR/Math/*.ir` over primitive operations\n";
    if (!op.source.empty())
      out += "- Source: " + std::string(op.source) + "\n";
  }
  return out;
}

std::string_view typeRuleName(TypeRule rule) {
  switch (rule) {
  case TypeRule::Hook:
    return "hook";
  case TypeRule::Elementwise:
    return "elementwise";
  case TypeRule::Compare:
    return "compare";
  case TypeRule::Select:
    return "select";
  case TypeRule::Convert:
    return "convert";
  case TypeRule::Bitcast:
    return "bitcast";
  }
  return "";
}

/// What programs that write graphs ask of the rows.
std::string opList() {
  nlohmann::json list = nlohmann::json::array();
  for (const OpInfo &op : allOps()) {
    std::vector<std::string_view> levels, words;
    for (unsigned level = 0; level <= unsigned(Level::Plan); ++level)
      if (op.levels & levelBit(level))
        levels.push_back(levelName(Level(level)));
    if (op.word)
      words = op.word->words;
    list.push_back({{"name", op.name},
                    {"operands", op.operands},
                    {"words", words},
                    {"levels", levels},
                    {"dtypes", op.dtypes.str()},
                    {"typeRule", typeRuleName(op.typeRule)},
                    {"elementwise", op.elementwise}});
  }
  return list.dump() + "\n";
}

std::string passPage() {
  std::string out =
      "# Passes\n\nWritten by `minic doc passes` from `Passes.def` and the pipeline; do not edit.\n\n"
      "Results keep their bits behind a pass, or are rounded elsewhere or summed in another order, as the numerics mode\n"
      "allows; in exact numerics kernels keep them behind every pass. `minic bisect` holds passes to that.\n\n"
      "| pass | runs on | gives | results | what it does |\n|---|---|---|---|---|\n";
  for (const Pass &pass : allPasses())
    out += "| " + code(pass.name) + " | " + levelNames(pass.levels) + " | " +
           (pass.to ? std::string(levelName(*pass.to)) : "the same") + " | " + (pass.keepsBits ? "the same bits" : "rounded anew") +
           " | " + std::string(pass.summary) + " |\n";
  out += "\n## Options\n\n"
         "`minic opt` and `minic compile` take a list of passes, options in braces:\n"
         "`--passes=\"canonicalize,fuse{max=8},choose-schedule{bm=64,stages=4},tile,mask\"`. A pass that runs on several levels "
         "runs on the\n"
         "functions of all of them, highest level first, or on those of one with `cse{level=tile}`.\n\n"
         "| pass | option | values | unless given | what it says |\n|---|---|---|---|---|\n";
  for (const Pass &pass : allPasses())
    for (const PassOption &option : pass.options) {
      std::string values(option.values);
      for (size_t at = 0; (at = values.find('|', at)) != std::string::npos; at += 2)
        values.replace(at, 1, ", ");
      out += "| " + code(pass.name) + " | " + code(option.name) + " | " + (values == "number" ? "a number" : values) + " | " +
             (option.standard.empty() ? "what tuning found or the cost model chooses" : std::string(option.standard)) + " | " +
             std::string(option.summary) + " |\n";
    }
  out += "\n## The pipeline\n\nAs far as the stage that is asked for; `--stop-after` takes the names:\n\n";
  std::vector<PassStep> steps = buildPipeline(Stage::Plan);
  for (size_t i = 0; i < steps.size(); ++i)
    out += std::to_string(i + 1) + ". " + code(nameOfStep(steps, i)) + " on " + levelNames(steps[i].levels) + "\n";
  out += "\nAs text, for `--passes`:\n\n    " + pipelineText(steps) + "\n";
  return out;
}

std::string errorPage() {
  std::string out = "# Errors\n\nWritten by `minic doc errors` from `Errors.def` and `lib/Support/ErrorTexts/`; do not edit. "
                    "`minic explain E0312` says the same about one code.\n\n"
                    "| code | name | what it means |\n|---|---|---|\n";
  static constexpr std::string_view names[] = {
#define MINIC_ERROR(id, code, summary) #id,
#include "minic/Support/Errors.def"
#undef MINIC_ERROR
  };
  for (ErrorCode error : allErrorCodes())
    out += "| " + std::string(errorCodeName(error)) + " | " + std::string(names[size_t(error)]) + " | " +
           std::string(errorCodeSummary(error)) + " |\n";
  for (ErrorCode error : allErrorCodes())
    out += "\n## " + errorSection(error);
  return out;
}

struct Page {
  std::string_view name;
  std::string (*write)(const CLI::App &program);
};

constexpr Page pages[] = {
    {"ops", [](const CLI::App &) { return opPage(); }},
    {"passes", [](const CLI::App &) { return passPage(); }},
    {"errors", [](const CLI::App &) { return errorPage(); }},
    {"man", [](const CLI::App &program) { return manPage(commandLineOf(program)); }},
    {"completion-bash", [](const CLI::App &program) { return bashCompletion(commandLineOf(program)); }},
    {"completion-zsh", [](const CLI::App &program) { return zshCompletion(commandLineOf(program)); }},
    {"completion-fish", [](const CLI::App &program) { return fishCompletion(commandLineOf(program)); }},
    {"grammar", [](const CLI::App &) { return textMateGrammar(); }},
    {"vim-syntax", [](const CLI::App &) { return vimSyntax(); }},
};

std::string pageNames(std::string_view separator) {
  std::string text;
  for (const Page &page : pages)
    text += (text.empty() ? "" : std::string(separator)) + std::string(page.name);
  return text;
}

int doc(const CLI::App &program, const std::string &name, bool json) {
  Messages messages;
  const Page *page = std::find_if(std::begin(pages), std::end(pages), [&](const Page &one) { return one.name == name; });
  if (page == std::end(pages)) {
    std::vector<std::string> names;
    for (const Page &one : pages)
      names.emplace_back(one.name);
    std::string near = didYouMean(name, names);
    return messages.fail({badFlag("unknown page '" + name + "'",
                                  (near.empty() ? "" : "did you mean " + near + "? ") + "It is one of " + pageNames(", "))});
  }
  if (json && name != "ops")
    return messages.fail({badFlag("'" + name + "' has no --json", "use it with ops")});
  auto written = writeOutput({}, json ? opList() : page->write(program));
  return written ? Fine : messages.fail(written.errors());
}

} // namespace

void addDoc(CLI::App &app, Action &chosen) {
  auto page = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("doc", "Write a reference page, or a file for a shell or an editor");
  command->add_option("page", *page, pageNames("|"))->required();
  command->add_flag("--json", *json, "of ops: names, operands, levels and element types, for programs");
  command->callback([page, json, &app, &chosen] { chosen = [page, json, &app] { return doc(app, *page, *json); }; });
}

} // namespace minic::cli
