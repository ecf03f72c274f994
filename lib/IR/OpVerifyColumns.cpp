// The checks that the columns of the op table give: level, counts, attributes, element types, type rule.
#include "OpVerify.h"

#include "minic/IR/Verifier.h"

#include <algorithm>

namespace minic {

std::string attrKindText(const AttrSpec &spec) {
  switch (spec.kind) {
  case AttrKind::Value:
    return "a number or nested lists of numbers";
  case AttrKind::Number:
  case AttrKind::Real:
    return "a number";
  case AttrKind::Int:
    return "an integer";
  case AttrKind::Ints:
    return "a list of integers";
  case AttrKind::Dim:
    return "a size (an integer from 0 on, a dim name, or an expression of them)";
  case AttrKind::Dims:
    return "a list of sizes (integers from 0 on, dim names, or expressions of them)";
  case AttrKind::Word:
    return spec.words.empty() ? "a word" : "one of " + wordList({spec.words.begin(), spec.words.end()}, "or");
  case AttrKind::Symbol:
    return "`@` and the name of a function";
  case AttrKind::Schedule:
    return "a schedule, `#rows<...>`, `#matmul<...>` or `#library<...>`";
  case AttrKind::Numbers:
    return "a list of numbers";
  case AttrKind::String:
    return "a text in double quotes";
  }
  return {};
}

static bool isSize(const std::optional<DimExpr> &size) { return size && size->getCoefficient() >= 0; }

static bool isScheduleName(std::string_view name) { return name == "rows" || name == "matmul" || name == "library"; }

bool attributeFits(const Attribute &value, const AttrSpec &spec) {
  switch (spec.kind) {
  case AttrKind::Value:
    return value.asNumber() || value.asList();
  case AttrKind::Number:
  case AttrKind::Real:
    return value.asNumber().has_value();
  case AttrKind::Int:
    return value.asInt() != nullptr;
  case AttrKind::Ints:
    return value.asInts().has_value();
  case AttrKind::Dim:
    return isSize(value.asDim());
  case AttrKind::Dims: {
    auto sizes = value.asDims();
    return sizes && std::all_of(sizes->begin(), sizes->end(), [](const DimExpr &size) { return isSize(size); });
  }
  case AttrKind::Word:
    return value.asWord() &&
           (spec.words.empty() || std::find(spec.words.begin(), spec.words.end(), value.asWord()->text) != spec.words.end());
  case AttrKind::Symbol:
    return value.asSymbol() != nullptr;
  case AttrKind::Schedule:
    return value.asRecord() && isScheduleName(value.asRecord()->name);
  case AttrKind::Numbers:
    return value.asList() && std::all_of(value.asList()->begin(), value.asList()->end(),
                                         [](const Attribute &entry) { return entry.asNumber().has_value(); });
  case AttrKind::String:
    return value.asString() != nullptr;
  }
  return false;
}

namespace {

/// The dims with which `from` could be broadcast to `to`: its axes are the last ones of `to`, or else some that match in order.
std::optional<std::vector<int64_t>> broadcastDims(const std::vector<DimExpr> &from, const std::vector<DimExpr> &to) {
  if (from.size() > to.size())
    return std::nullopt;
  std::vector<int64_t> dims;
  size_t skipped = to.size() - from.size();
  for (size_t a = 0; a < from.size() && (from[a] == to[a + skipped] || from[a].isConstant(1)); ++a)
    dims.push_back(int64_t(a + skipped));
  if (dims.size() == from.size())
    return dims;
  dims.clear();
  for (size_t a = 0; a < to.size() && dims.size() < from.size(); ++a)
    if (from[dims.size()] == to[a])
      dims.push_back(int64_t(a));
  return dims.size() == from.size() ? std::optional(dims) : std::nullopt;
}

/// The two numbers that a row's operand names give: how many at least, and whether more may follow.
std::pair<unsigned, bool> operandRange(const OpInfo &info) {
  if (info.operands.empty())
    return {0, false};
  unsigned names = 1 + unsigned(std::count(info.operands.begin(), info.operands.end(), ','));
  bool variadic = info.operands.ends_with("...");
  return {variadic ? names - 1 : names, variadic};
}

bool checkLevel(Operation &op, VerifyReporter &reporter) {
  if (op.info().levels & levelBit(unsigned(op.function().level)))
    return true;
  reporter.error(op, ErrorCode::WrongLevel,
                 opText(op) + " is not part of the " + std::string(levelName(op.function().level)) + " level of " +
                     functionText(op.function()) + "; the levels that have it: " + levelsText(op.info().levels));
  return false;
}

bool checkCounts(Operation &op, VerifyReporter &reporter) {
  const OpInfo &info = op.info();
  bool ok = true;
  auto [least, variadic] = operandRange(info);
  if (op.numOperands() < least || (op.numOperands() > least && !variadic)) {
    reporter.error(op, ErrorCode::OperandCount,
                   opText(op) + " takes " + (variadic ? "at least " : "") + countText(least, "operand") +
                       (info.operands.empty() ? "" : " (" + std::string(info.operands) + ")") + ", not " +
                       std::to_string(op.numOperands()));
    ok = false;
  }
  if (info.numResults >= 0 && op.numResults() != unsigned(info.numResults)) {
    reporter.error(op, ErrorCode::ResultCount,
                   opText(op) + " gives " + countText(size_t(info.numResults), "result") + ", not " +
                       std::to_string(op.numResults()));
    ok = false;
  }
  int regions = int(op.numRegions());
  if (regions < info.minRegions || regions > info.maxRegions) {
    std::string wanted = info.maxRegions == 0 ? "no region" : info.minRegions == 0 ? "at most one region" : "one region";
    reporter.error(op, ErrorCode::BadRegion, opText(op) + " takes " + wanted + ", not " + std::to_string(regions));
    ok = false;
  }
  return ok;
}

bool checkAttribute(Operation &op, const AttrSpec &spec, VerifyReporter &reporter) {
  const Attribute *value = op.attr(spec.name);
  if (!value) {
    if (!spec.required)
      return true;
    reporter
        .error(op, ErrorCode::MissingAttribute, opText(op) + " needs `" + std::string(spec.name) + "`: " + std::string(spec.prose))
        .fix = "add " + attrKindText(spec);
    return false;
  }
  if (attributeFits(*value, spec))
    return true;
  Diagnostic &diagnostic =
      reporter.error(op, ErrorCode::BadAttribute,
                     inQuotes(spec.name) + " of " + opText(op) + " must be " + attrKindText(spec) + ", not " + value->str());
  if (value->asWord() && !spec.words.empty())
    if (std::string meant = didYouMean(value->asWord()->text, {spec.words.begin(), spec.words.end()}); !meant.empty())
      diagnostic.fix = "did you mean `" + meant + "`?";
  return false;
}

bool checkAttributes(Operation &op, VerifyReporter &reporter) {
  const OpInfo &info = op.info();
  bool ok = !info.word || checkAttribute(op, *info.word, reporter);
  for (const AttrSpec &spec : info.attrs)
    ok &= checkAttribute(op, spec, reporter);
  std::vector<std::string> known;
  for (const AttrSpec &spec : info.attrs)
    known.emplace_back(spec.name);
  for (size_t i = 0; i < op.attrs().size(); ++i) {
    const std::string &name = op.attrs()[i].name;
    bool isKnown = (info.word && info.word->name == name) || std::find(known.begin(), known.end(), name) != known.end();
    if (!isKnown) {
      Diagnostic &diagnostic =
          reporter.error(op, ErrorCode::UnknownAttribute,
                         opText(op) + " has no attribute " + inQuotes(name) + (known.empty() ? "" : ", only " + wordList(known)));
      if (std::string meant = didYouMean(name, known); !meant.empty())
        diagnostic.fix = "did you mean `" + meant + "`?";
      ok = false;
    }
    for (size_t j = 0; j < i; ++j)
      if (op.attrs()[j].name == name) {
        reporter.error(op, ErrorCode::BadAttribute, inQuotes(name) + " of " + opText(op) + " is given twice");
        ok = false;
        break;
      }
  }
  return ok;
}

bool checkDType(Operation &op, VerifyReporter &reporter) {
  const OpInfo &info = op.info();
  if (info.dtypes.empty() || (op.numOperands() == 0 && op.numResults() == 0))
    return true;
  bool ofResult = op.numOperands() == 0;
  Type type = ofResult ? op.result()->type() : op.operand(0)->type();
  if (info.dtypes.contains(type.dtype()))
    return true;
  std::string subject = ofResult ? "the result: " + type.str() : operandText(op, 0);
  Diagnostic &diagnostic = reporter.error(op, ErrorCode::UnsupportedDType,
                                          opText(op) + " does not support " + std::string(dtypeName(type.dtype())) + " (" +
                                              subject + "), only " + info.dtypes.str());
  if (!ofResult && isStorageOnly(type.dtype()) && info.dtypes.contains(DType::F32))
    diagnostic.fix = "convert " + operandName(op, 0) + " to f16 or f32 first: " + std::string(dtypeName(type.dtype())) +
                     " is only stored, moved, converted and multiplied by `matmul`";
  else if (!ofResult && info.elementwise && info.dtypes.contains(DType::F32))
    diagnostic.fix = "convert " + operandName(op, 0) + " to f32 first";
  else if (!ofResult && info.elementwise && info.dtypes.contains(DType::I1))
    diagnostic.fix = "compare " + operandName(op, 0) + " with zero first";
  return false;
}

/// Operands `a` and `b` of an element-wise op must have one type, but for the element type of select's condition.
bool checkAgree(Operation &op, unsigned a, unsigned b, VerifyReporter &reporter) {
  Type first = op.operand(a)->type(), second = op.operand(b)->type();
  bool condition = op.info().typeRule == TypeRule::Select && a == 0;
  if (first == second)
    return true;
  std::string both = ": " + operandText(op, a) + ", " + operandText(op, b);
  if (first.kind() != second.kind()) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " takes only scalars, only tensors or only tiles" + both);
    return false;
  }
  if (first.shape() != second.shape()) {
    Diagnostic &diagnostic = reporter.error(op, ErrorCode::ShapeMismatch, opText(op) + " needs operands of one shape" + both);
    bool swapped = second.rank() > first.rank() || (second.rank() == first.rank() && !broadcastDims(second.shape(), first.shape()));
    Type from = swapped ? first : second, to = swapped ? second : first;
    if (auto dims = broadcastDims(from.shape(), to.shape())) {
      Type wanted = op.module().context().withDType(to, from.dtype());
      diagnostic.fix = "broadcast it first: `broadcast " + operandName(op, swapped ? a : b) +
                       (to.isTensor() ? ", dims = " + intsText(*dims) : "") + " : " + wanted.str() + "`";
    }
    return false;
  }
  if (first.layout() != second.layout()) {
    reporter.error(op, ErrorCode::BadLayout, opText(op) + " needs operands of one layout" + both);
    return false;
  }
  if (first.dtype() != second.dtype() && !condition) {
    reporter.error(op, ErrorCode::OperandType, opText(op) + " needs operands of one element type" + both).fix =
        "convert one first: `convert " + operandName(op, b) + " : " + first.str() + "`";
    return false;
  }
  return true;
}

bool checkTypeRule(Operation &op, VerifyReporter &reporter) {
  TypeRule rule = op.info().typeRule;
  if (rule == TypeRule::Hook)
    return true;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Type type = op.operand(i)->type();
    if (type.isInflight()) {
      reporter
          .error(op, ErrorCode::OperandType,
                 opText(op) + " reads accumulators that are in flight: the tensor cores may not have written them yet: " +
                     operandText(op, i))
          .fix = "wait first: `wgmma_wait " + operandName(op, i) + ", pending = 0`";
      return false;
    }
    if (!type.isScalar() && !type.isTensor() && !type.isTile()) {
      reporter.error(op, ErrorCode::OperandType, opText(op) + " takes scalars, tensors or tiles, not memory: " + operandText(op, i))
          .fix = type.isSmem() ? "read it with `shared_load` first" : "read it with `load` first";
      return false;
    }
  }
  for (unsigned i = 1; i < op.numOperands(); ++i)
    if (!checkAgree(op, rule == TypeRule::Select && i == 2 ? 1 : 0, i, reporter))
      return false;
  Type result = op.result()->type();
  if (rule != TypeRule::Convert && rule != TypeRule::Bitcast)
    return expectResult(op, 0, inferResultTypes(op)[0], reporter);

  Type operand = op.operand(0)->type();
  if (!op.info().dtypes.contains(result.dtype()) ||
      (rule == TypeRule::Bitcast && dtypeBytes(operand.dtype()) != dtypeBytes(result.dtype()))) {
    std::string rest = rule == TypeRule::Bitcast ? "; both element types must have one size, from " : "; it gives ";
    reporter.error(op, ErrorCode::UnsupportedDType,
                   opText(op) + " cannot turn " + operand.str() + " into " + result.str() + rest + op.info().dtypes.str());
    return false;
  }
  bool sameForm = operand.kind() == result.kind() && operand.shape() == result.shape() && operand.layout() == result.layout();
  return sameForm || expectResult(op, 0, op.module().context().withDType(operand, result.dtype()), reporter);
}

} // namespace

bool checkColumns(Operation &op, VerifyReporter &reporter) {
  if (!checkLevel(op, reporter))
    return false;
  bool ok = checkCounts(op, reporter);
  return checkAttributes(op, reporter) && ok;
}

bool checkTypes(Operation &op, VerifyReporter &reporter) { return checkDType(op, reporter) && checkTypeRule(op, reporter); }

} // namespace minic
