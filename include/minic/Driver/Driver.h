// From graphs to what a device runs.
#pragma once

#include "minic/Artifact/Device.h"
#include "minic/Compiler/Compiler.h"
#include "minic/Driver/Graph.h"
#include "minic/Runtime/Executable.h"

#include <filesystem>
#include <memory>
#include <string_view>

namespace minic {

/// `auto` (CUDA device 0 if there is one, else the interpreter), `cuda` (device 0), `cuda:N` or `cpu` (the interpreter). Compiling
/// needs no device. A GPU keeps its cubins in `cache`.
Expected<std::shared_ptr<Device>> openDevice(std::string_view name = "auto", const CacheUse &cache = {});

/// Compiles a graph. With a device, the target is the device's where options and text state none, and for the interpreter there is
/// no code for a GPU. Findings have notes `at file.cpp:12` with lines of the program that built the graph; their places are in
/// `graph.text()`.
Expected<std::shared_ptr<const Artifact>> compile(const Graph &graph, const CompileOptions &options = {},
                                                  const Device *device = nullptr);
/// The same of IR text.
Expected<std::shared_ptr<const Artifact>> compile(const SourceBuffer &source, const CompileOptions &options = {},
                                                  const Device *device = nullptr);
/// Lets an executable compile its graph once more for each set of sizes that runs bring. `source` and `options` are those that its
/// artifact was compiled with; `options.specializations` do not matter for sizes that are numbers. BadArgument if it has other
/// inputs.
Expected<void> specializeByShape(Executable &executable, const SourceBuffer &source, const CompileOptions &options = {});
/// What `compile` begins with: `loadModule`, and the module and options made to suit the source and the device (may be null).
Expected<std::unique_ptr<Module>> loadFor(const Device *device, Context &context, const SourceBuffer &source,
                                          CompileOptions &options, Diagnostics *warnings = nullptr);
/// A file of tuned schedules; errors begin with file and line.
Expected<ScheduleTable> readSchedules(const std::filesystem::path &path);
/// Takes the schedules of a file before those that minic brings, with `none` neither, and with an empty word what minic brings
/// alone.
Expected<void> useSchedules(CompileOptions &options, const std::string &word);
/// Reads IR text. Errors: UnreadableFile.
Expected<SourceBuffer> readSource(const std::filesystem::path &path);

} // namespace minic
