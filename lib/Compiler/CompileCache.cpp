#include "minic/Compiler/CompileCache.h"

#include "minic/Artifact/ArtifactFile.h"
#include "minic/CodeGen/CodeGen.h"
#include "minic/IR/Printer.h"
#include "minic/Support/BuildId.h"
#include "minic/Transforms/PassPipeline.h"

#include <charconv>
#include <map>

namespace minic {

namespace {

using Place = std::pair<uint32_t, uint32_t>; ///< Line and column.

/// Places of all ops, in order.
std::vector<Place> placesOf(const Module &module) {
  std::vector<Place> places;
  for (Function *function : module.functions()) {
    places.emplace_back(function->loc.line, function->loc.column);
    walk(function->body(), [&](Operation &op) { places.emplace_back(op.loc().line, op.loc().column); });
  }
  return places;
}

/// `12:7`
std::string text(Place place) { return std::to_string(place.first) + ":" + std::to_string(place.second); }

/// Reads `12:7` and goes on behind it; nullopt if the text starts otherwise.
std::optional<Place> takePlace(std::string_view &rest) {
  Place place;
  for (uint32_t *number : {&place.first, &place.second}) {
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), *number);
    if (error != std::errc())
      return std::nullopt;
    rest.remove_prefix(size_t(end - rest.data()));
    if (number == &place.first) {
      if (!rest.starts_with(':'))
        return std::nullopt;
      rest.remove_prefix(1);
    }
  }
  return place;
}

/// The text with other places behind each `mark`.
std::string moved(std::string_view from, std::string_view mark, const std::map<Place, Place> &places) {
  std::string result;
  for (size_t at = from.find(mark); at != std::string_view::npos; at = from.find(mark)) {
    result += from.substr(0, at + mark.size());
    from.remove_prefix(at + mark.size());
    std::string_view rest = from;
    auto place = takePlace(rest);
    auto known = place ? places.find(*place) : places.end();
    if (known == places.end())
      continue;
    result += text(known->second);
    from = rest;
  }
  return result + std::string(from);
}

std::string joined(const std::vector<std::string> &texts) {
  std::string result;
  for (const std::string &each : texts)
    result += each + "\n";
  return result;
}

/// The tuned schedules that a region may take. What minic's own are follows from its build.
std::string schedulesText(const Module &module, const CompileOptions &options) {
  if (options.eager)
    return {};
  std::string text;
  ScheduleLookup lookup = scheduleLookup(options);
  for (const ScheduleTable *table : lookup.tables)
    for (const TunedSchedule &entry : table->entries()) {
      if (entry.target != module.target || entry.numerics != module.numerics ||
          (!lookup.device.empty() && entry.device != lookup.device))
        continue;
      if (table == &shippedSchedules())
        return text + "minic's for " + entry.device + "\n";
      text += entry.region + " of " + entry.sizesText() + " " + Attribute(entry.best).str() + "\n";
    }
  return text;
}

} // namespace

/// Which lines code says it is from, if it does: these are part of it then.
static std::string linesText(const Module &module, const CompileOptions &options) {
  std::string text;
  if (!options.lineInfo)
    return text;
  auto add = [&](SourceLoc loc) {
    FileLoc at = options.lines.placeOf(loc);
    text += at.file + ":" + std::to_string(at.loc.line) + ":" + std::to_string(at.loc.column) + "\n";
  };
  for (Function *function : module.functions()) {
    add(function->loc);
    walk(function->body(), [&](Operation &op) { add(op.loc()); });
  }
  return text;
}

static CacheKey keyOf(const Module &module, const CompileOptions &options) {
  bool anyStrides = options.anyStrides.value_or(true);
  std::string functions, dims;
  // Without the module's head: target and numerics are the same wherever they were stated.
  for (const Function *function : module.functions())
    functions += printFunction(*function, {.locations = false}) + "\n";
  for (const auto &[name, size] : options.dims)
    dims += name + " = " + std::to_string(size) + "\n";
  CompileOptions withStrides = options;
  withStrides.anyStrides = anyStrides;
  auto pipeline = pipelineFor(module, Stage::Plan, withStrides); // What is wrong with it is said when it is compiled.
  std::string passes = pipeline ? pipelineText(pipeline->left()) : module.passes + " after " + module.lastPass;
  CacheKey key("artifact");
  key.add("ir", functions)
      .add("target", module.target)
      .add("numerics", module.numerics)
      .add("graph", options.graph)
      .add("dims", dims)
      .add("specializations", joined(options.specializations))
      .add("mode", options.eager ? "eager" : "fused")
      .add("strides", anyStrides ? "any" : "dense")
      .add("schedules", schedulesText(module, options))
      .add("matmul", std::string(matmulProviderName(options.matmul)))
      .add("code", options.withCode ? "ptx" : "none")
      .add("lines", linesText(module, options))
      .add("passes", passes)
      .add("minic", MINIC_VERSION " " + buildIdOf(reinterpret_cast<const void *>(&keyOf)))
      .add("llvm", llvmVersion() + " " + llvmBuildId());
  return key;
}

ArtifactEntry::ArtifactEntry(const Module &module, const CompileOptions &options)
    : name(keyOf(module, options)), places(placesOf(module)) {
  for (const Function *function : module.functions())
    if (function->kind == FunctionKind::Graph || function->kind == FunctionKind::Plan)
      title += (title.empty() ? "@" : ", @") + function->name;
  title += " for " + std::string(module.target);
}

std::optional<Artifact> ArtifactEntry::find(CacheStore &store) const {
  auto entry = store.get(name);
  if (!entry)
    return std::nullopt;
  std::string_view rest = *entry;
  std::map<Place, Place> moves;
  for (Place here : places) {
    auto there = takePlace(rest);
    if (!there || !rest.starts_with(' '))
      return std::nullopt;
    rest.remove_prefix(1);
    // Ops that shared a place and do not here could not be told apart in the artifact.
    if (moves.emplace(*there, here).first->second != here)
      return std::nullopt;
  }
  if (!rest.starts_with('\n'))
    return std::nullopt;
  auto artifacts = deserializeArtifacts(rest.substr(1));
  if (!artifacts)
    return std::nullopt;
  Artifact artifact = std::move(artifacts->front());
  artifact.text = moved(artifact.text, "loc(", moves);
  for (KernelCode &kernel : artifact.kernels)
    for (std::string &op : kernel.ops)
      op = moved(op, " at ", moves);
  return artifact;
}

void ArtifactEntry::keep(CacheStore &store, const Artifact &artifact) const {
  std::string entry;
  for (Place place : places)
    entry += text(place) + " ";
  store.put(name, entry + "\n" + serializeArtifacts({&artifact, 1}), title);
}

} // namespace minic
