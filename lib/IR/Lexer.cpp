#include "Lexer.h"

#include <algorithm>
#include <cassert>

namespace minic {

Token Lexer::next() {
  if (!ahead)
    return lex();
  Token token = *ahead;
  ahead.reset();
  return token;
}

const Token &Lexer::peek() {
  if (!ahead)
    ahead = lex();
  return *ahead;
}

void Lexer::stop() {
  ahead.reset();
  pos = source.size();
}

void Lexer::skipBlank() {
  assert(!ahead && "reading characters after a peek");
  for (; pos < source.size(); ++pos) {
    char c = source[pos];
    if (c == '\n') {
      ++line;
      lineStart = pos + 1;
      atLineStart = true;
    } else if (c == '/' && source.substr(pos).starts_with("//")) {
      pos = std::min(source.find('\n', pos), source.size()) - 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

Token Lexer::take(TokenKind kind, size_t length) {
  assert(!ahead && length <= source.size() - pos);
  Token token{kind, atLineStart, source.substr(pos, length), pos, here()};
  pos += length;
  lastEnd = here();
  atLineStart = false;
  return token;
}

Token Lexer::fail(Token token, ErrorCode code, std::string_view expected) const {
  token.kind = TokenKind::Error;
  token.code = code;
  token.expected = expected;
  return token;
}

/// The length of the run of name characters that `text` starts with.
static size_t nameLength(std::string_view text) {
  size_t length = 0;
  while (length < text.size() && isNameChar(text[length]))
    ++length;
  return length;
}

Token Lexer::lexSigil(TokenKind kind, std::string_view expected) {
  size_t length = nameLength(source.substr(pos + 1));
  Token token = take(kind, length + 1);
  return length ? token : fail(token, ErrorCode::UnexpectedToken, expected);
}

/// All of a run of bad bytes in one token, so that a binary file gives one error and not a thousand.
Token Lexer::lexBadBytes() {
  size_t length = 1;
  auto isBad = [&](char c) { return (c & 0x80) || (c >= 0 && c < 32 && c != '\t' && c != '\n' && c != '\r') || c == 127; };
  if (isBad(source[pos]))
    while (pos + length < source.size() && isBad(source[pos + length]))
      ++length;
  return fail(take(TokenKind::Error, length), ErrorCode::UnexpectedCharacter, {});
}

/// Whether `text` is `digits`, `digits[.digits][e[+-]digits]` or the hexadecimal `0xdigits[[.digits]p[+-]digits]`; Error if
/// neither.
static TokenKind classifyNumber(std::string_view text) {
  if (text.starts_with('-'))
    text.remove_prefix(1);
  bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex)
    text.remove_prefix(2);
  auto takeDigits = [&](bool hexDigits) {
    size_t n = 0;
    while (n < text.size() && (isDigit(text[n]) || (hexDigits && ((text[n] | 32) >= 'a' && (text[n] | 32) <= 'f'))))
      ++n;
    text.remove_prefix(n);
    return n > 0;
  };
  if (!takeDigits(hex))
    return TokenKind::Error;
  if (text.empty())
    return TokenKind::Integer;
  bool point = text.front() == '.';
  if (point) {
    text.remove_prefix(1);
    takeDigits(hex);
  }
  if (!text.empty() && (text.front() | 32) == (hex ? 'p' : 'e')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-'))
      text.remove_prefix(1);
    if (!takeDigits(false))
      return TokenKind::Error;
  } else if (hex) {
    return TokenKind::Error;
  }
  return text.empty() ? TokenKind::Float : TokenKind::Error;
}

Token Lexer::lexNumber() {
  std::string_view text = source.substr(pos);
  size_t length = text.starts_with('-') ? 1 : 0;
  if (nameLength(text.substr(length)) == 3 && text.substr(length, 3) == "inf")
    return take(TokenKind::Float, length + 3);
  bool hex = text.substr(length).starts_with("0x") || text.substr(length).starts_with("0X");
  for (; length < text.size(); ++length) {
    char c = text[length], before = length ? char(text[length - 1] | 32) : '\0';
    bool sign = (c == '+' || c == '-') && before == (hex ? 'p' : 'e');
    if (!isNameChar(c) && c != '.' && !sign)
      break;
  }
  TokenKind kind = classifyNumber(text.substr(0, length));
  Token token = take(kind, std::max<size_t>(length, 1));
  return kind == TokenKind::Error ? fail(token, ErrorCode::BadNumber, "a number such as `3`, `-1.5`, `2e-3` or `0x1.8p3`") : token;
}

/// `\"` and `\\` are a quote and a backslash; all else stands for itself, ends of lines too.
Token Lexer::lexString() {
  auto isPlain = [](char c) { return (c >= 32 && c < 127) || c == '\n' || c == '\t' || c == '\r'; };
  size_t end = pos + 1;
  bool good = true;
  for (; good && end < source.size() && source[end] != '"'; ++end)
    if (source[end] == '\\')
      good = ++end < source.size() && (source[end] == '"' || source[end] == '\\');
    else
      good = isPlain(source[end]);
  bool closed = good && end < source.size();
  Token token = take(TokenKind::String, std::min(end + closed, source.size()) - pos);
  for (size_t i = token.begin; i < pos; ++i)
    if (source[i] == '\n') {
      ++line;
      lineStart = i + 1;
    }
  lastEnd = here();
  if (!good)
    return fail(token, ErrorCode::UnexpectedToken, R"(printable ASCII, `\"` or `\\` in a string)");
  return closed ? token : fail(token, ErrorCode::UnexpectedToken, "`\"` at the end of the string");
}

Token Lexer::lex() {
  skipBlank();
  if (pos == source.size())
    return {TokenKind::Eof, atLineStart, {}, pos, lastEnd};
  char c = source[pos];
  switch (c) {
  case '%':
    return lexSigil(TokenKind::Value, "the name of a value after `%`");
  case '@':
    return lexSigil(TokenKind::Symbol, "the name of a function after `@`");
  case '#':
    return lexSigil(TokenKind::Hash, "a name after `#`");
  case '"':
    return lexString();
  case '(':
    return take(TokenKind::LParen, 1);
  case ')':
    return take(TokenKind::RParen, 1);
  case '{':
    return take(TokenKind::LBrace, 1);
  case '}':
    return take(TokenKind::RBrace, 1);
  case '[':
    return take(TokenKind::LBracket, 1);
  case ']':
    return take(TokenKind::RBracket, 1);
  case '<':
    return take(TokenKind::Less, 1);
  case '>':
    return take(TokenKind::Greater, 1);
  case ',':
    return take(TokenKind::Comma, 1);
  case ':':
    return take(TokenKind::Colon, 1);
  case '=':
    return take(TokenKind::Equal, 1);
  case '*':
    return take(TokenKind::Star, 1);
  case '^':
    return take(TokenKind::Caret, 1);
  case '+':
    return take(TokenKind::Plus, 1);
  case '-': {
    std::string_view rest = source.substr(pos + 1);
    if (rest.starts_with('>'))
      return take(TokenKind::Arrow, 2);
    // `N - 1`, `N -M`; a number holds its sign.
    return rest.starts_with(' ') || rest.starts_with('(') || (!rest.empty() && isUpper(rest[0])) ? take(TokenKind::Minus, 1)
                                                                                                 : lexNumber();
  }
  default:
    if (isDigit(c))
      return lexNumber();
    if (isNameChar(c))
      return take(TokenKind::Ident, nameLength(source.substr(pos)));
    return lexBadBytes();
  }
}

} // namespace minic
