// Errors, tokens and attributes; sizes, types and layouts are in ParserTypes.cpp.
#include "ParserCore.h"

#include "Literal.h"
#include "minic/IR/Parser.h"

#include <algorithm>
#include <charconv>

namespace minic {

std::string quoted(std::string_view text) {
  std::string result = "`";
  for (char c : text.substr(0, 40))
    result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > 40 ? "...`" : "`");
}

std::string suggestion(std::string_view word, const std::vector<std::string> &candidates) {
  // Edit distance is quadratic in the lengths, and nobody mistypes a name as long as this.
  constexpr size_t longest = 64;
  if (word.size() > longest)
    return {};
  std::vector<std::string> close;
  for (const std::string &candidate : candidates)
    if (candidate.size() <= longest)
      close.push_back(candidate);
  return didYouMean(word, close);
}

//===- Errors and tokens -===//

Diagnostic &ParserCore::error(ErrorCode code, SourceLoc loc, size_t length, std::string message) {
  if (stopped)
    return unseen;
  // A second complaint about one place is a consequence of the first.
  if (!diagnostics.empty() && diagnostics.back().loc == loc && code == ErrorCode::UnexpectedToken)
    return unseen;
  if (diagnostics.size() == maxErrors) {
    diagnostics.push_back(
        {ErrorCode::TooManyErrors, "more errors follow; the first " + std::to_string(maxErrors) + " are shown", loc});
    stopped = true;
    lexer.stop();
    tok = lexer.next();
    return unseen;
  }
  diagnostics.push_back({code, std::move(message), loc, uint32_t(std::clamp<size_t>(length, 1, 1 << 20))});
  return diagnostics.back();
}

Diagnostic &ParserCore::expected(std::string_view what) {
  Token at = tok;
  if (at.is(TokenKind::Error) && at.code == ErrorCode::UnexpectedCharacter) {
    unsigned char byte = static_cast<unsigned char>(at.text.front());
    bool printable = byte >= ' ' && byte <= '~';
    char hex[8] = {};
    std::to_chars(hex, hex + sizeof hex, unsigned(byte), 16);
    std::string which = printable ? quoted(at.text) : std::string("the byte 0x") + (byte < 16 ? "0" : "") + hex;
    return error(at.code, at, which + " starts no token; expected " + std::string(what));
  }
  if (at.is(TokenKind::Error))
    return error(at.code, at, "expected " + std::string(at.expected) + ", found " + quoted(at.text));
  std::string found = at.is(TokenKind::Eof) ? "the end of the text" : quoted(at.text);
  return error(ErrorCode::UnexpectedToken, at, "expected " + std::string(what) + ", found " + found);
}

bool ParserCore::consume(TokenKind kind) {
  if (!tok.is(kind))
    return false;
  advance();
  return true;
}

bool ParserCore::expect(TokenKind kind, std::string_view what) {
  if (consume(kind))
    return true;
  expected(what);
  return false;
}

void ParserCore::expectEnd() {
  if (!failed() && !tok.is(TokenKind::Eof))
    expected("the end of the text");
}

bool ParserCore::Nesting::check() {
  if (parser.depth <= maxDepth)
    return true;
  parser.error(ErrorCode::TooDeep, parser.tok, "regions, lists and parentheses nest deeper than " + std::to_string(maxDepth));
  return false;
}

//===- Attributes -===//

std::optional<Attribute> ParserCore::parseRecord() {
  RecordAttr record;
  record.name = tok.name();
  advance();
  if (!expect(TokenKind::Less, "`<` and fields"))
    return std::nullopt;
  std::unordered_map<std::string_view, SourceLoc> seen;
  bool listed = parseList(TokenKind::Greater, "`>`", [&] {
    Token name = tok;
    if (!expect(TokenKind::Ident, "the name of a field") || !expect(TokenKind::Equal, "`=`"))
      return false;
    auto [it, added] = seen.try_emplace(name.text, name.loc);
    if (!added)
      error(ErrorCode::Redefinition, name, "the field " + quoted(name.text) + " is given twice")
          .note("first given here", it->second);
    auto value = parseAttr();
    if (value)
      record.fields.emplace_back(name.text, std::move(*value));
    return value.has_value();
  });
  return listed ? std::optional<Attribute>(std::move(record)) : std::nullopt;
}

std::optional<Attribute> ParserCore::parseAttr(std::vector<Literal> *literals) {
  Token start = tok;
  Nesting nesting(*this);
  if (!nesting.check())
    return std::nullopt;
  auto literal = [&](Attribute value) {
    if (literals)
      literals->push_back({start.text, start.loc});
    advance();
    return value;
  };
  auto dim = [&]() -> std::optional<Attribute> {
    auto expr = parseDim();
    if (!expr)
      return std::nullopt;
    if (literals && expr->isConstant()) // An integer by now, so the list of literals has an entry for it.
      literals->push_back({lexer.slice(start.begin, std::max(start.end(), tok.begin)), start.loc});
    return Attribute(std::move(*expr));
  };
  switch (tok.kind) {
  case TokenKind::Integer: {
    if (lexer.peek().is(TokenKind::Star) || lexer.peek().is(TokenKind::Plus) || lexer.peek().is(TokenKind::Minus))
      return dim();
    auto value = parseIntLiteral(tok.text);
    if (!value && !literals) { // As an element of a float type it may be fine.
      error(ErrorCode::BadNumber, tok, quoted(tok.text) + " does not fit a 64-bit integer");
      value = 0;
    }
    return literal(value.value_or(0));
  }
  case TokenKind::Float: {
    auto value = parseFloatLiteral(tok.text, DType::F64);
    if (!value && !literals)
      error(ErrorCode::BadNumber, tok, quoted(tok.text) + " does not fit f64").fix = "write `inf` if you mean it";
    return literal(value.value_or(0.0));
  }
  case TokenKind::Ident: {
    if (tok.text == "inf" || tok.text == "nan")
      return literal(*parseFloatLiteral(tok.text, DType::F64));
    if (tok.text == "true" || tok.text == "false")
      return literal(int64_t(tok.text == "true"));
    if (isUpper(tok.text.front()) || (tok.text == "ceildiv" && lexer.peek().is(TokenKind::LParen)))
      return dim();
    advance();
    return Attribute::word(std::string(start.text));
  }
  case TokenKind::LParen:
    return dim();
  case TokenKind::Symbol:
    advance();
    return Attribute::symbol(std::string(start.name()));
  case TokenKind::Hash:
    return parseRecord();
  case TokenKind::LBracket: {
    advance();
    AttributeList list;
    bool listed = parseList(TokenKind::RBracket, "`]`", [&] {
      auto element = parseAttr(literals);
      if (element)
        list.push_back(std::move(*element));
      return element.has_value();
    });
    return listed ? std::optional<Attribute>(std::move(list)) : std::nullopt;
  }
  case TokenKind::String: {
    std::string text;
    for (size_t i = 1; i + 1 < start.text.size(); ++i)
      text += start.text[i] == '\\' ? start.text[++i] : start.text[i];
    advance();
    return Attribute::string(std::move(text));
  }
  default:
    expected("a value: a number, a word, a size, a list, a string or `#name<...>`");
    return std::nullopt;
  }
}

//===- Entry points -===//

Expected<Type> parseType(Context &context, std::string_view text) {
  ParserCore parser(text, &context);
  auto type = parser.parseType();
  parser.expectEnd();
  if (parser.failed())
    return parser.takeDiagnostics();
  return *type;
}

Expected<Attribute> parseAttribute(std::string_view text) {
  ParserCore parser(text, nullptr);
  auto attribute = parser.parseAttr();
  parser.expectEnd();
  if (parser.failed())
    return parser.takeDiagnostics();
  return *attribute;
}

} // namespace minic
