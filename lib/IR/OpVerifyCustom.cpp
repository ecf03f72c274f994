// `custom` and what it names: declarations, how they nest, and kernels that are PTX.
#include "OpVerify.h"

#include "minic/IR/CustomOp.h"
#include "minic/IR/PtxText.h"
#include "minic/IR/Verifier.h"

#include <algorithm>
#include <unordered_map>

namespace minic {

//===- Uses -===//

static void reportUnknownCustom(const Operation &op, const std::string &name, VerifyReporter &reporter) {
  std::vector<std::string> names;
  for (const Function *function : op.module().functions())
    if (function->kind == FunctionKind::Custom && names.size() < 100)
      names.push_back(function->name);
  const Function *other = op.module().find(name);
  Diagnostic &diagnostic =
      reporter.error(op, ErrorCode::UnknownFunction,
                     opText(op) + ": " +
                         (other ? "@" + name + " is a " + std::string(functionKindName(other->kind)) + ", not a custom op"
                                : "no custom op is declared as @" + name));
  if (std::string meant = didYouMean(name, names); !meant.empty())
    diagnostic.fix = "did you mean `@" + meant + "`?";
}

void verifyCustom(Operation &op, VerifyReporter &reporter) {
  const Function *custom = customOf(op);
  if (!custom)
    return reportUnknownCustom(op, op.attr("op")->asSymbol()->name, reporter);
  std::vector<Type> operands;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (!expectOperand(op, i, TypeKind::Tensor, reporter))
      return;
    operands.push_back(op.operand(i)->type());
  }
  for (const Value *param : custom->params())
    if (!param->type() || !param->type().isTensor())
      return; // Reported at the declaration.
  auto sizes = unifySizes(*custom, operands);
  if (!sizes) {
    Diagnostic error = sizes.errors().front();
    reporter.error(op, error.code, opText(op) + ": " + error.message).notes = error.notes;
    return;
  }
  if (op.numResults() != custom->resultTypes.size()) {
    reporter
        .error(op, ErrorCode::ResultCount,
               opText(op) + ": @" + custom->name + " gives " + countText(custom->resultTypes.size(), "result") + ", not " +
                   std::to_string(op.numResults()))
        .note("declared here", custom->loc);
    return;
  }
  std::vector<Type> results = customResults(*custom, *sizes);
  for (unsigned i = 0; i < op.numResults(); ++i)
    if (!expectResult(op, i, results[i], reporter))
      return;
}

//===- Declarations -===//

/// The kernel takes a buffer for each operand and each result, of the sizes that the declaration names.
static void checkCustomKernel(const Function &custom, VerifyReporter &reporter) {
  const Attribute *attribute = custom.attr("kernel");
  if (!attribute)
    return;
  std::string who = "`kernel` of " + functionText(custom);
  if (!attribute->asSymbol()) {
    reporter.error(custom.loc, ErrorCode::BadAttribute, who + " must be `@` and the name of a kernel, not " + attribute->str());
    return;
  }
  const Function *kernel = kernelOf(custom);
  if (!kernel || !kernel->resultTypes.empty()) {
    reporter.error(custom.loc, ErrorCode::UnknownFunction, who + ": there is no kernel " + attribute->str());
    return;
  }
  auto mismatch = [&](const std::string &why) {
    reporter.error(custom.loc, ErrorCode::LaunchMismatch, who + ": " + attribute->str() + " " + why)
        .note("the kernel", kernel->loc);
  };
  Context &context = custom.module().context();
  std::vector<Type> wanted;
  for (const Value *param : custom.params())
    wanted.push_back(param->type());
  wanted.insert(wanted.end(), custom.resultTypes.begin(), custom.resultTypes.end());
  if (kernel->params().size() != wanted.size())
    return mismatch("has " + countText(kernel->params().size(), "parameter") + ", and the op has " +
                    countText(custom.params().size(), "operand") + " and " + countText(custom.resultTypes.size(), "result"));
  for (size_t i = 0; i < wanted.size(); ++i)
    if (Type type = context.withKind(wanted[i], TypeKind::Buffer); kernel->params()[i]->type() != type)
      return mismatch("takes %" + kernel->params()[i]->name() + ": " + kernel->params()[i]->type().str() + ", and the op's " +
                      (i < custom.params().size() ? "operand is " : "result is ") + type.str());
  std::vector<std::string> known = custom.dimNames();
  for (const std::string &name : kernel->dimNames())
    if (std::ranges::find(known, name) == known.end())
      return mismatch("needs a size " + name + ", which the op does not have");
  if (!kernel->facts.empty())
    mismatch("is for some sizes alone, and the op is for all");
}

void checkCustom(const Function &custom, VerifyReporter &reporter) {
  auto isWhole = [](Type type) { return type && type.isTensor(); };
  if (!std::ranges::all_of(custom.params(), [&](const Value *param) { return isWhole(param->type()); }) ||
      !std::ranges::all_of(custom.resultTypes, isWhole))
    return; // Reported already.
  std::string who = functionText(custom);
  if (custom.resultTypes.empty())
    reporter.error(custom.loc, ErrorCode::ResultCount, who + " gives no result");
  if (!custom.facts.empty())
    reporter.error(custom.loc, ErrorCode::BadStructure, who + " is for all sizes: `where` is for graphs and plans");
  std::vector<std::string> bound;
  for (const Value *param : custom.params())
    for (const DimExpr &size : param->type().shape())
      if (std::string text = size.str(); isDimName(text))
        bound.push_back(text);
  for (const std::string &name : custom.dimNames())
    if (std::ranges::find(bound, name) == bound.end())
      reporter.error(custom.loc, ErrorCode::UnknownDim,
                     who + ": nothing says what " + name + " is, since no axis of an operand has " + name + " as its size");
  checkCustomKernel(custom, reporter);
}

static constexpr size_t maxNestingErrors = 100;

void checkCustomNesting(Module &module, VerifyReporter &reporter) {
  struct Written {
    int64_t ops, depth;
  };
  std::unordered_map<const Function *, Written> before; ///< What a use of each comes to when it is written out.
  for (Function *function : module.functions()) {
    if (!function->isGraphLike())
      continue;
    Written all{0, 0};
    bool isCustom = function->kind == FunctionKind::Custom;
    walk(function->body(), [&](Operation &op) {
      all.ops += isCustom;
      const Function *custom = op.is(OpKind::Custom) && op.attr("op") ? customOf(op) : nullptr;
      if (!custom)
        return;
      auto known = before.find(custom);
      if (known != before.end()) {
        all.ops += known->second.ops;
        all.depth = std::max(all.depth, known->second.depth);
      } else if (isCustom && reporter.findings().size() < maxNestingErrors) {
        reporter
            .error(op, ErrorCode::BadStructure,
                   custom == function ? functionText(*function) + " uses itself"
                                      : functionText(*function) + " uses @" + custom->name + ", which is declared behind it")
            .fix = "a custom op uses only those declared before it";
      }
    });
    all.ops = std::min(all.ops, 2 * maxCustomOps); // Sums of these do not overflow.
    if (isCustom)
      before[function] = {all.ops, ++all.depth};
    if (reporter.findings().size() >= maxNestingErrors)
      return;
    if (all.ops > maxCustomOps)
      reporter.error(function->loc, ErrorCode::TooDeep,
                     functionText(*function) + " comes to more than " + std::to_string(maxCustomOps) +
                         " ops when the custom ops in it are written out");
    else if (all.depth > maxCustomDepth)
      reporter.error(function->loc, ErrorCode::TooDeep,
                     functionText(*function) + " nests custom ops deeper than " + std::to_string(maxCustomDepth));
  }
}

//===- PTX -===//

void verifyPtx(Operation &op, VerifyReporter &reporter) {
  const Function &kernel = op.function();
  for (const Operation &other : kernel.body())
    if (&other != &op && !other.is(OpKind::ProgramId) && !other.is(OpKind::Return)) {
      reporter.error(op, ErrorCode::BadStructure,
                     opText(op) + " is all of a kernel, and " + functionText(kernel) + " has " + opText(other) + " as well");
      return;
    }
  if (op.parentOp()) {
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " is all of a kernel, and stands in no region");
    return;
  }
  for (const Value *param : kernel.params())
    if (!param->type().isBuffer() || param->type().isStrided()) {
      reporter.error(op, ErrorCode::OperandType,
                     opText(op) + " takes pointers to row-major memory, not %" + param->name() + ": " + param->type().str());
      return;
    }
  if (kernel.attr("cluster"))
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " runs without clusters");
  if (const Attribute *shared = op.attr("shared"); shared && *shared->asInt() < 0)
    reporter.error(op, ErrorCode::BadAttribute, "`shared` of " + opText(op) + " is a number of bytes, not " + shared->str());
  if (op.attr("reference") && !customOf(op))
    reportUnknownCustom(op, op.attr("reference")->asSymbol()->name, reporter);
  const std::string &entry = op.attr("entry")->asString()->text, &text = op.attr("text")->asString()->text;
  if (ptxTarget(text).empty())
    reporter.error(op, ErrorCode::BadAttribute, "the text of " + opText(op) + " has no `.target`");
  std::vector<PtxEntry> entries = ptxEntries(text);
  auto found = std::ranges::find(entries, entry, &PtxEntry::name);
  size_t wanted = kernel.params().size() + op.attr("sizes")->asList()->size();
  if (found == entries.end())
    reporter.error(op, ErrorCode::BadAttribute, "the text of " + opText(op) + " has no entry " + inQuotes(entry));
  else if (found->params.size() != wanted)
    reporter.error(op, ErrorCode::LaunchMismatch,
                   "the entry " + inQuotes(entry) + " of " + opText(op) + " has " + countText(found->params.size(), "parameter") +
                       ", and " + functionText(kernel) + " gives " + countText(kernel.params().size(), "pointer") + " and " +
                       countText(op.attr("sizes")->asList()->size(), "size"));
}

} // namespace minic
