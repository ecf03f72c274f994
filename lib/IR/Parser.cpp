// Files, functions and names.
#include "minic/IR/Parser.h"

#include "ModuleParser.h"

#include <algorithm>
#include <unordered_set>

namespace minic {

std::vector<std::string> toStrings(std::span<const std::string_view> words) { return {words.begin(), words.end()}; }

std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (std::string_view word : words)
    text += (text.empty() ? "`" : ", `") + std::string(word) + "`";
  return text;
}

void suggest(Diagnostic &diagnostic, std::string_view word, const std::vector<std::string> &candidates, std::string_view sigil) {
  if (std::string meant = suggestion(word, candidates); !meant.empty())
    diagnostic.fix = "write `" + std::string(sigil) + meant + "`";
}

//===- Files -===//

bool ModuleParser::parseHeader() {
  if (tok.isWord("minic")) {
    advance();
    if (!tok.is(TokenKind::Integer)) {
      expected("the format version after `minic`");
    } else if (tok.text != "1") {
      // The rest may be written in another grammar.
      error(ErrorCode::BadVersion, tok, "format version " + quoted(tok.text) + " is not known").fix = "write `minic 1`";
      return false;
    } else {
      advance();
    }
  }
  if (tok.isWord("module")) {
    advance();
    parseModuleKeys();
  }
  return true;
}

void ModuleParser::parseModuleKeys() {
  do {
    Token key = tok;
    if (!expect(TokenKind::Ident, "`target = ...` or `numerics = ...`") || !expect(TokenKind::Equal, "`=`"))
      return;
    Token value = tok;
    if (key.text == "passes" || key.text == "after") { // What they name is known above IR.
      if (!expect(TokenKind::String, "a text such as `\"mask\"`"))
        return;
      std::string &text = key.text == "passes" ? module.passes : module.lastPass;
      if (!text.empty())
        error(ErrorCode::Redefinition, key, quoted(key.text) + " is given twice");
      text = value.text.substr(1, value.text.size() - 2);
      if (text.empty())
        error(ErrorCode::BadModuleHeader, value, quoted(key.text) + " is empty").fix = "leave it out";
      continue;
    }
    if (!expect(TokenKind::Ident, "a word"))
      return;
    bool isTarget = key.text == "target";
    if (!isTarget && key.text != "numerics") {
      Diagnostic &unknown = error(ErrorCode::BadModuleHeader, key, "the module header has no key " + quoted(key.text));
      suggest(unknown, key.text, {"target", "numerics", "passes", "after"});
      continue;
    }
    bool &stated = isTarget ? module.targetStated : module.numericsStated;
    if (stated)
      error(ErrorCode::Redefinition, key, quoted(key.text) + " is given twice");
    stated = true;
    static constexpr std::string_view modes[] = {"exact", "default", "fast"};
    if (!isTarget && std::find(std::begin(modes), std::end(modes), value.text) == std::end(modes)) {
      Diagnostic &bad = error(ErrorCode::BadModuleHeader, value, "numerics are " + listed(modes) + ", not " + quoted(value.text));
      suggest(bad, value.text, toStrings(modes));
    }
    (isTarget ? module.target : module.numerics) = value.text; // Targets are known above IR; the driver checks the name.
  } while (consume(TokenKind::Comma));
}

void ModuleParser::parseFile() {
  if (!parseHeader())
    return;
  while (!tok.is(TokenKind::Eof)) {
    if (isFunctionWord()) {
      parseFunction();
    } else if (tok.is(TokenKind::Hash)) {
      parseLayoutAlias();
    } else {
      Token at = tok;
      Diagnostic &bad = expected("`graph`, `kernel`, `plan`, `custom` or a layout");
      if (at.isWord("minic") || at.isWord("module"))
        bad.note("`minic 1` and `module ...` stand at the start of a file, once and in this order");
      else if (at.is(TokenKind::Ident))
        suggest(bad, at.text, {"graph", "kernel", "plan", "custom"});
      advance();
      skipToFunction(false);
    }
  }
}

void ModuleParser::parseLayoutAlias() {
  Token name = tok;
  advance();
  bool good = expect(TokenKind::Equal, "`= layout<...>`");
  if (good && !tok.isWord("layout")) {
    expected("`layout<...>`");
    good = false;
  }
  if (good) {
    advance();
    if (auto layout = parseLayout()) {
      defineLayoutAlias(name, *layout);
      return;
    }
  }
  skipToFunction(false);
}

bool ModuleParser::isFunctionWord() const {
  return tok.isWord("graph") || tok.isWord("kernel") || tok.isWord("plan") || tok.isWord("custom");
}

/// `%y = custom @f(...)` is an op, which its result stands before.
bool ModuleParser::isFunctionStart() {
  return isFunctionWord() && (tok.startsLine || !tok.isWord("custom")) && lexer.peek().is(TokenKind::Symbol);
}

/// To the next function, layout (at the start of a line) or, if asked, opening brace.
void ModuleParser::skipToFunction(bool orBrace) {
  while (!tok.is(TokenKind::Eof) && !isFunctionStart() && !(orBrace && tok.is(TokenKind::LBrace)) &&
         !(tok.is(TokenKind::Hash) && tok.startsLine && lexer.peek().is(TokenKind::Equal)))
    advance();
}

//===- Functions -===//

/// They are looked up one by one.
static constexpr size_t maxFunctionAttrs = 64;

void ModuleParser::parseFunction() {
  FunctionKind kind = tok.isWord("graph")    ? FunctionKind::Graph
                      : tok.isWord("kernel") ? FunctionKind::Kernel
                      : tok.isWord("plan")   ? FunctionKind::Plan
                                             : FunctionKind::Custom;
  constexpr Level defaults[] = {Level::Graph, Level::Tile, Level::Plan, Level::Graph};
  SourceLoc loc = tok.loc;
  advance();
  Token name = tok;
  if (!expect(TokenKind::Symbol, "`@` and the name of the function")) {
    skipToFunction(false);
    return;
  }
  if (isDigit(name.name().front()))
    error(ErrorCode::UnexpectedToken, name, "the name of a function starts with a letter or `_`");
  auto [it, added] = functionNames.try_emplace(name.name(), name.loc);
  if (!added)
    error(ErrorCode::Redefinition, name, "the function " + quoted(name.text) + " is defined twice")
        .note("first defined here", it->second);
  function = module.addFunction(kind, defaults[size_t(kind)], std::string(name.name()));
  function->loc = loc;
  scope = {}; // clear() would take the time of the largest function so far, for every small one.
  scopeNames.clear();
  endReported = false;

  std::vector<ResultText> results;
  namesUnsure = !parseSignature(results);
  if (namesUnsure)
    skipToFunction(true);
  Token open = tok;
  if (!tok.is(TokenKind::LBrace)) {
    if (!namesUnsure)
      expected("`{` and the body of the function");
    skipToFunction(false);
    return;
  }
  advance();
  if (!parseBody(function->body(), open, false))
    return;
  nameResults(results);
}

bool ModuleParser::parseSignature(std::vector<ResultText> &results) {
  if (!expect(TokenKind::LParen, "`(` and the parameters"))
    return false;
  if (!parseList(TokenKind::RParen, "`)`", [&] { return parseParam(function->body()); }))
    return false;
  if (function->kind == FunctionKind::Kernel) {
    if (tok.is(TokenKind::Arrow)) {
      expected("`at` and a level (a kernel gives its results through buffers)");
      return false;
    }
  } else if (!expect(TokenKind::Arrow, "`->` and the results") || !parseResults(results)) {
    return false;
  }
  if (!parseLevel())
    return false;
  while (consume(TokenKind::Comma)) {
    Token name = tok;
    if (!expect(TokenKind::Ident, "the name of an attribute") || !expect(TokenKind::Equal, "`=`"))
      return false;
    if (function->attrs().size() == maxFunctionAttrs) {
      error(ErrorCode::BadAttribute, name, "a function has at most " + std::to_string(maxFunctionAttrs) + " attributes");
      return false;
    }
    if (function->attr(name.text))
      error(ErrorCode::Redefinition, name, "the attribute " + quoted(name.text) + " is given twice");
    auto value = parseAttr();
    if (!value)
      return false;
    function->setAttr(name.text, std::move(*value));
  }
  return !tok.isWord("where") || parseFacts();
}

/// `where N % 8 == 0, 1 <= N <= 4096`, up to the brace. These are no tokens of the rest of the language.
bool ModuleParser::parseFacts() {
  constexpr size_t maxText = 4096;
  lexer.skipBlank();
  std::string_view rest = lexer.rest();
  size_t length = std::min(rest.find('{'), rest.find("//"));
  if (length == std::string_view::npos || length > maxText) {
    advance();
    expected("what is known of sizes, and `{`");
    return false;
  }
  Token text = lexer.take(TokenKind::Ident, length);
  advance();
  auto facts = parseDimFacts(text.text);
  if (!facts) {
    Diagnostic fault = facts.takeErrors().front();
    error(fault.code, text, fault.message).fix = fault.fix;
    return true;
  }
  function->facts = std::move(*facts);
  return true;
}

/// `%x: tensor<4xf32>`, also as an argument of a region.
bool ModuleParser::parseParam(Block &block) {
  Token name = tok;
  if (!expect(TokenKind::Value, "a parameter such as `%x: tensor<4xf32>`") || !expect(TokenKind::Colon, "`:` and the type"))
    return false;
  auto type = parseType();
  if (!type)
    return false;
  Value *value = block.addArgument(*type, name.name());
  define(name, *type ? value : nullptr);
  return true;
}

bool ModuleParser::parseResults(std::vector<ResultText> &results) {
  std::unordered_map<std::string_view, SourceLoc> seen;
  auto result = [&] {
    ResultText text;
    if (tok.is(TokenKind::Ident) && lexer.peek().is(TokenKind::Colon)) {
      text.name = tok.text;
      auto [it, added] = seen.try_emplace(tok.text, tok.loc);
      auto param = scope.find(tok.text);
      if (!added)
        error(ErrorCode::Redefinition, tok, "two results are called " + quoted(tok.text)).note("the first is here", it->second);
      else if (param != scope.end())
        error(ErrorCode::Redefinition, tok, "a parameter is called " + quoted(tok.text) + " as well")
            .note("the parameter", param->second.loc);
      advance();
      advance();
    }
    auto type = parseType();
    if (!type)
      return false;
    text.type = *type;
    results.push_back(std::move(text));
    return true;
  };
  return consume(TokenKind::LParen) ? parseList(TokenKind::RParen, "`)`", result) : result();
}

bool ModuleParser::parseLevel() {
  bool isKernel = function->kind == FunctionKind::Kernel;
  if (!tok.isWord("at")) {
    if (isKernel)
      expected("`at` and a level: `tile`, `masked` or `machine`");
    return !isKernel;
  }
  if (function->kind == FunctionKind::Plan || function->kind == FunctionKind::Custom) {
    expected("`{` (a " + std::string(functionKindName(function->kind)) + " has no level)");
    return false;
  }
  advance();
  Token word = tok;
  if (!expect(TokenKind::Ident, "a level"))
    return false;
  static constexpr std::string_view graph[] = {"graph", "fused"}, kernel[] = {"tile", "masked", "machine"};
  std::span<const std::string_view> allowed = isKernel ? std::span<const std::string_view>(kernel) : graph;
  auto level = minic::parseLevel(word.text);
  if (level && std::find(allowed.begin(), allowed.end(), word.text) != allowed.end()) {
    function->level = *level;
    return true;
  }
  std::string kindName(functionKindName(function->kind));
  Diagnostic &bad = error(level ? ErrorCode::WrongLevel : ErrorCode::UnknownLevel, word,
                          (level ? "a " + kindName + " cannot stand at " : "no level is called ") + quoted(word.text) + "; a " +
                              kindName + " stands at one of " + listed(allowed));
  suggest(bad, word.text, toStrings(allowed));
  return true;
}

/// A result without a name takes the returned value's, with a suffix where a parameter or another result has that.
void ModuleParser::nameResults(std::vector<ResultText> &results) {
  std::unordered_set<std::string> taken;
  for (Value *param : function->params())
    taken.insert(param->name());
  for (const ResultText &result : results)
    taken.insert(result.name);
  std::unordered_map<std::string, unsigned> suffixes;
  Operation *last = function->terminator();
  for (size_t i = 0; i < results.size(); ++i) {
    ResultText &result = results[i];
    if (result.name.empty()) {
      std::string base = last && i < last->numOperands() ? last->operand(unsigned(i))->name() : "";
      if (base.empty() || isDigit(base.front())) // `%0` is a value's name but not a tensor's.
        base = "result";
      result.name = base;
      for (unsigned &suffix = suffixes[base]; !taken.insert(result.name).second;)
        result.name = base + "_" + std::to_string(++suffix);
    }
    function->resultNames.push_back(result.name);
    function->resultTypes.push_back(result.type);
  }
}

//===- Names -===//

void ModuleParser::define(const Token &name, Value *value) {
  auto [it, added] = scope.try_emplace(name.name(), Definition{value, name.loc, false});
  if (added)
    scopeNames.push_back(name.name());
  else if (it->second.guessed)
    it->second = {value, name.loc, false};
  else
    error(ErrorCode::Redefinition, name, quoted(name.text) + " is defined twice").note("first defined here", it->second.loc);
}

Value *ModuleParser::lookup(const Token &name) {
  auto it = scope.find(name.name());
  if (it != scope.end())
    return it->second.value;
  if (!namesUnsure) {
    std::vector<std::string> names(scopeNames.begin(), scopeNames.end());
    Diagnostic &unknown = error(ErrorCode::UnknownValue, name, quoted(name.text) + " is not defined before this point");
    suggest(unknown, name.name(), names, "%");
  }
  scope.emplace(name.name(), Definition{nullptr, name.loc, true});
  scopeNames.push_back(name.name());
  return nullptr;
}

//===- Entry point -===//

/// In a dump, what has no place in the graph is from no line of it.
static void forgetOwnPlaces(Module &module) {
  auto eachOp = [&](auto &&visit) {
    for (Function *function : module.functions())
      if (function->level > Level::Graph)
        walk(function->body(), visit);
  };
  bool isDump = false;
  eachOp([&](Operation &op) { isDump |= op.loc().isInDump(); });
  if (isDump)
    eachOp([](Operation &op) {
      if (SourceLoc own = op.loc(); !own.isInDump())
        op.setLoc({.dumpLine = own.line, .dumpColumn = own.column});
    });
}

Expected<std::unique_ptr<Module>> parseModule(Context &context, const SourceBuffer &source) {
  auto module = std::make_unique<Module>(context);
  ModuleParser parser(source.text(), *module);
  parser.parseFile();
  if (parser.failed())
    return parser.takeDiagnostics();
  forgetOwnPlaces(*module);
  return module;
}

} // namespace minic
