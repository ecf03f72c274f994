// Text to tokens, on demand. Private to lib/IR.
#pragma once

#include "minic/Support/Diagnostic.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace minic {

enum class TokenKind : uint8_t {
  Eof,
  Error,   ///< Bytes that no token starts with, or a number that is not well formed.
  Ident,   ///< `reduce`, `N`
  Value,   ///< `%x`, `%0`
  Symbol,  ///< `@k`; in layouts also `@4`
  Hash,    ///< `#rows`
  Integer, ///< `12`, `-3`, `0x1f`; of any length
  Float,   ///< `1.5`, `-2e-3`, `0x1.8p3`, `-inf` (`inf` and `nan` are identifiers)
  String,  ///< `"text"`, of several lines too
  LParen,
  RParen,
  LBrace,
  RBrace,
  LBracket,
  RBracket,
  Less,
  Greater,
  Comma,
  Colon,
  Equal,
  Star,
  Plus,
  Minus,
  Caret,
  Arrow,
};

struct Token {
  TokenKind kind = TokenKind::Eof;
  bool startsLine = false;    ///< The first token of its line: where the parser may pick up after an error.
  std::string_view text = {}; ///< As written; empty at the end.
  size_t begin = 0;
  SourceLoc loc = {};
  ErrorCode code = {};            ///< Why an Error is one.
  std::string_view expected = {}; ///< What an Error should have been.

  bool is(TokenKind k) const { return kind == k; }
  bool isWord(std::string_view word) const { return kind == TokenKind::Ident && text == word; }
  /// The text without its sigil `%`, `@` or `#`.
  std::string_view name() const { return text.substr(1); }
  size_t end() const { return begin + text.size(); }
};

inline bool isDigit(char c) { return c >= '0' && c <= '9'; }
inline bool isUpper(char c) { return c >= 'A' && c <= 'Z'; }
inline bool isNameChar(char c) { return isDigit(c) || isUpper(c) || (c >= 'a' && c <= 'z') || c == '_'; }

/// Reads tokens one after the other. Shapes are not made of tokens (`NxKxf32` has no separators that a token could end at), so the
/// type parser reads them from the characters at `position()`; that is sound as long as nothing was peeked.
class Lexer {
public:
  explicit Lexer(std::string_view source) : source(source) {}

  Token next();
  /// The token after the current one, which `next` will give.
  const Token &peek();

  /// Reading characters: the next one (0 at the end, as for a NUL byte), and the next `length` of them as a token.
  char peekChar() const { return pos < source.size() ? source[pos] : '\0'; }
  std::string_view rest() const { return source.substr(pos); }
  Token take(TokenKind kind, size_t length);
  void skipBlank();

  /// From here on there is nothing but the end.
  void stop();
  std::string_view slice(size_t begin, size_t end) const { return source.substr(begin, end - begin); }

private:
  Token lex();
  Token lexNumber();
  Token lexString();
  Token lexSigil(TokenKind kind, std::string_view expected);
  Token lexBadBytes();
  Token fail(Token token, ErrorCode code, std::string_view expected) const;
  SourceLoc here() const { return {line, uint32_t(pos - lineStart + 1)}; }

  std::string_view source;
  size_t pos = 0, lineStart = 0;
  uint32_t line = 1;
  bool atLineStart = true;
  SourceLoc lastEnd{1, 1}; ///< Just after the last token: where an unexpected end is shown.
  std::optional<Token> ahead;
};

} // namespace minic
