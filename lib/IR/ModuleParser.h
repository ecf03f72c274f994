// The parser of files: functions in Parser.cpp, operations in ParserOps.cpp. Private to lib/IR.
#pragma once

#include "ParserCore.h"

#include <span>

namespace minic {

/// An attribute with numbers that round to the op's element type, known once the op's types are.
struct UnroundedAttr {
  std::string_view name;
  AttrKind kind;
  Token start;
  Attribute value;
  std::vector<ParserCore::Literal> literals;
};

/// What the text says about one operation.
struct OpText {
  std::vector<Token> names;
  Token kind;
  const OpInfo *info = nullptr;
  std::vector<Value *> operands;
  std::vector<NamedAttribute> attrs;
  std::vector<UnroundedAttr> unrounded;
  std::vector<Type> types;
  SourceLoc loc;
  bool headRead = false; ///< Everything before the regions could be read.
  bool whole = true;     ///< Nothing is missing or wrong so far: the operation can be made.
};

struct ResultText {
  std::string name;
  Type type;
};

class ModuleParser : public ParserCore {
public:
  ModuleParser(std::string_view source, Module &module) : ParserCore(source, &module.context()), module(module) {}
  void parseFile();

private:
  bool parseHeader();
  void parseModuleKeys();
  void parseLayoutAlias();
  void parseFunction();
  bool parseSignature(std::vector<ResultText> &results);
  bool parseParam(Block &block);
  bool parseResults(std::vector<ResultText> &results);
  bool parseLevel();
  bool parseFacts();
  void nameResults(std::vector<ResultText> &results);
  bool isFunctionWord() const;
  bool isFunctionStart();
  void skipToFunction(bool orBrace);

  bool parseBody(Block &block, const Token &open, bool lastFailed);
  bool parseRegion(Block &block);
  bool parseOp(Block &block);
  bool parseOpHead(OpText &op);
  bool parseNames(OpText &op);
  bool parseWord(OpText &op);
  bool parseOperands(OpText &op);
  bool parseOperand(OpText &op);
  bool parseAttrs(OpText &op, bool first);
  bool parseNamedAttr(OpText &op);
  bool parseTypedAttr(OpText &op, const AttrSpec &spec);
  void checkWord(const AttrSpec &spec, const Attribute &value, const Token &at);
  bool parseTypes(OpText &op);
  bool parseLoc(OpText &op);
  void roundLiterals(OpText &op, Operation *made);
  Attribute roundAttr(const UnroundedAttr &attr, const Attribute &value, std::optional<DType> dtype, size_t &next);
  Attribute roundLiteral(const Literal &literal, DType dtype);
  bool looksLikeOp();
  void skipToOp();
  void skipBraces();

  void define(const Token &name, Value *value);
  Value *lookup(const Token &name);

  struct Definition {
    Value *value; ///< Null after an error: uses of it are not errors again.
    SourceLoc loc;
    bool guessed; ///< Made up at the use of an unknown name.
  };
  Module &module;
  Function *function = nullptr;
  std::unordered_map<std::string_view, SourceLoc> functionNames;
  std::unordered_map<std::string_view, Definition> scope;
  std::vector<std::string_view> scopeNames; ///< In order, so that a region's end can forget its own.
  bool namesUnsure = false;                 ///< The parameters could not be read: unknown names are no news.
  bool endReported = false;
};

std::vector<std::string> toStrings(std::span<const std::string_view> words);
/// "`sum`, `max`".
std::string listed(std::span<const std::string_view> words);
/// Adds "write `...`" if `word` may be a slip for one of the candidates.
void suggest(Diagnostic &diagnostic, std::string_view word, const std::vector<std::string> &candidates,
             std::string_view sigil = {});

} // namespace minic
