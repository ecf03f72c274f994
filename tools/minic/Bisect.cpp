// minic bisect: the first pass after which a graph gives something else, and the smallest graph that shows it.
#include "Difference.h"
#include "Execution.h"

#include "minic/Driver/Bisect.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Printer.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace minic::cli {
namespace {

struct Flags : ModuleFlags {
  std::vector<std::string> inputs;
  ToleranceFlags tolerance;
  std::string output;
  bool noReduce = false;
};

//===- Inputs -===//

/// The inputs of a graph and of what becomes of it: those of a name get the same word, or the first part of the same tensor.
class Inputs {
public:
  /// `words` are those of --input; an input without one is random.
  static Expected<Inputs> create(const Function &graph, std::map<std::string, std::string> words) {
    Inputs inputs;
    inputs.words = std::move(words);
    Signature signature = signatureOf(graph);
    for (size_t i = 0; i < signature.inputs.size(); ++i) {
      const TensorSpec &spec = signature.inputs[i];
      const std::string &word = inputs.words.try_emplace(spec.name, "random:" + std::to_string(i + 1)).first->second;
      auto shape = inputShape(spec.name, word, spec.dtype);
      if (!shape)
        return shape.takeErrors();
      if (!*shape)
        continue;
      auto tensor = makeInput(spec.name, word, spec.dtype, **shape);
      if (!tensor)
        return tensor.takeErrors();
      inputs.given.emplace(spec.name, std::move(*tensor));
    }
    return inputs;
  }

  Expected<std::vector<HostTensor>> make(const Function &graph, DimBindings &dims) const {
    Signature signature = signatureOf(graph);
    for (const TensorSpec &spec : signature.inputs)
      if (auto tensor = given.find(spec.name); tensor != given.end())
        bindNames(spec, tensor->second.shape(), dims);
    if (auto bound = requireDims(graph.dimNames(), dims, "minic bisect FILE"); !bound)
      return bound.takeErrors();
    std::vector<HostTensor> tensors;
    for (const TensorSpec &spec : signature.inputs) {
      std::vector<int64_t> shape;
      for (const DimExpr &dim : spec.shape)
        shape.push_back(dim.evaluate(dims).value_or(0));
      auto whole = given.find(spec.name);
      auto tensor =
          whole == given.end() ? makeInput(spec.name, wordOf(spec.name), spec.dtype, shape) : firstPart(whole->second, shape, spec);
      if (!tensor)
        return tensor.takeErrors();
      tensors.push_back(std::move(*tensor));
    }
    return tensors;
  }

  /// The flags that give a graph these inputs again; a part of a tensor goes into a file beside `path`.
  Expected<std::string> flagsFor(const Function &graph, const std::string &path) const {
    std::string flags;
    DimBindings dims;
    for (const TensorSpec &spec : signatureOf(graph).inputs) {
      std::string word = wordOf(spec.name);
      if (auto whole = given.find(spec.name); whole != given.end()) {
        std::vector<int64_t> shape;
        for (const DimExpr &dim : spec.shape)
          shape.push_back(dim.constant().value_or(0));
        if (!std::ranges::equal(shape, whole->second.shape())) {
          auto part = firstPart(whole->second, shape, spec);
          if (!part)
            return part.takeErrors();
          word = path + "." + spec.name + ".npy";
          if (auto written = writeNpy(word, *part); !written)
            return written.takeErrors();
        }
      }
      bool isPlain = word.find_first_of(" []()'\"*?$;&|<>\\") == std::string::npos;
      word = spec.name + "=" + word;
      flags += " --input " + (isPlain ? word : shellWord(word));
    }
    return flags;
  }

private:
  /// Of an input that reducing made as well: the same in every candidate that has it.
  std::string wordOf(const std::string &name) const {
    if (auto word = words.find(name); word != words.end())
      return word->second;
    unsigned seed = 100;
    for (char c : name)
      seed = (seed * 31 + static_cast<unsigned char>(c)) % 10007;
    return "random:" + std::to_string(seed);
  }

  static Expected<HostTensor> firstPart(const HostTensor &whole, const std::vector<int64_t> &shape, const TensorSpec &spec) {
    bool fits = whole.dtype() == spec.dtype && whole.shape().size() == shape.size();
    for (size_t axis = 0; fits && axis < shape.size(); ++axis)
      fits = shape[axis] <= whole.shape()[axis];
    if (!fits)
      return Diagnostic{.code = ErrorCode::BadInput,
                        .message = "the tensor for '" + spec.name + "' is " + shapeString(whole.dtype(), whole.shape()) + ", and " +
                                   shapeString(spec.dtype, shape) + " is wanted"};
    HostTensor part(spec.dtype, shape);
    for (int64_t i = 0; i < part.numElements(); ++i) {
      int64_t rest = i, from = 0, stride = 1;
      for (size_t axis = shape.size(); axis-- > 0;) {
        from += rest % shape[axis] * stride;
        rest /= shape[axis];
        stride *= whole.shape()[axis];
      }
      part.set(i, whole.get(from));
    }
    return part;
  }

  std::map<std::string, std::string> words;
  std::map<std::string, HostTensor> given; ///< What words fix whole: files and literals.
};

//===- The report -===//

struct Reduced {
  std::string file, again;
  size_t ops = 0, of = 0;
};

std::string textOf(const WrongPass &wrong, const std::optional<Reduced> &reduced) {
  std::string text = "the first wrong pass is " + wrong.name + "; after " + wrong.before + " all is right\n  " + wrong.how + "\n";
  if (wrong.elements > 0)
    text += "  " + plural(wrong.elements, "element") + " of the results " + (wrong.elements == 1 ? "is" : "are") +
            " wrong, the largest difference is " + number(wrong.largest) + "\n";
  if (reduced)
    text += "the smallest graph that shows it is in " + reduced->file + ": " + plural(int64_t(reduced->ops), "op") + " of " +
            std::to_string(reduced->of) + "\n  " + reduced->again + "\n";
  return text;
}

std::string jsonOf(const std::optional<WrongPass> &wrong, const std::optional<Reduced> &reduced) {
  nlohmann::json json = {{"wrong_pass", nullptr}};
  if (wrong)
    json = {{"wrong_pass", wrong->name}, {"step", wrong->step + 1},     {"before", wrong->before},
            {"how", wrong->how},         {"elements", wrong->elements}, {"largest", errorJson(wrong->largest)}};
  if (reduced)
    json["reduced"] = {{"file", reduced->file}, {"ops", reduced->ops}, {"command", reduced->again}};
  return json.dump() + "\n";
}

/// The flags that say how to compile, once more.
std::string compileFlags(const Flags &flags) {
  std::string text;
  const std::pair<const char *, const std::string *> words[] = {
      {"--target", &flags.target}, {"--numerics", &flags.numerics},   {"--mode", &flags.mode},         {"--matmul", &flags.matmul},
      {"--passes", &flags.passes}, {"--schedules", &flags.schedules}, {"--tuned-for", &flags.tunedFor}};
  for (auto [flag, word] : words)
    if (!word->empty())
      text += std::string(" ") + flag + "=" + shellWord(*word);
  return text;
}

/// The source with the sizes that the run had as numbers, where the same pass is wrong then too: numbers can be made smaller.
SourceBuffer withNumbers(const SourceBuffer &source, std::span<const PassStep> steps, const WrongPass &wrong,
                         const DimBindings &dims, BisectOptions &options) {
  BisectOptions bound = options;
  bound.compile.dims = dims;
  Context context;
  auto module = loadModule(context, source, bound.compile);
  if (!module || !keepOnly(**module, bound.compile.graph) || !lowerTo(**module, Stage::Graph, bound.compile))
    return source;
  SourceBuffer text(source.name(), printModule(**module));
  bound.compile.dims.clear();
  auto found = findWrongPass(text, steps, bound);
  if (!found || !*found || (*found)->step != wrong.step)
    return source;
  options = bound;
  return text;
}

int bisect(const Flags &flags) {
  Messages messages(flags.json);
  BegunGraph begun;
  if (auto failed = beginWithGraph(flags, messages, begun))
    return *failed;
  auto words = namedValues("--input", flags.inputs, "input", signatureOf(*begun.graph).inputNames());
  if (!words)
    return messages.fail(words.errors());
  auto inputs = Inputs::create(*begun.graph, std::move(*words));
  if (!inputs)
    return messages.fail(inputs.errors());
  auto pipeline = pipelineFor(*begun.module, Stage::Plan, begun.options);
  if (!pipeline)
    return messages.fail(pipeline.errors());

  BisectOptions options{.compile = begun.options, .tolerance = flags.tolerance};
  options.compile.graph = begun.graph->name;
  DimBindings dims;
  options.makeInputs = [&](const Function &graph, DimBindings &all) {
    auto tensors = inputs->make(graph, all);
    dims = all;
    return tensors;
  };
  auto wrong = findWrongPass(begun.source, pipeline->left(), options);
  if (!wrong)
    return messages.fail(wrong.errors(), &begun.source);
  if (!*wrong) {
    auto written = writeOutput({}, flags.json ? jsonOf(*wrong, {}) : "no pass changes what @" + begun.graph->name + " gives\n");
    return written ? Fine : messages.fail(written.errors());
  }

  std::optional<Reduced> reduced;
  if (!flags.noReduce) {
    std::string path = flags.output.empty() ? begun.graph->name + "-reduced.ir" : flags.output;
    SourceBuffer source = withNumbers(begun.source, pipeline->left(), **wrong, DimBindings(dims), options);
    ReduceOptions reduce{.onProgress = [&](const std::string &change, const Module &module) {
      messages.note(plural(int64_t(countOps(module)), "op") + ": " + change);
    }};
    auto text = reduceToWrongPass(source, pipeline->left(), **wrong, options, reduce);
    if (!text)
      return messages.fail(text.errors(), &source);
    Context context;
    auto module = parseModule(context, SourceBuffer(path, *text));
    if (!module)
      return messages.fail(module.errors());
    auto again = inputs->flagsFor(*(*module)->find(begun.graph->name), path);
    if (!again)
      return messages.fail(again.errors());
    std::string command = "minic bisect " + path + *again + compileFlags(flags);
    for (const auto &[name, size] : options.compile.dims)
      command += " --dim " + name + "=" + std::to_string(size);
    if (auto written = writeOutput(path, *text); !written)
      return messages.fail(written.errors());
    reduced = {path, command, countOps(**module), countOps(*begun.module)};
  }
  auto written = writeOutput({}, flags.json ? jsonOf(*wrong, reduced) : textOf(**wrong, reduced));
  return written ? BadData : messages.fail(written.errors());
}

} // namespace

void addBisect(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("bisect", "Find the first pass that changes what a graph gives, and a small graph that shows it");
  addModuleFlags(*command, *flags, WithGraph | WithMode | WithJson | WithSchedules | WithPasses);
  addListFlag(*command, "--input", flags->inputs,
              "NAME=a.npy, NAME=random:7, NAME=iota, NAME=const:1.5 or 'NAME=[[1,-2],[0,1]]' (default: random)");
  addToleranceFlags(*command, flags->tolerance);
  command->add_option("-o", flags->output, "where the smallest graph goes (default: GRAPH-reduced.ir)");
  command->add_flag("--no-reduce", flags->noReduce, "name the pass and look for no smaller graph");
  command->callback([flags, &chosen] { chosen = [flags] { return bisect(*flags); }; });
}

} // namespace minic::cli
