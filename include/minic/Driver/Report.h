// What `minic report` tells of a compilation: docs/report.md.
#pragma once

#include "minic/Compiler/Compiler.h"
#include "minic/Driver/ReportPage.h"

namespace minic {

/// A measurement of the graph on a GPU.
struct MeasuredTimes {
  std::string device;
  double coldUs = 0, warmUs = 0, graphUs = 0;
};

/// Compiles the graph that `options` name and adds to the page, as soon as it is known, what each pass did, what was decided and
/// what came out. Hooks of `options` are called after the page's own. Errors are those of the compiler or of the file; the page
/// ends with them.
Expected<void> writeReport(Module &module, const SourceBuffer &source, const CompileOptions &options, ReportPage &page);
Expected<void> addMeasuredTimes(const MeasuredTimes &times, ReportPage &page);
/// The last part: a page without it says that it is cut.
Expected<void> endReport(const Diagnostics &errors, const SourceBuffer &source, ReportPage &page);

} // namespace minic
