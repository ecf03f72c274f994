// minic report: a compilation as one page of HTML, written while it goes on.
#include "Execution.h"
#include "Measure.h"

#include "minic/Driver/Report.h"

#include <CLI/CLI.hpp>

namespace minic::cli {
namespace {

struct Flags : ExecutionFlags {
  std::string output;
};

/// Times of the graph on a GPU, with random inputs.
Expected<void> measureGraph(const Flags &flags, const SourceBuffer &source, const CompileOptions &options,
                            const Signature &signature, const OpenedDevice &opened, ReportPage &page) {
  DimBindings dims = options.dims;
  auto inputs = makeInputs(signature, {}, true, "minic report " + flags.file, dims);
  if (!inputs)
    return inputs.takeErrors();
  CompileOptions measured = options;
  measured.passes = {};
  auto artifact = compileFor(opened, source, measured);
  if (!artifact)
    return artifact.takeErrors();
  auto executable = Executable::load(*artifact, opened.device);
  if (!executable)
    return executable.takeErrors();
  std::vector<Subject> subjects;
  auto subject = Subject::create(signature.name, *executable, *inputs);
  if (!subject)
    return subject.takeErrors();
  subjects.push_back(std::move(*subject));
  auto times = measure(subjects, {});
  if (!times)
    return times.takeErrors();
  const auto &ms = times->front();
  return addMeasuredTimes({opened.model(), ms[size_t(How::Cold)] * 1e3, ms[size_t(How::Warm)] * 1e3, ms[size_t(How::Graph)] * 1e3},
                          page);
}

/// The GPU to measure on; null where none is asked for, or `auto` finds none.
Expected<std::optional<OpenedDevice>> openGpu(const Flags &flags, const CompileOptions &options, const Messages &messages) {
  if (flags.device == "none")
    return std::optional<OpenedDevice>();
  auto choice = deviceChoice(flags);
  if (!choice)
    return choice.takeErrors();
  if (choice->kind == DeviceChoice::Cpu)
    return badFlag("an interpreter's times say nothing", "use --device=auto, none, cuda or cuda:N");
  if (choice->kind == DeviceChoice::Auto) {
    std::string why;
    if (!cudaAvailable(why))
      return std::optional<OpenedDevice>();
  }
  auto opened = openDevice(*choice, options.cache, messages);
  if (!opened)
    return opened.takeErrors();
  return std::optional(std::move(*opened));
}

int report(const Flags &flags) {
  Messages messages(flags.json);
  if (flags.output.empty())
    return messages.fail({badFlag("-o is required", "write -o report.html")});
  BegunGraph begun;
  if (auto failed = beginWithGraph(flags, messages, begun))
    return *failed;
  auto gpu = openGpu(flags, begun.options, messages);
  if (!gpu)
    return messages.fail(gpu.errors());
  Signature signature = signatureOf(*begun.graph); // Lowering replaces the graph.
  if (*gpu && !requireDims(begun.graph->dimNames(), begun.options.dims, "minic report " + flags.file)) {
    messages.note("the graph is not timed, since not all of its sizes are known");
    gpu->reset();
  }
  auto page = ReportPage::create(flags.output, "minic report: " + signature.name);
  if (!page)
    return messages.fail(page.errors());
  if (*gpu)
    if (auto suited = suitDevice(*begun.module, begun.options, **gpu); !suited)
      return messages.fail(suited.errors());

  auto done = writeReport(*begun.module, begun.source, begun.options, *page);
  noteUnusedSchedules(begun.options, messages);
  if (done && *gpu)
    done = measureGraph(flags, begun.source, begun.options, signature, **gpu, *page);
  Diagnostics errors;
  if (!done) {
    addReproducer(done.errors(), begun.source, begun.options, Stage::Plan);
    errors = done.takeErrors();
  }
  if (auto ended = endReport(errors, begun.source, *page); !ended && errors.empty())
    errors = ended.takeErrors();
  return messages.fail(errors, &begun.source);
}

} // namespace

void addReport(CLI::App &app, Action &chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "report", "Write what compiling a graph does and gives as one page of HTML: the graph before and after fusion, passes, all "
                "levels side by side, and what each kernel costs");
  addModuleFlags(*command, *flags, WithGraph | WithMode | WithJson | WithSchedules);
  command->add_option("-o", flags->output, "the page to write, FILE.html");
  command->add_option("--device", flags->device,
                      "auto|none|cuda|cuda:N: the GPU that the graph is timed on (default: auto: one if there is one)");
  command->callback([flags, &chosen] { chosen = [flags] { return report(*flags); }; });
}

} // namespace minic::cli
