// minic run: a graph, a plan or an artifact on given inputs.
#include "Execution.h"

#include "minic/Artifact/RunPlan.h"
#include "minic/Artifact/TracedDevice.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cmath>

namespace minic::cli {
namespace {

struct Flags : ExecutionFlags {
  std::vector<std::string> outputs, weights;
  bool full = false;
};

/// All elements in row-major order; numbers that JSON lacks as words.
nlohmann::json elements(const HostTensor &tensor) {
  nlohmann::json list = nlohmann::json::array();
  for (int64_t i = 0; i < tensor.numElements(); ++i) {
    double value = tensor.get(i);
    if (!isFloat(tensor.dtype()))
      list.push_back(int64_t(value));
    else if (std::isfinite(value))
      list.push_back(nlohmann::json::parse(floatText(value, tensor.dtype()))); // The shortest digits, as in the text form.
    else
      list.push_back(floatText(value, tensor.dtype()));
  }
  return list;
}

Expected<std::string> writeResults(const Flags &flags, const Signature &signature, const std::vector<HostTensor> &results,
                                   const std::map<std::string, std::string> &files, const std::string &device) {
  std::string text;
  nlohmann::json list = nlohmann::json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string &name = signature.results[i];
    const HostTensor &tensor = results[i];
    nlohmann::json entry = {{"name", name}, {"dtype", dtypeName(tensor.dtype())}, {"shape", tensor.shape()}};
    if (auto file = files.find(name); file != files.end()) {
      if (auto written = writeNpy(file->second, tensor); !written)
        return written.takeErrors();
      entry["file"] = file->second;
    } else if (flags.json) {
      entry["data"] = elements(tensor);
    } else {
      text += name + ": tensor<" + shapeString(tensor.dtype(), tensor.shape()) +
              "> = " + tensorText(tensor, flags.full ? 0 : 1000) + "\n";
    }
    list.push_back(std::move(entry));
  }
  return flags.json ? nlohmann::json{{"function", signature.name}, {"device", device}, {"outputs", list}}.dump() + "\n" : text;
}

int run(const Flags &flags) {
  Messages messages(flags.json);
  auto choice = deviceChoice(flags);
  if (!choice)
    return messages.fail(choice.errors());
  auto source = readSource(flags.file);
  if (!source)
    return messages.fail(source.errors());
  auto program = loadProgram(*source, flags, messages);
  if (!program)
    return messages.fail(program.errors(), &*source);

  Signature signature = program->signature;
  auto words = namedValues("--input", flags.inputs, "input", signature.inputNames());
  if (!words)
    return messages.fail(words.errors());
  auto files = namedValues("--output", flags.outputs, "output", signature.results);
  if (!files)
    return messages.fail(files.errors());
  auto weights = readWeights(flags.weights, signature);
  if (!weights)
    return messages.fail(weights.errors());
  std::string command = "minic run " + flags.file;
  for (const std::string &weight : flags.weights)
    command += " --weights " + weight;
  DimBindings given = program->options.dims, dims = given;
  auto inputs = makeInputs(signature, *words, false, command, dims, std::move(*weights));
  if (!inputs)
    return messages.fail(inputs.errors());

  auto opened = openDevice(*choice, program->options.cache, messages);
  if (!opened)
    return messages.fail(opened.errors());
  CompileOptions options = program->options;
  auto artifact = artifactFor(*opened, *source, std::move(*program));
  if (!artifact)
    return messages.fail(artifact.errors(), &*source);
  noteUnusedSchedules(options, messages);
  noteUnrunPtx(**artifact, *opened, messages);
  auto results = runPlan(**artifact, *traced(opened->device, flags.trace.get()), *inputs, given, {.poison = flags.poison});
  if (!results)
    return messages.fail(results.errors(), &*source);

  auto text = writeResults(flags, signature, *results, *files, opened->model());
  if (!text)
    return messages.fail(text.errors());
  if (auto written = writeOutput({}, *text); !written)
    return messages.fail(written.errors());
  return finish(Fine, flags, messages);
}

} // namespace

void addRun(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("run", "Run a graph, a plan or an artifact on given inputs");
  addExecutionFlags(*command, *flags,
                    WithGraph | WithMode | WithJson | WithSchedules | WithCache | WithLineInfo | WithOverrides | WithTrace);
  addListFlag(*command, "--output", flags->outputs, "NAME=b.npy writes a result to a file instead of printing it");
  addListFlag(*command, "--weights", flags->weights,
              "NAME=a.npy, or b.safetensors, whose tensors go to the inputs of their names; may stand several times");
  command->add_flag("--full", flags->full, "print long results whole");
  command->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

} // namespace minic::cli
