// Walks functions and checks their headers and structure: blocks, terminators, definitions before uses. What the columns of an op's
// row say is checked by OpVerifyColumns.cpp, what they cannot say by the row's hook (OpVerifyGraph.cpp, OpVerifyKernel.cpp), types
// by themselves by OpVerifyTypes.cpp.
#include "minic/IR/Verifier.h"

#include "OpVerify.h"
#include "minic/IR/Roles.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <unordered_map>

namespace minic {

Diagnostic &VerifyReporter::error(SourceLoc loc, ErrorCode code, std::string message) {
  list.push_back({.code = code, .message = std::move(message), .loc = loc});
  return list.back();
}

Diagnostic &VerifyReporter::error(const Operation &op, ErrorCode code, std::string message) {
  return error(op.loc(), code, std::move(message));
}

Diagnostic &VerifyReporter::warning(const Operation &op, ErrorCode code, std::string message) {
  Diagnostic &diagnostic = error(op.loc(), code, std::move(message));
  diagnostic.severity = Severity::Warning;
  return diagnostic;
}

namespace {

/// Errors after this many are not looked for: text that is wrong everywhere gives its first ones, in bounded memory.
constexpr size_t maxErrors = 100;

/// Counts the errors among the findings of a whole call of `verify`.
class ErrorCount {
public:
  explicit ErrorCount(const VerifyReporter &reporter) : reporter(reporter) {}
  size_t operator()() {
    const Diagnostics &findings = reporter.findings();
    for (; seen < findings.size(); ++seen)
      errors += findings[seen].severity == Severity::Error;
    return errors;
  }

private:
  const VerifyReporter &reporter;
  size_t seen = 0, errors = 0;
};

class FunctionVerifier {
public:
  FunctionVerifier(Function &function, VerifyReporter &reporter, ErrorCount &errors)
      : function(function), reporter(reporter), errors(errors) {}
  void run();
  void run(Operation &op);
  void checkParameter(Value &param);

private:
  bool checkHeader();
  void checkKernelAttributes();
  void checkOtherwise();
  void checkFacts();
  void checkResults();

  void visitBlock(Block &block, OpKind terminator, const std::string &what, SourceLoc loc);
  void visit(Operation &op);
  void declare(Value &value) { depthOf[&value] = depth; }

  bool checkOperation(Operation &op);
  bool checkVisible(Operation &op);
  bool checkInflight(Operation &op);
  bool checkRole(Operation &op);
  void enterRole(Operation *op) {
    role = op;
    roleDepth = depth + 1;
    typeFaults.clear(); // Layouts are for the threads of the role.
  }
  int64_t roleThreads() const {
    int64_t warps = roleWarps(*role);
    return warps >= 1 && warps <= 32 ? warps * 32 : 0;
  }
  bool checkResultForms(Operation &op);
  bool regionsWellFormed(Operation &op);
  void checkGrid(Operation &op);
  void assertUseLists();

  const std::optional<TypeFault> &typeFault(Type type);

  Function &function;
  VerifyReporter &reporter;
  ErrorCount &errors;
  int64_t threads = 0;
  /// Block nesting of every value in sight; values of blocks that have ended are taken out.
  std::unordered_map<const Value *, unsigned> depthOf;
  unsigned depth = 0;
  unsigned isolation = 0; ///< Values from blocks further out than this depth are not in sight: a fusion gets them as operands.
  bool ownerSound = true; ///< Whether the operation whose region is being visited has no errors of its own.
  std::map<Type, std::optional<TypeFault>> typeFaults;
  Operation *gridOwner = nullptr; ///< The first program_id.
  Operation *role = nullptr;      ///< The role that is being visited, whose blocks are nested at least `roleDepth` deep.
  unsigned roleDepth = 0;
};

//===-- Types
//------------------------------------------------------------------------------------------------------------------------===//

const std::optional<TypeFault> &FunctionVerifier::typeFault(Type type) {
  auto it = typeFaults.find(type);
  if (it == typeFaults.end())
    it = typeFaults.emplace(type, findTypeFault(type, function.level, role ? roleThreads() : threads)).first;
  return it->second;
}

/// What values of a level may be: tensors in graphs, buffers in plans, the rest in kernels. Scalars carry index arithmetic there
/// (and i1, its comparisons); numbers are tensors or tiles but for combiners and math bodies.
bool FunctionVerifier::checkResultForms(Operation &op) {
  bool ok = true;
  for (Value *result : op.results()) {
    Type type = result->type();
    if (const auto &fault = typeFault(type)) {
      reporter.error(op, fault->code, opText(op) + ": " + fault->message);
      ok = false;
      continue;
    }
    std::string expected;
    if (inScalarCode(op))
      expected = type.isScalar() ? "" : "a scalar, as everything in a combiner or a math body";
    else if (function.isGraphLike())
      expected = type.isTensor() ? "" : "a tensor";
    else if (function.kind == FunctionKind::Plan)
      expected = type.isBuffer() || type.isTensorMap() ? "" : "a buffer";
    else if (type.isScalar() && dtypeClass(type.dtype()) != DTypeClass::Index && dtypeClass(type.dtype()) != DTypeClass::Bool)
      expected = "a tile (scalars of kernels are index or i1)";
    else if (type.isTensor() || type.isBuffer() || type.isTensorMap())
      expected = "a tile, shared memory or an index";
    if (!expected.empty()) {
      reporter.error(op, ErrorCode::TypeMismatch,
                     opText(op) + " at the " + std::string(levelName(function.level)) + " level: expected " + expected +
                         ", stated " + type.str());
      ok = false;
    }
  }
  return ok;
}

bool FunctionVerifier::checkVisible(Operation &op) {
  bool ok = true;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    if (!op.operand(i)) {
      reporter.error(op, ErrorCode::BadStructure, "operand " + std::to_string(i) + " of " + opText(op) + " is missing");
      ok = false;
      continue;
    }
    auto it = depthOf.find(op.operand(i));
    if (it != depthOf.end() && it->second >= isolation)
      continue;
    ok = false;
    if (it != depthOf.end()) {
      const Operation *owner = op.parentOp();
      while (owner && !owner->is(OpKind::Fusion) && !owner->is(OpKind::Reduce))
        owner = owner->parentOp();
      assert(owner && "isolation without an owner");
      Diagnostic &diagnostic = reporter.error(op, ErrorCode::BadStructure,
                                              operandName(op, i) + " of " + opText(op) + " is defined outside the region of " +
                                                  opText(*owner) + ", which sees only its own values");
      if (owner->is(OpKind::Fusion))
        diagnostic.fix = "make it an operand of `fusion` and an argument of its region";
      continue;
    }
    reporter.error(op, ErrorCode::BadStructure,
                   operandName(op, i) + " of " + opText(op) + " is not defined before it, in its block or one around it");
  }
  return ok;
}

bool FunctionVerifier::regionsWellFormed(Operation &op) {
  for (unsigned i = 0; i < op.numRegions(); ++i) {
    Operation *last = op.region(i).back();
    if (!last || !last->is(OpKind::Yield))
      return false;
    for (Value *argument : op.region(i).arguments())
      if (typeFault(argument->type()))
        return false;
  }
  return true;
}

/// Nothing but one wait may use accumulators in flight, and something must.
bool FunctionVerifier::checkInflight(Operation &op) {
  for (Value *result : op.results()) {
    if (!result->type() || !result->type().isInflight() || result->uses().size() == 1)
      continue;
    if (op.is(OpKind::Undefined) && !result->hasUses())
      continue;
    reporter.error(op, ErrorCode::BadStructure,
                   "the accumulators in flight that " + opText(op) + " gives are used " +
                       (result->hasUses() ? std::to_string(result->uses().size()) + " times: the tensor cores write one copy"
                                          : "nowhere: nothing waits for them"));
    return false;
  }
  return true;
}

/// What a role may do: tiles stay in it, and where one thread is active there are none.
bool FunctionVerifier::checkRole(Operation &op) {
  if (!role)
    return true;
  for (unsigned i = 0; i < op.numOperands(); ++i) {
    Value *operand = op.operand(i);
    auto it = operand ? depthOf.find(operand) : depthOf.end();
    bool isTile = operand && operand->type() && (operand->type().isTile() || operand->type().isInflight());
    if (isTile && it != depthOf.end() && it->second < roleDepth) {
      reporter.error(op, ErrorCode::BadStructure,
                     operandName(op, i) + " of " + opText(op) + " is a tile from outside the role, whose warps do not hold it");
      return false;
    }
  }
  if (role->wordAttr("active") != "thread")
    return true;
  bool hasTile = op.info().effects & Convergent;
  for (Value *value : op.results())
    hasTile |= value->type() && (value->type().isTile() || value->type().isInflight());
  for (Value *value : op.operands())
    hasTile |= value && value->type() && (value->type().isTile() || value->type().isInflight());
  if (hasTile)
    reporter.error(op, ErrorCode::BadStructure, opText(op) + " needs all threads of the role, which says `active = thread`");
  return !hasTile;
}

/// True if the columns hold and the hook may run.
bool FunctionVerifier::checkOperation(Operation &op) {
  bool ok = checkColumns(op, reporter);
  ok &= checkVisible(op);
  ok &= checkResultForms(op);
  ok = ok && checkRole(op) && checkInflight(op);
  // A faulty type was reported where the value is defined.
  for (Value *operand : op.operands())
    ok = ok && !typeFault(operand->type());
  return ok && checkTypes(op, reporter) && regionsWellFormed(op);
}

//===-- Structure
//--------------------------------------------------------------------------------------------------------------------===//

/// One kernel has one grid, which its launches state again.
void FunctionVerifier::checkGrid(Operation &op) {
  if (!gridOwner) {
    gridOwner = &op;
    return;
  }
  if (*gridOwner->attr("grid") != *op.attr("grid"))
    reporter
        .error(op, ErrorCode::BadStructure,
               opText(op) + " has grid " + op.attr("grid")->str() + ", but another one of " + functionText(function) + " has " +
                   gridOwner->attr("grid")->str())
        .note("the other one", gridOwner->loc());
}

void FunctionVerifier::visit(Operation &op) {
  size_t before = errors();
  bool hasLevel = op.info().levels & levelBit(unsigned(function.level));
  // An op that has no business at this level gets that one finding; its regions would only repeat it.
  if (!hasLevel) {
    checkColumns(op, reporter);
  } else if (checkOperation(op)) {
    // What a region yields is measured by the operation that holds it, so nothing can be said where that one is broken.
    if (op.info().verify && (ownerSound || !op.is(OpKind::Yield)))
      op.info().verify(op, reporter);
    if (op.is(OpKind::ProgramId) && errors() == before)
      checkGrid(op);
  }
  bool ownSound = errors() == before;
  bool visitRegions = hasLevel && op.info().maxRegions > 0, outerSound = ownerSound;
  for (unsigned i = 0; visitRegions && i < op.numRegions(); ++i) {
    unsigned outer = isolation;
    ownerSound = ownSound;
    if (op.is(OpKind::Fusion) || op.is(OpKind::Reduce))
      isolation = depth + 1;
    if (op.is(OpKind::Role))
      enterRole(&op);
    visitBlock(op.region(i), OpKind::Yield, "the region of " + opText(op), op.loc());
    if (op.is(OpKind::Role))
      enterRole(nullptr);
    isolation = outer;
    ownerSound = outerSound;
  }
  for (Value *result : op.results())
    declare(*result);
}

void FunctionVerifier::visitBlock(Block &block, OpKind terminator, const std::string &what, SourceLoc loc) {
  ++depth;
  for (Value *argument : block.arguments()) {
    if (const auto &fault = typeFault(argument->type()); fault && block.parentOp())
      reporter.error(loc, fault->code, "argument %" + argument->name() + " of " + what + ": " + fault->message);
    declare(*argument);
  }
  for (Operation &op : block) {
    if (errors() >= maxErrors)
      return;
    visit(op);
    if (op.info().terminator && op.next())
      reporter.error(op, ErrorCode::BadStructure, opText(op) + " stands before the end of " + what);
  }
  Operation *last = block.back();
  if (!last || !last->is(terminator))
    reporter.error(last ? last->loc() : loc, ErrorCode::MissingTerminator,
                   what + " must end with `" + std::string(opInfo(terminator).name) + "`, but " +
                       (last ? "ends with " + opText(*last) : "is empty"));
  if (block.parentOp()) { // Nothing comes after a function's own block.
    for (Value *argument : block.arguments())
      depthOf.erase(argument);
    for (Operation &op : block)
      for (Value *result : op.results())
        depthOf.erase(result);
  }
  --depth;
}

//===-- Functions
//--------------------------------------------------------------------------------------------------------------------===//

void FunctionVerifier::checkParameter(Value &param) {
  std::string who = "parameter %" + param.name() + " of " + functionText(function);
  if (const auto &fault = typeFault(param.type())) {
    reporter.error(function.loc, fault->code, who + ": " + fault->message);
    return;
  }
  Type type = param.type();
  bool body = isMathBody(function);
  TypeKind wanted = function.isGraphLike() ? TypeKind::Tensor : body ? TypeKind::Scalar : TypeKind::Buffer;
  bool isMap = type.isTensorMap() && function.kind == FunctionKind::Kernel && function.level == Level::Machine && !body;
  if (type.kind() != wanted && !isMap)
    reporter.error(function.loc, ErrorCode::OperandType,
                   who + " must be a " +
                       (wanted == TypeKind::Tensor ? "tensor"
                        : body                     ? "scalar"
                                                   : "buffer") +
                       ", not " + type.str());
}

void FunctionVerifier::checkResults() {
  std::string who = functionText(function);
  if (function.kind == FunctionKind::Kernel) {
    if (!function.resultTypes.empty() && !isMathBody(function))
      reporter.error(function.loc, ErrorCode::ReturnMismatch, who + " must not have results: a kernel stores to its buffers");
  } else if (function.resultNames.size() != function.resultTypes.size()) {
    reporter.error(function.loc, ErrorCode::BadStructure,
                   who + " has " + countText(function.resultTypes.size(), "result") + " but " +
                       countText(function.resultNames.size(), "result name"));
  }
  std::set<std::string_view> names;
  for (const std::string &name : function.resultNames)
    if (!names.insert(name).second)
      reporter.error(function.loc, ErrorCode::Redefinition, who + " has two results named `" + name + "`");
  for (size_t i = 0; i < function.resultTypes.size(); ++i) {
    Type type = function.resultTypes[i];
    std::string result =
        "result " + (i < function.resultNames.size() ? inQuotes(function.resultNames[i]) : std::to_string(i)) + " of " + who;
    if (const auto &fault = typeFault(type)) {
      reporter.error(function.loc, fault->code, result + ": " + fault->message);
      continue;
    }
    bool fits = function.isGraphLike() ? type.isTensor() : function.kind == FunctionKind::Plan ? type.isBuffer() : true;
    fits &= !isMathBody(function) || type.isScalar();
    if (!fits)
      reporter.error(function.loc, ErrorCode::ReturnMismatch,
                     result + " must be a " +
                         (function.isGraphLike()                ? "tensor"
                          : function.kind == FunctionKind::Plan ? "buffer"
                                                                : "scalar") +
                         ", not " + type.str());
  }
}

/// What stands behind a function takes and gives the same tensors, but for sizes and strides, and a chain ends.
void FunctionVerifier::checkOtherwise() {
  const Attribute *attribute = function.attr("otherwise");
  if (!attribute)
    return;
  std::string who = functionText(function);
  if (!attribute->asSymbol()) {
    reporter.error(function.loc, ErrorCode::BadAttribute, "`otherwise` of " + who + " must be a function, not " + attribute->str());
    return;
  }
  const Function *other = function.otherwise();
  if (!other || other->kind != function.kind) {
    reporter.error(function.loc, ErrorCode::UnknownFunction,
                   "`otherwise` of " + who + ": there is no " + std::string(functionKindName(function.kind)) + " " +
                       attribute->str());
    return;
  }
  auto same = [](Type a, Type b) { return a && b && a.dtype() == b.dtype() && a.rank() == b.rank(); };
  auto sameParam = [&](const Value *a, const Value *b) { return same(a->type(), b->type()) && a->name() == b->name(); };
  if (!std::ranges::equal(function.params(), other->params(), sameParam) ||
      !std::ranges::equal(function.resultTypes, other->resultTypes, same) || function.resultNames != other->resultNames) {
    reporter
        .error(function.loc, ErrorCode::TypeMismatch,
               "`otherwise` of " + who + ": " + attribute->str() +
                   " takes or gives other tensors; only sizes and strides may differ")
        .note("the other one", other->loc);
    return;
  }
  size_t steps = 0, functions = function.module().functions().size();
  for (; other && steps <= functions; ++steps)
    other = other->otherwise();
  if (other)
    reporter.error(function.loc, ErrorCode::BadAttribute, "`otherwise` of " + who + " leads around in a circle");
}

/// Facts speak of sizes that the function has.
void FunctionVerifier::checkFacts() {
  if (function.facts.empty())
    return;
  std::vector<std::string> known = function.dimNames(), names;
  for (const DimFact &fact : function.facts)
    fact.size.collectNames(names);
  for (const std::string &name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      reporter.error(function.loc, ErrorCode::UnknownDim, functionText(function) + " has no size called " + name).fix =
          known.empty() ? "it has no named sizes" : "its names are " + wordList(known);
}

void FunctionVerifier::checkKernelAttributes() {
  std::string who = functionText(function);
  std::vector<std::string> known;
  known.push_back(function.kind == FunctionKind::Kernel   ? "schedule"
                  : function.kind == FunctionKind::Custom ? "kernel"
                                                          : "otherwise");
  bool machine = function.kind == FunctionKind::Kernel && function.level == Level::Machine;
  if (machine)
    known.insert(known.end(), {"threads", "cluster", "resident"});
  for (const NamedAttribute &attribute : function.attrs())
    if (std::find(known.begin(), known.end(), attribute.name) == known.end()) {
      Diagnostic &diagnostic =
          reporter.error(function.loc, ErrorCode::UnknownAttribute,
                         who + " at the " + std::string(levelName(function.level)) + " level has no attribute " +
                             inQuotes(attribute.name) + (known.empty() ? "" : ", only " + wordList(known)));
      if (std::string meant = didYouMean(attribute.name, known); !meant.empty())
        diagnostic.fix = "did you mean `" + meant + "`?";
    }
  if (const Attribute *schedule = function.attr("schedule")) {
    AttrSpec spec{"schedule", AttrKind::Schedule};
    if (!attributeFits(*schedule, spec))
      reporter.error(function.loc, ErrorCode::BadAttribute,
                     "`schedule` of " + who + " must be " + attrKindText(spec) + ", not " + schedule->str());
  }
  if (!machine || isMathBody(function))
    return;
  const Attribute *attribute = function.attr("threads");
  if (!attribute) {
    reporter
        .error(function.loc, ErrorCode::MissingAttribute, who + " at the machine level needs `threads`, the threads of one program")
        .fix = "write `at machine, threads = 128`, a multiple of 32 from 32 to 1024";
    return;
  }
  if (const Attribute *resident = function.attr("resident")) {
    const int64_t *count = resident->asInt();
    if (!count || *count < 1 || *count > maxResidentCtas)
      reporter.error(function.loc, ErrorCode::BadAttribute,
                     "`resident` of " + who + " must be a number of CTAs from 1 to " + std::to_string(maxResidentCtas) + ", not " +
                         resident->str());
  }
  int64_t ctas = 1;
  if (const Attribute *cluster = function.attr("cluster")) {
    const int64_t *count = cluster->asInt();
    if (!count || *count < 2 || *count > maxClusterCtas || !std::has_single_bit(uint64_t(*count))) {
      reporter.error(function.loc, ErrorCode::BadAttribute,
                     "`cluster` of " + who + " must be a power of two from 2 to " + std::to_string(maxClusterCtas) + ", not " +
                         cluster->str());
      return;
    }
    ctas = *count;
  }
  const int64_t *count = attribute->asInt();
  if (!count || *count < 32 * ctas || *count > 1024 * ctas || *count % (32 * ctas) != 0)
    reporter.error(function.loc, ErrorCode::BadAttribute,
                   "`threads` of " + who + " must be a multiple of 32 from 32 to 1024" +
                       (ctas > 1 ? " for each of its " + std::to_string(ctas) + " CTAs" : "") + ", not " + attribute->str());
  else
    threads = *count;
}

/// False if the kind and the level contradict each other, which makes every further finding noise.
bool FunctionVerifier::checkHeader() {
  LevelSet levels = function.kind == FunctionKind::Graph    ? graphLevels
                    : function.kind == FunctionKind::Plan   ? planLevel
                    : function.kind == FunctionKind::Custom ? levelBit(0)
                                                            : kernelLevels;
  if (!(levels & levelBit(unsigned(function.level)))) {
    reporter.error(function.loc, ErrorCode::WrongLevel,
                   functionText(function) + " cannot be at the " + std::string(levelName(function.level)) +
                       " level; the levels of a " + std::string(functionKindName(function.kind)) + ": " + levelsText(levels));
    return false;
  }
  checkKernelAttributes();
  checkOtherwise();
  checkFacts();
  for (Value *param : function.params())
    checkParameter(*param);
  checkResults();
  if (function.kind == FunctionKind::Custom)
    checkCustom(function, reporter);
  return true;
}

/// Use lists are made by Operation alone, so a wrong one is our own bug: every use is a slot that holds the value, and no slot is
/// missing.
void FunctionVerifier::assertUseLists() {
#ifndef NDEBUG
  size_t slots = 0, uses = 0;
  auto count = [&](const Value &value) {
    uses += value.uses().size();
    for (const Use &use : value.uses())
      assert(use.index < use.user->numOperands() && use.user->operand(use.index) == &value && "a use that is none");
  };
  for (Value *param : function.params())
    count(*param);
  walk(function.body(), [&](Operation &op) {
    slots += op.numOperands();
    for (Value *result : op.results())
      count(*result);
    for (unsigned i = 0; i < op.numRegions(); ++i)
      for (Value *argument : op.region(i).arguments())
        count(*argument);
  });
  assert(slots <= uses && "an operand that is in no use list");
#endif
}

void FunctionVerifier::run() {
  if (!checkHeader())
    return;
  size_t before = errors();
  visitBlock(function.body(), OpKind::Return, functionText(function), function.loc);
  if (errors() == before)
    assertUseLists();
}

void FunctionVerifier::run(Operation &op) {
  auto declareUsed = [&](Operation &user) {
    for (Value *operand : user.operands())
      declare(*operand);
  };
  declareUsed(op);
  for (unsigned i = 0; i < op.numRegions(); ++i)
    walk(op.region(i), declareUsed);
  visit(op);
}

void verifyInto(Function &function, const LevelHooks &hooks, VerifyReporter &reporter, ErrorCount &errors) {
  size_t before = errors();
  FunctionVerifier(function, reporter, errors).run();
  // The hook's proofs rely on everything that was checked so far.
  if (errors() == before && function.kind == FunctionKind::Kernel && function.level == Level::Masked && hooks.masked)
    hooks.masked(function, reporter);
  if (errors() >= maxErrors)
    reporter.error(SourceLoc(), ErrorCode::TooManyErrors,
                   "at least " + std::to_string(maxErrors) + " errors; what follows is not checked");
}

} // namespace

Diagnostics verify(Module &module, const LevelHooks &hooks) {
  VerifyReporter reporter;
  ErrorCount errors(reporter);
  checkCustomNesting(module, reporter);
  std::map<std::string_view, const Function *> names;
  for (Function *function : module.functions()) {
    if (auto [it, isNew] = names.emplace(function->name, function); !isNew)
      reporter.error(function->loc, ErrorCode::Redefinition, "two functions are named @" + function->name)
          .note("the first one", it->second->loc);
    verifyInto(*function, hooks, reporter, errors);
    if (errors() >= maxErrors)
      break;
  }
  return reporter.take();
}

Diagnostics verify(Function &function, const LevelHooks &hooks) {
  VerifyReporter reporter;
  ErrorCount errors(reporter);
  verifyInto(function, hooks, reporter, errors);
  return reporter.take();
}

Diagnostics verify(Operation &op) {
  VerifyReporter reporter;
  ErrorCount errors(reporter);
  FunctionVerifier(op.function(), reporter, errors).run(op);
  return reporter.take();
}

Diagnostics verify(Value &param) {
  VerifyReporter reporter;
  ErrorCount errors(reporter);
  FunctionVerifier(param.argumentOf()->function(), reporter, errors).checkParameter(param);
  return reporter.take();
}

} // namespace minic
