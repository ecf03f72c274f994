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

/// Times of the graph on a GPU; nothing where there is none and none is asked for, or where sizes are not known.
Expected<void> measureGraph(const Flags &flags, const SourceBuffer &source, const CompileOptions &options, const Function &graph,
                            const OpenedDevice &opened, ReportPage &page) {
  DimBindings dims = options.dims;
  auto inputs = makeInputs(signatureOf(graph), {}, true, "minic report " + flags.file, dims);
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
  auto subject = Subject::create(graph.name, *executable, *inputs);
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
  BegunModule begun;
  if (auto failed = beginWithModule(flags, messages, begun))
    return *failed;
  auto graph = chooseGraph(*begun.module, begun.options.graph);
  if (!graph)
    return messages.fail(graph.errors(), &begun.source);
  auto gpu = openGpu(flags, begun.options, messages);
  if (!gpu)
    return messages.fail(gpu.errors());
  auto page = ReportPage::create(flags.output, "minic report: " + (*graph)->name);
  if (!page)
    return messages.fail(page.errors());
  if (*gpu)
    if (auto suited = suitDevice(*begun.module, begun.options, **gpu); !suited)
      return messages.fail(suited.errors());

  auto done = writeReport(*begun.module, begun.source, begun.options, *page);
  noteUnusedSchedules(begun.options, messages);
  if (done && *gpu) {
    LoadedModule again{.source = begun.source};
    done = load(again, begun.options, messages);
    if (done)
      done = measureGraph(flags, begun.source, begun.options, **chooseGraph(*again.module, begun.options.graph), **gpu, *page);
  }
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
