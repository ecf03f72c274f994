// minic inspect: what an artifact file holds.
#include "Common.h"

#include "minic/Artifact/ArtifactFile.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace minic::cli {
namespace {

using Json = nlohmann::json;

struct Flags {
  std::string file, emit, kernel, target, output;
  bool json = false;
};

//===- Text -===//

std::string join(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<std::string> texts(const std::vector<DimExpr> &dims) {
  std::vector<std::string> words;
  for (const DimExpr &dim : dims)
    words.push_back(dim.str());
  return words;
}

std::string typeText(const TensorSpec &spec) {
  std::string text = "tensor<";
  for (const DimExpr &dim : spec.shape)
    text += dim.str() + "x";
  return text + std::string(dtypeName(spec.dtype)) + ">";
}

/// "x: tensor<MxNxf32>, ...", with `before` in front of each name.
std::string specTexts(const std::vector<TensorSpec> &specs, const char *before) {
  std::vector<std::string> words;
  for (const TensorSpec &spec : specs)
    words.push_back(before + spec.name + ": " + typeText(spec));
  return join(words);
}

/// A buffer by its number, and its name where it has one.
std::string bufferText(const Plan &plan, int slot) {
  const std::string &name = plan.buffers[size_t(slot)].spec.name;
  return "%" + std::to_string(slot) + (name.empty() ? "" : ":" + name);
}

/// ", transposed lhs, epilogue bias".
std::string matmulText(const MatmulCall &call) {
  return std::string(call.transposedLhs ? ", transposed lhs" : "") + (call.transposedRhs ? ", transposed rhs" : "") +
         (call.epilogue == MatmulEpilogue::None ? "" : ", epilogue " + std::string(epilogueName(call.epilogue)));
}

std::string stepText(const Artifact &artifact, const Plan &plan, const PlanStep &step) {
  std::vector<std::string> operands;
  for (int operand : step.operands)
    operands.push_back(bufferText(plan, operand));
  std::string kind(stepName(step.kind));
  if (step.kind == PlanStep::Kind::Launch)
    return kind + " " + artifact.kernels[size_t(step.kernel)].name + "(" + join(operands) + "), grid = [" + join(texts(step.grid)) +
           "]";
  if (step.kind == PlanStep::Kind::LibraryCall)
    return kind + " cublaslt matmul(" + join(operands) + ")" + matmulText(step.matmul);
  std::string data = step.kind == PlanStep::Kind::Constant
                         ? ", " + std::to_string(artifact.constants[size_t(step.constant)].size()) + " bytes"
                         : "";
  return bufferText(plan, step.result) + " = " + kind + (operands.empty() ? "" : " " + join(operands)) + " : " +
         typeText(plan.buffers[size_t(step.result)].spec) + data;
}

std::vector<std::string> factTexts(const Plan &plan) {
  std::vector<std::string> texts;
  for (const DimFact &fact : plan.facts)
    texts.push_back(fact.str());
  return texts;
}

/// Whether the plan is for tensors of any strides.
bool takesStrides(const Plan &plan) {
  auto isStrided = [](const TensorSpec &spec) { return spec.strided; };
  return std::ranges::any_of(plan.inputs, isStrided) || std::ranges::any_of(plan.results, isStrided);
}

std::string kernelText(const KernelCode &kernel) {
  std::vector<std::string> params;
  for (const KernelParam &param : kernel.params)
    params.push_back((param.map ? "tensor map of " : "") + (param.name.empty() ? "_" : param.name) +
                     (param.stridedAxes ? " with strides" : ""));
  std::string text = "  kernel " + kernel.name + "\n";
  if (!kernel.ops.empty())
    text += "    from " + join(kernel.ops) + "\n";
  text += "    takes " + join(params) + (kernel.dims.empty() ? "" : "; " + join(texts(kernel.dims))) + "\n";
  text += "    " + std::to_string(kernel.threads) + " threads, " + std::to_string(kernel.sharedBytes) +
          " bytes of shared memory and " + std::to_string(kernel.dynamicSharedBytes) + " more at launch\n";
  if (!kernel.overriddenBy.empty())
    text += "    overridden: its code is that of " + kernel.overriddenBy + "\n";
  return text + "    " + std::to_string(kernel.ptx.size()) + " bytes of PTX" +
         (kernel.entry.empty() ? "" : ", given, with the entry " + kernel.entry) + ", " + std::to_string(kernel.cubin.size()) +
         " bytes of cubin\n";
}

std::string describe(const std::vector<Artifact> &artifacts, const std::string &writer, size_t bytes) {
  const Plan &first = artifacts.front().signature();
  std::string text = "artifact of format " + std::to_string(artifactFormat) + " by minic " + writer + ", " + std::to_string(bytes) +
                     " bytes, checksum ok\n";
  text += "@" + first.name + "(" + specTexts(first.inputs, "%") + ") -> (" + specTexts(first.results, "") + ")\n";
  for (const Artifact &artifact : artifacts) {
    text += "\ntarget " + artifact.target + ", numerics " + artifact.numerics + "\n";
    if (!artifact.passes.empty())
      text += "  passes " + artifact.passes + "\n";
    for (const KernelCode &kernel : artifact.kernels)
      text += kernelText(kernel);
    for (const Plan &plan : artifact.plans) {
      text += std::string("  plan for ") + (takesStrides(plan) ? "tensors of any strides" : "row-major tensors");
      if (plan.inputs.size() && specTexts(plan.inputs, "%") != specTexts(artifact.signature().inputs, "%"))
        text += " (" + specTexts(plan.inputs, "%") + ")";
      text += (plan.facts.empty() ? "" : " where " + join(factTexts(plan))) + "\n";
      for (const PlanStep &step : plan.steps)
        text += "    " + stepText(artifact, plan, step) + "\n";
      std::vector<std::string> results;
      for (size_t i = 0; i < plan.results.size(); ++i)
        results.push_back(plan.results[i].name + " = " + bufferText(plan, plan.resultBuffers[i]));
      text += "    return " + join(results) + "\n";
    }
  }
  return text;
}

//===- JSON -===//

Json toJson(const std::vector<TensorSpec> &specs) {
  Json list = Json::array();
  for (const TensorSpec &spec : specs)
    list.push_back({{"name", spec.name}, {"dtype", dtypeName(spec.dtype)}, {"shape", texts(spec.shape)}});
  return list;
}

Json toJson(const Artifact &artifact) {
  Json kernels = Json::array(), plans = Json::array();
  for (size_t i = 0; i < artifact.kernels.size(); ++i) {
    const KernelCode &kernel = artifact.kernels[i];
    Json grids = Json::array();
    for (const Plan &plan : artifact.plans)
      for (const PlanStep &step : plan.steps)
        if (step.kind == PlanStep::Kind::Launch && step.kernel == int(i))
          grids.push_back(texts(step.grid));
    kernels.push_back({{"name", kernel.name},
                       {"ops", kernel.ops},
                       {"entry", kernel.entry.empty() ? kernel.name : kernel.entry},
                       {"overridden_by", kernel.overriddenBy},
                       {"grids", std::move(grids)},
                       {"threads", kernel.threads},
                       {"shared_bytes", kernel.sharedBytes},
                       {"dynamic_shared_bytes", kernel.dynamicSharedBytes},
                       {"ptx_bytes", kernel.ptx.size()},
                       {"cubin_bytes", kernel.cubin.size()}});
  }
  for (const Plan &plan : artifact.plans) {
    Json steps = Json::array();
    for (const PlanStep &step : plan.steps)
      steps.push_back(stepText(artifact, plan, step));
    plans.push_back({{"strided", takesStrides(plan)},
                     {"inputs", toJson(plan.inputs)},
                     {"where", factTexts(plan)},
                     {"steps", std::move(steps)}});
  }
  return {{"target", artifact.target},
          {"numerics", artifact.numerics},
          {"passes", artifact.passes},
          {"kernels", kernels},
          {"plans", plans}};
}

Json toJson(const std::vector<Artifact> &artifacts, const std::string &writer, size_t bytes) {
  const Plan &first = artifacts.front().signature();
  Json variants = Json::array();
  for (const Artifact &artifact : artifacts)
    variants.push_back(toJson(artifact));
  return {{"format", artifactFormat},
          {"minic", writer},
          {"bytes", bytes},
          {"checksum", "ok"},
          {"graph", first.name},
          {"inputs", toJson(first.inputs)},
          {"results", toJson(first.results)},
          {"variants", variants}};
}

//===- Parts -===//

/// The one called `name`, or the only one; `names` are those of all. `flag` picks one.
Expected<size_t> pick(std::string_view flag, const std::string &name, const std::vector<std::string> &names) {
  for (size_t i = 0; i < names.size(); ++i)
    if (name == names[i] || (name.empty() && names.size() == 1))
      return i;
  if (name.empty())
    return badFlag("the artifact has several of what --" + std::string(flag) + " names", "pick one of " + join(names));
  return badFlag("the artifact has no " + std::string(flag) + " '" + name + "'", "it has " + join(names));
}

Expected<std::string> part(const Flags &flags, const std::vector<Artifact> &artifacts) {
  if (flags.emit != "ptx" && flags.emit != "cubin" && flags.emit != "ir")
    return badFlag("unknown part '" + flags.emit + "' in --emit", "it is one of ptx, cubin, ir");
  std::vector<std::string> targets, kernels;
  for (const Artifact &artifact : artifacts)
    targets.push_back(artifact.target);
  auto target = pick("target", flags.target, targets);
  if (!target)
    return target.takeErrors();
  const Artifact &artifact = artifacts[*target];
  if (flags.emit == "ir") {
    if (!flags.kernel.empty())
      return badFlag("--kernel picks code, and the IR is one text for all kernels", "drop --kernel");
    return artifact.text;
  }
  for (const KernelCode &kernel : artifact.kernels)
    kernels.push_back(kernel.name);
  auto kernel = pick("kernel", flags.kernel, kernels);
  if (!kernel)
    return kernel.takeErrors();
  const KernelCode &code = artifact.kernels[*kernel];
  if (flags.emit == "cubin" && flags.output.empty() && isatty(STDOUT_FILENO))
    return badFlag("a cubin is not text for a terminal", "add -o FILE");
  if (flags.emit == "cubin" && code.cubin.empty())
    return Diagnostic{.code = ErrorCode::NothingToCompile,
                      .message = "the artifact has no cubin of '" + code.name + "': there was no ptxas where it was compiled",
                      .fix = "use --emit=ptx"};
  return flags.emit == "ptx" ? code.ptx : code.cubin;
}

int inspect(const Flags &flags) {
  Messages messages(flags.json);
  if (flags.emit.empty() && !(flags.kernel.empty() && flags.target.empty()))
    return messages.fail({badFlag("--kernel and --target pick what --emit writes", "add --emit=ptx, cubin or ir")});
  auto source = readSource(flags.file);
  if (!source)
    return messages.fail(source.errors());
  std::string writer;
  auto artifacts = deserializeArtifacts(source->text(), "'" + source->name() + "'", &writer);
  if (!artifacts)
    return messages.fail(artifacts.errors());
  Expected<std::string> text = !flags.emit.empty() ? part(flags, *artifacts)
                               : flags.json        ? toJson(*artifacts, writer, source->text().size()).dump() + "\n"
                                                   : describe(*artifacts, writer, source->text().size());
  if (!text)
    return messages.fail(text.errors());
  if (auto written = writeOutput(flags.output, *text); !written)
    return messages.fail(written.errors());
  return Fine;
}

} // namespace

void addInspect(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("inspect", "Print what an artifact file holds, or a part of it");
  command->add_option("file", flags->file, "the artifact; - reads standard input")->required();
  command->add_option("--emit", flags->emit, "ptx|cubin|ir: write this part");
  command->add_option("--kernel", flags->kernel, "whose code, where there are several");
  command->add_option("--target", flags->target, "for which target, where there are several");
  command->add_option("-o", flags->output, "write to this file instead of standard output");
  command->add_flag("--json", flags->json, "results and messages as JSON");
  command->callback([flags, &chosen] { chosen = [flags] { return inspect(*flags); }; });
}

} // namespace minic::cli
