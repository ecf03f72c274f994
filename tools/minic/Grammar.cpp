// minic doc grammar and vim-syntax: how editors colour `.ir`. The words are those of the op tables.
#include "CommandLine.h"

#include "minic/IR/IR.h"
#include "minic/IR/OpKind.h"

#include <nlohmann/json.hpp>

#include <set>

namespace minic::cli {
namespace {

struct Vocabulary {
  std::set<std::string_view> ops, words, elementTypes, levels, functions;
};

Vocabulary vocabulary() {
  Vocabulary all;
  for (const OpInfo &op : allOps()) {
    all.ops.insert(op.name);
    if (op.word)
      all.words.insert(op.word->words.begin(), op.word->words.end());
    for (const AttrSpec &attr : op.attrs)
      all.words.insert(attr.words.begin(), attr.words.end());
  }
#define MINIC_DTYPE(id, spelling, bits, cls) all.elementTypes.insert(spelling);
#include "minic/Support/DTypes.def"
#undef MINIC_DTYPE
  for (unsigned level = 0; level < unsigned(Level::Plan); ++level) // `plan` is no level that a function states.
    all.levels.insert(levelName(Level(level)));
  for (FunctionKind kind : {FunctionKind::Graph, FunctionKind::Kernel, FunctionKind::Plan, FunctionKind::Custom})
    all.functions.insert(functionKindName(kind));
  return all;
}

std::string joined(const std::set<std::string_view> &words, std::string_view separator) {
  std::string text;
  for (std::string_view word : words)
    text += (text.empty() ? "" : std::string(separator)) + std::string(word);
  return text;
}

/// Any of the words, and whole. They are names, so nothing in them is special to a regular expression.
std::string anyOf(const std::set<std::string_view> &words) { return "(?:" + joined(words, "|") + ")"; }

} // namespace

std::string textMateGrammar() {
  using Json = nlohmann::ordered_json;
  Vocabulary all = vocabulary();
  auto named = [](const std::string &scope, const std::string &expression) {
    return Json{{"name", scope + ".minic"}, {"match", expression}};
  };
  auto captures = [](const std::string &expression, const std::vector<std::string> &scopes) {
    Json list = Json::object();
    for (size_t i = 0; i < scopes.size(); ++i)
      list[std::to_string(i + 1)] = {{"name", scopes[i] + ".minic"}};
    return Json{{"match", expression}, {"captures", list}};
  };
  // The first that fits at the leftmost place counts.
  Json patterns = {
      named("comment.line.double-slash", "//.*$"),
      {{"name", "string.quoted.double.minic"},
       {"begin", "\""},
       {"end", "\""},
       {"patterns", {named("constant.character.escape", R"(\\["\\])")}}},
      captures(R"(^\s*(minic)\s+(\d+))", {"keyword.control", "constant.numeric"}),
      captures(R"(^\s*(module)\b)", {"keyword.control"}),
      captures("^\\s*(" + anyOf(all.functions) + R"()\s+(@\w+))", {"storage.type.function", "entity.name.function"}),
      captures("\\b(at)\\s+(" + anyOf(all.levels) + ")\\b", {"keyword.control", "constant.language.level"}),
      named("keyword.control", R"(\bwhere\b)"),
      named("variable.other", R"(%\w+)"),
      named("entity.name.function", R"(@\w+)"),
      named("entity.name.type", R"(#\w+)"),
      captures(R"(\b([a-z_]\w*)\s*(=)(?!=))", {"entity.other.attribute-name", "keyword.operator"}),
      captures("(?:^|(=)|(\\{))\\s*(" + anyOf(all.ops) + ")\\b", {"keyword.operator", "punctuation.section", "keyword.other.op"}),
      named("storage.type", R"(\b[a-z_]+(?=<))"),
      named("support.type", "(?:\\b|(?<=x))" + anyOf(all.elementTypes) + "\\b"),
      named("constant.language", "\\b" + anyOf(all.words) + "\\b"),
      named("constant.language", R"(-?\b(?:inf|nan|true|false)\b)"),
      named("constant.numeric",
            R"(-?\b(?:0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?(?:[pP][+-]?\d+)?|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?=\b|x))"),
      named("keyword.operator", "->|[=*+^-]"),
  };
  Json grammar = {{"information_for_contributors", "Written by `minic doc grammar` from the op tables; do not edit."},
                  {"name", "minic IR"},
                  {"scopeName", "source.minic"},
                  {"fileTypes", {"ir"}},
                  {"patterns", patterns}};
  return grammar.dump(2) + "\n";
}

std::string vimSyntax() {
  Vocabulary all = vocabulary();
  std::string out = "\" Vim syntax of minic's IR. Written by `minic doc vim-syntax` from the op tables; do not edit.\n"
                    "if exists(\"b:current_syntax\")\n  finish\nendif\n\n";
  auto match = [&](std::string_view group, std::string_view expression) {
    out += "syn match minic" + std::string(group) + " /" + std::string(expression) + "/\n";
  };
  // Of what fits at one place the last counts.
  match("Number", R"(-\=\<\d\+\%(\.\d*\)\=\%([eE][+-]\=\d\+\)\=\ze\%(\>\|x\))");
  match("Number", R"(-\=\<0[xX]\x\+\%(\.\x*\)\=\%([pP][+-]\=\d\+\)\=\>)");
  match("Constant", R"(-\=\<\%(inf\|nan\|true\|false\)\>)");
  match("Constant", R"(\<\%()" + joined(all.words, "\\|") + R"(\)\>)");
  match("ElementType", R"(\%(\<\|x\@1<=\)\%()" + joined(all.elementTypes, "\\|") + R"(\)\>)");
  match("Type", R"(\<[a-z_]\+\ze<)");
  match("Op", R"(\%(^\s*\|=\s*\|{\s*\)\@<=\%()" + joined(all.ops, "\\|") + R"(\)\>)");
  match("Attribute", R"(\<\l\w*\ze\s*==\@!)");
  match("Layout", R"(#\w\+)");
  match("Function", R"(@\w\+)");
  match("Value", R"(%\w\+)");
  match("Keyword", R"(\<where\>)");
  match("Keyword", R"(\<at\s\+\%()" + joined(all.levels, "\\|") + R"(\)\>)");
  match("Keyword", R"(^\s*\%(minic\|module\)\>)");
  match("Keyword", R"(^\s*\%()" + joined(all.functions, "\\|") + R"(\)\ze\s\+@)");
  out += "syn region minicString start=/\"/ skip=/\\\\[\"\\\\]/ end=/\"/\n";
  match("Comment", R"(\/\/.*$)");
  out += "\n";
  for (auto [group, link] : std::initializer_list<std::pair<std::string_view, std::string_view>>{{"Number", "Number"},
                                                                                                 {"Constant", "Constant"},
                                                                                                 {"ElementType", "Type"},
                                                                                                 {"Type", "Type"},
                                                                                                 {"Op", "Statement"},
                                                                                                 {"Attribute", "Special"},
                                                                                                 {"Layout", "PreProc"},
                                                                                                 {"Function", "Function"},
                                                                                                 {"Value", "Identifier"},
                                                                                                 {"Keyword", "Keyword"},
                                                                                                 {"String", "String"},
                                                                                                 {"Comment", "Comment"}})
    out += "hi def link minic" + std::string(group) + " " + std::string(link) + "\n";
  return out + "\nsyn sync fromstart\nlet b:current_syntax = \"minic\"\n";
}

} // namespace minic::cli
