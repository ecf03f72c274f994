#include "minic-c/compiler.h"

#include "minic/CApiRuntime/Handles.h"
#include "minic/CodeGen/CodeGen.h"
#include "minic/Driver/Driver.h"
#include "minic/Support/File.h"

namespace minic {
namespace {

struct Request {
  CompileOptions options;
  std::string name;
  std::shared_ptr<Device> device; ///< May be null.
  std::string customs;            ///< What goes behind the text.
};

std::string textOr(const char *text, std::string other) { return text ? text : other; }

Expected<Request> readOptions(const MinicCompileOptions *given, std::string name) {
  Request request{.name = std::move(name)};
  auto read = readSized(given, "options");
  if (!read)
    return read.takeErrors();
  const MinicCompileOptions &options = *read;
  request.name = textOr(options.name, request.name);
  request.options.target = textOr(options.target, "");
  request.options.numerics = textOr(options.numerics, "");
  request.options.graph = textOr(options.graph, "");
  std::string mode = textOr(options.mode, "fused");
  if (mode != "fused" && mode != "eager")
    return badArgument("options.mode", "is '" + mode + "', expected fused or eager");
  request.options.eager = mode == "eager";
  std::string strides = textOr(options.strides, "");
  if (!strides.empty() && strides != "any" && strides != "dense")
    return badArgument("options.strides", "is '" + strides + "', expected any or dense");
  if (!strides.empty())
    request.options.anyStrides = strides == "any";
  std::string matmul = textOr(options.matmul, "auto");
  auto provider = parseMatmulProvider(matmul);
  if (!provider)
    return badArgument("options.matmul", "is '" + matmul + "', expected auto, generated or cublaslt");
  request.options.matmul = *provider;
  request.options.lineInfo = options.line_info != 0;
  request.options.tunedFor = textOr(options.tuned_for, "");
  if (auto done = useSchedules(request.options, textOr(options.schedules, "")); !done)
    return done.takeErrors();
  if (options.num_dims && !options.dims)
    return badArgument("options.dims", "is NULL, expected " + std::to_string(options.num_dims) + " values");
  for (size_t i = 0; i < options.num_dims; ++i) {
    if (!options.dims[i].name)
      return badArgument("options.dims[" + std::to_string(i) + "]", "has no name");
    request.options.dims[options.dims[i].name] = options.dims[i].value;
  }
  if (options.num_specializations && !options.specializations)
    return badArgument("options.specializations", "is NULL, expected " + std::to_string(options.num_specializations) + " texts");
  for (size_t i = 0; i < options.num_specializations; ++i) {
    if (!options.specializations[i])
      return badArgument("options.specializations[" + std::to_string(i) + "]", "is NULL, expected a text");
    request.options.specializations.emplace_back(options.specializations[i]);
  }
  if (options.num_customs && !options.customs)
    return badArgument("options.customs", "is NULL, expected " + std::to_string(options.num_customs) + " texts");
  for (size_t i = 0; i < options.num_customs; ++i) {
    if (!options.customs[i])
      return badArgument("options.customs[" + std::to_string(i) + "]", "is NULL, expected a text");
    request.customs += "\n" + std::string(options.customs[i]);
  }
  if (options.device) {
    auto device = use<DeviceObject>(options.device, "options.device");
    if (!device)
      return device.takeErrors();
    request.device = (*device)->device;
  }
  if (options.cache) {
    auto cache = use<CacheObject>(options.cache, "options.cache");
    if (!cache)
      return cache.takeErrors();
    request.options.cache = (*cache)->use;
  }
  return request;
}

/// Loads a text and hands the module to `work` with the options and the warnings; errors show the text.
template <typename Work> MinicError *withModule(std::string text, std::string name, const MinicCompileOptions *given, Work work) {
  MinicError *failed = nullptr;
  MinicError *refused = guarded([&]() -> Expected<void> {
    auto request = readOptions(given, std::move(name));
    if (!request)
      return request.takeErrors();
    SourceBuffer source(request->name, std::move(text) + request->customs);
    failed = guarded(
        [&]() -> Expected<void> {
          Context context;
          Diagnostics warnings;
          auto module = loadFor(request->device.get(), context, source, request->options, &warnings);
          if (!module)
            return module.takeErrors();
          return work(**module, request->options, renderDiagnostics(warnings, &source));
        },
        &source);
    return {};
  });
  return refused ? refused : failed;
}

MinicError *compileText(std::string text, std::string name, const MinicCompileOptions *options, MinicArtifact **artifact) {
  return withModule(std::move(text), std::move(name), options,
                    [&](Module &module, const CompileOptions &read, std::string warnings) -> Expected<void> {
                      auto compiled = compile(module, read);
                      if (!compiled)
                        return compiled.takeErrors();
                      std::vector<Artifact> variants;
                      variants.push_back(std::move(*compiled));
                      *artifact = give(std::make_unique<ArtifactObject>(std::move(variants), std::move(warnings)));
                      return {};
                    });
}

Expected<std::string> copyText(const char *text, size_t length) {
  if (!text && length)
    return badArgument("text", "is NULL, expected " + std::to_string(length) + " bytes");
  return std::string(text ? text : "", length);
}

} // namespace
} // namespace minic

using namespace minic;

MinicError *minic_compile_text(const char *text, size_t length, const MinicCompileOptions *options, MinicArtifact **artifact) {
  std::string copy;
  MinicError *refused = guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(artifact, "artifact"); !place)
      return place;
    auto copied = copyText(text, length);
    if (!copied)
      return copied.takeErrors();
    copy = std::move(*copied);
    return {};
  });
  return refused ? refused : compileText(std::move(copy), "text", options, artifact);
}

MinicError *minic_compile_file(const char *path, const MinicCompileOptions *options, MinicArtifact **artifact) {
  std::string text, name;
  MinicError *refused = guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(artifact, "artifact"); !place)
      return place;
    if (!path)
      return badArgument("path", "is NULL, expected a file's path");
    auto read = readFile(path);
    if (!read)
      return read.takeErrors();
    text = std::move(*read);
    name = path;
    return {};
  });
  return refused ? refused : compileText(std::move(text), std::move(name), options, artifact);
}

MinicError *minic_emit_text(const char *text, size_t length, const char *stage, const MinicCompileOptions *options,
                            MinicText **result) {
  std::string copy;
  std::optional<Stage> wanted;
  MinicError *refused = guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(result, "result"); !place)
      return place;
    auto copied = copyText(text, length);
    if (!copied)
      return copied.takeErrors();
    copy = std::move(*copied);
    wanted = stage ? parseStage(stage) : std::nullopt;
    if (!wanted || *wanted == Stage::Cubin)
      return badArgument("stage", "is " + (stage ? "'" + std::string(stage) + "'" : "NULL") +
                                      ", expected graph, fused, tile, masked, machine, plan, llvm or ptx");
    return {};
  });
  if (refused)
    return refused;
  return withModule(std::move(copy), "text", options,
                    [&](Module &module, const CompileOptions &read, const std::string &) -> Expected<void> {
                      auto emitted = emitStage(module, *wanted, read);
                      if (!emitted)
                        return emitted.takeErrors();
                      auto object = std::make_unique<TextObject>();
                      object->text = std::move(*emitted);
                      *result = give(std::move(object));
                      return {};
                    });
}

MinicError *minic_executable_specialize(MinicExecutable *executable, const char *text, size_t length,
                                        const MinicCompileOptions *options) {
  MinicError *failed = nullptr;
  MinicError *refused = guarded([&]() -> Expected<void> {
    auto object = use<ExecutableObject>(executable, "executable");
    if (!object)
      return object.takeErrors();
    auto copied = copyText(text, length);
    if (!copied)
      return copied.takeErrors();
    auto request = readOptions(options, "text");
    if (!request)
      return request.takeErrors();
    SourceBuffer source(request->name, std::move(*copied) + request->customs);
    failed = guarded([&] { return specializeByShape(*(*object)->executable, source, request->options); }, &source);
    return {};
  });
  return refused ? refused : failed;
}

const char *minic_llvm_version(void) {
  static const std::string version = llvmVersion();
  return version.c_str();
}
