// Sizes, types and layouts.
#include "Literal.h"
#include "ParserCore.h"

#include <algorithm>

namespace minic {

//===- Sizes -===//

/// Sizes are kept below 2^62, so that a size plus a block still fits.
static constexpr int64_t maxSize = int64_t(1) << 62;
/// Longer expressions are not sizes of anything, and normal forms of products are not linear in their length.
static constexpr size_t maxDimText = 4096, maxDimFactors = 64;

std::optional<int64_t> ParserCore::sizeOf(const Token &digits) {
  auto value = parseIntLiteral(digits.text);
  if (value && *value >= 0 && *value <= maxSize)
    return value;
  error(ErrorCode::BadDim, digits, quoted(digits.text) + " is not a size: sizes are integers from 0 to 2^62");
  return std::nullopt;
}

std::optional<DimExpr> ParserCore::dimOf(const Token &name) {
  if (isDimName(name.text))
    return DimExpr::name(name.text);
  error(ErrorCode::BadDim, name,
        quoted(name.text) +
            " does not name a size: such a name starts with an upper-case letter and has letters, digits and `_`, but no `x`");
  return std::nullopt;
}

std::optional<DimExpr> ParserCore::parseDimTerm(size_t start) {
  Token at = tok;
  if (at.begin - start > maxDimText) {
    error(ErrorCode::BadDim, at, "this size expression is too long");
    return std::nullopt;
  }
  if (at.is(TokenKind::Integer)) {
    auto size = sizeOf(at);
    advance();
    return size ? std::optional<DimExpr>(*size) : std::nullopt;
  }
  Nesting nesting(*this);
  if (at.isWord("ceildiv")) {
    advance();
    if (!nesting.check() || !expect(TokenKind::LParen, "`(` after `ceildiv`"))
      return std::nullopt;
    auto a = parseDimSum(start);
    if (!a || !expect(TokenKind::Comma, "`,` and what to divide by"))
      return std::nullopt;
    Token divisor = tok;
    auto b = parseDimSum(start);
    if (!b || !expect(TokenKind::RParen, "`)`"))
      return std::nullopt;
    if (b->getCoefficient() == 0) {
      error(ErrorCode::BadDim, divisor, "a size is divided by zero");
      return std::nullopt;
    }
    return DimExpr::ceilDiv(*a, *b);
  }
  if (at.is(TokenKind::Ident)) {
    auto dim = dimOf(at);
    advance();
    return dim;
  }
  if (at.is(TokenKind::LParen)) {
    if (!nesting.check())
      return std::nullopt;
    advance();
    auto dim = parseDimSum(start);
    if (!dim || !expect(TokenKind::RParen, "`)`"))
      return std::nullopt;
    return dim;
  }
  expected("a size such as `4`, `N` or `ceildiv(N, 128)`");
  return std::nullopt;
}

std::optional<DimExpr> ParserCore::parseDimProduct(size_t start) {
  Token first = tok;
  auto product = parseDimTerm(start);
  while (product && consume(TokenKind::Star)) {
    auto factor = parseDimTerm(start);
    if (!factor)
      return std::nullopt;
    int64_t coefficient;
    if (__builtin_mul_overflow(product->getCoefficient(), factor->getCoefficient(), &coefficient) || coefficient > maxSize ||
        product->getFactors().size() + factor->getFactors().size() > maxDimFactors) {
      error(ErrorCode::BadDim, first, "this size is too large");
      return std::nullopt;
    }
    product = *product * *factor;
  }
  return product;
}

std::optional<DimExpr> ParserCore::parseDimSum(size_t start) {
  Token first = tok;
  auto sum = parseDimProduct(start);
  size_t terms = 1;
  while (sum) {
    // In `N -1` the sign is the number's.
    bool minus = tok.is(TokenKind::Minus), signedNumber = tok.is(TokenKind::Integer) && tok.text.starts_with('-');
    if (signedNumber) {
      auto number = parseIntLiteral(tok.text);
      sum = number && *number >= -maxSize ? *sum + DimExpr(*number) : DimExpr(INT64_MAX);
      advance();
    } else if (minus || tok.is(TokenKind::Plus)) {
      advance();
      auto term = parseDimProduct(start);
      if (!term)
        return std::nullopt;
      sum = minus ? *sum - *term : *sum + *term;
    } else {
      break;
    }
    if (++terms > maxDimFactors || sum->getCoefficient() > maxSize) {
      error(ErrorCode::BadDim, first, "this size is too large");
      return std::nullopt;
    }
  }
  return sum;
}

std::optional<DimExpr> ParserCore::parseDim() { return parseDimSum(tok.begin); }

//===- Types -===//

static std::vector<std::string> typeNames() {
  std::vector<std::string> names = {"tensor", "buffer", "tile", "smem", "tensor_map", "mbarrier", "inflight"};
#define MINIC_DTYPE(id, spelling, bits, cls) names.push_back(spelling);
#include "minic/Support/DTypes.def"
#undef MINIC_DTYPE
  return names;
}

/// After an error in a type at the current token: goes on behind the type's `>` if that is on this line, else at the end of the
/// line. A block's braces end a type as well.
std::optional<Type> ParserCore::skipType() {
  if (tok.is(TokenKind::LBrace) || tok.is(TokenKind::RBrace) || tok.is(TokenKind::Eof) || tok.startsLine)
    return Type();
  int open = tok.is(TokenKind::Greater) ? 0 : 1;
  std::string_view rest = lexer.rest();
  size_t length = 0;
  for (; length < rest.size() && open; ++length) {
    char c = rest[length];
    if (c == '<')
      ++open;
    else if (c == '>')
      --open;
    else if (c == '\n' || c == '{' || c == '}')
      break;
  }
  lexer.take(TokenKind::Error, length);
  advance();
  return Type();
}

/// `4xNx(2*M)xf32`, from the character after `<` to the token after the element type. False where the text is not a shape; then the
/// current token is the one that does not fit. `good` is cleared where it is a shape with wrong values.
bool ParserCore::parseShape(std::vector<DimExpr> &shape, std::optional<DType> &dtype, bool &good) {
  while (true) {
    lexer.skipBlank();
    std::string_view rest = lexer.rest();
    char c = lexer.peekChar();
    size_t length = 0;
    std::optional<DimExpr> dim;
    if (c == '(') {
      Nesting nesting(*this);
      advance();
      if (!nesting.check())
        return false;
      advance();
      dim = parseDim();
      if (!dim)
        return false;
      if (!tok.is(TokenKind::RParen)) { // Not consumed: characters follow, not tokens.
        expected("`)`");
        return false;
      }
    } else if (isDigit(c) || (c == '-' && rest.size() > 1 && isDigit(rest[1]))) {
      for (length = 1; length < rest.size() && isDigit(rest[length]); ++length)
        ;
      auto size = sizeOf(lexer.take(TokenKind::Integer, length));
      good &= size.has_value();
      dim = size.value_or(1);
    } else if (isUpper(c)) {
      while (length < rest.size() && isNameChar(rest[length]) && rest[length] != 'x')
        ++length;
      dim = dimOf(lexer.take(TokenKind::Ident, length));
      good &= dim.has_value();
    } else if (isNameChar(c)) {
      while (length < rest.size() && isNameChar(rest[length]))
        ++length;
      Token word = lexer.take(TokenKind::Ident, length);
      dtype = parseDType(word.text);
      advance();
      if (dtype)
        return true;
      good = false;
      Diagnostic &unknown = error(ErrorCode::UnknownType, word, "no element type is called " + quoted(word.text));
      std::vector<std::string> names = typeNames();
      std::erase_if(names, [](const std::string &name) { return !parseDType(name); });
      if (std::string meant = suggestion(word.text, names); !meant.empty())
        unknown.fix = "write `" + meant + "`";
      else
        unknown.note("names of sizes start with an upper-case letter");
      return true;
    } else {
      tok = lexer.next();
      Diagnostic &bad = expected("a size or an element type");
      if (c == '?')
        bad.fix = "give a size that is known at run time a name, such as `N`";
      return false;
    }
    shape.push_back(dim.value_or(1));
    lexer.skipBlank();
    if (lexer.peekChar() != 'x') {
      tok = lexer.next();
      expected("`x` after a size");
      return false;
    }
    lexer.take(TokenKind::Ident, 1);
  }
}

/// `#l` or `#layout<...>` after the comma. False where the text is not that; `good` is cleared where it names nothing.
bool ParserCore::parseTypeLayout(TypeStorage &type, bool &good) {
  Token name = tok;
  advance();
  if (name.name() == "layout" && tok.is(TokenKind::Less)) {
    auto layout = parseLayout();
    if (!layout)
      return false;
    type.layout = context->layout(std::move(*layout));
    return true;
  }
  auto alias = layoutAliases.find(name.name());
  if (alias != layoutAliases.end()) {
    type.layout = alias->second.first;
    return true;
  }
  good = false;
  std::vector<std::string> names;
  for (const auto &entry : layoutAliases)
    names.emplace_back(entry.first);
  std::sort(names.begin(), names.end());
  Diagnostic &unknown =
      error(ErrorCode::UnknownValue, name, "no layout called " + quoted(name.text) + " is defined before this point");
  if (std::string meant = suggestion(name.name(), names); !meant.empty())
    unknown.fix = "write `#" + meant + "`";
  return true;
}

/// `[1, 68]`
bool ParserCore::parseTypeNumbers(std::vector<int64_t> &numbers, bool &good) {
  return expect(TokenKind::LBracket, "`[`") && parseList(TokenKind::RBracket, "`]`", [&] {
           Token at = tok;
           if (!expect(TokenKind::Integer, "an integer"))
             return false;
           auto number = sizeOf(at);
           good &= number.has_value();
           numbers.push_back(number.value_or(0));
           return true;
         });
}

bool ParserCore::parseTypeNumber(int64_t &number, bool &good) {
  Token at = tok;
  if (!expect(TokenKind::Integer, "an integer"))
    return false;
  auto value = sizeOf(at);
  good &= value.has_value();
  number = value.value_or(1);
  return true;
}

/// What may follow the element type: a tile's layout; `strided` of a buffer; strides, swizzle, slab and stages of shared memory;
/// box, swizzle and `tf32` of a map.
bool ParserCore::parseTypeSuffix(const Token &start, TypeKind kind, TypeStorage &type, bool &good) {
  bool isSmem = kind == TypeKind::Smem, isMap = kind == TypeKind::TensorMap;
  while (consume(TokenKind::Comma)) {
    Token name = tok;
    if (kind == TypeKind::Tile && tok.is(TokenKind::Hash) && !type.layout) {
      if (!parseTypeLayout(type, good))
        return false;
      continue;
    }
    if (kind == TypeKind::Buffer && tok.isWord("strided") && !type.strided) {
      advance();
      type.strided = true;
      continue;
    }
    if (isMap && tok.isWord("tf32") && !type.tf32) {
      advance();
      type.tf32 = true;
      continue;
    }
    if ((isSmem || isMap) && tok.is(TokenKind::Hash) && !type.swizzle) {
      advance();
      static constexpr std::pair<std::string_view, int64_t> swizzles[] = {
          {"swizzle32", 32}, {"swizzle64", 64}, {"swizzle128", 128}};
      for (auto [text, bytes] : swizzles)
        if (name.name() == text)
          type.swizzle = bytes;
      if (!type.swizzle) {
        error(ErrorCode::UnknownValue, name, quoted(name.text) + " is no swizzle: #swizzle32, #swizzle64 or #swizzle128");
        good = false;
      }
      continue;
    }
    bool strides = isSmem && tok.isWord("strides"), box = isMap && tok.isWord("box");
    bool slab = isSmem && tok.isWord("slab"), stages = isSmem && tok.isWord("stages");
    if (!strides && !box && !slab && !stages) {
      expected(kind == TypeKind::Tile     ? "a layout"
               : isSmem                   ? "`strides = [...]`, a swizzle, `slab = ...` or `stages = ...`"
               : isMap                    ? "`box = [...]`, a swizzle or `tf32`"
               : kind == TypeKind::Buffer ? "`strided`"
                                          : "`>`");
      return false;
    }
    advance();
    std::vector<int64_t> &list = box ? type.box : type.strides;
    if (!expect(TokenKind::Equal, "`=`") || !((strides || box) ? parseTypeNumbers(list, good)
                                              : slab           ? parseTypeNumber(type.slab, good)
                                                               : parseTypeNumber(type.stages, good)))
      return false;
    if ((strides || box) && list.size() != type.shape.size()) {
      error(ErrorCode::BadDim, start,
            "there is one " + std::string(strides ? "stride" : "extent of the box") +
                " for each axis: " + std::to_string(type.shape.size()) + ", not " + std::to_string(list.size()));
      good = false;
    }
  }
  return true;
}

/// Whether what is computed from a shape elsewhere (bytes, elements, the reach of strides) fits an int64.
static bool sizesFit(const TypeStorage &type) {
  int64_t bytes = dtypeBytes(type.dtype), reach = bytes;
  for (const DimExpr &dim : type.shape)
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(dim.getCoefficient(), 1), &bytes))
      return false;
  for (size_t axis = 0; axis < type.strides.size(); ++axis) {
    int64_t step;
    if (__builtin_mul_overflow(std::max<int64_t>(type.shape[axis].getCoefficient(), 1), type.strides[axis], &step) ||
        __builtin_mul_overflow(step, dtypeBytes(type.dtype), &step) || __builtin_add_overflow(reach, step, &reach))
      return false;
  }
  return true;
}

std::optional<Type> ParserCore::parseShapedType(TypeKind kind) {
  Token start = tok;
  advance();
  if (!tok.is(TokenKind::Less)) {
    expected("`<` and a shape, as in `" + std::string(start.text) + "<4xf32>`");
    return std::nullopt;
  }
  TypeStorage type{kind, DType::F32, {}, nullptr, {}};
  std::optional<DType> dtype;
  bool good = true;
  if (!parseShape(type.shape, dtype, good))
    return skipType();
  if (!parseTypeSuffix(start, kind, type, good))
    return skipType();
  if (!tok.is(TokenKind::Greater)) {
    expected("`>`");
    return skipType();
  }
  advance();
  if (!good)
    return Type();
  type.dtype = *dtype;
  if (type.shape.size() > 64) {
    error(ErrorCode::BadDim, start, "a type has at most 64 axes, not " + std::to_string(type.shape.size()));
    return Type();
  }
  bool integers = kind == TypeKind::Tile || kind == TypeKind::Smem;
  if (integers && !std::all_of(type.shape.begin(), type.shape.end(), [](const DimExpr &dim) { return dim.isConstant(); })) {
    error(ErrorCode::BadDim, start, "the extents of a " + std::string(start.text) + " are integers");
    return Type();
  }
  if (!sizesFit(type)) {
    error(ErrorCode::BadDim, start, "the size of this type in bytes does not fit 64 bits");
    return Type();
  }
  return context->type(std::move(type));
}

/// `inflight<tile<...>>`
std::optional<Type> ParserCore::parseInflight() {
  advance();
  if (!expect(TokenKind::Less, "`<` and the tile in flight"))
    return std::nullopt;
  Token at = tok;
  auto tile = parseType();
  if (!tile || !expect(TokenKind::Greater, "`>`"))
    return std::nullopt;
  if (!*tile)
    return Type();
  if (!tile->isTile()) {
    error(ErrorCode::UnknownType, at, "only a tile can be in flight, not " + tile->str()).fix = "write `inflight<tile<...>>`";
    return Type();
  }
  return context->withKind(*tile, TypeKind::Inflight);
}

/// `mbarrier<4>`
std::optional<Type> ParserCore::parseMbarrier() {
  advance();
  if (!expect(TokenKind::Less, "`<` and how many mbarriers there are"))
    return std::nullopt;
  int64_t count = 1;
  bool good = true;
  if (!parseTypeNumber(count, good) || !expect(TokenKind::Greater, "`>`"))
    return std::nullopt;
  return good ? context->mbarrier(count) : Type();
}

std::optional<Type> ParserCore::parseType() {
  if (!tok.is(TokenKind::Ident)) {
    expected("a type such as `tensor<MxNxf32>`");
    return std::nullopt;
  }
  static constexpr std::pair<std::string_view, TypeKind> shaped[] = {{"tensor", TypeKind::Tensor},
                                                                     {"buffer", TypeKind::Buffer},
                                                                     {"tile", TypeKind::Tile},
                                                                     {"smem", TypeKind::Smem},
                                                                     {"tensor_map", TypeKind::TensorMap}};
  for (auto [word, kind] : shaped)
    if (tok.text == word)
      return parseShapedType(kind);
  if (tok.text == "inflight")
    return parseInflight();
  if (tok.text == "mbarrier")
    return parseMbarrier();
  Token word = tok;
  if (auto dtype = parseDType(word.text)) {
    advance();
    return context->scalar(*dtype);
  }
  Diagnostic &unknown = error(ErrorCode::UnknownType, word, "no type is called " + quoted(word.text));
  if (std::string meant = suggestion(word.text, typeNames()); !meant.empty())
    unknown.fix = "write `" + meant + "`";
  advance();
  return tok.is(TokenKind::Less) ? skipType() : Type();
}

//===- Layouts -===//

/// Modes are few, small numbers: what is computed from them then never overflows.
static constexpr size_t maxModes = 32;
static constexpr int64_t maxModeNumber = int64_t(1) << 31;

std::optional<int64_t> ParserCore::parseModeNumber(const Token &token, std::string_view digits) {
  auto value = parseIntLiteral(digits);
  if (value && *value >= 0 && *value <= maxModeNumber)
    return value;
  error(ErrorCode::BadLayout, token, quoted(digits) + " is not a number of a layout mode, which are integers from 0 to 2^31");
  return std::nullopt;
}

std::optional<std::vector<Mode>> ParserCore::parseModes(std::string_view field) {
  if (!tok.isWord(field)) {
    expected("`" + std::string(field) + " = [...]`");
    return std::nullopt;
  }
  advance();
  if (!expect(TokenKind::Equal, "`=`") || !expect(TokenKind::LBracket, "`[`"))
    return std::nullopt;
  std::vector<Mode> modes;
  int64_t positions = 1;
  bool listed = parseList(TokenKind::RBracket, "`]`", [&] {
    Mode mode;
    if (tok.is(TokenKind::Integer)) {
      auto axis = parseModeNumber(tok, tok.text);
      if (!axis)
        return false;
      mode.axis = int(std::min<int64_t>(*axis, 64)); // No tile has an axis 64, which the verifier says.
    } else if (!tok.isWord("_")) {
      expected("a mode such as `0:4@1` or `_:32`");
      return false;
    }
    advance();
    if (!expect(TokenKind::Colon, "`:` and the mode's extent"))
      return false;
    Token extent = tok;
    if (!expect(TokenKind::Integer, "the mode's extent"))
      return false;
    auto number = parseModeNumber(extent, extent.text);
    if (!number)
      return false;
    mode.extent = *number;
    positions *= mode.extent;
    if (positions < 1 || positions > maxModeNumber || modes.size() == maxModes) {
      error(ErrorCode::BadLayout, extent, "a layout has positive extents, at most 2^31 positions and at most 32 modes in a list");
      return false;
    }
    if (mode.axis >= 0) {
      if (!tok.is(TokenKind::Symbol)) {
        expected("`@` and the mode's stride");
        return false;
      }
      auto stride = parseModeNumber(tok, tok.name());
      if (!stride)
        return false;
      mode.stride = *stride;
      advance();
    }
    modes.push_back(mode);
    return true;
  });
  return listed ? std::optional(std::move(modes)) : std::nullopt;
}

/// `<reg = [...], lane = [...], warp = [...]>`
std::optional<Layout> ParserCore::parseLayout() {
  if (!expect(TokenKind::Less, "`<`"))
    return std::nullopt;
  Layout layout;
  auto field = [&](std::string_view name, std::vector<Mode> &modes, TokenKind end, std::string_view endText) {
    auto parsed = parseModes(name);
    if (!parsed || !expect(end, endText))
      return false;
    modes = std::move(*parsed);
    return true;
  };
  if (!field("reg", layout.reg, TokenKind::Comma, "`,`") || !field("lane", layout.lane, TokenKind::Comma, "`,`") ||
      !field("warp", layout.warp, TokenKind::Greater, "`>`"))
    return std::nullopt;
  return layout;
}

bool ParserCore::defineLayoutAlias(const Token &name, const Layout &layout) {
  auto [it, added] = layoutAliases.try_emplace(name.name(), context->layout(layout), name.loc);
  if (!added)
    error(ErrorCode::Redefinition, name, quoted(name.text) + " is defined twice").note("first defined here", it->second.second);
  return added;
}

} // namespace minic
