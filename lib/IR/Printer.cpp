// IR to text, from the columns of the op rows.
#include "minic/IR/Printer.h"

#include "Lexer.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace minic {
namespace {

bool isIdent(std::string_view text) {
  if (text.empty() || isDigit(text.front()))
    return false;
  for (char c : text)
    if (!isNameChar(c))
      return false;
  return true;
}

/// Numbers of an element type: an integer that a builder put where the type is a float prints as the float that it means.
std::string numberText(const Attribute &value, DType dtype) {
  if (const AttributeList *list = value.asList()) {
    std::string text = "[";
    for (const Attribute &element : *list)
      text += (text.size() > 1 ? ", " : "") + numberText(element, dtype);
    return text + "]";
  }
  if (const int64_t *integer = value.asInt(); integer && isFloat(dtype))
    return Attribute(double(*integer)).str(dtype);
  return value.str(dtype);
}

DType elementType(const Operation &op, unsigned operand) {
  Type type = operand < op.numOperands() && op.operand(operand) ? op.operand(operand)->type() : Type();
  return type ? type.dtype() : DType::F64;
}

/// The value of an attribute, rounded as the parser rounds it (see roundLiterals there).
std::string attrText(const Operation &op, AttrKind kind, const Attribute &value) {
  if (const AttributeList *list = value.asList(); list && kind == AttrKind::Numbers) {
    std::string text = "[";
    for (size_t i = 0; i < list->size(); ++i)
      text += (i ? ", " : "") + numberText((*list)[i], elementType(op, unsigned(i)));
    return text + "]";
  }
  if (kind == AttrKind::Real)
    return numberText(value, DType::F64);
  if (kind == AttrKind::Value || kind == AttrKind::Number || kind == AttrKind::Numbers) {
    Type type = op.numResults() ? op.result()->type() : Type();
    return numberText(value, type ? type.dtype() : elementType(op, 0));
  }
  return value.str();
}

/// `kind word %a, %b, name = value`, with the words for operands from `name`.
template <typename Name> std::string headText(const Operation &op, Name &&name) {
  const OpInfo &info = op.info();
  std::string text(info.name);
  bool symbol = info.word && info.word->kind == AttrKind::Symbol, first = true;
  if (const Attribute *word = info.word ? op.attr(info.word->name) : nullptr) {
    text += " " + attrText(op, info.word->kind, *word);
    first = false;
  }
  if (symbol)
    text += "(";
  for (unsigned i = 0; i < op.numOperands(); ++i)
    text += (i ? ", " : symbol ? "" : " ") + name(op.operand(i));
  if (symbol)
    text += ")";
  first &= op.numOperands() == 0 && !symbol;
  for (const NamedAttribute &attr : op.attrs()) {
    if (info.word && attr.name == info.word->name)
      continue;
    AttrKind kind = AttrKind::Word;
    for (const AttrSpec &spec : info.attrs)
      if (spec.name == attr.name)
        kind = spec.kind;
    text += (first ? " " : ", ") + attr.name + " = " + attrText(op, kind, attr.value);
    first = false;
  }
  return text;
}

class ModulePrinter {
public:
  ModulePrinter(std::string &out, const PrintOptions &options) : out(out), options(options) {}
  void print(const Function &f);

private:
  void prepare(const Block &block);
  void prepare(const Value &value);
  void print(const Operation &op, size_t indent);
  void printParams(std::span<Value *const> values);
  std::string typeText(Type type);
  const std::string &nameOf(const Value *value) const;
  void nameValue(const Value &value);

  std::string &out;
  const PrintOptions &options;
  bool printLocs = false;
  // Layout aliases go on counting through the file, names start anew with each function.
  std::unordered_map<const Layout *, std::string> aliases;
  std::vector<const Layout *> newAliases;
  std::unordered_map<const Value *, std::string> names;
  std::unordered_set<std::string> visible;
  std::vector<std::string> scope; ///< The visible names in order, so that a region's end can take away its own.
  std::unordered_map<std::string, unsigned> nextSuffix;
  unsigned nextNumber = 0;
};

} // namespace

/// Gives the value a name that no visible value has. Values are named in the order in which the parser defines them, so that the
/// names stay what they are when the text is read and printed again.
void ModulePrinter::nameValue(const Value &value) {
  std::string base = value.name();
  for (char &c : base)
    if (!isNameChar(c))
      c = '_';
  std::string name = base;
  if (base.empty())
    do
      name = std::to_string(nextNumber++);
    while (visible.count(name));
  while (visible.count(name))
    name = base + "_" + std::to_string(++nextSuffix[base]);
  visible.insert(name);
  scope.push_back(name);
  names.emplace(&value, std::move(name));
}

void ModulePrinter::prepare(const Value &value) {
  nameValue(value);
  const Layout *layout = value.type() ? value.type().layout() : nullptr;
  if (layout && aliases.try_emplace(layout, "#l" + std::to_string(aliases.size())).second)
    newAliases.push_back(layout);
}

void ModulePrinter::prepare(const Block &block) {
  for (const Value *argument : block.arguments())
    prepare(*argument);
  for (const Operation &op : block) {
    for (unsigned r = 0; r < op.numRegions(); ++r) {
      size_t outer = scope.size();
      prepare(op.region(r));
      for (; scope.size() > outer; scope.pop_back())
        visible.erase(scope.back());
    }
    for (const Value *result : op.results())
      prepare(*result);
  }
}

const std::string &ModulePrinter::nameOf(const Value *value) const {
  static const std::string unknown = "undefined"; // Broken IR is printed as well, for the messages that say so.
  auto it = names.find(value);
  return it == names.end() ? unknown : it->second;
}

std::string ModulePrinter::typeText(Type type) {
  std::string text = type.str();
  if (type && type.layout()) {
    auto alias = aliases.find(type.layout());
    if (alias != aliases.end()) { // A layout has no `>` of its own.
      size_t from = text.find("#layout<");
      text.replace(from, text.find('>', from) + 1 - from, alias->second);
    }
  }
  return text;
}

/// `(%a: type, %b: type)`
void ModulePrinter::printParams(std::span<Value *const> values) {
  out += '(';
  for (size_t i = 0; i < values.size(); ++i)
    out += (i ? ", %" : "%") + nameOf(values[i]) + ": " + typeText(values[i]->type());
  out += ')';
}

void ModulePrinter::print(const Operation &op, size_t indent) {
  out.append(indent, ' ');
  for (unsigned i = 0; i < op.numResults(); ++i)
    out += (i ? ", %" : "%") + nameOf(op.result(i));
  if (op.numResults())
    out += " = ";
  out += headText(op, [&](const Value *value) { return "%" + nameOf(value); });
  for (unsigned r = 0; r < op.numRegions(); ++r) {
    const Block &region = op.region(r);
    out += " {";
    if (!region.arguments().empty()) {
      out += " ^";
      printParams(region.arguments());
      out += ':';
    }
    out += '\n';
    for (const Operation &inner : region)
      print(inner, indent + 2);
    out.append(indent, ' ');
    out += '}';
  }
  for (unsigned i = 0; i < op.numResults(); ++i)
    out += (i ? ", " : " : ") + typeText(op.result(i)->type());
  if (printLocs && op.loc().isValid())
    out += " loc(" + std::to_string(op.loc().line) + ":" + std::to_string(op.loc().column) + ")";
  out += '\n';
}

void ModulePrinter::print(const Function &f) {
  names = {}; // clear() would take the time of the largest function so far, for every small one.
  visible = {};
  nextSuffix = {};
  scope.clear();
  newAliases.clear();
  nextNumber = 0;
  printLocs = options.locations && f.level != Level::Graph;
  prepare(f.body());
  for (const Layout *layout : newAliases)
    out += aliases[layout] + " = layout<" + layout->str() + ">\n";

  out += std::string(functionKindName(f.kind)) + " @" + f.name;
  printParams(f.params());
  if (f.kind != FunctionKind::Kernel) {
    out += " -> (";
    for (size_t i = 0; i < f.resultTypes.size(); ++i) {
      out += i ? ", " : "";
      if (i < f.resultNames.size() && isIdent(f.resultNames[i]))
        out += f.resultNames[i] + ": ";
      out += typeText(f.resultTypes[i]);
    }
    out += ')';
  }
  Level usual = f.isGraphLike() ? Level::Graph : Level::Plan;
  if (f.level != usual)
    out += " at " + std::string(levelName(f.level));
  for (const NamedAttribute &attr : f.attrs())
    out += ", " + attr.name + " = " + attr.value.str();
  for (size_t i = 0; i < f.facts.size(); ++i)
    out += (i ? ", " : " where ") + f.facts[i].str();
  out += " {\n";
  for (const Operation &op : f.body())
    print(op, 2);
  out += "}\n";
}

std::string printModule(const Module &module, const PrintOptions &options) {
  // A graph is for any target, until a schedule is chosen for one.
  bool forTarget = module.targetStated || std::any_of(module.functions().begin(), module.functions().end(),
                                                      [](const Function *f) { return f->level != Level::Graph; });
  std::string out = "minic 1\nmodule " + (forTarget ? "target = " + module.target + ", " : "") + "numerics = " + module.numerics;
  if (!module.passes.empty())
    out += ", passes = \"" + module.passes + "\"";
  if (!module.lastPass.empty())
    out += ", after = \"" + module.lastPass + "\"";
  out += '\n';
  ModulePrinter printer(out, options);
  for (const Function *function : module.functions()) {
    out += '\n';
    printer.print(*function);
  }
  return out;
}

std::string printFunction(const Function &function, const PrintOptions &options) {
  std::string out;
  ModulePrinter(out, options).print(function);
  return out;
}

std::string printOperation(const Operation &op) {
  // Unique names would take a walk over the function, and messages are made for many operations of one function.
  auto name = [](const Value *value) { return "%" + (!value || value->name().empty() ? std::string("?") : value->name()); };
  std::string text;
  for (unsigned i = 0; i < op.numResults(); ++i)
    text += (i ? ", " : "") + name(op.result(i));
  text += (op.numResults() ? " = " : "") + headText(op, name);
  for (unsigned r = 0; r < op.numRegions(); ++r)
    text += " {...}";
  for (unsigned i = 0; i < op.numResults(); ++i)
    text += (i ? ", " : " : ") + op.result(i)->type().str();
  return text;
}

} // namespace minic
