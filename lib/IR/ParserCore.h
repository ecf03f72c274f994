// What all of the parser shares: tokens, errors, nesting; and types, sizes and attributes. Private to lib/IR.
#pragma once

#include "Lexer.h"
#include "minic/IR/Context.h"
#include "minic/IR/IR.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace minic {

class ParserCore {
public:
  /// `context` is needed for types and may be null for attributes.
  ParserCore(std::string_view source, Context *context) : context(context), lexer(source), tok(lexer.next()) {}

  /// Nullopt after an error that leaves the place unclear; a null type after one that does not (the text goes on behind the type).
  std::optional<Type> parseType();
  std::optional<DimExpr> parseDim();

  /// A number as written, for the rounding that has to wait for the op's types.
  struct Literal {
    std::string_view text;
    SourceLoc loc;
  };
  /// If `literals` is given, the numbers of the attribute are added to it in order.
  std::optional<Attribute> parseAttr(std::vector<Literal> *literals = nullptr);

  void expectEnd();
  bool failed() const { return !diagnostics.empty(); }
  Diagnostics takeDiagnostics() { return std::move(diagnostics); }

protected:
  /// An error that is shown at `length` bytes from `loc`. The reference is good until the next error.
  Diagnostic &error(ErrorCode code, SourceLoc loc, size_t length, std::string message);
  Diagnostic &error(ErrorCode code, const Token &at, std::string message) {
    return error(code, at.loc, at.text.size(), std::move(message));
  }
  /// "expected <what>, found <current token>", or what is wrong with a bad token.
  Diagnostic &expected(std::string_view what);

  void advance() { tok = lexer.next(); }
  bool consume(TokenKind kind);
  bool expect(TokenKind kind, std::string_view what);
  /// A list in which `item` reads one entry, from after the opening token to `close`, which is consumed. False after an error.
  template <typename Item> bool parseList(TokenKind close, std::string_view closeText, Item &&item);
  std::optional<Layout> parseLayout();
  bool defineLayoutAlias(const Token &name, const Layout &layout);

  /// Counts nesting of regions, lists and parentheses while it lives.
  class Nesting {
  public:
    explicit Nesting(ParserCore &parser) : parser(parser) { ++parser.depth; }
    ~Nesting() { --parser.depth; }
    Nesting(const Nesting &) = delete;
    Nesting &operator=(const Nesting &) = delete;
    /// False, with an error, where the text nests too deep.
    bool check();

  private:
    ParserCore &parser;
  };
  static constexpr unsigned maxDepth = 64;
  static constexpr size_t maxErrors = 20;

  Context *context;
  Lexer lexer;
  Token tok;

private:
  std::optional<Type> parseShapedType(TypeKind kind);
  bool parseShape(std::vector<DimExpr> &shape, std::optional<DType> &dtype, bool &good);
  bool parseTypeLayout(TypeStorage &type, bool &good);
  bool parseTypeNumbers(std::vector<int64_t> &numbers, bool &good);
  bool parseTypeNumber(int64_t &number, bool &good);
  std::optional<Type> parseInflight();
  std::optional<Type> parseMbarrier();
  bool parseTypeSuffix(const Token &start, TypeKind kind, TypeStorage &type, bool &good);
  std::optional<Type> skipType();
  std::optional<DimExpr> parseDimSum(size_t start);
  std::optional<DimExpr> parseDimProduct(size_t start);
  std::optional<DimExpr> parseDimTerm(size_t start);
  std::optional<DimExpr> dimOf(const Token &name);
  std::optional<int64_t> sizeOf(const Token &digits);
  std::optional<std::vector<Mode>> parseModes(std::string_view field);
  std::optional<int64_t> parseModeNumber(const Token &token, std::string_view digits);
  std::optional<Attribute> parseRecord();

  Diagnostics diagnostics;
  Diagnostic unseen{}; ///< Takes the errors after the last one that is shown.
  bool stopped = false;
  unsigned depth = 0;
  std::unordered_map<std::string_view, std::pair<const Layout *, SourceLoc>> layoutAliases;
};

/// Text of the user's in a message: in backquotes, cut where it is long.
std::string quoted(std::string_view text);
/// The candidate that `word` may be a slip for, or empty. Linear in the candidates.
std::string suggestion(std::string_view word, const std::vector<std::string> &candidates);

template <typename Item> bool ParserCore::parseList(TokenKind close, std::string_view closeText, Item &&item) {
  if (consume(close))
    return true;
  do
    if (!item())
      return false;
  while (consume(TokenKind::Comma));
  if (consume(close))
    return true;
  expected(std::string("`,` or ") + std::string(closeText));
  return false;
}

} // namespace minic
