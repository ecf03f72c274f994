#include "minic/IR/Format.h"

#include "Lexer.h"

#include <algorithm>

namespace minic {
namespace {

/// `==`, `<=`, `>=` and `!=`, which only the facts of a function have, are no tokens of the language but two in a row.
bool isComparison(const Token &left, const Token &right) {
  auto starts = [&] {
    return left.is(TokenKind::Equal) || left.is(TokenKind::Less) || left.is(TokenKind::Greater) || left.text == "!";
  };
  return left.end() == right.begin && right.is(TokenKind::Equal) && starts();
}

bool opens(const Token &token) { return token.is(TokenKind::LParen) || token.is(TokenKind::LBracket); }
bool closes(const Token &token) { return token.is(TokenKind::RParen) || token.is(TokenKind::RBracket); }

class Formatter {
public:
  explicit Formatter(std::string_view source) : lexer(source) {}

  std::string run() {
    Token before; // The last token: none yet.
    for (Token token = lexer.next();; token = lexer.next()) {
      blank(before, token);
      if (token.is(TokenKind::Eof))
        break;
      out += token.text;
      braces += token.is(TokenKind::LBrace) - int(token.is(TokenKind::RBrace));
      brackets += opens(token) - int(closes(token));
      inComparison = isComparison(before, token);
      before = token;
    }
    return std::move(out);
  }

private:
  /// What stands between two tokens: spaces, or comments and ends of lines.
  void blank(const Token &before, const Token &token) {
    std::string_view text = lexer.slice(before.end(), token.begin);
    bool endOfFile = token.is(TokenKind::Eof);
    if (text.find('\n') == std::string_view::npos && text.find("//") == std::string_view::npos && !endOfFile) {
      if (!out.empty())
        out += spaces(before, token, text);
      return;
    }
    for (bool first = true;; first = false) {
      size_t end = text.find('\n');
      std::string_view line = text.substr(0, end), comment = line.substr(std::min(line.find("//"), line.size()));
      comment = comment.substr(0, comment.find_last_not_of(" \t\r") + 1);
      if (!comment.empty()) {
        if (!first || out.empty())
          newLine(before, {});
        else
          out += columns(line.substr(0, line.find("//")));
        out += comment;
        afterComment = true;
      } else if (!first && end != std::string_view::npos) {
        emptyLine = true;
      }
      if (end == std::string_view::npos)
        break;
      text.remove_prefix(end + 1);
    }
    if (endOfFile)
      out += out.empty() ? "" : "\n";
    else
      newLine(before, token);
  }

  /// Begins a line for `token`, or for a comment if that is none.
  void newLine(const Token &before, const Token &token) {
    bool comment = token.is(TokenKind::Eof), closesBody = token.is(TokenKind::RBrace);
    bool opensBody = before.is(TokenKind::LBrace) && !afterComment;
    if (!out.empty())
      out += emptyLine && !opensBody && !closesBody ? "\n\n" : "\n";
    emptyLine = afterComment = false;
    bool goesOn = !comment && !closesBody &&
                  (brackets > 0 || before.is(TokenKind::Comma) || before.is(TokenKind::Equal) || before.is(TokenKind::Arrow) ||
                   token.is(TokenKind::Arrow) || token.is(TokenKind::Colon) || token.is(TokenKind::Comma) ||
                   token.is(TokenKind::LBrace) || token.isWord("at") || token.isWord("where"));
    int indent = std::max(0, braces - closesBody) * 2;
    if (goesOn) {
      indent = statementIndent + std::max(4, int(token.loc.column) - statementColumn);
    } else if (!comment) {
      statementIndent = indent;
      statementColumn = int(token.loc.column);
    }
    out.append(size_t(indent), ' ');
  }

  /// Spaces with which columns are aligned stay.
  static std::string columns(std::string_view text) {
    return text.find_first_not_of(' ') == std::string_view::npos && !text.empty() ? std::string(text) : " ";
  }

  std::string spaces(const Token &before, const Token &token, std::string_view text) const {
    if (isComparison(before, token) || token.is(TokenKind::Comma) || closes(token) || opens(before))
      return "";
    if (token.is(TokenKind::Equal))
      return columns(text);
    if (before.is(TokenKind::Comma) || token.is(TokenKind::LBrace) || (before.is(TokenKind::Equal) && !inComparison))
      return " ";
    return text.empty() ? "" : token.is(TokenKind::Colon) ? columns(text) : " ";
  }

  Lexer lexer;
  std::string out;
  int statementIndent = 0, statementColumn = 1; ///< Of the line that began what goes on: as written now, and as it was.
  int braces = 0, brackets = 0;                 ///< How many are open.
  bool emptyLine = false, afterComment = false; ///< Of what was read or written last.
  bool inComparison = false;                    ///< The last token ends `==` or its like.
};

} // namespace

std::string formatText(std::string_view source) { return Formatter(source).run(); }

} // namespace minic
