// Blocks, operations and their literals. One grammar for all ops: what an op may have is in its row.
#include "Literal.h"
#include "ModuleParser.h"

#include <algorithm>
#include <limits>

namespace minic {

//===- Blocks -===//

/// From after `{` to after `}`; `lastFailed` says that what came before has errors. False where the text ends first, or another
/// function starts.
bool ModuleParser::parseBody(Block &block, const Token &open, bool lastFailed) {
  bool tailReported = false;
  while (true) {
    Operation *last = block.back();
    bool ended = last && last->info().terminator;
    if (tok.is(TokenKind::RBrace)) {
      if (!lastFailed && !ended)
        error(ErrorCode::MissingTerminator, tok, "this block does not end with `yield` or `return`")
            .note("the block starts here", open.loc);
      advance();
      return true;
    }
    if (tok.is(TokenKind::Eof) || isFunctionStart()) {
      if (!endReported)
        expected("an operation or `}`").note("the block starts here", open.loc);
      endReported = true;
      return false;
    }
    if (!tok.is(TokenKind::Value) && !tok.is(TokenKind::Ident)) {
      expected("an operation or `}`");
      lastFailed = true;
      if (tok.is(TokenKind::LBrace))
        skipBraces();
      else
        advance();
      skipToOp();
      continue;
    }
    if (ended && !tailReported) {
      error(ErrorCode::BadStructure, tok, "nothing may follow " + quoted(last->info().name) + " in its block");
      tailReported = true;
    }
    lastFailed = !parseOp(block);
  }
}

/// `{ ^(%a: T): ... }`. What it defines is forgotten at its end.
bool ModuleParser::parseRegion(Block &block) {
  Token open = tok;
  Nesting nesting(*this);
  if (!nesting.check()) {
    skipBraces();
    return false;
  }
  advance();
  size_t outer = scopeNames.size();
  bool good = true;
  if (consume(TokenKind::Caret)) {
    good = expect(TokenKind::LParen, "`(` and the arguments of the region") &&
           parseList(TokenKind::RParen, "`)`", [&] { return parseParam(block); }) && expect(TokenKind::Colon, "`:`");
    if (!good) {
      namesUnsure = true;
      skipToOp();
    }
  }
  bool closed = parseBody(block, open, !good);
  for (; scopeNames.size() > outer; scopeNames.pop_back())
    scope.erase(scopeNames.back());
  return good && closed;
}

void ModuleParser::skipBraces() {
  size_t open = 0;
  do {
    open += tok.is(TokenKind::LBrace);
    open -= tok.is(TokenKind::RBrace);
    advance();
  } while (open && !tok.is(TokenKind::Eof));
}

bool ModuleParser::looksLikeOp() {
  return tok.startsLine && (tok.is(TokenKind::Value) || (tok.is(TokenKind::Ident) && findOp(tok.text)));
}

/// After an error: to the next operation, or to a brace, since a region may still follow.
void ModuleParser::skipToOp() {
  while (!tok.is(TokenKind::Eof) && !tok.is(TokenKind::LBrace) && !tok.is(TokenKind::RBrace) && !looksLikeOp() &&
         !isFunctionStart())
    advance();
}

//===- Operations -===//

/// False if the operation could not be made.
bool ModuleParser::parseOp(Block &block) {
  OpText op;
  bool clear = parseOpHead(op);
  if (!clear) {
    op.whole = false;
    skipToOp();
  }
  // Types follow regions, so the results get theirs late.
  Operation *made = nullptr;
  if (op.whole) {
    made = module.create(op.info->kind, op.operands, std::vector<Type>(op.names.size()), std::move(op.attrs), op.loc);
    block.append(made);
  }
  while (tok.is(TokenKind::LBrace)) {
    Block *region = made ? &made->addRegion() : module.createBlock(function, nullptr);
    op.whole &= parseRegion(*region);
  }
  if (tok.is(TokenKind::Colon) || clear) {
    if (!parseTypes(op) || !parseLoc(op)) {
      op.whole = false;
      skipToOp();
    }
  }
  roundLiterals(op, made);
  for (size_t i = 0; i < op.names.size(); ++i) {
    if (!op.kind.loc.isValid() && scope.count(op.names[i].name()))
      continue; // Before `=` was seen this may have been meant as a use.
    Value *result = made ? made->result(unsigned(i)) : nullptr;
    Type type = i < op.types.size() ? op.types[i] : Type();
    if (result) {
      result->setName(op.names[i].name());
      result->setType(type);
    }
    define(op.names[i], type ? result : nullptr);
  }
  if (made)
    made->setLoc(op.loc);
  return op.whole;
}

/// Everything before the regions. False after an error that leaves the place unclear.
bool ModuleParser::parseOpHead(OpText &op) {
  if (!parseNames(op))
    return false;
  op.kind = tok;
  op.loc = tok.loc;
  if (!expect(TokenKind::Ident, "the kind of an operation"))
    return false;
  auto kind = findOp(op.kind.text);
  if (!kind) {
    std::vector<std::string> names;
    for (const OpInfo &info : allOps())
      names.emplace_back(info.name);
    Diagnostic &unknown = error(ErrorCode::UnknownOp, op.kind, "no op is called " + quoted(op.kind.text));
    suggest(unknown, op.kind.text, names);
    return false;
  }
  op.info = &opInfo(*kind);
  if (!parseWord(op) || !parseOperands(op))
    return false;
  if (!parseAttrs(op, op.attrs.empty() && op.operands.empty()))
    return false;
  if (tok.is(TokenKind::Value) && !tok.startsLine && !lexer.peek().is(TokenKind::Equal) && !lexer.peek().is(TokenKind::Comma)) {
    expected("`:` and types, or the next operation"); // Not the next operation, whatever else it is.
    return false;
  }
  op.headRead = true;
  return true;
}

/// `%r, %q =`
bool ModuleParser::parseNames(OpText &op) {
  if (!tok.is(TokenKind::Value))
    return true;
  do {
    Token name = tok;
    if (!expect(TokenKind::Value, "the name of a result"))
      return false;
    op.names.push_back(name);
  } while (consume(TokenKind::Comma));
  return expect(TokenKind::Equal, "`=` and an operation");
}

/// What the row says stands right after the kind.
bool ModuleParser::parseWord(OpText &op) {
  if (!op.info->word)
    return true;
  const AttrSpec &spec = *op.info->word;
  bool present = false;
  switch (spec.kind) {
  case AttrKind::Word:
    present = tok.is(TokenKind::Ident) && !lexer.peek().is(TokenKind::Equal) && !lexer.peek().is(TokenKind::LParen);
    break;
  case AttrKind::Symbol:
    present = tok.is(TokenKind::Symbol);
    break;
  case AttrKind::String:
    present = tok.is(TokenKind::String);
    break;
  default:
    present = tok.is(TokenKind::Integer) || tok.is(TokenKind::Float) || tok.is(TokenKind::LBracket) || tok.is(TokenKind::LParen) ||
              tok.is(TokenKind::Hash) || (tok.is(TokenKind::Ident) && !looksLikeOp() && !lexer.peek().is(TokenKind::Equal));
  }
  if (present)
    return parseTypedAttr(op, spec);
  if (!spec.required)
    return true;
  if (tok.is(TokenKind::Error)) {
    expected(spec.name);
    return false;
  }
  std::string message = quoted(op.info->name) + " needs its " + std::string(spec.name) + " here";
  if (!spec.words.empty())
    message += ", one of " + listed(spec.words);
  error(ErrorCode::MissingAttribute, op.kind, message);
  op.whole = false;
  return true;
}

/// `%a, %b`, or `(%a, %b)` after a symbol.
bool ModuleParser::parseOperands(OpText &op) {
  if (op.info->word && op.info->word->kind == AttrKind::Symbol)
    return expect(TokenKind::LParen, "`(` and the operands") &&
           parseList(TokenKind::RParen, "`)`", [&] { return parseOperand(op); });
  // A value right before `=` is the next operation's result.
  if (op.info->operands.empty() || !tok.is(TokenKind::Value) || lexer.peek().is(TokenKind::Equal))
    return true;
  while (true) {
    if (!parseOperand(op))
      return false;
    if (!tok.is(TokenKind::Comma) || !lexer.peek().is(TokenKind::Value))
      return true;
    advance();
    if (lexer.peek().is(TokenKind::Equal)) {
      expected("another operand or an attribute after `,`");
      return false;
    }
  }
}

bool ModuleParser::parseOperand(OpText &op) {
  Token name = tok;
  if (!expect(TokenKind::Value, "an operand such as `%x`"))
    return false;
  Value *value = lookup(name);
  op.operands.push_back(value);
  op.whole &= value != nullptr;
  return true;
}

/// `, name = value` any number of times; the first of an op with neither word nor operands has no comma.
bool ModuleParser::parseAttrs(OpText &op, bool first) {
  while (true) {
    bool named = tok.is(TokenKind::Ident) && lexer.peek().is(TokenKind::Equal);
    if (named && !first)
      error(ErrorCode::UnexpectedToken, tok, "expected `,` before the attribute " + quoted(tok.text));
    if (!named && !consume(TokenKind::Comma))
      return true;
    first = false;
    if (tok.is(TokenKind::Value)) {
      expected("an attribute (operands come first)");
      return false;
    }
    if (!parseNamedAttr(op))
      return false;
  }
}

bool ModuleParser::parseNamedAttr(OpText &op) {
  Token name = tok;
  if (!expect(TokenKind::Ident, "an attribute such as `axes = [1]`") || !expect(TokenKind::Equal, "`=` and the attribute's value"))
    return false;
  auto spec = std::find_if(op.info->attrs.begin(), op.info->attrs.end(), [&](const AttrSpec &s) { return s.name == name.text; });
  if (spec == op.info->attrs.end()) {
    std::vector<std::string> names;
    for (const AttrSpec &s : op.info->attrs)
      names.emplace_back(s.name);
    Diagnostic &unknown =
        error(ErrorCode::UnknownAttribute, name, quoted(op.info->name) + " has no attribute " + quoted(name.text));
    suggest(unknown, name.text, names);
    if (op.info->word && op.info->word->name == name.text)
      unknown.fix = "write its value right after `" + std::string(op.info->name) + "`";
    op.whole = false;
    return parseAttr().has_value();
  }
  for (const NamedAttribute &other : op.attrs)
    if (other.name == name.text) {
      error(ErrorCode::Redefinition, name, "the attribute " + quoted(name.text) + " is given twice");
      op.whole = false;
    }
  return parseTypedAttr(op, *spec);
}

bool ModuleParser::parseTypedAttr(OpText &op, const AttrSpec &spec) {
  Token at = tok;
  bool rounds = spec.kind == AttrKind::Value || spec.kind == AttrKind::Number || spec.kind == AttrKind::Real ||
                spec.kind == AttrKind::Numbers;
  std::vector<Literal> literals;
  auto value = parseAttr(rounds ? &literals : nullptr);
  if (!value)
    return false;
  checkWord(spec, *value, at);
  if (rounds)
    op.unrounded.push_back({spec.name, spec.kind, at, *value, std::move(literals)});
  op.attrs.push_back({std::string(spec.name), std::move(*value)});
  return true;
}

void ModuleParser::checkWord(const AttrSpec &spec, const Attribute &value, const Token &at) {
  if (!value.asWord() || spec.words.empty() ||
      std::find(spec.words.begin(), spec.words.end(), value.asWord()->text) != spec.words.end())
    return;
  Diagnostic &bad = error(ErrorCode::BadAttribute, at,
                          "the " + std::string(spec.name) + " is one of " + listed(spec.words) + ", not " + quoted(at.text));
  suggest(bad, at.text, toStrings(spec.words));
}

/// `: type, type`, one for each result.
bool ModuleParser::parseTypes(OpText &op) {
  if (!tok.is(TokenKind::Colon)) {
    if (op.names.empty() || !op.whole)
      return true;
    op.whole = false;
    if (!tok.startsLine && !tok.is(TokenKind::RBrace) && !tok.is(TokenKind::Eof)) {
      expected("`:` and the type of each result");
      return false;
    }
    error(ErrorCode::UnexpectedToken, op.kind, "the types of the results of " + quoted(op.kind.text) + " are missing").fix =
        "end the operation with `: type`";
    return true;
  }
  advance();
  do {
    auto type = parseType();
    if (!type)
      return false;
    op.types.push_back(*type);
    op.whole &= bool(*type);
  } while (consume(TokenKind::Comma));
  if (op.types.size() == op.names.size() || !op.headRead)
    return true;
  op.whole = false;
  std::string kind(op.kind.text.substr(0, 40));
  if (op.names.empty())
    error(ErrorCode::ResultCount, op.kind, "`" + kind + "` states a type, but its result has no name").fix =
        "write `%name = " + kind + " ...`";
  else
    error(ErrorCode::ResultCount, op.kind,
          std::to_string(op.names.size()) + " results are named, but " + std::to_string(op.types.size()) + " types are given");
  return true;
}

/// `loc(L:C)`
bool ModuleParser::parseLoc(OpText &op) {
  if (!tok.isWord("loc") || !lexer.peek().is(TokenKind::LParen))
    return true;
  advance();
  advance();
  uint32_t numbers[2] = {};
  for (uint32_t &number : numbers) {
    auto value = tok.is(TokenKind::Integer) ? parseIntLiteral(tok.text) : std::nullopt;
    if (!value || *value < 1 || *value > std::numeric_limits<uint32_t>::max()) {
      expected("a line and a column, from 1");
      return false;
    }
    number = uint32_t(*value);
    advance();
    if (&number == numbers && !expect(TokenKind::Colon, "`:`"))
      return false;
  }
  op.loc = {numbers[0], numbers[1], op.loc.line, op.loc.column};
  return expect(TokenKind::RParen, "`)`");
}

//===- Literals -===//

Attribute ModuleParser::roundLiteral(const Literal &literal, DType dtype) {
  std::string type(dtypeName(dtype));
  bool isBool = literal.text == "true" || literal.text == "false";
  auto bad = [&](const std::string &message) -> Diagnostic & {
    return error(ErrorCode::BadConstant, literal.loc, literal.text.size(), quoted(literal.text) + " " + message);
  };
  if (isFloat(dtype)) {
    auto value = isBool ? std::nullopt : parseFloatLiteral(literal.text, dtype);
    if (value)
      return *value;
    bool isNumber = !isBool && (isDigit(literal.text.back()) || literal.text.back() == '.');
    bool hasInfinity = fitsDType(std::numeric_limits<double>::infinity(), dtype);
    if (isNumber)
      bad("is too large for " + type).fix = !hasInfinity                    ? "the largest is 448"
                                            : literal.text.starts_with('-') ? "write `-inf` if you mean it"
                                                                            : "write `inf` if you mean it";
    else
      bad("is not a number of type " + type + (isBool || hasInfinity ? "" : ", which has no infinities"));
    return 0.0;
  }
  if (dtypeClass(dtype) == DTypeClass::Bool) {
    if (!isBool && literal.text != "0" && literal.text != "1")
      bad("is not a value of i1, which are `true` and `false`");
    return int64_t(literal.text == "true" || literal.text == "1");
  }
  auto value = parseIntLiteral(literal.text);
  if (auto [least, greatest] = integerRange(dtype); !value || *value < least || *value > greatest)
    bad("is not an integer of type " + type);
  return value.value_or(0);
}

Attribute ModuleParser::roundAttr(const UnroundedAttr &attr, const Attribute &value, std::optional<DType> dtype, size_t &next) {
  if (const AttributeList *list = value.asList()) {
    AttributeList rounded;
    rounded.reserve(list->size());
    for (const Attribute &element : *list)
      rounded.push_back(roundAttr(attr, element, dtype, next));
    return rounded;
  }
  if (value.asNumber()) {
    const Literal &literal = attr.literals[next++];
    return dtype ? roundLiteral(literal, *dtype) : value;
  }
  error(attr.kind == AttrKind::Value ? ErrorCode::BadConstant : ErrorCode::BadAttribute, attr.start,
        "the " + std::string(attr.name) + " is a number or lists of numbers");
  return value;
}

/// Numbers have the element type of the result, or of operand 0 where there is none; those of a list of numbers (one for each
/// operand) have their operand's, and real ones are f64.
void ModuleParser::roundLiterals(OpText &op, Operation *made) {
  auto typeOf = [](Type type) { return type ? std::optional(type.dtype()) : std::nullopt; };
  auto operandType = [&](size_t i) {
    return i < op.operands.size() && op.operands[i] ? typeOf(op.operands[i]->type()) : std::nullopt;
  };
  for (const UnroundedAttr &attr : op.unrounded) {
    auto dtype = op.names.empty() ? operandType(0) : op.types.empty() ? std::nullopt : typeOf(op.types[0]);
    if (attr.kind == AttrKind::Real)
      dtype = DType::F64;
    size_t next = 0;
    Attribute rounded;
    if (const AttributeList *list = attr.value.asList(); list && attr.kind == AttrKind::Numbers) {
      AttributeList elements;
      for (size_t i = 0; i < list->size(); ++i)
        elements.push_back(roundAttr(attr, (*list)[i], operandType(i), next));
      rounded = std::move(elements);
    } else {
      rounded = roundAttr(attr, attr.value, dtype, next);
    }
    if (made)
      made->setAttr(attr.name, std::move(rounded));
  }
}

} // namespace minic
